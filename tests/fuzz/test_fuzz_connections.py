# SPDX-License-Identifier: Apache-2.0
"""What comes over a connection between nodes: messages, damaged ones, and the text of shells before the first."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from keepstep.supervise.nodes import messages
from keepstep.supervise.nodes.connection.framing import Lines
from tests.fuzz.fuzzing import NUMBERS, TEXTS, VALUES, target

KINDS = sorted(messages._KINDS)
FIELDS = ("attempt", "number", "state", "run", "node", "ports", "seats", "keys", "exit", "known", "data", "variables")
LINES = st.one_of(
    st.binary(max_size=60),
    st.dictionaries(st.sampled_from(FIELDS), TEXTS | NUMBERS | VALUES, max_size=6).flatmap(
        lambda found: st.sampled_from(KINDS).map(lambda kind: as_line({"kind": kind, **found}))
    ),
    st.sampled_from([messages.encode(messages.Heard(number=1)), messages.encode(messages.Welcome())]),
)


def as_line(found: object) -> bytes:
    try:
        return json.dumps(found, default=str).encode("utf-8", "surrogatepass") + b"\n"
    except (ValueError, RecursionError):
        return b"\n"


def read(pieces: list[bytes], *, may_stray: bool) -> tuple[list[messages.Message], str | None]:
    lines, found = Lines(may_stray=may_stray), []
    for piece in pieces:
        found += [message for message, _ in lines.feed(piece)]
        assert len(lines._rest) <= messages.LARGEST + len(piece)
        if lines.wrong is not None:
            break
    assert lines.ended()
    return found, lines.wrong


@target(st.lists(LINES, max_size=8), st.integers(1, 50), st.booleans(), examples=60)
def test_lines(parts: list[bytes], size: int, may_stray: bool) -> None:
    """It does not matter how the network cuts what was sent, and nothing is read after what cannot be read."""
    text = b"".join(parts)
    whole = read([text], may_stray=may_stray)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert read(pieces, may_stray=may_stray) == whole
    if whole[1] is None and not may_stray:
        assert len(whole[0]) == text.count(b"\n")
    if may_stray and whole[0]:
        assert isinstance(whole[0][0], messages.Hello | messages.Welcome | messages.Refused)

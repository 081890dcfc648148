# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: what a reader must survive, tried on a few inputs in every test run, and for minutes by `make fuzz`.

A target says which errors its reader may raise; all others fail the test. Hypothesis prints the smallest input that
fails: fix the reader, and add that input to ``keep``. In a test run, inputs are the same every time; with
KEEPSTEP_FUZZ_SECONDS, each target continues with new ones for that long.
"""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

SECONDS = float(os.environ.get("KEEPSTEP_FUZZ_SECONDS", "0"))
ROUND = 100

Check = Callable[..., None]


def target(
    *inputs: st.SearchStrategy[Any], examples: int = 40, keep: Sequence[tuple[Any, ...]] = ()
) -> Callable[[Check], Callable[[], None]]:
    """A test that calls the function with ``keep`` first, then with what hypothesis makes of ``inputs``."""

    def decorated(check: Check) -> Callable[[], None]:
        def test() -> None:
            for kept in keep:
                check(*kept)
            quietly = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
            if not SECONDS:
                settings(quietly, max_examples=examples, derandomize=True)(given(*inputs)(check))()
                return
            ends = time.monotonic() + SECONDS
            number = time.time_ns()
            while time.monotonic() < ends:
                seed(number)(settings(quietly, max_examples=ROUND)(given(*inputs)(check)))()
                number += 1

        test.__name__ = test.__qualname__ = check.__name__
        test.__doc__, test.__module__ = check.__doc__, check.__module__
        return test

    return decorated


TEXTS = st.text(max_size=40) | st.sampled_from(
    [
        "",
        "\x00",
        "\x1b[2J",
        "\ud800",
        "\u202e",
        "1²3",
        "9" * 5000,
        "-1",
        "nan",
        "inf",
        "1e999",
        "0x10",
        "../../x",
        "a\nb",
        "<script>",
        "{}",
        "[",
        "%s",
        "${x}",
        "²",
    ]
)
NUMBERS = (
    st.integers()
    | st.floats()
    | st.sampled_from(
        [2**31, 2**32, 2**63, 2**64, -(2**63), 10**400, -1, 0, 1e308, -1e308, 10**18, float("nan"), float("inf")]
    )
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


def damaged(document: Any, most: int = 3) -> st.SearchStrategy[Any]:
    """A document in which up to ``most`` values are others, or gone."""

    @st.composite
    def made(draw: st.DrawFn) -> Any:
        found = copy.deepcopy(document)
        for _ in range(draw(st.integers(1, most))):
            paths = list(_paths(found))
            if not paths:
                return draw(VALUES)
            *parents, last = draw(st.sampled_from(paths))
            inside = found
            for key in parents:
                inside = inside[key]
            if draw(st.integers(0, 3)):
                inside[last] = draw(VALUES)
            else:
                del inside[last]
        return found

    return made()


def _paths(document: Any, above: tuple[Any, ...] = ()) -> Any:
    pairs = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in pairs:
        yield (*above, key)
        yield from _paths(value, (*above, key))


def as_json(document: Any) -> str:
    """Also what JSON has no words for, as Python writes it."""
    return json.dumps(document, default=str)


def torn(data: bytes, most: int = 4) -> st.SearchStrategy[bytes]:
    """The bytes with some changed, put in, taken out, repeated, or cut off."""

    @st.composite
    def made(draw: st.DrawFn) -> bytes:
        found = bytearray(data)
        for _ in range(draw(st.integers(1, most))):
            at = draw(st.integers(0, max(0, len(found) - 1)))
            how = draw(st.integers(0, 5))
            if how == 0:
                found[at : at + 1] = bytes([draw(st.integers(0, 255))])
            elif how == 1:
                found[at : at + 8] = draw(
                    st.sampled_from(
                        [b"\xff" * 8, bytes(8), b"\xff\xff\xff\x7f", (2**63).to_bytes(8, "little"), b"\x00\x10"]
                    )
                )
            elif how == 2:
                found[at:at] = draw(st.binary(max_size=16))
            elif how == 3:
                del found[at : at + draw(st.integers(1, 64))]
            elif how == 4:
                piece = found[at : at + draw(st.integers(1, 32))]
                found[at:at] = piece * draw(st.integers(1, 50))
            else:
                del found[at:]
        return bytes(found)

    return made()

# SPDX-License-Identifier: Apache-2.0
"""Tracebacks on one line: Google's managed training joins the lines with blanks, JSON logs with ``\\n``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.process import ExceptionRaised, Frame

MOST = 16
MOST_FRAMES = 200
_HEAD = "Traceback (most recent call last)"
_FRAME = lazy_pattern(r'File \\*"(?P<file>[^"\\]{1,300})\\*", line (?P<line>\d+)(?:, in (?P<function>[\w.<>]+))?')
_LAST = lazy_pattern(
    r"(?:^|[\s\"'>)]|\\n)(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure|Timeout))(?=: |:$|\s*$|\\n)"
    r"(?:: ?(?P<message>.*))?",
    re.DOTALL,
)
_REPLICA = lazy_pattern(r"The replica (?P<role>[a-z][\w\-]*?)[ \-](?P<index>\d+) ")


def is_in_one_line(rest: str) -> bool:
    """Whether the frames are on the same line as the head."""
    return _FRAME.search(rest[:400]) is not None


def read_in_one_line(text: str) -> Iterator[ExceptionRaised]:
    """Every traceback of the line; where a service names the replica before it, with its rank."""
    for before, part in islice(pairwise(text.split(_HEAD)), MOST):
        replicas = list(_REPLICA.finditer(before))
        own = part.split("The replica ", 1)[0]
        frames = list(_FRAME.finditer(own))
        if not frames:
            continue
        last = _LAST.search(own, frames[-1].end())
        if last is None:
            continue
        yield ExceptionRaised(
            type=last["type"],
            message=_unescaped(last["message"] or "", escaped="\\n" in own),
            frames=tuple(
                Frame(function=f["function"] or "<module>", file=f["file"], line=int(f["line"]))
                for f in frames[:MOST_FRAMES]
            ),
            rank=_rank(replicas[-1]) if replicas else None,
        )


def _unescaped(message: str, *, escaped: bool) -> str:
    """The message; of a JSON string only up to its end."""
    if escaped:
        message = re.split(r'(?<!\\)"', message, maxsplit=1)[0].replace("\\n", "\n").replace('\\"', '"')
    return message.strip()[:4000]


def _rank(replica: re.Match[str]) -> int | None:
    if replica["role"] in ("master", "chief"):
        return 0
    return int(replica["index"]) if replica["role"].startswith("worker") else None

# SPDX-License-Identifier: Apache-2.0
"""Who wrote the lines below a heading, or below the words with which a parent prints a child's exception."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.parse.scan.lines.writer import Writer, as_rank, identify

_HEADINGS = (
    # head, tail -n: ==> logs/rank0.log <==
    lazy_pattern(r"^==> (?P<name>.+) <==$"),
    lazy_pattern(r"^\$? ?kubectl logs .*?(?<![\w\-])(?P<name>[\w\-]+-\d+)\b"),
    # Ray Train: [Rank 3 Error Snippet]:
    lazy_pattern(r"^\[(?P<name>Rank \d+) Error Snippet\]:?$"),
    # kubectl describe pod
    lazy_pattern(r"^Name: +(?P<name>[\w.\-]+-(?:worker|chief|master|ps)-\d+)$"),
    # typed by people: "Rank 0:", "worker 1", "### node 2 ###", "# process 3 output"
    lazy_pattern(
        r"^[#*=\-\s>\[(]*(?P<name>(?:rank|worker|chief|ps|process|proc|task|trainer|evaluator)[ _#\-]?\d+)"
        r"(?: (?:log|logs|output|stderr|stdout|side))?[\s:#*=\-\])]*$",
        re.I,
    ),
)


_SPAWNED = (
    # torch.multiprocessing.spawn, then the traceback of that process
    lazy_pattern(rb"-- Process (\d+) terminated with the following error"),
    # torch_xla's spawn
    lazy_pattern(rb"Exception in device=(?:TPU|CPU|GPU|xla):(\d+):"),
)
SPAWNED_REACH = 32 << 10
SPAWN_WORDS = ("-- Process ", "Exception in device=")
"""Where none of them is near, no line need be asked."""


def spawned(buffer: bytes, place: int) -> Writer | None:
    """The process whose exception a parent prints at a place, from the words above it."""
    low = max(0, place - SPAWNED_REACH)
    for literal, pattern in zip(SPAWN_WORDS, _SPAWNED, strict=True):
        start = buffer.rfind(literal.encode(), low, place + 64)
        match = pattern.match(buffer, start) if start >= 0 else None
        if match:
            rank = as_rank(match[1].decode())
            return Writer(key=f"spawned {rank}", rank=rank, local=rank if pattern is _SPAWNED[0] else None)
    return None


def heading(line: str) -> Writer | None:
    """The writer of the lines that follow, where a line is a heading of its own."""
    for pattern in _HEADINGS:
        match = pattern.match(line.strip())
        if match:
            writer = identify(re.sub(r"[ #]+", "", match["name"]))
            if writer.rank is not None:
                return Writer(
                    key=f"heading {writer.rank} {writer.role or ''}".strip(), rank=writer.rank, role=writer.role
                )
    return None

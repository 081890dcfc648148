# SPDX-License-Identifier: Apache-2.0
"""How a process introduces itself in its log's first lines: ``RANK=1``, ``process 3 of 8``, ``I am worker 2``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.parse.scan.lines.log_lines import clean, held
from keepstep.parse.scan.lines.prefix import Prefixes
from keepstep.parse.scan.lines.writer import Writer

HEAD = 16 << 10
FIRST_LINES = 80
LONGEST = 400


class Introduction(NamedTuple):
    """The rank by which the writer of a log calls itself, and the line in which it first does."""

    rank: int
    line: int
    text: str


_NOUNS = (b"rank", b"process", b"procid", b"worker", b"host", b"task")
_A_NUMBER = r"(?i)(?:rank|process|procid|worker|host|task)(?:[ _](?:index|id))?(?:\(\))?[\"']?[ =:#]{0,3}[\"']?\d"
_MAY_SAY, _TEXT_MAY_SAY = re.compile(_A_NUMBER.encode()), lazy_pattern(_A_NUMBER, most=LONGEST)
"""Asked of every first line, and of what its prefix leaves, before anything dearer."""
_WHO = r"(?:rank|process|worker|host|task)"
_VARIABLE = lazy_pattern(
    r"(?<![A-Z_])(?:GLOBAL_|WORLD_|PMI_|OMPI_COMM_WORLD_|SLURM_|JAX_)?(?:RANK|PROCID|PROCESS_ID|PROCESS_INDEX)"
    r"['\"]?\s?[=:]\s?['\"]?(\d{1,5})\b",
    most=LONGEST,
)
_WORDS = tuple(
    lazy_pattern(pattern, most=LONGEST)
    for pattern in (
        r"(?i)\b(?:global|world)[ _]rank\s?[=:]?\s?(\d{1,5})\b",
        r"(?i)\b(?:jax\.)?(?:process|host|task|worker)[ _](?:index|id)(?:\(\))?\s?[=:]?\s?(\d{1,5})\b",
        rf"(?i)\b{_WHO}\s?[=:#]?\s?(\d{{1,5}})\s?(?:of|/|out of)\s?\d{{1,5}}\b(?![.%:])",
        rf"(?i)\b(?:I am|this is|hello from|(?:running|started|booted|initialized) as)\s(?:the )?{_WHO}\s?[=:#]?\s?(\d{{1,5}})\b",
        r"(?i)(?<![_a-z])rank\s?[=:]\s?(\d{1,5})\b[^\n]{0,60}\bworld[ _]size\b",
        r"(?i)\bworld[ _]size\s?[=:]?\s?\d{1,5}\b[^\n]{0,60}?(?<![_a-z])rank\s?[=:]?\s?(\d{1,5})\b",
    )
)
_OF_OTHERS = lazy_pattern(
    r"(?i)loader|dataset|shard|machine|node[ _]rank|Namespace\(|error|fail|wait|lost|(?<!hello )from (?:rank|task|worker)",
    most=LONGEST,
)
"""Workers of a loader, printed arguments, and words about other processes."""


def introduced(head: bytes, prefixes: Prefixes) -> Introduction | None:
    """The rank by which the only writer of a log calls itself at its beginning, if it is always the same."""
    found: dict[int, Introduction] = {}
    writers: set[str] = set()
    small = head[:HEAD].lower()
    if not any(noun in small for noun in _NOUNS):
        return None
    for number, raw in enumerate(head[:HEAD].split(b"\n")[:FIRST_LINES], 1):
        said = _MAY_SAY.search(raw) is not None
        if not (said or prefixes.in_use):
            continue
        writer, text = prefixes.split(held(clean(raw[:LONGEST])))
        writers.add(writer.key)
        if said and not (raw[:1].isspace() or text[:1].isspace()):  # of a traceback, or of a printed structure
            for rank in _ranks_in(text):
                found.setdefault(rank, Introduction(rank, number, text.strip()))
        if len(found) > 1 or len(writers - {""}) > 1:
            return None
    return next(iter(found.values()), None)


def introduced_processes(head: bytes, prefixes: Prefixes) -> Iterator[tuple[int, Writer, int]]:
    """Line, writer and rank of each process that calls itself by a rank, if only its process id is known by its prefix."""
    found: dict[str, tuple[int, Writer, set[int]]] = {}
    for number, raw in enumerate(head[:HEAD].split(b"\n"), 1):
        if _MAY_SAY.search(raw) is None:
            continue
        writer, text = prefixes.split(held(clean(raw[:LONGEST])))
        if writer.pid is None or writer.rank is not None or text[:1].isspace():
            continue
        ranks = _ranks_in(text)
        if ranks:
            found.setdefault(writer.key, (number, writer, set()))[2].update(ranks)
    said = [rank for _, _, ranks in found.values() for rank in ranks]
    if len(set(said)) == len(said):
        yield from ((number, writer, next(iter(ranks))) for number, writer, ranks in found.values() if len(ranks) == 1)


def _ranks_in(line: str) -> set[int]:
    if not _TEXT_MAY_SAY.search(line):
        return set()
    patterns = (_VARIABLE,) if _OF_OTHERS.search(line) else (_VARIABLE, *_WORDS)
    return {int(match[1]) for each in patterns if (match := each.search(line)) is not None}

# SPDX-License-Identifier: Apache-2.0
"""A log's lines for display: bounded, without private keys, around the evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from keepstep.base.redact import MARK, redact
from keepstep.model.codec import representative
from keepstep.model.report import Report
from keepstep.sources.files.left_files import Chunks, FileKind, LeftFile

AROUND = 3
LARGEST = 64 << 20
"""Larger logs are not read a second time for context."""
MOST_FINDINGS = 4
MOST_PIECES = 6
LONGEST_LINE = 4000
LONGEST_SHOWN = 300
LONGEST_KEY = 400
"""A PEM heading with no end in this many lines is a stray one."""

Surroundings = Mapping[tuple[str, int], tuple[tuple[str, ...], tuple[str, ...]]]
"""By source and line: the lines above and below."""


def surroundings(report: Report, files: Sequence[LeftFile]) -> Surroundings:
    """The lines around the first evidence of the first findings, redacted."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for finding in report.findings[:MOST_FINDINGS]:
        for piece in representative(finding.evidence, MOST_PIECES):
            if piece.origin.line is not None:
                wanted[piece.origin.source].add(piece.origin.line)
    found: dict[tuple[str, int], tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for left in files:
        places = wanted.get(left.name)
        if not places or left.kind is not FileKind.LOG or left.size > LARGEST:
            continue
        near = {n for place in places for n in range(place - AROUND, place + AROUND + 1)}
        last = max(near)
        kept: dict[int, str] = {}
        for number, line in enumerate(text_lines(left), 1):
            if number > last:
                break
            if number in near:
                kept[number] = shown(line)
        kept = _redacted_together(kept)
        for place in places:
            above = tuple(kept[n] for n in range(place - AROUND, place) if n in kept)
            below = tuple(kept[n] for n in range(place + 1, place + AROUND + 1) if n in kept)
            found[left.name, place] = (above, below)
    return found


def _redacted_together(lines: Mapping[int, str]) -> dict[int, str]:
    """Lines by number, redacted together with their neighbours: a secret may span two lines."""
    out: dict[int, str] = {}
    window: list[int] = []
    for number in sorted(lines):
        window.append(number)
        if number + 1 not in lines:
            clean = redact("\n".join(lines[n] for n in window)).split("\n")
            out.update((n, line[:LONGEST_SHOWN]) for n, line in zip(window, clean, strict=True))
            window = []
    return out


def text_lines(left: LeftFile) -> Iterator[str]:
    """The lines of a log as text, without private keys. Long ones are for ``shown``."""
    return _without_keys(_lines(Chunks(left)))


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines of bounded length; what is longer is cut."""
    rest = b""
    cut = False
    for chunk in chunks:
        pieces = (rest + chunk).split(b"\n")
        rest = pieces.pop()
        for piece in pieces:
            if not cut:
                yield _text(piece)
            cut = False
        if len(rest) > 1 << 16:
            if not cut:
                yield _text(rest)
            rest, cut = b"", True
    if rest and not cut:
        yield _text(rest)


def _text(raw: bytes) -> str:
    return raw[: LONGEST_LINE * 4].decode("utf-8", "replace").rstrip("\r").replace("\x00", "")


def shown(text: str) -> str:
    """As it is shown: cut, once no secret can be cut in two. That takes long, so only lines that are shown get it."""
    return text if len(text) <= LONGEST_LINE else f"{redact(text)[:LONGEST_LINE]} ... (cut)"


def _without_keys(lines: Iterable[str]) -> Iterator[str]:
    """Private keys removed line by line, since an excerpt may begin inside one."""
    inside = 0
    for line in lines:
        if "-----" in line and "PRIVATE KEY" in line:
            same_line = "-----END" in line or len(line.rpartition("PRIVATE KEY")[2]) > 20
            if "-----BEGIN" in line and not same_line:
                inside = LONGEST_KEY
                yield f"{line.partition('-----BEGIN')[0]}{MARK}"
                continue
            if inside and "-----END" in line:
                inside = 0
                yield MARK
                continue
        if inside:
            inside -= 1
            yield MARK
        else:
            yield line

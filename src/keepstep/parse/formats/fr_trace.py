# SPDX-License-Identifier: Apache-2.0
"""``torchfrtrace``, PyTorch's analyser of flight-recorder dumps: people post its output instead of the dumps."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import Frame
from keepstep.model.facts.sync import CollectiveMismatch, NothingRecorded, RanksMissing, RecordedCollective
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature
from keepstep.signals.stacks import innermost_user

MOST_LINES = 60
MOST_MEMBERS = 4096

_FIELD = lazy_pattern(
    r"^(?:.{0,80}?[\]\s])?(?P<name>group info|collective|missing ranks|expected ranks|input sizes|collective state)"
    r": (?P<value>[^\n]{1,30000})$",
    most=30_000,
)
_FRAME = lazy_pattern(r"^\s*(?P<function>\S{1,300}) at (?P<file>\S{1,1000}):(?P<line>\d{1,9})\s*$", most=2000)
_OTHERS = lazy_pattern(r"Not all ranks joining|Collective sequence number|No errors found|We cannot decide", most=2000)


def _culprit(match: re.Match[str]) -> Fact | None:
    """A different state means a rank that has not got that far, which is no mismatch."""
    if match["kind"] == "COLLECTIVE_STATE_MISMATCH":
        return RanksMissing(missing=(int(match["rank"]),), what="flight recorder")
    return CollectiveMismatch(
        other_rank=int(match["rank"]), what=match["kind"].lower(), left=match["expected"], right=match["found"]
    )


def _missing(match: re.Match[str]) -> Fact:
    return RanksMissing(missing=tuple(int(n) for n in re.findall(r"\d+", match["ranks"])), what="flight recorder")


def _gap(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """One collective that some members did not join: an entry of each rank that waits in it."""
    said: dict[str, str] = {}
    frames: list[Frame] = []
    for _, line in zip(range(MOST_LINES), lines, strict=False):
        if _OTHERS.search(line):
            break
        if field := _FIELD.search(line):
            said.setdefault(field["name"], field["value"].strip())
        elif frame := _FRAME.match(line):
            frames.append(Frame(function=frame["function"], file=frame["file"], line=int(frame["line"])))
    missing, members = _ranks(said.get("missing ranks", "")), _expected(said)
    if not missing or not missing < members:
        return
    for rank in sorted(members):
        if rank in missing:
            yield NothingRecorded(rank=rank)
            continue
        yield RecordedCollective(
            rank=rank,
            group=said.get("group info", "default")[:200],
            seq=int(match["seq"]),
            op=said.get("collective", "a collective").rpartition(":")[2][:200],
            state="completed" if said.get("collective state") == "completed" else "scheduled",
            sizes=said.get("input sizes", "")[:500] or None,
            frame=innermost_user(frames) or (frames[0] if frames else None),
            world=len(members),
            members=tuple(sorted(members)),
        )


def _expected(said: dict[str, str]) -> set[int]:
    """All members; before torch 2.6 only their number is printed, which is enough for the group of all ranks."""
    text = said.get("expected ranks", "")
    if text.isascii() and text.isdecimal() and len(text) < 6 and "default_pg" in said.get("group info", ""):
        return set(range(min(int(text), MOST_MEMBERS)))
    return _ranks(text)


def _ranks(text: str) -> set[int]:
    return {int(n) for n in re.findall(r"\d{1,7}", text)[:MOST_MEMBERS]} if text.startswith("{") else set()


BLOCKS = (block(r"Not all ranks joining collective(?:, sequence number:)? (?P<seq>\d{1,15})\b", _gap),)
SIGNATURES = (
    signature(
        r"Culprit rank (?P<rank>\d+); Error type: (?P<kind>[A-Z_]*MISMATCH)"
        r"(?:, Expected [\w ]{1,40}: '(?P<expected>[^'\n]{1,200})' does not match found [\w ]{1,40}: '(?P<found>[^'\n]{1,200})')?",
        _culprit,
    ),
    signature(r"(?:^|\] |INFO:? )missing ranks: \{(?P<ranks>\d[\d, ]{0,400})\}", _missing),
)

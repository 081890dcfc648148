# SPDX-License-Identifier: Apache-2.0
"""Readings of host memory that a run prints as it goes: do they only rise?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.resource import MemoryGrew, MemoryRead
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import by_hand

FEWEST = 6
"""Fewer readings show nothing."""
LONGEST = 2000
"""Lines of progress are not longer."""
GROWTH = 1.3
"""How much the last must exceed the first."""

_READING = lazy_pattern(
    r"(?P<what>RSS|rss|CPU Virtual Memory: +used|[Cc][Pp][Uu][ _][Mm]em(?:ory)?(?:[ _](?:usage|used))?|RAM(?: (?:used|usage))?"
    r"|[Hh]ost [Mm]emory(?: (?:used|usage))?|[Pp]rocess [Mm]emory(?: usage)?|mem_rss|used_ram)"
    r" ?[:=] ?(?P<value>\d+(?:\.\d+)?) ?(?P<unit>[KMGT]i?B|%|[kmg]b)?"
)


_BYTES = {"": 1.0, "b": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "%": 1.0}
_ANY = lazy_pattern(
    r"(?i)(?:(?<!\w)(?P<before>\w{1,20})[ _])?\b(?P<what>(?:Vm|ru_)?(?:max)?rss|(?:GPU|CPU|CUDA|host|sys(?:tem)?|process|device)?[ _]?"
    r"(?:RAM|mem(?:ory)?)(?:[ _](?:usage|used|use|in use|allocated|consumption|percent))?)"
    r"(?: (?:is|now|at))?(?:[ :=(]{1,3}(?P<value>\d+(?:\.\d+)?) ?\(?(?P<unit>[KMGT]i?B?\b|%|bytes\b|B\b)"
    r"| ?[(\[](?:in )?(?P<named>[KMGT]i?B|%)[)\]][ :=]{1,3}(?P<number>\d+(?:\.\d+)?))"
)
_LEFT = lazy_pattern(
    r"(?i)\b(?:mem(?:ory)?|RAM)\b[^\n]{0,80}?\b(?P<what>available|free)\b[ :=]{1,3}(?P<value>\d+(?:\.\d+)?) ?(?P<unit>[KMGT]i?B\b|%)"
)
_RAW = lazy_pattern(
    r"(?i)\b(?P<what>pmem\(rss|svmem\([^)\n]{0,120}?percent|(?:ru_max)?rss)[ :=]{1,3}(?P<value>\d+(?:\.\d+)?)"
)
_PEAK = lazy_pattern(r"(?i)^(?:max|peak|total|limit|min|reserved|capacity)$")
_DEVICE = lazy_pattern(r"(?i)gpu|cuda|device")
_HOST = lazy_pattern(r"(?i)\b(?:cpu|host|sys(?:tem)?|process|rss)\b")
_RANK = lazy_pattern(r"(?i)(?<!lora )(?<!low )(?<!matrix )\brank[ :=#]{1,2}(?P<rank>\d{1,5})\b")
"""Whose reading it is, where the middle of the line says so."""


def read_memory(line: str) -> MemoryRead | None:
    """A reading of memory on a line of progress; peaks and totals show nothing and are left out."""
    line = line[:LONGEST]
    if not ("mem" in line or "Mem" in line or "MEM" in line or "rss" in line or "RSS" in line or "RAM" in line):
        return None
    left = _LEFT.search(line)
    if left:
        on_device = bool(_DEVICE.search(line[: left.start("value")]))
        return MemoryRead(what="memory left", value=_value(left), free=True, on_device=on_device)
    found = _ANY.search(line)
    if found and ("rss" in found["what"].lower() or not _PEAK.match(found["before"] or "")):
        what = found["what"].strip(" _").lower()
        host = "rss" in what or "ram" in what or _HOST.search(line)
        whose = _RANK.search(line)
        return MemoryRead(
            rank=int(whose["rank"]) if whose else None,
            what=what,
            value=_value(found),
            on_device=not host or bool(_DEVICE.search(line[: found.end("what")])),
        )
    raw = _RAW.search(line)
    if raw and (len(raw["value"]) > 6 or "percent" in raw["what"]):
        return MemoryRead(what=raw["what"].partition("(")[0].lower(), value=float(raw["value"]))
    return None


def _value(match: re.Match[str]) -> float:
    groups = match.groupdict()
    unit, number = groups["unit"] or groups.get("named") or "", groups["value"] or groups.get("number") or "0"
    return float(number) * _BYTES.get(unit[:1].lower(), 1.0)


_TRAINS = lazy_pattern(r"(?i)\b(?:epoch|iter(?:ation)?|step)s?\b[\s=:/\[#]{0,3}\d|\d%\||\d ?it/s|\d ?s/it|\bloss\b")
"""DeepSpeed reads the memory throughout its set-up, which fills it: only readings during training count."""


def _series(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    values = [float(match["value"])]
    setting_up = "see_memory_usage" in match.string
    for _, line in zip(range(4000), lines, strict=False):
        found = _READING.search(line)
        if setting_up:
            setting_up = not _TRAINS.search(line[:LONGEST])
            values = values if not found else [float(found["value"])]
        elif found and (found["what"], found["unit"]) == (match["what"], match["unit"]):
            values.append(float(found["value"]))
    if len(values) < FEWEST or values[-1] < GROWTH * values[0]:
        return
    rises = sum(later >= earlier for earlier, later in pairwise(values))
    half = values[len(values) // 2]
    if rises >= 0.9 * (len(values) - 1) and values[-1] > 1.08 * half:
        unit = match["unit"] or ""
        yield MemoryGrew(
            detail=f"{match['what']} rose from {values[0]:g} {unit} to {values[-1]:g} {unit}"
            f" over {len(values)} readings"
        )


BLOCKS = (
    block(
        _READING.pattern,
        _series,
        anchors=by_hand(
            "RSS and RAM are too short",
            "RSS: ",
            "RSS=",
            "RSS = ",
            "rss=",
            "rss: ",
            "rss = ",
            "CPU Virtual Memory",
            "CPU Mem",
            "CPU mem",
            "cpu_mem",
            "cpu mem",
            "CPU_mem",
            "RAM: ",
            "RAM used",
            "RAM usage",
            "ost memory",
            "ost Memory",
            "rocess memory",
            "rocess Memory",
            "mem_rss",
            "used_ram",
        ),
    ),
)

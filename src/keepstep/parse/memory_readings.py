# SPDX-License-Identifier: Apache-2.0
"""Readings of host memory that a run prints as it goes: do they only rise?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from keepstep.core.facts.base import Fact
from keepstep.core.facts.resource import MemoryGrew
from keepstep.parse.block import block

FEWEST = 6
"""Fewer readings tell nothing."""
GROWTH = 1.3
"""How much the last must exceed the first."""

_READING = re.compile(
    r"(?P<what>RSS|rss|CPU Virtual Memory: +used|[Cc][Pp][Uu][ _][Mm]em(?:ory)?(?:[ _](?:usage|used))?|RAM"
    r"(?: (?:used|usage))?"
    r"|[Hh]ost [Mm]emory(?: (?:used|usage))?|[Pp]rocess [Mm]emory(?: usage)?|mem_rss|used_ram)"
    r" ?[:=] ?(?P<value>\d+(?:\.\d+)?) ?(?P<unit>[KMGT]i?B|%|[kmg]b)?"
)


def _series(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    values = [float(match["value"])]
    for _, line in zip(range(4000), lines, strict=False):
        found = _READING.search(line)
        if found and (found["what"], found["unit"]) == (match["what"], match["unit"]):
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
        anchors=(
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

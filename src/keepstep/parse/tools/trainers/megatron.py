# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM and what is built on it: parallel sizes, NaN checks, checkpoints."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import CorruptData
from keepstep.model.facts.training import StepsSkipped
from keepstep.parse.scan.signature import by_hand, signature


def _skipped(match: re.Match[str]) -> Fact:
    return StepsSkipped(step=int(match["step"]), skipped=int(match["skipped"]), recent=True)


SIGNATURES = (
    signature(
        r"\biteration +(?P<step>\d+)/ *\d+ \|[^\n]{0,600}?number of skipped iterations: +(?P<skipped>[1-9]\d*) \|",
        _skipped,
        anchors=by_hand(
            "every line says that 0 were skipped",
            *(f"skipped iterations: {blanks}{digit}" for blanks in ("", " ", "  ") for digit in "123456789"),
        ),
    ),
    signature(
        r"Error: (?:(?:bad (?:header|version), cannot read|Zero-sized file): (?P<path>\S{1,300})|Index file doesn't match expected format)",
        lambda m: CorruptData(what="an index file of the dataset", path=m["path"]),
    ),
)

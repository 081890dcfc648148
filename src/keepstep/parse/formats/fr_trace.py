# SPDX-License-Identifier: Apache-2.0
"""``torchfrtrace``, PyTorch's analyser of flight-recorder dumps: people post its output instead of the dumps."""

from __future__ import annotations

import re

from keepstep.core.facts.base import Fact
from keepstep.core.facts.sync import CollectiveMismatch, RanksMissing
from keepstep.parse.scan.signature import signature


def _culprit(match: re.Match[str]) -> Fact | None:
    """A different state means a rank that has not got that far, which is no mismatch."""
    if match["kind"] == "COLLECTIVE_STATE_MISMATCH":
        return RanksMissing(missing=(int(match["rank"]),), what="flight recorder")
    return CollectiveMismatch(
        other_rank=int(match["rank"]), what=match["kind"].lower(), left=match["expected"], right=match["found"]
    )


def _missing(match: re.Match[str]) -> Fact:
    return RanksMissing(missing=tuple(int(n) for n in re.findall(r"\d+", match["ranks"])), what="flight recorder")


SIGNATURES = (
    signature(
        r"Culprit rank (?P<rank>\d+); Error type: (?P<kind>[A-Z_]*MISMATCH)"
        r"(?:, Expected [\w ]{1,40}: '(?P<expected>[^'\n]{1,200})' does not match found [\w ]{1,40}: '(?P<found>[^'\n]{1,200})')?",
        _culprit,
    ),
    signature(r"(?:^|\] |INFO:? )missing ranks: \{(?P<ranks>\d[\d, ]{0,400})\}", _missing),
)

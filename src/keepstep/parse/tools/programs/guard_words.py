# SPDX-License-Identifier: Apache-2.0
"""``keepstep.OutOfStep``, with which the guard ends a training: the log alone still says everything."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import ContractBroken
from keepstep.parse.scan.signature import signature

NOT_TOLD = -1
"""The message does not say which contract of its kind it was."""

_SIDE = lazy_pattern(r"^(?P<value>.*) on ranks? (?P<ranks>\d+(?:, \d+)*)(?:, \.\.\.)?$")


def _broken(match: re.Match[str]) -> Fact | None:
    sides = [_SIDE.match(side.strip()) for side in match["sides"].split(" but ")]
    values = tuple((side["value"], tuple(map(int, side["ranks"].split(", ")))) for side in sides if side is not None)
    if len(values) < 2:
        return None
    return ContractBroken(
        subject=match["subject"], ordinal=NOT_TOLD, what=match["what"], values=values, certain=True, before=True
    )


SIGNATURES = (
    signature(
        r"OutOfStep: rank \d+: the ranks are about to run different things \((?P<subject>[^:\n]{1,120}?)\): "
        r"(?P<what>[^:\n]{1,120}): (?P<sides>[^;\n]{1,4000})",
        _broken,
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""A failure that comes in 30 % of the runs is neither lost nor diluted, beyond the stated error."""

from __future__ import annotations

import random

import pytest

from keepstep.shrink.chance import FLOOR, REFUSED, TAKEN, Chance


def judged(chance: Chance, rate: float, luck: random.Random) -> tuple[bool, int]:
    failed = runs = 0
    while True:
        runs += 1
        failed += luck.random() < rate
        verdict = chance.keeps_failing(failed, runs)
        if verdict is not None:
            return verdict, runs


@pytest.mark.parametrize(("share", "wanted"), [(1.0, True), (FLOOR, False), (0.0, False)])
def test_the_error_is_the_stated_one(share: float, wanted: bool) -> None:
    chance, luck = Chance(0.3), random.Random(1)
    found = [judged(chance, 0.3 * share, luck) for _ in range(2000)]
    wrong = sum(verdict is not wanted for verdict, _ in found) / len(found)
    assert wrong <= (REFUSED if wanted else TAKEN), wrong
    assert sum(runs for _, runs in found) / len(found) < 20

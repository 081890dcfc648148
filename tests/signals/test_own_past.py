# SPDX-License-Identifier: Apache-2.0
"""A loss that rises and stays up counts only where a layer agrees, and where nothing healthy explains it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from keepstep.signals.own_past import LATE, Departure, Past, Reading

LOOKS = 400
AT = 200
"""Where something happens."""


def training(
    seed: int,
    loss: Callable[[int], float] = lambda at: 1.0,
    sign: Callable[[int], float] = lambda at: 1.0,
    rate: Callable[[int], float] = lambda at: 0.1,
    epoch: int = 10**9,
    noise: float = 0.1,
) -> list[Reading]:
    """A loss that falls, and two layers; each is multiplied by something."""
    drawn = random.Random(seed)
    return [
        Reading(
            step=16 * at,
            loss=(0.5 + 2.0 / (1 + at / 20)) * loss(at) * math.exp(drawn.gauss(0, noise)),
            rate=rate(at),
            begun=at // epoch,
            signs=tuple(math.log(sign(at) if place == 1 else 1.0) + drawn.gauss(0, 0.3) for place in range(4)),
        )
        for at in range(LOOKS)
    ]


def first(readings: list[Reading]) -> tuple[int, Departure] | None:
    """The look at which something is found, and what."""
    past = Past()
    return next(((at, found) for at, each in enumerate(readings) if (found := past.see(each)) is not None), None)


def jumps(by: float, until: int = LOOKS) -> Callable[[int], float]:
    return lambda at: by if AT <= at < until else 1.0


@pytest.mark.parametrize("seed", range(10))
def test_a_lasting_rise_with_a_layer_that_agrees_is_found_with_the_step_and_the_layer(seed: int) -> None:
    for sign in (40.0, 1 / 40.0):
        found = first(training(seed, loss=jumps(4.0), sign=jumps(sign)))
        assert found is not None
        at, departed = found
        assert at == AT + LATE - 1
        assert departed.after_step == 16 * (AT - 1)
        assert departed.sign == 1
        assert departed.loss_before[1] < departed.loss


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    "healthy",
    [
        {},
        {"noise": 0.8},
        {"loss": jumps(4.0)},
        {"sign": jumps(40.0)},
        {"loss": jumps(4.0, AT + 10), "sign": jumps(40.0, AT + 10)},
        {"loss": lambda at: 1 + 3 * math.exp((AT - at) / 12) * (at >= AT), "sign": jumps(40.0)},
        {"loss": lambda at: 1.03 ** max(0, at - AT), "sign": lambda at: 1.05 ** max(0, at - AT)},
        {"loss": jumps(4.0), "sign": jumps(40.0), "rate": jumps(10.0)},
        {"loss": jumps(4.0), "sign": jumps(40.0), "epoch": AT},
    ],
    ids=["plain", "noisy", "loss alone", "layer alone", "a spike", "it recovers", "slowly", "learning rate", "epoch"],
)
def test_what_healthy_trainings_do_is_not_found(seed: int, healthy: dict[str, Callable[[int], float]]) -> None:
    assert first(training(seed, **healthy)) is None  # type: ignore[arg-type]


def test_short_epochs_explain_nothing() -> None:
    assert first(training(1, loss=jumps(4.0), sign=jumps(40.0), epoch=1)) is not None


def test_a_rise_that_comes_down_in_part_is_found_once_it_stays() -> None:
    found = first(training(1, loss=lambda at: 1 + (3 + 60 * math.exp((AT - at) / 6)) * (at >= AT), sign=jumps(40.0)))
    assert found is not None
    assert found[0] >= AT + 2 * LATE - 1
    assert found[1].after_step == 16 * (AT - 1)


def test_a_loss_that_comes_back_later_has_returned() -> None:
    past = Past()
    for at, each in enumerate(training(1, loss=jumps(4.0, AT + 60), sign=jumps(40.0))):
        past.see(each)
        if AT + LATE <= at < AT + 60:
            assert not past.has_returned
    assert past.has_returned

# SPDX-License-Identifier: Apache-2.0
"""Memory that rises, and what only looks like it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest

from keepstep.signals.memory_growth import MemoryReading, rises, steady_rise

MB = 1 << 20
EPOCH = 500
LONGEST = list(itertools.accumulate((random.Random(n).random() ** 4 for n in range(100)), max))


def series(
    memory: Callable[[int], float], *, steps: int = 4000, step_s: float = 0.1, noise: float = 5.0, epochs: bool = True
) -> list[MemoryReading]:
    """Readings as `keepstep run` takes them, ever less often; ``memory``: megabytes after this many steps."""
    chance = random.Random(7)
    found, at = [], 1.0
    while at < steps * step_s:
        step = int(at / step_s)
        value = memory(step) + chance.uniform(0, noise)
        found.append(MemoryReading(at, step, int(value * MB), 1 + step // EPOCH if epochs else None))
        at += max(0.25, min(30.0, at / 200))
    return found


LEAKS = {
    "by as much in every step": lambda step: 400 + 0.5 * step,
    "with garbage that is collected now and then": lambda step: 400 + 0.5 * step + (step % 40) * 2,
    "after a warm-up": lambda step: 400 + 600 * (1 - math.exp(-step / 100)) + 0.5 * step,
    "only since the middle of the run": lambda step: 800 + max(0, step - 2000) * 0.8,
    "in a small process": lambda step: 60 + 0.2 * step,
    "a little in every epoch's evaluation": lambda step: 400 + 200 * (step // 100),
}
HEALTHY = {
    "stays level": lambda step: 900,
    "is level and noisy": lambda step: 900 + random.Random(step).uniform(-200, 200),
    "warms up": lambda step: 300 + 3000 * (1 - math.exp(-step / 800)),
    "warms up like a logarithm": lambda step: 300 + 400 * math.log1p(step),
    "steps up at the first evaluation": lambda step: 500 + (2000 if step > 2500 else 0),
    "steps up at evaluation and at the first checkpoint": lambda step: (
        500 + (600 if step > 1500 else 0) + (900 if step > 3000 else 0)
    ),
    "fills a cache with what is drawn at random": lambda step: 500 + 2000 * (1 - math.exp(-step / EPOCH)),
    "breathes with workers that come and go": lambda step: 800 + (600 if step % EPOCH < 400 else 0),
    "rises to a new height and falls back": lambda step: 500 + (step % 900) * 1.0,
    "keeps a history of losses": lambda step: 900 + step * 0.01,
    "falls": lambda step: 4000 - 0.5 * step,
    "sees longer batches now and then": lambda step: 700 + 800 * LONGEST[step // 50],
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_seen(name: str) -> None:
    rise = steady_rise(series(LEAKS[name]))
    assert rise is not None
    assert rise.bytes > 192 * MB and rise.steps > 500


@pytest.mark.parametrize("name", HEALTHY)
def test_memory_that_is_well_is_left_alone(name: str) -> None:
    memory = HEALTHY[name]
    readings = series(memory)
    told = [
        n
        for n in range(20, len(readings), 20)
        if (rise := steady_rise(readings[:n])) is not None and rise.epochs_before >= 1 and rise.epochs >= 2
    ]
    assert not told


def test_a_cache_that_fills_in_the_first_epoch_rises_in_no_later_one() -> None:
    readings = series(lambda step: 500 + min(step, EPOCH) * 4.0)
    found = [rise for n in range(10, len(readings), 10) if (rise := steady_rise(readings[:n])) is not None]
    assert found
    assert all(rise.epochs_before == 0 for rise in found)


def test_it_is_known_whether_the_others_rose_too() -> None:
    ranks = {0: series(lambda step: 700), 1: series(lambda step: 400 + 0.5 * step), 2: series(lambda step: 800)}
    found = rises(ranks)
    assert list(found) == [1]
    others = found[1].others
    assert others is not None and others < 50 * MB


def test_readings_before_the_first_step_say_nothing() -> None:
    assert steady_rise([MemoryReading(n, 0, n * 500 * MB) for n in range(100)]) is None


def test_few_readings_say_nothing() -> None:
    assert steady_rise([MemoryReading(n, n, n * 500 * MB) for n in range(1, 9)]) is None


def test_a_run_that_stands_still_says_nothing() -> None:
    assert steady_rise([MemoryReading(n, 40, 500 * MB + n * 100 * MB) for n in range(100)]) is None

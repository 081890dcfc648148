# SPDX-License-Identifier: Apache-2.0
"""Made logs: steps of many lengths reserve more than those that were seen, and steps of one length do not."""

from __future__ import annotations

import random

import pytest

from keepstep.check.memory.allocator import MIB, replay
from keepstep.check.memory.devices import device_named
from keepstep.check.memory.forecast import forecast
from keepstep.check.memory.many_lengths import reserved_over_many

LAYERS = 12


def training(lengths: list[int], marks: int = 1) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Each step keeps two tensors of each layer, frees them from the last on, and its loss dies in the next step.

    Also: after how many steps of optimizers a batch was given, and its size.
    """
    events = [(0, 300 * MIB)]
    number, loss, given = 1, None, []
    for step, length in enumerate(lengths, start=1):
        given.append(((step - 1) * marks, length))
        held = []
        for _ in range(LAYERS):
            for share in (1, 3):
                events.append((number, share * length << 10))
                held.append(events[-1])
                number += 1
        if loss is not None:
            events.append((loss, -512))
        events.append((number, 512))
        loss = number
        number += 1
        for each, size in reversed(held):
            work = number
            events += [(work, size // 2), (each, -size), (work, -size // 2)]
            number += 1
        events += [(-1, step)] * marks
    return events, given


def lengths(many: int, seed: int = 1) -> list[int]:
    chance = random.Random(seed)
    return [chance.randint(2000, 9000) for _ in range(many)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("marks", [1, 2])
def test_a_few_steps_and_the_sizes_of_the_next_batches_tell_what_is_reserved(marks: int, seed: int) -> None:
    every = lengths(80, seed)
    truth = replay(training(every)[0]).reserved
    few, given = training([*every[:3], max(every), min(every), 5000], marks)
    found = reserved_over_many(few, given, (given[3][0], every[3:]))
    assert found == pytest.approx(truth, rel=0.03)


def test_a_loader_may_be_one_batch_ahead() -> None:
    every = lengths(80)
    few, given = training([*every[:3], max(every), min(every), 5000])
    early = [(event, size) for (event, _), (_, size) in zip(given, [*given[1:], (0, 7000)], strict=True)]
    for batches in (given, early):
        found = reserved_over_many(few, batches, (given[3][0], every[3:]))
        assert found == pytest.approx(replay(training(every)[0]).reserved, rel=0.03)


def test_of_lengths_that_nobody_knows_more_is_reserved_than_was_seen() -> None:
    few, _ = training([3000, 4000, 9000, 4500, 3500])
    found = reserved_over_many(few)
    assert found is not None and found > replay(few).reserved


@pytest.mark.parametrize("lengths", [[5000] * 8, [5000], [], [5000, 7000]])
def test_steps_of_one_length_are_what_they_are(lengths: list[int]) -> None:
    assert reserved_over_many(training(lengths)[0]) is None


def test_the_forecast_reaches_that_far() -> None:
    events, _ = training(lengths(6))
    log = {"events": events, "kinds": {str(number): "activation" for number, _ in events}, "places": {}}
    made = forecast(log, device_named("h200"), 1)
    assert made.reserved > replay(events).reserved

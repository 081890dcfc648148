# SPDX-License-Identifier: Apache-2.0
"""What the ranks of one host need of its memory."""

from __future__ import annotations

from keepstep.check.memory.devices import GIB, MIB
from keepstep.check.memory.host import PROCESS, WORKER, host_forecast

LOADER = {"workers": 4, "prefetch": 2, "pinned": True, "batch": 100 * MIB, "place": ""}


def test_batches_are_workers_times_prefetch_for_every_rank() -> None:
    made = host_forecast({"loaders": [LOADER], "host_tensors": 2 * GIB}, 8, None)
    parts = {name: (low, high) for name, low, high in made.parts}
    assert parts["batches under way"] == (8 * 4 * 2 * 100 * MIB,) * 2
    assert parts["pinned memory"] == (0, 2 * 8 * 800 * MIB)
    assert parts["their tensors"] == (16 * GIB, 16 * GIB)
    assert parts["loader workers"] == (32 * WORKER[0], 32 * WORKER[1])
    assert (made.shared, made.verdict) == (6400 * MIB, "")


def test_a_loader_without_workers_needs_no_shared_memory() -> None:
    made = host_forecast({"loaders": [{**LOADER, "workers": 0, "pinned": False}]}, 1, GIB)
    assert [name for name, _, _ in made.parts] == ["processes"]
    assert (made.low, made.high, made.shared) == (*PROCESS, 0)


def test_the_answer_is_three_way() -> None:
    seen = {"host_tensors": 10 * GIB}
    verdicts = [host_forecast(seen, 4, total * GIB).verdict for total in (40, 50, 60)]
    assert verdicts == ["does not fit", "too close to say", "fits"]

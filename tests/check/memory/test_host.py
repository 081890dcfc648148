# SPDX-License-Identifier: Apache-2.0
"""What the ranks of one host need of its memory."""

from __future__ import annotations

from keepstep.check.memory.devices import GIB, MIB
from keepstep.check.memory.host import PROCESS, WORKER, host_forecast, host_remedies

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


def test_each_remedy_saves_what_arithmetic_says_and_a_dataset_of_two_loaders_counts_once() -> None:
    records = {"1": [GIB, 0], "2": [0, 2 * GIB]}
    loaders = [{**LOADER, "records": records}, {**LOADER, "workers": 0, "records": records}]
    seen = {"loaders": loaders, "host_tensors": 5 * GIB}
    made = host_forecast(seen, 2, 8 * GIB)
    parts = {name: high for name, _, high in made.parts}
    assert (parts["their tensors"], parts["datasets' records"]) == (2 * 4 * GIB, 2 * 3 * GIB)
    saved = {each.what: made.high - each.forecast.high for each in host_remedies(seen, made)}
    assert saved == {
        "1 rank on a host (now 2)": made.high // 2,
        "records read or augmented as used": 2 * 3 * GIB,
        "2 loader workers (now 4)": 2 * (2 * WORKER[1] + 400 * MIB + 800 * MIB),
        "prefetch_factor 1": 2 * (400 * MIB + 800 * MIB),
        "no pinned memory": 2 * (1600 + 200) * MIB,
    }

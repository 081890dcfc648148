# SPDX-License-Identifier: Apache-2.0
"""What would help, on logs whose answers are arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from keepstep.check.memory.devices import GIB, Device
from keepstep.check.memory.forecast import forecast
from keepstep.check.memory.remedies import Search, resized
from keepstep.cli.check_memory import _advice

DEVICE = Device(name="one", total=40 * GIB, context=(0, 0))
MODEL = {"largest_block": GIB, "outside_blocks": GIB, "float32": True, "sharded": False, "state_element_bytes": 4}


def log(batch: int, activations_gib: float = 1.0) -> dict[str, Any]:
    """Parameters and gradients of 4 GiB, state of 8, and some activations for each record of the batch."""
    sizes = [4 * GIB, 4 * GIB, 8 * GIB, int(batch * activations_gib * GIB), 4 * GIB]
    names = ["parameter", "gradient", "optimizer state", "activation", "optimizer work"]
    events = list(enumerate(sizes))
    events.insert(4, (3, -sizes[3]))
    kinds = {str(number): name for number, name in enumerate(names)}
    more = {"batch": {"size": batch, "by": "--batch-size"}, "model": MODEL, "ended": "steps"}
    return {"events": events, "kinds": kinds, "places": {}, **more}


class Runs:
    """A script whose activations follow its batch."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.asked: list[dict[str, Any]] = []

    def __call__(self, change: dict[str, Any], limit_s: float) -> dict[str, Any]:
        self.asked.append(change)
        return log(change.get("batch", [self.batch])[0], 0.25 if "checkpoint" in change else 1.0)


def advice(batch: int, device: Device = DEVICE, limit_s: float = 60.0) -> Any:
    seen = log(batch)
    return Search(seen, forecast(seen, device, 1), 1, Runs(batch), limit_s).advice()


@pytest.mark.parametrize("batch", [1, 16, 200])
def test_the_largest_batch_is_found_from_below_and_from_above(batch: int) -> None:
    found = advice(batch)
    # 16 GiB beside activations; 22 more are 38 GiB, and the margin of 4 % makes 39.5 of 40
    assert (found.largest, found.next_larger) == (22, 23)


def test_not_even_one_record_fits() -> None:
    assert advice(4, Device(name="tiny", total=8 * GIB)).largest == 0


def test_without_time_nothing_is_tried_and_that_is_said() -> None:
    found = advice(100, limit_s=0)
    assert found.largest is None
    assert len(found.untried) >= 3 and all("no time" in each for each in found.untried)


def test_each_remedy_saves_what_arithmetic_says() -> None:
    made = forecast(log(30), DEVICE, 1)
    found = {each.what: (made.allocated - each.forecast.allocated) / GIB for each in advice(30).remedies}
    assert found["activation checkpointing"] == pytest.approx(22.5)
    assert found["batch 15, accumulated twice"] == 15
    assert found["optimizer state on the host"] == 8
    assert found["optimizer state in 8 bits"] == 6
    assert found["FSDP over 8 ranks"] == 16 * 7 / 8 - 3
    assert "fused optimizer" not in found  # its temporaries are not held at the peak


def test_the_table_is_read_at_80_columns() -> None:
    made = forecast(log(30), DEVICE, 1)
    lines = _advice(made, advice(30))
    assert max(map(len, lines)) <= 80
    shown = "\n".join(lines)
    assert "activation checkpointing" in shown and "largest batch that surely fits: 22 (now 30)" in shown
    assert "optimizer state on the host *" in shown and "* the same log with other sizes" in shown


def test_a_log_with_other_sizes_has_the_same_births_and_deaths() -> None:
    seen = log(2)
    changed = resized(seen, {"activation": 0.5})
    assert changed["events"][3:5] == [(3, GIB), (3, -GIB)]
    assert resized(seen, {})["events"] == seen["events"]

# SPDX-License-Identifier: Apache-2.0
"""From a log of births and deaths to an answer."""

from __future__ import annotations

from typing import Any

import pytest

from keepstep.check.memory.devices import GIB, Device, device_named
from keepstep.check.memory.forecast import AS_WRITTEN, BY_VALUES, forecast
from keepstep.errors import UserError

SMALL = Device(name="a small one", total=8 * GIB)


def seen(*sizes_gib: float, **more: Any) -> dict[str, Any]:
    events = [(n, int(each * GIB)) for n, each in enumerate(sizes_gib)]
    kinds = dict.fromkeys(map(str, range(len(events))), "parameter")
    return {"events": events, "kinds": kinds, "places": {str(len(events) - 1): "train.py:7"}, **more}


@pytest.mark.parametrize(("needs_gib", "verdict"), [(2, "fits"), (7.6, "too close to say"), (9, "does not fit")])
def test_the_answer_is_three_way(needs_gib: float, verdict: str) -> None:
    assert forecast(seen(needs_gib), SMALL, 1).verdict == verdict


def test_a_tensor_larger_than_the_device_is_named_with_its_line() -> None:
    made = forecast(seen(1, 3000), SMALL, 1)
    assert (made.verdict, made.line, made.asked) == ("does not fit", "train.py:7", 3000 * GIB)


def test_sums_that_differ_from_arithmetic_are_never_called_fitting() -> None:
    made = forecast(seen(1, sums={"parameter": 4}, counted={"parameter": 5}), SMALL, 1)
    assert made.wrong_sums == ("parameters",)
    assert made.verdict == "too close to say"


def test_a_group_of_several_ranks_takes_buffers() -> None:
    alone, many = (forecast(seen(1), SMALL, ranks) for ranks in (1, 8))
    assert many.high - alone.high == GIB
    assert forecast(seen(1, grouped=False), SMALL, 8) == alone


def test_products_bring_a_workspace_forward_and_backward() -> None:
    log = seen(1, 1, 1)
    log["kinds"] = {"0": "parameter", "1": "activation", "2": "backward"}
    made = dict(forecast(log, device_named("h200"), 1).parts)
    assert made["library workspaces"] == 64 << 20
    assert made["other"] == GIB


def test_a_device_is_a_name_or_an_amount() -> None:
    assert device_named("CPU").cpu and device_named("cpu").total > GIB
    assert device_named("H200").name == "NVIDIA H200"
    assert device_named("80GB").total == 80 * 10**9
    assert device_named("1.5GiB").total == 3 * GIB // 2
    for wrong in ("h20", "80", "0GB", "-1GB", "GB"):
        with pytest.raises(UserError):
            device_named(wrong)


def lived(*each: tuple[float, str]) -> dict[str, Any]:
    """One after the other, each gone before the next; the last one stays."""
    log = seen(*(size for size, _ in each))
    log["kinds"] = {str(n): kind for n, (_, kind) in enumerate(each)}
    born = log["events"]
    log["events"] = [event for n, size in born[:-1] for event in ((n, size), (n, -size))] + born[-1:]
    return log


def test_what_the_allocator_would_give_back_does_not_count_against_it() -> None:
    made = forecast(lived((4, "activation"), (5, "activation")), SMALL, 1)
    assert made.high > SMALL.total
    assert made.gets_by is not None and made.gets_by < 6 * GIB
    assert made.verdict == "fits"


def test_what_may_need_half_as_much_is_not_called_too_large() -> None:
    for size, guess, verdict, low in (
        (9, "", "does not fit", 10),
        (9, AS_WRITTEN, "too close to say", 5),
        (19, AS_WRITTEN, "does not fit", 10),
        (19, f"{BY_VALUES}: the largest was taken", "too close to say", 1),
    ):
        log = seen(1, size, guesses={guess: ""})
        log["kinds"]["1"] = "activation"
        made = forecast(log, SMALL, 1)
        assert (made.verdict, round((made.low / GIB - 0.3) / 0.96)) == (verdict, low)


def test_scratch_memory_is_done_without_where_there_is_none() -> None:
    log = lived((5, "parameter"), (4, "workspace"))
    log["events"] = [(0, 5 * GIB), (1, 4 * GIB), (1, -4 * GIB)]
    assert forecast(log, SMALL, 1).verdict == "fits"
    log["kinds"]["1"] = "activation"
    assert forecast(log, SMALL, 1).verdict == "does not fit"

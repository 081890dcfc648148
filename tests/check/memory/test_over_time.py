# SPDX-License-Identifier: Apache-2.0
"""The picture of what the device would hold."""

from __future__ import annotations

import re
from typing import Any

from keepstep.check.memory.devices import GIB, Device
from keepstep.check.memory.forecast import forecast
from keepstep.check.memory.over_time import over_time
from keepstep.render.memory_picture import HeldOverTime, memory_picture

DEVICE = Device(name="<one>", total=8 * GIB)


def held(*events: tuple[int, int], **kinds: str) -> HeldOverTime:
    seen: dict[str, Any] = {
        "events": list(events),
        "kinds": {key[1:]: kind for key, kind in kinds.items()},
        "places": {},
    }
    return over_time(seen, DEVICE, forecast(seen, DEVICE, 1))


def test_parts_follow_the_log_and_gaps_are_what_the_allocator_keeps() -> None:
    found = held(
        (0, 4 * GIB), (1, 2 * GIB), (1, -2 * GIB), (-1, 1), (2, GIB), n0="parameter", n1="gradient", n2="gradient"
    )
    named = [{name: each for name, each in zip(found.names, moment, strict=True) if each} for moment in found.moments]
    always = {"parameters": 4 * GIB, "CUDA itself": DEVICE.context[0]}
    assert named == [
        always,
        always | {"gradients": 2 * GIB},
        always | {"kept by the allocator": 2 * GIB},
        always | {"gradients": GIB, "kept by the allocator": GIB},
    ]
    assert (found.steps, found.peak) == ((0.6,), 1)


def test_a_long_log_becomes_few_moments_and_the_peak_stays() -> None:
    events = [pair for n in range(5000) for pair in ((n, GIB), (n, -GIB))]
    events.insert(4000, (9999, 3 * GIB))
    found = held(*events)
    assert len(found.moments) <= 240
    assert max(moment[found.names.index("other")] for moment in found.moments) == 4 * GIB


def test_the_picture_escapes_names_and_draws_inside_its_frame() -> None:
    text = memory_picture(held((0, 20 * GIB), n0="parameter"))
    assert "&lt;one&gt; has 8.6 GB" in text and "<one>" not in text
    points = [float(y) for each in re.findall(r'points="([^"]+)"', text) for y in re.findall(r",([-\d.]+)", each)]
    assert points and all(0 <= y <= 300 for y in points)
    assert "script" not in text

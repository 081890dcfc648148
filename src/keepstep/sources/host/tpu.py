# SPDX-License-Identifier: Apache-2.0
"""How much the TPUs of this host are used, as libtpu's own metrics service in the training's processes says.

By the service's published description (`tpu.monitoring.runtime`), which `tpu-info` uses. Not tried on a TPU.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from keepstep.parse.formats.data.example_proto import NotAnExample, fields
from keepstep.sources.host.unary_call import unary_call

PORTS, USUAL_PORT = "TPU_RUNTIME_METRICS_PORTS", 8431
METHOD = "/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric"
USED, TOTAL, BUSY = (
    "tpu.runtime.hbm.memory.usage.bytes",
    "tpu.runtime.hbm.memory.total.bytes",
    "tpu.runtime.tensorcore.dutycycle.percent",
)


@dataclass(frozen=True, kw_only=True)
class TpuUsage:
    """One device that has memory of its own. None: the service does not say."""

    index: int
    busy: float | None = None
    """The share of the time in which its chip computed: that is said of chips, which may hold two devices."""
    used: int | None = None
    total: int | None = None


def usage(env: Mapping[str, str] = os.environ) -> list[TpuUsage]:
    """Of all training processes on this host; empty where none answers."""
    found: dict[int, TpuUsage] = {}
    for port in _ports(env):
        with contextlib.suppress(OSError, ValueError, NotAnExample):
            used, total, busy = (_asked(port, name) for name in (USED, TOTAL, BUSY))
            per_chip = max(1, len(used) // len(busy)) if busy else 1
            shares = [share for _, share in sorted(busy.items()) for _ in range(per_chip)]
            for place, (index, held) in enumerate(sorted(used.items())):
                found[index] = TpuUsage(
                    index=index,
                    busy=shares[place] / 100 if place < len(shares) else None,
                    used=int(held),
                    total=int(total[index]) if index in total else None,
                )
    return [found[index] for index in sorted(found)]


def _ports(env: Mapping[str, str]) -> list[int]:
    named = [int(each) for each in env.get(PORTS, "").split(",") if each.strip().isdecimal()]
    return [each for each in named if each < 65536] or [USUAL_PORT]


def _asked(port: int, name: str) -> dict[int, float]:
    """The value of one metric, by device or chip."""
    data = name.encode()
    return parse_metric(unary_call(port, METHOD, bytes([0x0A, len(data)]) + data))


def parse_metric(answer: bytes) -> dict[int, float]:
    """A ``MetricResponse``: the gauge of each device. Raises ``NotAnExample`` where it is none."""
    found: dict[int, float] = {}
    try:
        for metric in _parts(memoryview(answer), 1):
            for each in _parts(metric, 3):
                index = next((_number(value) for part in _parts(each, 1) for value in _parts(part, 2)), None)
                value = next((_gauge(gauge) for gauge in _parts(each, 3)), None)
                if value is not None:
                    found[int(index or 0)] = value
    except (IndexError, struct.error) as error:
        raise NotAnExample from error
    return found


def _parts(data: memoryview, number: int) -> Iterator[memoryview]:
    for each, _, value in fields(data):
        if each == number and isinstance(value, memoryview):
            yield value


def _number(attribute: memoryview) -> int:
    """``AttrValue.int_attr``; a device 0 may be left out."""
    return next((value for each, _, value in fields(attribute) if each == 3 and isinstance(value, int)), 0)


def _gauge(gauge: memoryview) -> float | None:
    for each, _, value in fields(gauge):
        if each == 1 and isinstance(value, memoryview):
            return float(struct.unpack("<d", value)[0])
        if each == 2 and isinstance(value, int):
            return float(value)
    return None

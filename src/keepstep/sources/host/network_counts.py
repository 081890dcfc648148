# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts of this network namespace: bytes and drops of each device, TCP segments; and link speeds."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

DEVICES, SNMP, SPEEDS = Path("/proc/net/dev"), Path("/proc/net/snmp"), Path("/sys/class/net")


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """Of one network device, since it was made."""

    received: int
    sent: int
    dropped: int


@dataclass(frozen=True, slots=True)
class NetworkCounts:
    devices: dict[str, DeviceCounts] = field(default_factory=dict)
    """Without loopback."""
    segments: int = 0
    """Of TCP, sent by this host."""
    again: int = 0
    """Of them, those that were sent again."""


def network_counts() -> NetworkCounts:
    """Now. What the kernel does not tell is missing, or 0."""
    devices: dict[str, DeviceCounts] = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in DEVICES.read_text().splitlines()[2:]:
            name, _, rest = line.partition(":")
            numbers = [int(each) for each in rest.split()]
            if name.strip() != "lo":
                devices[name.strip()] = DeviceCounts(numbers[0], numbers[8], numbers[3] + numbers[11])
    segments = again = 0
    with contextlib.suppress(OSError, ValueError, KeyError):
        names, values = [line.split() for line in SNMP.read_text().splitlines() if line.startswith("Tcp:")][:2]
        tcp = dict(zip(names[1:], map(int, values[1:]), strict=True))
        segments, again = tcp["OutSegs"], tcp["RetransSegs"]
    return NetworkCounts(devices, segments, again)


def link_speed(device: str) -> float | None:
    """Bytes per second in each direction; None where the device has no speed, as virtual ones."""
    with contextlib.suppress(OSError, ValueError):
        megabits = int((SPEEDS / device / "speed").read_text())
        return megabits * 125_000.0 if megabits > 0 else None
    return None

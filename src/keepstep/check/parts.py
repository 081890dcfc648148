# SPDX-License-Identifier: Apache-2.0
"""The parts of the check. Each is a module with ``look(place) -> Collected``; data, code, memory and collectives come later."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

from keepstep.check.place import Collected, Place

PARTS = {
    "config": "what the launcher says, against what is",
    "network": "every pair of hosts",
    "env": "the same software everywhere",
    "resources": "memory, disks, limits and devices of each host",
}

_MODULES = {"config": "config", "env": "environment", "resources": "resources"}
"""The network part needs all processes at once and is done by the meeting."""


def look(place: Place, parts: Iterable[str]) -> Collected:
    """All that these parts see from one process. A part that breaks is said, and the others go on."""
    looked = Collected()
    for name in parts:
        if name in _MODULES:
            part: Callable[[Place], Collected] = importlib.import_module(f"keepstep.check.{_MODULES[name]}").look
            try:
                looked.take(part(place))
            except Exception as error:
                looked.unavailable(
                    f"{name} of {place.host}", f"the check itself failed: {type(error).__name__}: {error}"
                )
    return looked

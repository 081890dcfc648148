# SPDX-License-Identifier: Apache-2.0
"""The parts of the check. Each is a module with ``look(place) -> Collected``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

from keepstep.check.place import Collected, Place

PARTS = {
    "config": "what the launcher's variables say, compared with this host",
    "network": "connections between every pair of hosts",
    "env": "whether the software is the same everywhere",
    "resources": "each host's memory, disks, limits and devices",
}

TAKES_PATHS = {
    "code": "training programs",
    "data": "files of training data",
    "checkpoint": "checkpoints",
    "memory": "the command of a training",
}
"""Parts that look at what the user names, alone and on request only. Each is a verb of two words (`cli/parser.py`)."""

ON_ITS_OWN = ("gpu",)
"""Parts that take minutes: alone and on request only. Verbs of two words as well."""

_MODULES = {"config": "config", "env": "environment", "resources": "resources"}
"""The network part needs all processes at once, so the meeting does it."""


def look(place: Place, parts: Iterable[str]) -> Collected:
    """What these parts see from one process. A part that breaks is reported, and the others continue."""
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

# SPDX-License-Identifier: Apache-2.0
"""Every guest: any module here with a table ``GUESTS``; found by walking."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from keepstep_lab.guests.guest import Guest


def _all() -> Iterator[Guest]:
    for module in pkgutil.iter_modules(__path__):
        yield from getattr(importlib.import_module(f"{__name__}.{module.name}"), "GUESTS", ())


GUESTS: dict[str, Guest] = {guest.name: guest for guest in _all()}

# SPDX-License-Identifier: Apache-2.0
"""Every scenario: one folder per framework, any module in it with a table ``SCENARIOS``; found by name here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from keepstep.lab.scenario import FRAMEWORKS, Scenario


def _all() -> Iterator[Scenario]:
    for framework in FRAMEWORKS:
        package = importlib.import_module(f"{__name__}.{framework}")
        for module in pkgutil.iter_modules(package.__path__):
            yield from getattr(importlib.import_module(f"{package.__name__}.{module.name}"), "SCENARIOS", ())


SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _all()}

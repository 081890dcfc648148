# SPDX-License-Identifier: Apache-2.0
"""Puts what is derived from the tables into a wheel. Hatch calls it; nobody else needs to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DeriveTables(BuildHookInterface):  # type: ignore[type-arg]
    """A checkout derives for itself when it is first used, so an editable installation needs nothing."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        source = Path(self.root) / "src"
        sys.path.insert(0, str(source))
        from keepstep.knowledge import DERIVED
        from keepstep.parse.scan.tables import tables
        from keepstep.rules.last_resort.table import table
        from keepstep.signals.waits import read_waits

        tables(), read_waits(), table()
        for path in Path(DERIVED).iterdir():
            if not path.name.startswith("."):
                build_data["force_include"][str(path)] = str(path.relative_to(source))

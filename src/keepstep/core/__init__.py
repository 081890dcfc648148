# SPDX-License-Identifier: Apache-2.0
"""Where rules of your own used to find their types. They are in `keepstep.rules.api` now; these names go on working."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from keepstep.model import facts

_OF_RULES = ("cause", "evidence", "finding", "rule", "facts")
_FACTS = (f"facts.{each.name}" for each in pkgutil.iter_modules(facts.__path__))

for _name in (*_OF_RULES, *_FACTS):
    sys.modules[f"keepstep.core.{_name}"] = importlib.import_module(f"keepstep.model.{_name}")

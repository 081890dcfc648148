# SPDX-License-Identifier: Apache-2.0
"""The knowledge: one diagnosis per file, in a folder named after the cause's family.

``code/`` has what is known about the text of programs, one folder per framework: only ``keepstep check code`` asks it.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache

from keepstep.model.rule import Rule, rules_in

CODE = "keepstep.rules.code"


@cache
def builtin_rules() -> tuple[Rule, ...]:
    """The rules that come with keepstep, about what a run or a host shows."""
    return rules_in(sys.modules[__name__], without=CODE)


@cache
def code_rules() -> tuple[Rule, ...]:
    """The rules about the text of programs."""
    return rules_in(importlib.import_module(CODE))

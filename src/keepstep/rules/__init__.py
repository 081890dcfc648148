# SPDX-License-Identifier: Apache-2.0
"""The knowledge: one diagnosis per file, in a folder named after the cause's family."""

from __future__ import annotations

import sys
from functools import cache

from keepstep.core.rule import Rule, rules_in


@cache
def builtin_rules() -> tuple[Rule, ...]:
    """The rules that come with keepstep."""
    return rules_in(sys.modules[__name__])

# SPDX-License-Identifier: Apache-2.0
"""Get ready for trouble while there is none: what looks and diagnoses need is loaded before they are needed."""

from __future__ import annotations

import contextlib
import os

MOST_READY = 8


def prepare(ranks: int) -> None:
    """Start the children that look at stacks, and import what a diagnosis needs. Never raises."""
    with contextlib.suppress(Exception):
        from keepstep.supervise.looking import urgently

        urgently()
        from keepstep.sources.stacks import keep_ready

        keep_ready(max(1, min(ranks, os.cpu_count() or 1, MOST_READY)))
        import keepstep.analyze.why  # noqa: F401
        from keepstep.analyze.known import known
        from keepstep.rules import builtin_rules

        builtin_rules()
        known()

# SPDX-License-Identifier: Apache-2.0
"""keepstep keeps distributed training in step, or tells you why it is not."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

__all__ = [
    "OutOfStep", "__version__", "check", "check_data", "cluster", "guard", "latest_good", "microbatches",
    "on_preemption", "retry", "shard", "should_save", "should_stop", "skip_if", "why",
]  # fmt: skip

_FUNCTIONS = {
    "OutOfStep": "keepstep.errors",
    "check_data": "keepstep.check.live",
    "latest_good": "keepstep.store.ledger.verify",
    "microbatches": "keepstep.guard.together.microbatches",
    "on_preemption": "keepstep.guard.together.stop",
    "retry": "keepstep.guard.together.retry",
    "shard": "keepstep.feed.shard",
    "should_save": "keepstep.guard.together.save",
    "should_stop": "keepstep.guard.together.stop",
    "skip_if": "keepstep.guard.together.skip",
    "why": "keepstep.analyze.why_from_python",
}


def __getattr__(name: str) -> Any:
    """The verbs, loaded when they are asked for: `import keepstep` alone loads nothing."""
    if name in ("check", "cluster", "guard"):
        return importlib.import_module(f"keepstep.{name}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"module 'keepstep' has no attribute {name!r}")

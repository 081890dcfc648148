# SPDX-License-Identifier: Apache-2.0
"""keepstep keeps distributed training in step, or tells you why it is not."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

__all__ = ["__version__", "check", "cluster"]


def __getattr__(name: str) -> Any:
    """The verbs, loaded when they are asked for: `import keepstep` alone loads nothing."""
    if name in ("check", "cluster"):
        return importlib.import_module(f"keepstep.{name}")
    raise AttributeError(f"module 'keepstep' has no attribute {name!r}")

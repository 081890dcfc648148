# SPDX-License-Identifier: Apache-2.0
"""Inside the training process: which step and phase it is in, and whether all ranks are about to do the same.

``guard = keepstep.guard()`` or, without a change of code, ``KEEPSTEP=on python train.py``.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.guard.surface import Guard


class _Callable(types.ModuleType):
    """``keepstep.guard()``: the guard of this process."""

    def __call__(self, **settings: Any) -> Guard:
        from keepstep.guard.surface import guard

        return guard(**settings)


sys.modules[__name__].__class__ = _Callable

# SPDX-License-Identifier: Apache-2.0
"""The preflight: what would kill the run, found before it starts."""

from __future__ import annotations

import sys
import types
from typing import Any

from keepstep.core.report import Report


class _Callable(types.ModuleType):
    """``keepstep.check(...)``: look, and return the report; on ranks other than 0 of a job, None."""

    def __call__(self, *parts: str, **settings: Any) -> Report | None:
        from keepstep.check.checkup import CheckRequest, check
        from keepstep.check.parts import PARTS

        unknown = set(parts) - set(PARTS)
        if unknown:
            raise ValueError(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
        return check(CheckRequest(parts=parts or tuple(PARTS), **settings)).report


sys.modules[__name__].__class__ = _Callable

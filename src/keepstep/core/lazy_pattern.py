# SPDX-License-Identifier: Apache-2.0
"""Patterns that are compiled when they are first asked: most of hundreds never are, and compiling them all takes longer than reading a log."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, AnyStr, cast


class LazyPattern:
    """Stands for a compiled pattern, and hands out its methods."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[Any]:
        return re.compile(self.pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(self.compiled, name)
        self.__dict__[name] = method
        return method


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like ``re.compile``, but later."""
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))

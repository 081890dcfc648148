# SPDX-License-Identifier: Apache-2.0
"""Patterns that are compiled on first use: most never are, and compiling all takes longer than reading a log."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cached_property
from typing import Any, AnyStr, cast


class LazyPattern:
    """Stands in for a compiled pattern and offers its methods."""

    most: int | None = None
    """How many characters of a text are searched; None: all."""

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


class ShortPattern(LazyPattern):
    """For texts that are never long, such as a function's name: a hostile one is searched only this far."""

    def __init__(self, pattern: str | bytes, flags: int, most: int) -> None:
        super().__init__(pattern, flags)
        self.most: int = most

    def search(self, text: AnyStr, start: int = 0, end: int = sys.maxsize) -> re.Match[AnyStr] | None:
        return self.compiled.search(text, start, min(end, start + self.most))

    def match(self, text: AnyStr, start: int = 0, end: int = sys.maxsize) -> re.Match[AnyStr] | None:
        return self.compiled.match(text, start, min(end, start + self.most))

    def fullmatch(self, text: AnyStr) -> re.Match[AnyStr] | None:
        return self.compiled.fullmatch(text) if len(text) <= self.most else None

    def finditer(self, text: AnyStr) -> Iterator[re.Match[AnyStr]]:
        return self.compiled.finditer(text, 0, self.most)

    def findall(self, text: AnyStr) -> list[Any]:
        return self.compiled.findall(text, 0, self.most)

    def sub(self, by: AnyStr, text: AnyStr) -> AnyStr:
        return self.compiled.sub(by, text[: self.most]) + text[self.most :]


def lazy_pattern(pattern: AnyStr, flags: int = 0, *, most: int | None = None) -> re.Pattern[AnyStr]:
    """Like ``re.compile``, but later. ``most``: search at most this many characters of a text."""
    made = LazyPattern(pattern, flags) if most is None else ShortPattern(pattern, flags, most)
    return cast("re.Pattern[AnyStr]", made)

# SPDX-License-Identifier: Apache-2.0
"""The base of all facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something observed. Subclasses add what was read; absent parts are ``None``."""

    rank: int | None = None

    def __reduce__(self) -> tuple[Callable[..., Fact], tuple[Any, ...]]:
        """For pickle: tens of thousands come back from the processes that read logs, and what dataclasses do by themselves is slow."""
        return _restored, (type(self), [getattr(self, name) for name in _names(type(self))])


_known_names: dict[type[Fact], tuple[str, ...]] = {}


def _names(kind: type[Fact]) -> tuple[str, ...]:
    if kind not in _known_names:
        _known_names[kind] = tuple(each.name for each in fields(kind))
    return _known_names[kind]


def _restored(kind: type[Fact], values: list[Any]) -> Fact:
    fact = object.__new__(kind)
    for name, value in zip(_names(kind), values, strict=True):
        object.__setattr__(fact, name, value)
    return fact

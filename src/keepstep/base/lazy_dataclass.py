# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses whose methods are made on first use: of hundreds of classes a start needs a few, and making the
methods of one takes longer than reading a hundred kilobytes of log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

_MADE_LATER = ("__init__", "__repr__", "__eq__", "__hash__")
_known_names: dict[type, tuple[str, ...]] = {}
incomplete: dict[type, None] = {}
"""Those that nobody has used yet."""


def _dataclass(*, frozen: bool, slots: bool, kw_only: bool) -> Callable[[type[T]], type[T]]:
    """The same as ``dataclasses.dataclass``, which type checkers take it for."""
    if not (frozen and slots and kw_only):
        raise TypeError("a lazy dataclass is frozen, has slots, and takes keywords only")

    def make(kind: type[T]) -> type[T]:
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(kind)
        for name in _MADE_LATER:
            setattr(made, name, _first_use(made, name))
        for name, method in (("__setattr__", _refuse), ("__delattr__", _refuse), ("__reduce__", _reduce)):
            setattr(made, name, method)
        incomplete[made] = None
        return made

    return make


def _first_use(kind: type[Any], name: str) -> Callable[..., Any]:
    def method(self: Any, *given: Any, **named: Any) -> Any:
        complete(kind)
        return getattr(kind, name)(self, *given, **named)

    return method


def complete(kind: type[Any]) -> None:
    """Install what the standard library makes of the same fields. Needed only to inspect signatures; else automatic."""
    columns = dataclasses.fields(kind)
    body = {"__annotations__": {each.name: each.type for each in columns}, "__module__": kind.__module__}
    model: type[Any] = dataclasses.dataclass(frozen=True)(
        type(kind.__name__, (), {**body, **{each.name: _like(each) for each in columns}})
    )
    for name in _MADE_LATER:
        setattr(kind, name, vars(model)[name])
    incomplete.pop(kind, None)


def _like(each: dataclasses.Field[Any]) -> Any:
    options = {name: getattr(each, name) for name in ("init", "repr", "hash", "compare", "kw_only")}
    for name in ("default", "default_factory"):
        if getattr(each, name) is not dataclasses.MISSING:
            options[name] = getattr(each, name)
    return dataclasses.field(**options)


def _refuse(self: object, name: str, *value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _reduce(self: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """For pickle: tens of thousands come back from the processes that read logs, and dataclasses' default is slow."""
    return _restored, (type(self), [getattr(self, name) for name in _names(type(self))])


def _names(kind: type[Any]) -> tuple[str, ...]:
    if kind not in _known_names:
        _known_names[kind] = tuple(each.name for each in dataclasses.fields(kind))
    return _known_names[kind]


def _restored(kind: type[T], values: list[Any]) -> T:
    thing = object.__new__(kind)
    for name, value in zip(_names(kind), values, strict=True):
        object.__setattr__(thing, name, value)
    return thing


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass

# SPDX-License-Identifier: Apache-2.0
"""The programs that one jitted function was compiled to, and which of them a call executed.

Most functions have one, or several for the same shapes that differ only in where their arguments came from: then
nothing is looked at. Where one of them spans processes and another does not, or their shapes differ, a call's
arguments decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.guard.adapters.jax.lockstep import Side
    from keepstep.guard.adapters.jax.program_contracts import JaxProgram

MOST = 256
"""The most programs of one function that are distinguished."""
_VALUES = (bool, str)
"""Arguments of these types are static: another value is another program."""


class Function:
    """What is known about a function that JAX executes; separate for programs of one process and of several."""

    __slots__ = ("carries", "internal", "name", "number", "runs", "since", "spans", "turn")

    def __init__(self, name: str, number: int, program: JaxProgram) -> None:
        self.name, self.number = name, number
        self.spans, self.carries, self.internal = program.spans, program.carries, program.internal
        self.runs = 0
        self.turn = -1
        """The step after which it last ran."""
        self.since = 0
        """Executions since the step was last executed."""


class Variant:
    """One compiled program of a function."""

    __slots__ = ("collective", "counts", "function", "side")

    def __init__(self, function: Function, collective: bool) -> None:
        self.function = function
        self.collective = collective
        """It holds collectives, and all processes take part."""
        self.counts = True
        """Its executions are looked at."""
        self.side: Side | None = None


class Kin:
    """``one``: the program that every call executes, or None where none counts; ``several``: ask :meth:`pick`."""

    __slots__ = ("_by_shapes", "_count", "_doubt", "_leaves", "_newest", "one", "several")

    def __init__(self, leaves: Callable[[Any], list[Any]], doubt: Callable[[], None]) -> None:
        self._leaves, self._doubt = leaves, doubt
        self._by_shapes: dict[tuple[Any, ...], dict[tuple[Any, ...], Variant]] = {}
        """By shapes and, among those of the same shapes, by shardings too."""
        self._count = 0
        self._newest: Variant | None = None
        self.one: Variant | None = None
        self.several = False

    @classmethod
    def of(cls, variant: Variant) -> Kin:
        """Of one program whose arguments are not known."""
        kin = cls(lambda tree: [], lambda: None)
        kin.one = variant
        return kin

    def add(self, variant: Variant, args: Any, kwargs: Any) -> None:
        """A call with these arguments executes this program."""
        leaves = self._leaves((args, kwargs))
        if self._count >= MOST:
            self._by_shapes.clear()
            self._count = 0
        self._by_shapes.setdefault(_shapes(leaves), {})[_shardings(leaves)] = variant
        self._count += 1
        self._newest = variant
        every = [each for same in self._by_shapes.values() for each in same.values()]
        self.several = any(each.counts for each in every) and (len(self._by_shapes) > 1 or not _alike(every))
        self.one = variant if variant.counts and not self.several else None

    def pick(self, args: Any, kwargs: Any) -> Variant | None:
        """The program that a call with these arguments executed; None if it does not count. Hot if several."""
        leaves = self._leaves((args, kwargs))
        same = self._by_shapes.get(_shapes(leaves))
        if same is None:
            found = self._unknown(list(each for one in self._by_shapes.values() for each in one.values()))
        elif len(same) == 1:
            (found,) = same.values()
        else:
            found = same.get(_shardings(leaves)) or self._unknown(list(same.values()))
        return found if found is not None and found.counts else None

    def _unknown(self, among: list[Variant]) -> Variant | None:
        if not _alike(among):
            self._doubt()
        return among[-1] if among else self._newest


def _alike(variants: list[Variant]) -> bool:
    first = variants[0] if variants else None
    return all(
        each.function is first.function and each.collective == first.collective and each.counts == first.counts
        for each in variants
        if first is not None
    )


def _shapes(leaves: list[Any]) -> tuple[Any, ...]:
    return tuple(
        [leaf.shape if hasattr(leaf, "shape") else leaf if type(leaf) in _VALUES else type(leaf) for leaf in leaves]
    )


def _shardings(leaves: list[Any]) -> tuple[Any, ...]:
    return tuple([(getattr(leaf, "sharding", None), str(getattr(leaf, "dtype", ""))) for leaf in leaves])

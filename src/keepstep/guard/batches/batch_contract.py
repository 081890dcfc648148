# SPDX-License-Identifier: Apache-2.0
"""Batches on the host side, compared with a declared or learned contract before the step takes them.

Shapes and types are compared at every batch, which takes a few microseconds. Varying lengths are not a fault: batches
are padded to their longest sample, and the last one is short. A new shape is reported only if the step that took it
failed. Values (finiteness, label range) are looked at now and then, within a fixed share of the time, and never on a
device.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keepstep.errors import OutOfStep

if TYPE_CHECKING:
    from keepstep.guard.protocols import BatchChecks, Strict, Values

MOST_LEAVES = 64
LEARN = 3
"""The values of this many first batches are always looked at."""
SHARE = 0.0002
"""The share of the time that may be spent looking at values."""
MOST_TOLD = 10


class BatchFault:
    """What can be wrong with a batch."""

    SHAPE = "shape"
    DTYPE = "dtype"
    LABEL = "label"
    NOT_FINITE = "not finite"
    EMPTY = "empty"
    SHORT = "short"
    STRUCTURE = "structure"


Leaf = tuple[str, tuple[int | None, ...], str, Any]
"""Name, shape, dtype, the thing itself."""


def leaves(batch: Any, name: str = "batch") -> list[Leaf]:
    """What has a shape and a dtype in a batch of tuples, lists and dictionaries."""
    found: list[Leaf] = []
    _walk(batch, name, found, 0)
    return found


def _walk(thing: Any, name: str, found: list[Leaf], depth: int) -> None:
    if len(found) >= MOST_LEAVES or depth > 6:
        return
    shape = getattr(thing, "shape", None)
    if shape is not None and hasattr(thing, "dtype"):
        try:
            sizes: tuple[int | None, ...] = tuple(shape)
        except (TypeError, ValueError):  # a tensor of unknown rank
            return
        kind = getattr(thing.dtype, "name", None) or str(thing.dtype).rpartition(".")[2].strip("<>'\" ")
        found.append((name, sizes, kind, thing))
    elif isinstance(thing, Mapping):
        for key, each in thing.items():
            _walk(each, f"{name}[{key!r}]", found, depth + 1)
    elif isinstance(thing, tuple | list):
        for number, each in enumerate(thing):
            _walk(each, f"{name}[{number}]", found, depth + 1)


class Batches:
    """The contract of one stream of batches."""

    def __init__(self, session: Strict) -> None:
        self._session = session
        self._learned: list[tuple[str, tuple[int | None, ...], str]] = []
        self._rows: int | None = None
        self._seen = 0
        self._last: tuple[Any, ...] | None = None
        self._value_ns = 0
        self._began = time.monotonic_ns()
        self._told: set[tuple[str, str]] = set()
        self._new: tuple[int, tuple[str, str, str, str]] | None = None
        """What only the last batch had: the number of steps by then, and what would be reported."""
        self.labels: dict[str, tuple[float, float]] = {}
        """Declared: the least and largest value that a leaf (by its name, or the end of its name) may hold."""
        self.dtypes: dict[str, str] = {}
        self.shapes: dict[str, tuple[int | None, ...]] = {}
        """Declared: the shape that a leaf must have; None where any size will do."""
        self.finite = True

    def see(self, batch: Any, values: Values | None = None) -> None:
        """A batch is about to be trained on. Raises OutOfStep only in strict mode."""
        parts = leaves(batch)
        if not parts:
            return
        self._seen += 1
        signature = tuple((name, shape, dtype) for name, shape, dtype, _ in parts)
        if signature != self._last:
            self._compare(signature)
            self._last = signature
        if values is not None and (self._seen <= LEARN or self._value_ns < (time.monotonic_ns() - self._began) * SHARE):
            began = time.perf_counter_ns()
            for name, _, dtype, thing in parts:
                self._look_into(name, dtype, thing, values)
            self._value_ns += time.perf_counter_ns() - began

    def not_finite(self, name: str) -> None:
        """An adapter found NaN or infinite values in a part of a batch. Raises OutOfStep only in strict mode."""
        if self.finite:
            self._odd(BatchFault.NOT_FINITE, name, "NaN or infinite values", "finite values")

    def at_end(self) -> None:
        """The process ends. A new shape or a short last batch matters only if the step that took it failed."""
        failed = getattr(sys, "last_type", None)
        if self._new is not None and failed is not None and self._new[0] == self._session.steps:
            self._odd(*self._new[1], quiet=True)

    @property
    def last(self) -> str:
        """The shapes of the batch that was seen last."""
        return ", ".join(f"{name} {list(shape)}" for name, shape, _ in (self._last or ())[:MOST_TOLD])

    @property
    def declared(self) -> bool:
        """Whether the script itself declared what batches must be."""
        return bool(self.labels or self.dtypes or self.shapes)

    def declare_like(self, other: BatchChecks) -> None:
        """What the script declared holds for all streams of batches."""
        self.labels, self.dtypes, self.shapes, self.finite = other.labels, other.dtypes, other.shapes, other.finite

    @property
    def signature(self) -> dict[str, str]:
        """The contract as text, for the other ranks; rows are separate from the rest."""
        return {name: f"{dtype}{list(shape[1:])}" for name, shape, dtype in self._learned} | {"rows": str(self._rows)}

    def _compare(self, signature: tuple[tuple[str, tuple[int | None, ...], str], ...]) -> None:
        rows = next((shape[0] for _, shape, _ in signature if shape), None)
        self._new = None
        if not self._learned:
            self._learned, self._rows = list(signature), rows
        elif len(signature) != len(self._learned):
            self._is_new(BatchFault.STRUCTURE, "batch", f"{len(signature)} tensors", f"{len(self._learned)} tensors")
        elif rows is not None and self._rows is not None and 0 < rows < self._rows:
            self._is_new(BatchFault.SHORT, "batch", f"{rows} rows", f"{self._rows} rows")
        if rows == 0 and all(shape[:1] == (0,) for _, shape, _ in signature):
            name, shape, _ = signature[0]
            self._odd(BatchFault.EMPTY, name, str(list(shape)), str([self._rows, *shape[1:]]))
        for number, ((name, shape, dtype), (known_name, known, known_dtype)) in enumerate(
            zip(signature, self._learned, strict=False)
        ):
            for pattern, wanted in self.dtypes.items():
                if name.endswith(pattern) and dtype != wanted:
                    self._odd(BatchFault.DTYPE, name, dtype, wanted, declared=True)
            for pattern, sizes in self.shapes.items():
                if name.endswith(pattern) and not _fits(shape, sizes):
                    self._odd(BatchFault.SHAPE, name, _words(shape), _words(sizes), declared=True)
            if name != known_name:
                continue
            if dtype != known_dtype:
                self._odd(BatchFault.DTYPE, name, dtype, known_dtype)
            if len(shape) != len(known):
                self._is_new(BatchFault.SHAPE, name, str(list(shape)), str(list(known)))
            elif any(k is not None and s != k for s, k in zip(shape[1:], known[1:], strict=True)):
                self._is_new(BatchFault.SHAPE, name, str(list(shape)), str(list(known)))
                free = tuple(k if k == s else None for k, s in zip(known, shape, strict=True))
                self._learned[number] = (name, free, known_dtype)

    def _is_new(self, kind: str, part: str, seen: str, wanted: str) -> None:
        if self._new is None or self._new[1][0] == BatchFault.SHORT:
            self._new = (self._session.steps, (kind, part, seen, wanted))

    def _look_into(self, name: str, dtype: str, thing: Any, values: Values) -> None:
        seen = values(thing)
        if seen is None:
            return
        least, largest, finite = seen
        if self.finite and not finite and "float" in dtype:
            self._odd(BatchFault.NOT_FINITE, name, "NaN or infinite values", "finite values")
        for pattern, (low, high) in self.labels.items():
            if name.endswith(pattern) and not (low <= least and largest <= high):
                self._odd(BatchFault.LABEL, name, f"{least:g} to {largest:g}", f"{low:g} to {high:g}", declared=True)

    def _odd(
        self, kind: str, part: str, seen: str, wanted: str, *, declared: bool = False, quiet: bool = False
    ) -> None:
        if (kind, part) in self._told or len(self._told) >= MOST_TOLD:
            return
        self._told.add((kind, part))
        session = self._session
        before = "the contract asks for" if declared else "the batches before had"
        words = f"{part} has {seen} where {before} {wanted} ({kind})"
        fields = {
            "kind": kind,
            "part": part,
            "seen": seen,
            "wanted": wanted,
            "step": session.steps,
            "declared": declared,
        }
        session.note("BatchOdd", fields, f"batch after step {session.steps}: {words}")
        if quiet:
            return
        session.say(words)
        if session.strict:
            raise OutOfStep(f"{session.who.prefix}{words}", hint="KEEPSTEP=on only reports it")


def _fits(shape: tuple[int | None, ...], wanted: tuple[int | None, ...]) -> bool:
    """Whether no size differs where both are known."""
    return len(shape) == len(wanted) and all(s is None or w in (None, s) for s, w in zip(shape, wanted, strict=True))


def _words(shape: tuple[int | None, ...]) -> str:
    return f"[{', '.join('any' if size is None else str(size) for size in shape)}]"

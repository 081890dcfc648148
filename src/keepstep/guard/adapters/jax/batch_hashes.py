# SPDX-License-Identifier: Apache-2.0
"""What a few steps of JAX are fed: hashes of the host's arrays, kept until a step takes what was made of them.

A batch counts only if the step itself takes it, and only where its sharding gives every process rows of its own: with
a model axis over processes, or a batch that all of them hold, ranks share data by design. Nothing is read from a
device, and no array is kept.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.guard.batches.batch_hashes import BETWEEN, Fed, content_of
from keepstep.signals.same_batches import FIRST

if TYPE_CHECKING:
    from keepstep.guard.protocols import Feeds

AHEAD = 8
"""Batches may be made this many steps before they are taken."""
MOST_HASHED = 96
"""The most arrays that are hashed for the first steps, and for each later one."""
MOST_HELD = 64
MOST_SHARDINGS = 16
MOST_FUNCTIONS = 8
CALLBACK, PARTS = "make_array_from_callback", "make_array_from_single_device_arrays"


class Made:
    """By the identity of an array that may be part of a batch: its hash."""

    def __init__(self, session: Feeds, tree_leaves: Callable[[Any], list[Any]]) -> None:
        self._session, self._leaves = session, tree_leaves
        self._fed = Fed(session)
        self._next = BETWEEN
        self._taken = 0
        """How often the last function was run that may be the training's."""
        self._found: dict[str, dict[str, str]] = {}
        """What such functions took until it is known which one trains."""
        self._left = MOST_HASHED
        self._held: dict[int, tuple[Any, str, bool]] = {}
        """A weak reference, the hash, and whether every process has rows of its own."""
        self._rows: dict[Any, int] = {}
        import numpy  # JAX has imported it

        self._array = numpy.ndarray

    def is_open(self) -> bool:
        """Whether a step to come that is compared may take what is made now. Hot."""
        return (self._taken < FIRST or self._taken >= self._next - AHEAD) and self._left > 0

    def is_due(self, taken: int) -> bool:
        """Whether the ``taken``-th run of a function, which has just begun, is compared. Hot."""
        self._taken = taken
        return taken <= FIRST or taken >= self._next

    # --- where arrays are made

    def listening(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """The arguments of `make_array_from_callback`, with a callback that also hashes what the user's returns."""
        found = hashlib.blake2b(digest_size=8)
        call = args[2] if len(args) > 2 else kwargs.get("data_callback")
        if not callable(call):
            return args, kwargs, None
        heard = [0, 0]
        """How often it was called, and how often it returned something that can be hashed."""

        def data_callback(index: Any) -> Any:
            data = call(index)
            heard[0] += 1
            content = content_of(data) if isinstance(data, self._array) and data.ndim else None
            if content is not None:
                heard[1] += 1
                found.update(f"{data.shape} {data.dtype} ".encode() + content)
            return data

        digest = lambda: found.hexdigest() if heard[0] and heard[0] == heard[1] else None  # noqa: E731
        if len(args) > 2:
            return (*args[:2], data_callback, *args[3:]), kwargs, digest
        return args, {**kwargs, "data_callback": data_callback}, digest

    def made(self, data: Any, result: Any) -> None:
        """Arrays of the host, and what was made of them."""
        hosts, arrays = self._leaves(data), self._leaves(result)
        if len(hosts) != len(arrays):
            return
        for host, array in zip(hosts, arrays, strict=True):
            if self._left <= 0:
                return
            if not isinstance(host, self._array) or not host.ndim or not hasattr(array, "sharding"):
                continue
            rows = self._own_rows(array)
            whole = not getattr(array, "is_fully_addressable", True) and rows != len(host)
            if whole:  # all hold it, or JAX itself divides it
                continue
            self._left -= 1
            content = content_of(host)
            if content is not None:
                name = f"{host.shape} {host.dtype} ".encode()
                self._hold(array, hashlib.blake2b(name + content, digest_size=8).hexdigest(), rows > 0)

    def heard(self, digest: Any, result: Any) -> None:
        """An array that a callback filled."""
        found = digest()
        if found is not None and hasattr(result, "sharding") and self._own_rows(result):
            self._left -= 1
            self._hold(result, found, divided=True)

    def joined(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """An array that was put together from arrays of single devices."""
        arrays = args[2] if len(args) > 2 else kwargs.get("arrays")
        if not isinstance(arrays, list | tuple) or not arrays or not self._own_rows(result):
            return
        digests = [self._digest(each) for each in arrays]
        if None not in digests:
            self._hold(result, hashlib.blake2b(repr(digests).encode(), digest_size=8).hexdigest(), divided=True)

    def _hold(self, array: Any, digest: str, divided: bool) -> None:
        identity, held = id(array), self._held
        if len(held) >= MOST_HELD:
            held.pop(next(iter(held)), None)
        held[identity] = (weakref.ref(array, lambda _: held.pop(identity, None)), digest, divided)

    def _digest(self, array: Any) -> str | None:
        entry = self._held.get(id(array))
        return entry[1] if entry is not None and entry[0]() is array else None

    def _own_rows(self, array: Any) -> int:
        """The rows of this process, where every process of the sharding has others; 0: it is not so."""
        sharding, shape = array.sharding, tuple(array.shape)
        if not shape or getattr(array, "is_fully_addressable", True):
            return 0
        key = (sharding, shape)
        if key not in self._rows:
            if len(self._rows) >= MOST_SHARDINGS:
                self._rows.clear()
            self._rows[key] = own_rows(sharding, shape)
        return self._rows[key]

    # --- where a step takes them

    def took(self, function: str, is_step: bool, arguments: Any) -> None:
        """A function that may be the training's was handed to the device with these arguments."""
        taken, found = self._taken, []
        for each in self._leaves(arguments):
            entry = self._held.get(id(each))
            if entry is not None and entry[2] and entry[0]() is each:
                found.append(entry[1])
        known = self._found.setdefault(function, {}) if len(self._found) < MOST_FUNCTIONS else {}
        if found and (taken <= FIRST or taken == self._next):
            digest = hashlib.blake2b(" ".join(sorted(found)).encode(), digest_size=8).hexdigest()
            known[f"batch {taken}" if taken <= FIRST else f"step {taken}"] = digest
        if is_step:
            for name, digest in known.items():
                self._fed.add(name, digest)
            known.clear()
        self._left = MOST_HASHED
        while self._next <= taken:
            self._next *= 2


def own_rows(sharding: Any, shape: tuple[int, ...]) -> int:
    """The rows of this process under a sharding that gives no row to two processes; 0 if it is another one."""
    by_process: dict[int, set[tuple[int, int]]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        start, stop, _ = index[0].indices(shape[0])
        by_process.setdefault(device.process_index, set()).add((start, stop))
    if len(by_process) < 2:
        return 0
    spans = set().union(*by_process.values())
    apart = sum(map(len, by_process.values())) == len(spans) and sum(stop - start for start, stop in spans) <= shape[0]
    if not apart:
        return 0
    process = next(iter(sharding.addressable_devices)).process_index
    return sum(stop - start for start, stop in by_process[process])

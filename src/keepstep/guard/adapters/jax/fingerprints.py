# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of arrays that a step returns and that several devices hold in full: by their sharding, they are equal.

The devices of this process are compared with each other, and with those of other processes. What `pmap` stacks along an
axis, one row for each device, says nothing of the kind: such an array counts once its rows have been equal at several
looks and have changed in between, as those of weights do, and only within this process.

The sums are a small program that the guard's thread compiles, once for each model; a look hands it to the device and
waits for nothing.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from keepstep.guard.agree.fingerprints import MOST, MOST_TENSORS, PART, SEVERAL, Interval, Look

if TYPE_CHECKING:
    from keepstep.guard.adapters.jax.lockstep import Lockstep
    from keepstep.guard.protocols import Adapts

NAME = "keepstep_sums"
"""Of our program: it is no step of the training."""
RATE = {"cpu": 1e9}
FAST = 1e12
"""Bytes per second, roughly: how long a device works on it is not known without waiting for it."""
TURN_S = 0.5
FIRST = 1 << 16
"""Values of an array of which it is counted how many are not finite: an exchange that spreads one spreads it to all."""
STEADY = 3
"""Looks at which the rows of a stacked array were equal, and different from the look before: they are replicas."""
LEAST_SIZE = 16
"""Numbers in a row of a stacked array: fewer may be equal by chance."""
Kind = tuple[tuple[tuple[int, ...], str], ...]


class Held:
    """The arrays of one look: each with its name, the processes that hold it, and its place on each own device."""

    def __init__(self) -> None:
        self.on: dict[Any, list[Any]] = {}
        self.arrays: list[tuple[str, tuple[int, ...], list[tuple[Any, int]]]] = []
        self.stacked: list[tuple[str, list[tuple[Any, int]]]] = []

    def add(self, name: str, processes: tuple[int, ...], shards: Sequence[Any]) -> None:
        self.arrays.append((name, processes, self._places(shards)))

    def stack(self, name: str, shards: Sequence[Any]) -> None:
        self.stacked.append((name, self._places(shards)))

    def _places(self, shards: Sequence[Any]) -> list[tuple[Any, int]]:
        places = []
        for shard in shards:
            there = self.on.setdefault(shard.device, [])
            places.append((shard.device, len(there)))
            there.append(shard.data)
        return places


class Replicas:
    """Of the step's results. ``next``: the execution of the step after which they are looked at."""

    def __init__(self, session: Adapts, module: Any, lockstep: Lockstep) -> None:
        self._session, self._jax, self._lockstep = session, module, lockstep
        self._interval = Interval(session.fingerprints.asked)
        self.next = inf if session.fingerprints.off else self._interval.next
        self._programs: dict[tuple[Any, Kind], Any] = {}
        self._wanted: deque[tuple[Any, Kind]] = deque()
        self._waiting: deque[tuple[int, Held, dict[Any, Any]]] = deque(maxlen=8)
        self._alike: dict[str, tuple[int, Any]] = {}
        """Stacked arrays: at how many looks their rows were equal and new, and their sums at the last one."""
        self._apart: set[str] = set()
        """Stacked arrays whose rows differ by design."""
        look = session.guarded(PART, self._look)

        def and_then(number: int, outputs: Any) -> float:
            look(number, outputs)
            return inf if session.is_off(PART) else self.next

        self.look = and_then
        session.pulse.every(TURN_S, PART, self._turn)

    # --- by the training's thread

    def _look(self, number: int, outputs: Any) -> None:
        """After the step's ``number``-th execution."""
        began = time.perf_counter()
        held = self._held(outputs)
        kinds = {device: tuple((each.shape, str(each.dtype)) for each in arrays) for device, arrays in held.on.items()}
        missing = [each for each in kinds.items() if each not in self._programs]
        if not (held.arrays or held.stacked) or missing:
            self._wanted.extend(each for each in missing if each not in self._wanted)
            self._interval.skip(number)
            self.next = self._interval.next
            return
        size_s = sum(each.nbytes / RATE.get(device.platform, FAST) for device, all_ in held.on.items() for each in all_)
        if self._interval.affords(number, size_s):
            sums = {device: self._programs[device, kinds[device]](arrays) for device, arrays in held.on.items()}
            held.on.clear()  # the next step may take their memory
            self._add(number, held, sums)
            self._interval.looked(number, max(size_s, time.perf_counter() - began))
        self.next = self._interval.next

    def _add(self, number: int, held: Held, sums: dict[Any, Any]) -> None:
        session = self._session
        self._waiting.append((session.steps, held, sums))
        for processes in dict.fromkeys(each[1] for each in held.arrays if len(each[1]) > 1):
            own = [(name, places[0]) for name, among, places in held.arrays if among == processes]
            look = Look(
                subject=f"jax-{'-'.join(map(str, processes[:8]))}-{len(processes)}",
                ranks=processes,
                number=number,
                step=session.steps,
                exchanged=self._lockstep.executed,
                names=tuple(name for name, _ in own),
                read=functools.partial(_read, sums, [place for _, place in own]),
            )
            session.fingerprints.add(look)

    def _held(self, outputs: Any) -> Held:
        held = Held()
        for path, leaf in self._jax.tree_util.tree_flatten_with_path(outputs)[0]:
            if len(held.arrays) >= MOST_TENSORS:
                break
            if not getattr(leaf, "shape", ()) or not _is_plain(leaf) or len(leaf.sharding.device_set) < 2:
                continue
            name = self._jax.tree_util.keystr(path) or "the result"
            if name not in self._apart and _is_stacked(leaf):
                held.stack(name, sorted(leaf.addressable_shards, key=lambda each: each.device.id))
                continue
            holders: dict[str, list[Any]] = {}
            for device, index in leaf.sharding.devices_indices_map(leaf.shape).items():
                holders.setdefault(_part(index), []).append(device)
            own: dict[str, list[Any]] = {}
            for shard in leaf.addressable_shards:
                own.setdefault(_part(shard.index), []).append(shard)
            for index, shards in own.items():
                if len(holders.get(index, ())) > 1:
                    part = "" if len(holders) == 1 else f"[{index}]"
                    processes = tuple(sorted({device.process_index for device in holders[index]}))
                    held.add(f"{name}{part}", processes, shards)
        return held

    # --- by the guard's thread

    def _turn(self) -> None:
        while self._wanted:
            device, kind = self._wanted[0]
            self._programs[device, kind] = self._compiled(device, kind)
            self._wanted.popleft()
        while self._waiting and all(each.is_ready() for each in self._waiting[0][2].values()):
            step, held, sums = self._waiting.popleft()
            several = [(name, places) for name, _, places in held.arrays if len(places) > 1]
            for devices in dict.fromkeys(tuple(device for device, _ in places) for _, places in several):
                here = [(name, places) for name, places in several if tuple(each for each, _ in places) == devices]
                replicas = {
                    f"{device.platform}:{device.id}": _read(sums, [places[number] for _, places in here]) or ()
                    for number, device in enumerate(devices)
                }
                subject = f"jax {'-'.join(str(each.id) for each in devices)}"
                self._session.fingerprints.add_inside(subject, step, [name for name, _ in here], replicas)
            self._look_at_stacked(step, held, sums)

    def _look_at_stacked(self, step: int, held: Held, sums: dict[Any, Any]) -> None:
        rows = {name: _read(sums, places) or [] for name, places in held.stacked}
        for name, own in rows.items():
            often, before = self._alike.get(name, (0, None))
            if all(each == own[0] for each in own):
                self._alike[name] = (often + (own[0] != before), own[0])
            elif often < STEADY:
                self._apart.add(name)
        known = [name for name, _ in held.stacked if name not in self._apart and self._alike[name][0] >= STEADY]
        odd = [name for name in known if any(each != rows[name][0] for each in rows[name])]
        if len(odd) >= max(SEVERAL, MOST * len(known)) or len(odd) == len(known) > 1:
            self._apart |= set(odd)
            self._session.uncovered("arrays that pmap stacks", "most differ at once, so each device trains by itself")
        elif known:
            devices = [device for device, _ in held.stacked[0][1]]
            replicas = {
                f"{device.platform}:{device.id}": [rows[name][row] for name in known]
                for row, device in enumerate(devices)
            }
            self._session.fingerprints.add_inside("jax, stacked", step, known, replicas, promised=True)

    def _compiled(self, device: Any, kind: Kind) -> Any:
        jax, numpy, lax = self._jax, self._jax.numpy, self._jax.lax

        def keepstep_sums(arrays: Any) -> Any:
            return numpy.stack([each for array in arrays for each in three(array)])

        def three(array: Any) -> tuple[Any, Any, Any]:
            size = array.dtype.itemsize
            floats = numpy.issubdtype(array.dtype, numpy.floating)
            first = array.reshape(-1)[:FIRST]
            lost = (~numpy.isfinite(first)).sum(dtype=numpy.uint32) if floats else numpy.uint32(0)
            if array.dtype == bool:
                array = array.astype(numpy.uint8)
            kept = {1: numpy.uint8, 2: numpy.uint16}.get(size, numpy.uint32)
            words = lax.bitcast_convert_type(array, kept).reshape(-1).astype(numpy.uint32)
            places = 2 * lax.iota(numpy.uint32, words.size) + 1
            return words.sum(dtype=numpy.uint32), (words * places).sum(dtype=numpy.uint32), lost

        where = jax.sharding.SingleDeviceSharding(device)
        shapes = [jax.ShapeDtypeStruct(shape, dtype, sharding=where) for shape, dtype in kind]
        return jax.jit(keepstep_sums).lower(shapes).compile()


def _is_plain(leaf: Any) -> bool:
    """Whether its bits can be read: no random key, no complex number, nothing smaller than a byte."""
    kind: Any = getattr(leaf, "dtype", None)
    plain = getattr(kind, "kind", None) in ("f", "i", "u", "b", "V") and kind.itemsize in (1, 2, 4, 8)
    return plain and "int4" not in str(kind) and "int2" not in str(kind) and hasattr(leaf, "sharding")


def _is_stacked(leaf: Any) -> bool:
    """Whether each of this process's devices holds a row of its own, as `pmap` returns it."""
    shards = leaf.addressable_shards
    return (
        len(shards) > 1
        and leaf.dtype.kind in ("f", "V")
        and leaf.shape[0] == len(leaf.sharding.device_set)
        and all(each.data.shape == (1, *leaf.shape[1:]) for each in shards)
        and shards[0].data.size >= LEAST_SIZE
        and len({_part(each.index) for each in shards}) == len(shards)
    )


def _part(index: Sequence[slice]) -> str:
    """``0:1024, :``."""
    ends = (("" if each.start is None else each.start, "" if each.stop is None else each.stop) for each in index)
    return ", ".join(f"{start}:{stop}" for start, stop in ends)


def _read(sums: dict[Any, Any], places: Sequence[tuple[Any, int]]) -> list[list[int]] | None:
    """The three sums of each array; None while a device works."""
    if not all(each.is_ready() for each in sums.values()):
        return None
    values = {device: each.tolist() for device, each in sums.items()}
    return [values[device][3 * place : 3 * place + 3] for device, place in places]

# SPDX-License-Identifier: Apache-2.0
"""What a JAX training is fed: functions that make global arrays from a process's rows, and the host's time per batch.

Shapes are looked at when a program is about to run for the first time: another shape is another program, so nothing
is missed. Values are looked at now and then, and only in arrays on the host.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.jax.batch_hashes import CALLBACK, PARTS, Made
from keepstep.guard.import_hook import after_import
from keepstep.signals.blackbox import BoxPhase
from keepstep.signals.contracts import Subject

if TYPE_CHECKING:
    from keepstep.guard.adapters.jax.executions import Runs
    from keepstep.guard.adapters.jax.program_contracts import JaxProgram, JaxPrograms
    from keepstep.guard.protocols import Adapts

PART, HASHES = "JAX's input", "hashes of JAX's batches"
_INPUT, _COMPUTE = int(BoxPhase.INPUT), int(BoxPhase.COMPUTE)
MAKERS = (
    "make_array_from_process_local_data",
    "make_array_from_callback",
    "make_array_from_single_device_arrays",
    "device_put",
)
_now = time.monotonic_ns
MOST_LEAVES = 64
GLANCE_EVERY = 500
"""The same for whether a batch is finite..."""
SMALL_BYTES = 16 << 10
"""...unless it is so small that a look takes microseconds: then every time."""
LOOK_EVERY = 1000
"""The pause between two looks, as a multiple of what the last one took."""
Takes = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Where the data are among the arguments of a function."""


class _BatchPart:
    """A part of a batch: what it is on this process, and its values if they are on the host."""

    __slots__ = ("data", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: str, data: Any = None) -> None:
        self.shape, self.dtype, self.data = shape, dtype, data


class Feed:
    """The batches of this process.

    Between a step that was handed over and the arrays of the next batch the host is busy with its input, or waits for
    results; reading a value that is not there yet tells the two apart.
    """

    def __init__(self, session: Adapts, tree_leaves: Callable[[Any], list[Any]], traced: Any = ()) -> None:
        self._session, self._leaves, self._traced = session, tree_leaves, traced
        self.made = Made(session, tree_leaves)
        self._wanted: list[tuple[str, _BatchPart]] = []
        """The batch as the step takes it: names, local shapes and dtypes."""
        self._compared = False
        self._told_finite = False
        self._glance_due = 0
        import numpy  # JAX has imported it

        self._array, self._isfinite = numpy.ndarray, numpy.isfinite
        self._made = threading.local()
        self._due = 0
        self._thread = 0
        """The one that takes the steps: others prepare batches ahead and set no phase."""
        self._fed = False
        """A batch was made since the last step."""
        self._cycles = 0
        """Steps in a row that had a batch made for them."""
        self._awaited = False
        """A step was taken, and the next one's batch is not there yet."""

    # --- around the functions that make arrays

    def around(self, make: Callable[..., Any], takes: Takes) -> Callable[..., Any]:
        session, came, thread = self._session, self._session.guarded(PART, self._came), threading.get_ident
        make = self._hashed(make, takes)

        @functools.wraps(make)
        def make_and_look(*args: Any, **kwargs: Any) -> Any:
            if session.is_off(PART):
                return make(*args, **kwargs)
            if self._thread and thread() != self._thread:
                came(takes, args, kwargs)
                return make(*args, **kwargs)
            began = _now()
            before = session.phase(_INPUT)
            try:
                came(takes, args, kwargs)
                if not session.lean:
                    session.spent_ns += _now() - began
                return make(*args, **kwargs)
            finally:
                began = _now()
                session.phase(_COMPUTE if self._awaited else before)
                self._fed, self._awaited = True, False
                if not session.lean:
                    session.spent_ns += _now() - began

        return make_and_look

    def _hashed(self, make: Callable[..., Any], takes: Takes) -> Callable[..., Any]:
        """``make``, whose data is hashed for the few steps that are compared with those of the other processes."""
        session, hashes, name = self._session, self.made, getattr(make, "__name__", "")
        listening = session.guarded(HASHES, hashes.listening)
        made, heard, joined = (session.guarded(HASHES, each) for each in (hashes.made, hashes.heard, hashes.joined))

        @functools.wraps(make)
        def make_and_hash(*args: Any, **kwargs: Any) -> Any:
            if not hashes.is_open():
                return make(*args, **kwargs)
            if name == CALLBACK:
                args, kwargs, digest = listening(args, kwargs) or (args, kwargs, None)
                result = make(*args, **kwargs)
                if digest is not None:
                    heard(digest, result)
                return result
            result = make(*args, **kwargs)
            if name == PARTS:
                joined(args, kwargs, result)
            else:
                made(takes(args, kwargs), result)
            return result

        return make_and_hash

    def _came(self, takes: Takes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Parts of a batch come one by one or together. Hot."""
        wanted = self._wanted
        if not wanted or self._session.by_hand:
            return
        try:
            made: list[Any] = self._made.parts
        except AttributeError:  # this thread's first
            made = self._made.parts = []
        data = takes(args, kwargs)
        for leaf in (data,) if hasattr(data, "dtype") else _leaves(data, self._leaves):
            known = wanted[len(made)][1]
            if isinstance(leaf, self._traced):  # in a program, which must not keep it
                made.clear()
            elif leaf.shape == known.shape or _alike(leaf, known):
                made.append(leaf)
                if len(made) == len(wanted):
                    if time.monotonic_ns() >= self._due:
                        self._complete(made)
                    else:
                        self._glance(made)
                    made.clear()
            else:
                made.clear()

    def _complete(self, batch: list[Any]) -> None:
        """All parts of a batch are there; looked into as often as its share of the time allows."""
        began = time.monotonic_ns()
        parts = {}
        for leaf, (name, known) in zip(batch, self._wanted, strict=True):
            parts[name] = _BatchPart(tuple(leaf.shape), _as_taken(str(leaf.dtype), known.dtype), leaf)
        self._session.see_batch(parts)
        self._due = began + (time.monotonic_ns() - began) * LOOK_EVERY

    def _glance(self, batch: list[Any]) -> None:
        """Whether a batch is finite: always if it is small, else as often as its share of the time allows. Hot."""
        began = time.monotonic_ns()
        if self._told_finite or (
            began < self._glance_due and sum(leaf.nbytes for leaf in batch if type(leaf) is self._array) > SMALL_BYTES
        ):
            return
        for leaf, (name, _) in zip(batch, self._wanted, strict=True):
            if type(leaf) is self._array and leaf.dtype.kind == "f" and not self._isfinite(leaf).all():
                self._told_finite = True
                self._session.batches.not_finite(f"batch[{name!r}]")
        self._glance_due = began + (time.monotonic_ns() - began) * GLANCE_EVERY

    def stepped(self) -> None:
        """A step was handed to the device. Hot."""
        if self._fed:
            self._fed = False
            self._cycles += 1
            if self._cycles > 1 and not self._session.by_hand:
                self._awaited = True
                self._session.phase(_INPUT)
        elif self._cycles:
            self._cycles = 0
            if self._awaited:
                self._awaited = False
                self._session.phase(_COMPUTE)
        if not self._thread:
            self._thread = threading.get_ident()

    def evaluating(self) -> None:
        """What comes before the next step is not training."""
        self._awaited = False

    def around_fetch(self, fetch: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A value is read: the host waits for the devices, not for its input."""
        session, thread = self._session, threading.get_ident
        computed = session.guarded(PART, lambda array: array.is_deleted() or array.is_ready())

        @functools.wraps(fetch)
        def fetch_and_tell(array: Any) -> Any:
            if not self._awaited or thread() != self._thread or computed(array) is not False:
                return fetch(array)
            session.phase(_COMPUTE)
            try:
                return fetch(array)
            finally:
                session.phase(_INPUT)

        return fetch_and_tell

    # --- before a step runs with shapes that are new

    def before_step(self, program: JaxProgram, args: tuple[Any, ...]) -> None:
        """The batch of a step: all that goes in and is not carried on."""
        carried = program.module.carried
        given = [args[number] for number in program.kept if number < len(args)]
        if not len(given) == len(carried) == len(program.arguments):
            return
        parts: list[tuple[str, _BatchPart]] = []
        for number, value in enumerate(given):
            sizes: Any = getattr(value, "shape", None)
            if not carried[number] and sizes and hasattr(value, "dtype") and len(parts) < MOST_LEAVES:
                shape = _local_shape(value, program.shardings[number])
                parts.append((program.arguments[number][0], _BatchPart(shape, str(value.dtype))))
        self._wanted = parts
        if parts and not self._session.by_hand:
            self._session.see_batch(dict(parts))
            if program.everywhere and not self._compared:
                self._compared = True
                self._session.compare(Subject.BATCH, self._stated(parts, program))

    def _stated(self, parts: list[tuple[str, _BatchPart]], program: JaxProgram) -> dict[str, str]:
        """Rows per device: processes may have different numbers of devices."""
        own = sum(1 for device in program.devices if device.process_index == self._session.who.rank) or 1
        stated = {name: f"{part.dtype}{list(part.shape[1:])}" for name, part in parts}
        return stated | {"rows": f"{parts[0][1].shape[0] / own:g} a device"}


def watch(session: Adapts, module: Any, programs: JaxPrograms, runs: Runs) -> None:
    """Hook the functions that make arrays out of the host's data."""
    feed = Feed(session, module.tree_util.tree_leaves, getattr(module.core, "Tracer", ()))
    session.values = _values
    programs.before_step = feed.before_step
    runs.after_step, runs.before_evaluation = feed.stepped, feed.evaluating
    runs.made, runs.took = feed.made, session.guarded(HASHES, feed.made.took)
    for name in MAKERS:
        make = getattr(module, name, None)
        if make is None:
            session.uncovered(f"jax.{name}", "this version has none")
        else:
            setattr(module, name, feed.around(make, _TAKES.get(name, _second)))
    after_import({"jax.experimental.multihost_utils": lambda utils: _watch_multihost(session, feed, utils)})
    from jax._src import array as arrays

    array: Any = arrays
    fetch = array.ArrayImpl.__dict__.get("_value")
    if isinstance(fetch, property) and fetch.fget is not None:
        array.ArrayImpl._value = property(feed.around_fetch(fetch.fget), doc=fetch.__doc__)
    else:
        session.uncovered("waits for JAX's results", "this version reads values elsewhere")


def _watch_multihost(session: Adapts, feed: Feed, utils: Any) -> None:
    with session.part(PART):
        name = "host_local_array_to_global_array"
        setattr(utils, name, feed.around(getattr(utils, name), _first))


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else kwargs.get("local_inputs", kwargs.get("x"))


def _second(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[1] if len(args) > 1 else kwargs.get("local_data")


def _nothing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return None


_TAKES = {"device_put": _first, "make_array_from_callback": _nothing, "make_array_from_single_device_arrays": _nothing}


def _leaves(tree: Any, tree_leaves: Callable[[Any], list[Any]]) -> list[Any]:
    if tree is None:
        return []
    return [leaf for leaf in tree_leaves(tree)[:MOST_LEAVES] if hasattr(leaf, "dtype")]


def _as_taken(dtype: str, known: str) -> str:
    """JAX itself turns 64-bit values on the host into 32-bit values on the device, unless configured otherwise."""
    return known if dtype.replace("64", "32").replace("complex128", "complex64") == known else dtype


def _alike(leaf: Any, part: _BatchPart) -> bool:
    """Whether an array may be this part of a batch: same shape but for the rows. Another dtype is reported."""
    shape = getattr(leaf, "shape", None)
    return shape == part.shape or (
        shape is not None and len(shape) == len(part.shape) and tuple(shape[1:]) == part.shape[1:]
    )


def _local_shape(value: Any, sharding: Any) -> tuple[int, ...]:
    """The shape of this process's share of a global array that is split by rows."""
    shape = tuple(value.shape)
    if getattr(value, "is_fully_addressable", True) or getattr(value, "is_fully_replicated", True):
        return shape
    shards = {shard.index[0].start or 0: shard.data.shape[0] for shard in value.addressable_shards}
    return (sum(shards.values()), *shape[1:])


def _values(thing: Any) -> tuple[float, float, bool] | None:
    """Least, largest, all finite; only of numpy's arrays of plain numbers."""
    numpy, thing = sys.modules.get("numpy"), getattr(thing, "data", None) if isinstance(thing, _BatchPart) else thing
    if numpy is None or type(thing) is not numpy.ndarray or thing.size == 0 or thing.dtype.kind not in "fiub":
        return None
    finite = thing.dtype.kind != "f" or bool(numpy.isfinite(thing).all())
    return float(thing.min()), float(thing.max()), finite

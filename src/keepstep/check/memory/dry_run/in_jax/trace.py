# SPDX-License-Identifier: Apache-2.0
"""Takes every operation of the script instead of the device: counts, and gives arrays without content."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import jax
from jax._src import core

from keepstep.check.memory.dry_run.in_jax.arrays import DryArray
from keepstep.check.memory.dry_run.in_jax.programs import Program, Programs, bytes_of, is_cheap
from keepstep.check.memory.dry_run.storage_log import StorageLog

SMALL = 1 << 20
"""What is made of real values only, and is no larger, is computed for real: keys, counters, masks."""
SAME_FOR = 20_000
"""Operations without a new peak after which nothing new is expected, where no program shows what a step is."""
JIT = ("jit", "pjit")
PLACES = ("device_put", "stage", "copy", "copy_p")


class DryTrace(core.Trace):
    """The current trace of the whole script."""

    __slots__ = ("enough", "gone", "largest", "log", "peak", "programs", "since", "steps")

    def __init__(self, log: StorageLog, programs: Programs, enough: Callable[[str], None]) -> None:
        super().__init__()
        self.log = log
        self.programs = programs
        self.enough = enough
        self.gone: set[int] = set()
        self.steps = self.largest = 0
        self.peak = self.since = 0

    def made(self, aval: Any, sharding: Any) -> Any:
        """An array that the script places."""
        return self._born([aval], [sharding], 0, True)[0]

    def stage_value(self, val: Any) -> Any:
        return val if isinstance(val, jax.Array) else self._placed((val,), {})[0]

    def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
        args = list(args)
        if primitive.name in PLACES:
            made = self._placed(args, params)
        elif primitive.name in JIT:
            made = self._jit(primitive, args, params)
        elif any(hasattr(each, "jaxpr") or hasattr(each, "eqns") for each in params.values()) or _are_spread(args):
            made = self._call(primitive.name, lambda *given: primitive.bind(*given, **params), args, repr(params))
        else:
            made = self._eager(primitive, args, params)
        return made if primitive.multiple_results else made[0]

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, **_: Any) -> Any:
        with core.set_current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **_: Any) -> Any:
        with core.set_current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_shard_map(self, primitive: Any, fun: Any, args: Any, /, **params: Any) -> Any:
        return self._call("shard_map", lambda *given: primitive.bind(fun, *given, **params), list(args), id(fun))

    def _eager(self, primitive: Any, args: list[Any], params: dict[str, Any]) -> list[Any]:
        made, _ = primitive.abstract_eval(*(core.typeof(each) for each in args), **params)
        avals = list(made) if primitive.multiple_results else [made]
        if not _are_dry(args) and sum(map(bytes_of, avals)) <= SMALL:
            return self._real(primitive, args, params)
        here = next((each.sharding for each in args if isinstance(each, DryArray)), None)
        return self._born(avals, [here or _here()] * len(avals), _ancestors(args))

    def _placed(self, args: Any, params: dict[str, Any]) -> list[Any]:
        where = params.get("devices") or [None] * len(args)
        made = []
        for each, wanted in zip(args, where, strict=True):
            sharding = _sharding(wanted)
            if sharding is None:
                sharding = each.sharding if isinstance(each, jax.Array) else _here()
            placed = wanted is not None or getattr(each, "committed", False)
            made += self._born([core.typeof(each)], [sharding], _ancestors([each]), placed, "input")
        return made

    def _jit(self, primitive: Any, args: list[Any], params: dict[str, Any]) -> list[Any]:
        closed = params["jaxpr"]
        dry = _are_dry(args) or _are_dry(closed.consts)
        results = sum(bytes_of(each) for each in closed.out_avals)
        if not dry and results <= SMALL and is_cheap(closed.jaxpr, SMALL):
            return self._real(primitive, args, params)
        count = len(closed.consts)
        args = [*closed.consts, *args]
        options = _options(params, count)

        def function(*given: Any) -> Any:
            return core.eval_jaxpr(closed.jaxpr, given[:count], *given[count:])

        key = (id(closed.jaxpr), repr(options))
        program = self.programs.find(key, str(params.get("name")), function, args, options)
        return self._run(program, args, options.get("donate_argnums", ()))

    def _call(self, name: str, function: Any, args: list[Any], key: Any) -> list[Any]:
        return self._run(self.programs.find((name, key), name, function, args, {}), args, ())

    def _run(self, program: Program, args: list[Any], donated: Any) -> list[Any]:
        fed = sum(self._held(each) for each in args if _ancestors([each]) >> program.number & 1)
        given = sum(self._held(each) for each in args if _ancestors([each]))
        moved = program.plan.arguments - sum(self._held(each) for each in args if isinstance(each, DryArray))
        numbers = [
            self.log.born(max(0, moved), "input"),
            self.log.born(program.plan.extra, f"program {program.number}"),
        ]
        self.log.scratch = max(self.log.scratch, program.plan.scratch)
        for number in numbers:
            self.log.died(number)
        for index in donated:
            self._forget(args[index])
        placed = any(isinstance(each, jax.Array) and each.committed for each in args)
        placed |= any(len(each.device_set) > 1 for each in program.shardings)
        made = self._born(program.avals, program.shardings, _ancestors(args) | 1 << program.number, placed)
        self.largest = max(self.largest, program.needs)
        if fed * 2 >= given and fed and program.needs >= self.largest:
            self.steps = 2
            self.enough("steps")
        return made

    def _real(self, primitive: Any, args: list[Any], params: dict[str, Any]) -> list[Any]:
        made = core.eval_trace.process_primitive(primitive, args, params)
        return list(made) if primitive.multiple_results else [made]

    def _born(
        self, avals: Any, shardings: list[Any], ancestors: int, placed: bool = False, kind: str = "array"
    ) -> list[Any]:
        found = []
        for aval, sharding in zip(avals, shardings, strict=True):
            number = self.log.born(self._local(aval, sharding), kind)
            made = DryArray(self, aval, sharding, number, ancestors, placed)
            weakref.finalize(made, self._dead, number).atexit = False
            found.append(made)
        self._is_same()
        return found

    def _is_same(self) -> None:
        self.since += 1
        if self.log.live > self.peak:
            self.peak, self.since = self.log.live, 0
        elif self.since > SAME_FOR:
            self.enough("same")

    def _local(self, aval: Any, sharding: Any) -> int:
        """What one device holds of it; nothing of what is kept in the host's memory."""
        if "host" in str(getattr(sharding, "memory_kind", "") or ""):
            return 0
        shape = sharding.shard_shape(aval.shape) if getattr(aval, "shape", ()) else ()
        return bytes_of(core.ShapedArray(shape, aval.dtype)) if bytes_of(aval) else 0

    def _held(self, value: Any) -> int:
        if isinstance(value, DryArray):
            return self.log.sizes[value.number] if value.number >= 0 else 0
        return bytes_of(core.typeof(value))

    def _forget(self, value: Any) -> None:
        if isinstance(value, DryArray):
            self._dead(value.number)
            value.number = -1

    def _dead(self, number: int) -> None:
        if number >= 0 and number not in self.gone:
            self.gone.add(number)
            self.log.died(number)


def _are_dry(values: Any) -> bool:
    return any(isinstance(each, DryArray) for each in values)


def _are_spread(values: Any) -> bool:
    return any(isinstance(each, DryArray) and len(each.sharding.device_set) > 1 for each in values)


def _ancestors(values: Any) -> int:
    found = 0
    for each in values:
        if isinstance(each, DryArray):
            found |= each.ancestors
    return found


def _here() -> Any:
    return jax.sharding.SingleDeviceSharding(jax.devices()[0])


def _sharding(wanted: Any) -> Any:
    if wanted is None or isinstance(wanted, jax.sharding.Sharding):
        return wanted
    return jax.sharding.SingleDeviceSharding(wanted) if hasattr(wanted, "device_kind") else None


def _options(params: dict[str, Any], before: int) -> dict[str, Any]:
    """For the public `jax.jit`, with so many arguments ``before`` the program's own."""
    options: dict[str, Any] = {"keep_unused": True}
    donated = tuple(before + n for n, each in enumerate(params.get("donated_invars", ())) if each)
    if donated:
        options["donate_argnums"] = donated
    for kind in ("in_shardings", "out_shardings"):
        given = [each if isinstance(each, jax.sharding.Sharding) else None for each in params.get(kind, ())]
        if any(each is not None for each in given):
            options[kind] = [*[None] * before, *given] if kind == "in_shardings" else given
    if "in_shardings" in options:
        options["in_shardings"] = tuple(options["in_shardings"])
    return options

# SPDX-License-Identifier: Apache-2.0
"""What each jitted program of the script needs: lowered for the named kind of device, and for the real mesh."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import jax
from jax._src import core

from keepstep.check.memory.dry_run.in_jax import tpu
from keepstep.check.memory.hlo_plan import Plan, plan
from keepstep.check.memory.hlo_text import parse_hlo

LOOPS = ("while", "scan")
SHARE, MOST = 0.5, 4
"""Compiled for a TPU are the programs that by their plan need so much of the largest one's, and no more of them."""
FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@dataclass
class Program:
    """``number``: in the order of first use, the same for all ways of sharding."""

    number: int
    name: str
    plan: Plan
    shardings: list[Any]
    avals: list[Any]
    traced: Any
    devices: int

    @property
    def needs(self) -> int:
        return self.plan.arguments + self.plan.extra


class Programs:
    """Every program is planned once for each way in which its arguments are sharded."""

    def __init__(self, scratch: str, guessed: Callable[[str], None]) -> None:
        self._dump = os.path.join(scratch, "xla")
        self._known: dict[Any, Program] = {}
        self._numbers: dict[Any, int] = {}
        self._alive: list[Any] = []
        self._guessed = guessed
        self.platform = "cuda"
        self.chip = ""
        """The kind of TPU, where it is one."""

    def as_json(self) -> dict[str, Any]:
        """What each program needs, by its number; where its arguments were sharded in several ways, the most."""
        found = sorted(self._known.values(), key=lambda each: each.needs)
        return {str(each.number): {"name": each.name, **asdict(each.plan)} for each in found}

    def compiled(self) -> dict[str, int]:
        """What the programs that need most hold besides their arguments, as the compiler for TPUs says."""
        known = sorted(self._known.values(), key=lambda each: -each.needs)
        large = [each for each in known if each.needs > SHARE * known[0].needs][:MOST]
        return {
            str(each.number): tpu.needs(self.chip, each.traced, each.devices) - each.plan.arguments
            for each in reversed(large)
        }

    def find(self, key: Any, name: str, function: Any, args: list[Any], options: dict[str, Any]) -> Program:
        """``key`` is the same for the same program; what it names by identity is kept alive."""
        shapes = [_described(each) for each in args]
        full = (key, *(str(each) for each in shapes))
        if full not in self._known:
            self._alive.append(function)
            number = self._numbers.setdefault(key, len(self._numbers))
            self._known[full] = self._plan(number, name, function, shapes, options)
        return self._known[full]

    def _plan(self, number: int, name: str, function: Any, shapes: list[Any], options: dict[str, Any]) -> Program:
        traced = jax.jit(function, **options).trace(*shapes)
        out = jax.tree.leaves(traced.out_info)
        avals = [core.ShapedArray(each.shape, each.dtype) for each in out]
        several = any(len(each.sharding.device_set) > 1 for each in shapes if each.sharding is not None)
        several |= any(_is_spread(each) for kind in ("in_shardings", "out_shardings") for each in options.get(kind, ()))
        several |= "shard_map" in str(traced.jaxpr)[:200_000]
        if several:
            text, shardings = self._partitioned(traced)
        else:
            text = self._lowered(traced)
            here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
            shardings = [here] * len(out)
        devices = len(jax.devices()) if several else 1
        return Program(number, name, plan(parse_hlo(text)), shardings, avals, traced, devices)

    def _lowered(self, traced: Any) -> str:
        """As the GPU's compiler would get it; where that cannot be made here, as the CPU's would."""
        try:
            return str(traced.lower(lowering_platforms=(self.platform,)).compiler_ir("hlo").as_hlo_text())
        except Exception:
            return str(traced.lower().compiler_ir("hlo").as_hlo_text())

    def _partitioned(self, traced: Any) -> tuple[str, list[Any]]:
        """One device's part, as the partitioner makes it. The compiler writes it down on its way."""
        options = {**FAST, "xla_dump_to": self._dump, "xla_dump_hlo_pass_re": "spmd-partitioning"}
        try:
            compiled = traced.lower().compile(compiler_options=options)
            found = glob.glob(os.path.join(glob.escape(self._dump), "*after_spmd-partitioning*.txt"))
            if found:
                with open(max(found, key=os.path.getmtime), encoding="utf-8") as stream:
                    text = stream.read()
            else:
                self._guessed("the plan of the CPU's compiler was taken, because no other was to be had")
                text = compiled.as_text()
        finally:
            shutil.rmtree(self._dump, ignore_errors=True)
        return text, jax.tree.leaves(compiled.output_shardings)


def _is_spread(sharding: Any) -> bool:
    return len(getattr(sharding, "device_set", ())) > 1


def _described(value: Any) -> Any:
    """Shape, type, and where the script placed it."""
    aval = core.typeof(value)
    placed = getattr(value, "committed", False) if isinstance(value, jax.Array) else False
    sharding = value.sharding if placed else None
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)


def inner(jaxpr: Any) -> Iterator[Any]:
    """All equations, those of inner programs too."""
    for each in jaxpr.eqns:
        yield each
        for value in each.params.values():
            for one in value if isinstance(value, tuple | list) else (value,):
                with contextlib.suppress(AttributeError):
                    yield from inner(one.jaxpr if hasattr(one, "jaxpr") else one)


def bytes_of(aval: Any) -> int:
    """Of a whole array; 0 for what is none."""
    try:
        return int(aval.size) * int(aval.dtype.itemsize)
    except (AttributeError, TypeError):
        return 0


def is_cheap(jaxpr: Any, most: int) -> bool:
    """Whether it can be run for real without anybody noticing."""
    total = 0
    for each in inner(jaxpr):
        total += sum(bytes_of(var.aval) for var in each.outvars)
        if total > most or each.primitive.name in LOOPS:
            return False
    return True

# SPDX-License-Identifier: Apache-2.0
"""JAX: the world, programs, executions, input and checkpoints, as far as this version shows them."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters import safetensors_files
from keepstep.guard.adapters.jax import checkpoints, execution_hook, input, world
from keepstep.guard.adapters.jax.execution_hook import PART
from keepstep.guard.adapters.jax.executions import Runs
from keepstep.guard.adapters.jax.fingerprints import NAME, Replicas
from keepstep.guard.adapters.jax.lockstep import Lockstep
from keepstep.guard.adapters.jax.program_contracts import JaxPrograms
from keepstep.guard.adapters.jax.recompiles import Recompiles
from keepstep.guard.adapters.jax.step_again import NAME as AGAIN
from keepstep.guard.adapters.jax.step_again import StepAgain
from keepstep.guard.adapters.jax.trains_apart import Apart, Idle
from keepstep.guard.adapters.tracebacks import OWN
from keepstep.guard.record.device_memory import DeviceMemory
from keepstep.guard.transport import interface

if TYPE_CHECKING:
    from keepstep.guard.protocols import Adapts

OWN_NAMES = (NAME, AGAIN, "_identity_fn", "_psum", "_multi_slice", "_threefry_seed", "threefry_2x32")
OPTIONS = tuple(
    """
    jax_cpu_collectives_implementation jax_default_matmul_precision jax_enable_x64 jax_default_prng_impl
    jax_threefry_partitionable
    """.split()
)


def attach(session: Adapts, module: Any) -> None:
    """Hook into JAX, which has just been imported. No backend is created and no setting is changed."""
    version, lockstep = str(getattr(module, "__version__", "?")), Lockstep(session)
    with session.part("JAX's world"):
        from jax._src import distributed

        world.watch(session, distributed, lockstep, version, lambda: _options(module))
    with session.part("JAX's interface"):
        _pin_interface()
    with session.part(PART):
        runs, programs = _watch_executions(session, module, lockstep)
        with session.part("JAX's input"):
            input.watch(session, module, programs, runs)
    with session.part("JAX's checkpoints"):
        checkpoints.watch(session)
        safetensors_files.watch(session)
    with contextlib.suppress(Exception):  # keep the guard's frames out of the user's traceback
        from jax._src import traceback_util

        traceback_util.register_exclusion(OWN)


def _pin_interface() -> None:
    """gloo of JAX listens at the address of the host's name; no setting of JAX changes that, but the supervisor may."""
    from jax._src import xla_bridge

    library: Any = xla_bridge._jax  # type: ignore[attr-defined]
    original = library.make_gloo_tcp_collectives

    @functools.wraps(original)
    def make_gloo_tcp_collectives(*args: Any, **kwargs: Any) -> Any:
        name = interface()
        if name is not None and len(args) < 3 and "hostname" not in kwargs:
            kwargs.setdefault("interface", name)
        return original(*args, **kwargs)

    library.make_gloo_tcp_collectives = make_gloo_tcp_collectives


def _watch_executions(session: Adapts, module: Any, lockstep: Lockstep) -> tuple[Runs, JaxPrograms]:
    from jax._src import compiler
    from jax._src.interpreters import pxla

    replicated: Any = pxla.ExecuteReplicated
    programs = JaxPrograms(session, Recompiles(session), lockstep, _own_names(module))
    runs = Runs(session, programs, _world)
    session.pulse.every(0.2, "ranks out of step", lockstep.look)
    session.pulse.every(0.5, "results of JAX's steps", runs.results.look)
    session.pulse.every(0.5, "exchanges between JAX's processes", Apart(session, runs, lockstep, _world).look)
    session.pulse.every(0.5, "devices that JAX does not use", Idle(session, programs, module, _world).look)
    DeviceMemory(session, lambda: _device_memory(module)).watch()
    runs.leaves = module.tree_util.tree_leaves
    replicas = Replicas(session, module, lockstep)
    runs.look, runs.look_at = replicas.look, replicas.next
    again = StepAgain(session, module)
    runs.again, runs.results.lost = again.stepped, again.lost
    runs.steps_began.append(session.guarded("JAX's world", lambda: _first_step(session, module)))
    replicated.__call__ = runs.around(replicated.__call__)
    if hasattr(compiler, "compile_or_get_cached"):
        compiler.compile_or_get_cached = programs.around_compile(compiler.compile_or_get_cached)
    else:
        session.uncovered("compilations of JAX", "this version compiles elsewhere")
    try:
        execution_hook.watch(session, runs)
    except Exception as error:
        session.uncovered("steps of JAX after the first", f"this version has no hook after an execution ({error})")
    return runs, programs


def _world() -> int:
    from jax._src import distributed

    state = distributed.global_state
    return int(state.num_processes or 1) if state.client is not None else 1


def _first_step(session: Adapts, module: Any) -> None:
    """The first step has run, so there is a backend: only now may it be asked for the number of processes."""
    size = max(_world(), int(module.process_count()))
    if size > 1 and _world() == 1:  # a pod, which forms its world without jax.distributed
        session.world_formed(size, int(module.process_index()), "jax")
    session.trains_in(size, "jax")


def _own_names(module: Any) -> frozenset[str]:
    """Names of JAX's own functions, which run operations outside the user's functions."""
    names = set(OWN_NAMES)
    for part in ("numpy", "lax", "random", "nn"):
        own = getattr(module, part, None)
        names |= {name for name in dir(own) if not name.startswith("_")}
    return frozenset(names | {f"_{name}" for name in names})


def _options(module: Any) -> dict[str, str]:
    found = {}
    for name in OPTIONS:
        with contextlib.suppress(Exception):
            found[name] = str(
                module.config._read(name) if hasattr(module.config, "_read") else getattr(module.config, name)
            )
    return found


def _device_memory(jax: Any) -> tuple[int, int | None, int] | None:
    """Of the fullest device of this process; None where JAX does not count, as on CPUs."""
    counted = [each.memory_stats() or {} for each in jax.local_devices()]
    found = [(each["peak_bytes_in_use"], None, each["bytes_limit"]) for each in counted if each.get("bytes_limit")]
    return max(found, key=lambda each: each[0], default=None)

# SPDX-License-Identifier: Apache-2.0
"""Programs before their first run: all processes that a program spans agree on what it is."""

from __future__ import annotations

import functools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.jax import program_text as words
from keepstep.guard.adapters.jax.lockstep import Lockstep, Side
from keepstep.signals.blackbox import BoxPhase
from keepstep.signals.contracts import Subject

if TYPE_CHECKING:
    from keepstep.guard.adapters.jax.recompiles import Recompiles
    from keepstep.guard.protocols import Adapts

PART = "JAX's programs"
_COMPILE = int(BoxPhase.COMPILE)
MOST_WAITING = 16
"""Compiled programs that have not run yet and whose text before compilation is remembered."""
OWN = {name: f"{name} (process_allgather, sync_global_devices or device_put)" for name in ("_identity_fn", "_psum")}
"""Programs of JAX whose names say nothing."""
LARGE_CONSTANT = 64
"""Constants with more elements are not part of the text that is compared: they are data."""


@dataclass
class JaxProgram:
    """A compiled program that is about to run for the first time."""

    name: str
    spans: bool = False
    """Devices of several processes take part."""
    everywhere: bool = False
    """It holds collectives, and all processes take part."""
    carries: int = 0
    """How many numbers it takes and returns changed: the weights of a training step."""
    internal: bool = False
    """JAX's own: an operation outside any of the user's functions."""
    processes: tuple[int, ...] = ()
    module: words.Module = field(default_factory=words.Module)
    arguments: list[tuple[str, str]] = field(default_factory=list)
    """Their names and descriptions."""
    shardings: list[Any] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    """Which of the arguments given are used by the program."""
    devices: Sequence[Any] = ()
    lowered: dict[str, str] | None = None


class JaxPrograms:
    """Looks at every program once, and states the contract of those that span processes and hold collectives."""

    def __init__(self, session: Adapts, recompiles: Recompiles, lockstep: Lockstep, own_names: frozenset[str]) -> None:
        self._session, self._recompiles, self._own_names = session, recompiles, own_names
        self._waiting: OrderedDict[int, dict[str, str]] = OrderedDict()
        """By the identity of the executable: a later one with the same identity replaces it before it is read."""
        self.lockstep = lockstep
        self._agreed: set[str] = set()
        self._compared: set[str] = set()
        self.process = 0
        self.used: set[int] = set()
        """The devices that any of the user's programs ran on; JAX's own comparisons run on all."""
        self.before_step: Callable[[JaxProgram, tuple[Any, ...]], None] = lambda program, args: None
        """Sees the batch of a program that trains."""

    # --- where programs are compiled

    def around_compile(self, compile_program: Callable[..., Any]) -> Callable[..., Any]:
        session, remember = self._session, session_guarded(self._session, self._remember)

        @functools.wraps(compile_program)
        def compile_and_remember(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread().name == "keepstep":  # a program of our own
                return compile_program(*args, **kwargs)
            before = session.phase(_COMPILE)
            began = time.monotonic()
            try:
                executable = compile_program(*args, **kwargs)
            finally:
                session.phase(before)
            remember(executable, args, kwargs, time.monotonic() - began)
            return executable

        return compile_and_remember

    def _remember(self, executable: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seconds: float) -> None:
        """The text before compilation: equal on all hosts, while the compiled one may be tuned to each."""
        computation = args[1] if len(args) > 1 else kwargs["computation"]
        devices = args[2] if len(args) > 2 else kwargs["devices"]
        self._recompiles.compiled(computation, seconds)
        if len({device.process_index for device in devices.flat}) > 1:
            text = computation.operation.get_asm(enable_debug_info=False, large_elements_limit=LARGE_CONSTANT)
            self._waiting[id(executable)] = words.lowered_words(text)
            while len(self._waiting) > MOST_WAITING:
                self._waiting.popitem(last=False)

    # --- before a program runs for the first time

    def look(self, executable: Any, args: tuple[Any, ...]) -> JaxProgram:
        """What a program's text says."""
        program = JaxProgram(words.plain_name(str(executable.name)))
        program.internal = program.name in self._own_names
        program.shardings = list(executable.in_handler.in_shardings)
        program.devices = _devices([*program.shardings, *executable.out_handler.out_shardings])
        if not program.internal and program.name not in OWN:
            self.used |= {device.id for device in program.devices}
        program.processes = tuple(sorted({device.process_index for device in program.devices}))
        program.spans = len(program.processes) > 1
        program.kept = sorted(executable.kept_var_idx)
        if program.spans or not program.internal:
            modules = executable.xla_executable.hlo_modules()
            program.module = words.read_module(modules[0].to_string()) if modules else words.Module()
            program.carries = program.module.carried_size
            program.everywhere = (
                program.spans
                and bool(program.module.collectives)
                and not _among(program.processes, self._session.who.world)
            )
            given = [args[number] for number in program.kept if number < len(args)]
            named = program.module.names if len(given) == len(program.module.ins) else {}
            for number, value in enumerate(given):
                sharding = program.shardings[number] if number < len(program.shardings) else None
                program.arguments.append((_label(named.get(number), number), words.argument_words(value, sharding)))
            program.lowered = self._waiting.pop(id(executable.xla_executable), None) if program.spans else None
        if program.lowered is not None and executable.has_host_callbacks:
            program.lowered = {"the whole text": "not compared, it calls back into Python"}
        return program

    def about_to_run(self, program: JaxProgram, args: tuple[Any, ...], *, is_training: bool) -> Side | None:
        """Raises OutOfStep if the processes are about to run different programs. Returns what all of them must run."""
        side = None
        if not program.internal:
            self._recompiles.about_to_run(program.name, program.arguments, program.lowered)
        if program.spans and program.module.collectives and not self._session.is_off("contracts"):
            side = self._agree(program)
        if is_training and program.carries:
            self.before_step(program, args)
        return side

    def _agree(self, program: JaxProgram) -> Side | None:
        session, who = self._session, _among(program.processes, self._session.who.world)
        stated = words.stated(program.module, program.arguments, program.devices, internal=program.internal)
        key = words.digest([program.name, who, *stated, *stated.values()])
        if session.strict and program.lowered is not None:
            stated |= program.lowered
        side = Side(program.name, OWN.get(program.name, program.name), stated)
        if key not in self._agreed:
            self._agreed.add(key)
            if who:
                session.agree(f"{Subject.PROGRAM} {program.name}{who}", stated, ranks=program.processes)
            else:
                self.lockstep.agree(side)
        if program.lowered is not None and not (who or program.internal or session.strict):
            text = words.digest([key, *program.lowered.values()])
            if text not in self._compared:
                self._compared.add(text)
                session.compare(f"{Subject.PROGRAM} text of {program.name}", program.lowered)
        return None if who else side


def session_guarded(session: Adapts, function: Callable[..., Any]) -> Callable[..., Any]:
    return session.guarded(PART, function)


def _among(processes: tuple[int, ...], world: int | None) -> str:
    """Names the processes, if they are not all of them."""
    if not world or len(processes) == world:
        return ""
    return f" of ranks {', '.join(map(str, processes[:16]))}" + ("..." if len(processes) > 16 else "")


def _devices(shardings: list[Any]) -> Sequence[Any]:
    for sharding in shardings:
        assigned = getattr(sharding, "_device_assignment", None)
        if assigned is not None and len(assigned):
            return tuple(assigned)
    return ()


def _label(name: str | None, number: int) -> str:
    return name if name and "/" not in name else f"number {number}"

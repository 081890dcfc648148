# SPDX-License-Identifier: Apache-2.0
"""Executions of compiled programs: which are the training's steps, and a look at each program before its first run.

JAX has two ways to execute a program: the first time in Python (``ExecuteReplicated``), later in C++, which then calls
a "post hook", also used by `jax_debug_nans`. Together they see every execution; neither waits for a device. What
`jax.jit` returns is not changed.
"""

from __future__ import annotations

import functools
import sys
import time
import weakref
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

from keepstep.errors import OutOfStep
from keepstep.guard.adapters.jax.compiled_variants import Function, Kin, Variant
from keepstep.guard.adapters.jax.execution_hook import MARK, PART
from keepstep.guard.adapters.jax.program_text import plain_name
from keepstep.guard.adapters.jax.step_results import Results
from keepstep.signals.blackbox import BoxPhase, RecordKind

if TYPE_CHECKING:
    from keepstep.guard.adapters.jax.batch_hashes import Made
    from keepstep.guard.adapters.jax.program_contracts import JaxProgram, JaxPrograms
    from keepstep.guard.protocols import Adapts

_PLAN, _COMPUTE, _EVALUATION = int(RecordKind.PLAN), int(BoxPhase.COMPUTE), int(BoxPhase.EVALUATION)
_now = time.monotonic_ns
TURNS = 3
"""After this many executions of another program, and none of the step, the other one is the step."""
SMALLER_TURNS = 100
"""The same for one that carries less, and may be a long evaluation."""
MOST_KNOWN = 10_000
CALLED_IN, FRAMES = "cache_miss", 24
"""JAX's function that runs a jitted function not yet on the fast path, and how many frames up it is at most."""
ALONE = 20
"""After this many executions, a program of one process counts as a step in a world of several that has no other."""


class Runs:
    """All executions of this process, and which function's are the steps."""

    def __init__(self, session: Adapts, programs: JaxPrograms, world: Callable[[], int]) -> None:
        self._session, self._programs, self._world = session, programs, world
        self._by_name: dict[tuple[str, bool, bool], Function] = {}
        self._by_function: dict[int, tuple[Any, Kin]] = {}
        """By the identity of the jitted function, which both paths know. A weak reference removes it in time."""
        self._by_outputs: dict[tuple[Any, ...], list[Variant]] = {}
        """By outputs: for programs compiled ahead of time, about which the fast path knows no more."""
        self._known: dict[int, tuple[Any, Kin | None]] = {}
        """By the identity of what `jax.jit` returned, with a weak reference too."""
        self._seen: weakref.WeakKeyDictionary[Any, Variant] = weakref.WeakKeyDictionary()
        self._lockstep = programs.lockstep
        self.results = Results(session)
        self._step: Function | None = None
        self._others: list[Function] = []
        """Those that ran since the last step."""
        self._plan = 0
        self._evaluating = False
        self._spanning = False
        self.exchanges = False
        """One of the user's programs has collectives between processes."""
        self.steps_began: list[Callable[[], None]] = []
        """Called once, after the first step."""
        self.after_step: Callable[[], None] = lambda: None
        self.before_evaluation: Callable[[], None] = lambda: None
        self.made: Made | None = None
        """Hashes of what the host has made..."""
        self.took: Callable[..., None] = lambda function, is_step, arguments: None
        """... and which of it a function took."""
        self.leaves: Callable[[Any], list[Any]] = lambda tree: []
        self.look: Callable[[int, Any], float] = lambda number, outputs: inf
        """Looks at the step's results once it has run ``look_at`` times; returns when to look again."""
        self.look_at: float = inf
        self.again: Callable[[Any, Any, Any, Any], None] = lambda function, args, kwargs, outputs: None
        """Keeps what a step was given, to run it once more."""
        self.mend: Callable[[], None] = lambda: None
        """Put the hook back where JAX has replaced it."""

    # --- the slow path: the first execution of every program, and all of those with effects

    def around(self, execute: Callable[..., Any]) -> Callable[..., Any]:
        """``ExecuteReplicated.__call__`` with a look before and after."""
        runs, first, done, off = self, self._first, self._done, self._session.is_off

        @functools.wraps(execute)
        def call(self: Any, *args: Any) -> Any:
            if off(PART):
                return execute(self, *args)
            variant, is_new = first(self, args)
            results = execute(self, *args)
            if variant is not None:
                done(variant, is_new, results)
                if runs._is_compared(variant.function):
                    runs.took(variant.function.name, variant.function is runs._step, args)
            return results

        return call

    def _first(self, executable: Any, args: tuple[Any, ...]) -> tuple[Variant | None, bool]:
        try:
            variant = self._seen.get(executable)
            is_new = variant is None
            if variant is None:
                program = self._programs.look(executable, args)
                function = self._function(plain_name(str(executable.name)), program)
                variant = Variant(function, program.everywhere)
                self.exchanges = self.exchanges or (
                    program.spans and bool(program.module.collectives) and not program.internal
                )
                self._seen[executable] = variant
                self._remember(variant, _called())
                self.mend()
                variant.side = self._programs.about_to_run(
                    program, args, is_training=self._step is None or function is self._step
                )
            return variant, is_new
        except OutOfStep:
            raise
        except Exception as error:
            self._session.failed(PART, error)
            return None, False

    def _remember(self, variant: Variant, called: tuple[Any, Any, Any] | None) -> None:
        """Which function this program belongs to, and for which arguments: to recognise it on the fast path."""
        if called is None:
            variant.counts = self._counts(variant.function)
            return
        jitted, args, kwargs = called
        if _is_of_jax(jitted):
            variant.function.internal = True
        variant.counts = self._counts(variant.function)
        identity = id(jitted)
        entry = self._by_function.get(identity)
        if entry is None:
            try:
                alive = weakref.ref(jitted, lambda _: self._by_function.pop(identity, None))
            except TypeError:
                return
            entry = self._by_function[identity] = (alive, Kin(self.leaves, self._in_doubt))
        entry[1].add(variant, args, kwargs)

    def _in_doubt(self) -> None:
        """It is not known which program was executed: the count of those with collectives may be wrong from here on."""
        self._lockstep.sure = False

    def _done(self, variant: Variant, is_new: bool, results: Any) -> None:
        try:
            if is_new and len(self._by_outputs) < MOST_KNOWN:
                self._by_outputs.setdefault(_signature(variant.function.spans, results), []).append(variant)
            self.ran(variant)
        except Exception as error:
            self._session.failed(PART, error)

    # --- the fast path: called by JAX after every execution in C++

    def hook(self, before: Any = None) -> Callable[..., None]:
        """The post hook, in front of the one that was there."""
        known, ran, learn, session, results = self._known, self.ran, self._learn, self._session, self.results

        def after_execution(function: Any, args: Any, kwargs: Any, outputs: Any) -> None:
            try:
                entry = known.get(id(function))
                kin = entry[1] if entry is not None else learn(function, outputs)
                if kin is not None:
                    variant = kin.pick(args, kwargs) if kin.several else kin.one
                    if variant is not None:
                        ran(variant)
                        if results.wanted and variant.function is self._step:
                            results.take(variant.function.name, self.leaves(outputs))
                        if variant.function is self._step and variant.function.runs >= self.look_at:
                            self.look_at = self.look(variant.function.runs, outputs)
                        if variant.function is self._step and not session.lean:
                            began = _now()
                            self.again(function, args, kwargs, outputs)
                            session.spent_ns += _now() - began
                        if self._is_compared(variant.function):
                            self.took(variant.function.name, variant.function is self._step, (args, kwargs))
            except OutOfStep:
                raise
            except Exception as error:
                session.failed(PART, error)
            if before is not None:
                before(function, args, kwargs, outputs)

        setattr(after_execution, MARK, before)
        return after_execution

    def _is_compared(self, function: Function) -> bool:
        """Whether this run's batch is compared with those of other ranks. What carries nothing is no training. Hot."""
        return function.carries > 0 and function.spans and self.made is not None and self.made.is_due(function.runs)

    def _learn(self, function: Any, outputs: Any) -> Kin | None:
        if self._session.is_off(PART):
            return None
        jitted = getattr(function, "_fun", None) or getattr(function, "__wrapped__", None)
        entry = self._by_function.get(id(jitted)) if jitted is not None else None
        kin = entry[1] if entry is not None else self._by_its_outputs(function, jitted, outputs)
        identity = id(function)
        self._known[identity] = (weakref.ref(function, lambda _: self._known.pop(identity, None)), kin)
        return kin

    def _by_its_outputs(self, function: Any, jitted: Any, outputs: Any) -> Kin | None:
        leaves = self.leaves(outputs)
        spans = any(not getattr(leaf, "is_fully_addressable", True) for leaf in leaves)
        alike = self._by_outputs.get(_signature(spans, leaves), [])
        name = getattr(function, "__name__", None)
        found = next((each for each in alike if each.function.name == name), alike[0] if alike else None)
        if spans and (
            found is None or (found.function.name != name and len({each.function.name for each in alike}) > 1)
        ):
            self._lockstep.sure = False
        if found is None:
            return None
        if _is_of_jax(jitted):
            found.function.internal = True
            found.counts = self._counts(found.function)
        return Kin.of(found) if found.counts else None

    # --- which of them are steps

    def _function(self, name: str, program: JaxProgram) -> Function:
        key = (name, program.spans, program.carries > 0)
        function = self._by_name.get(key)
        if function is None:
            number = self._session.plan(name) if program.spans else 0
            function = self._by_name[key] = Function(name, number, program)
        self._spanning = self._spanning or program.spans
        return function

    def _counts(self, function: Function) -> bool:
        return function.spans or (not function.internal and (function.carries > 0 or self._world() < 2))

    def ran(self, variant: Variant) -> None:
        """A program was executed, or handed to the device. Hot."""
        function = variant.function
        function.runs += 1
        if variant.collective:
            lockstep = self._lockstep
            place, side = lockstep.executed + 1, variant.side
            if side is not lockstep.last:
                lockstep.last = side
                lockstep.turns.append((place, side))
            lockstep.executed = place
        if function is self._step:
            if self._others:
                self._settle()
            session = self._session
            if session.lean and self._plan == function.number:
                session.step_done()
                self.after_step()
                return
            began = _now()
            self._enter(function)
            session.step_done()
            self.after_step()
            session.spent_ns += _now() - began
        elif not function.internal:
            self._other_ran(function)
        elif function.spans:
            self._enter(function)

    def _settle(self) -> None:
        for other in self._others:
            other.since = 0
        self._others.clear()
        if self._evaluating:
            self._evaluating = False
            self._session.phase(_COMPUTE)

    def _other_ran(self, function: Function) -> None:
        """A program that is not the step: it may be from now on, or an evaluation."""
        if not function.spans and (self._spanning or (self._world() > 1 and function.runs < ALONE)):
            return
        if function.since == 0:
            self._others.append(function)
        function.since += 1
        step = self._step
        if self._replaces(function, step):
            self._choose(function)
            return
        if function.spans:
            self._enter(function)
        if step is not None:
            every_turn = function.turn == step.runs - 1
            if function.since == 2 and not every_turn and not self._session.by_hand:
                self._evaluating = True
                self.before_evaluation()
                self._session.phase(_EVALUATION)
            if not every_turn or function.since == 1:
                function.turn = step.runs

    def _replaces(self, function: Function, step: Function | None) -> bool:
        """Whether this is the step from now on. The same on every rank: only the order of executions matters."""
        if step is None:
            return function.carries > 0 or function.spans or function.runs > 10
        if function.spans != step.spans:
            return function.spans
        if function.carries == step.carries:
            return function.since >= TURNS
        if function.carries > step.carries:
            return function.runs * 4 >= step.runs
        return function.since > SMALLER_TURNS + step.runs

    def _enter(self, function: Function) -> None:
        write, before = self._session.write, self._plan
        if before and before != function.number:
            write(_PLAN, before, 0)
        self._plan = function.number
        write(_PLAN, function.number, 1)

    def _choose(self, function: Function) -> None:
        session, first = self._session, self._step is None
        session.open()
        if not function.number:
            function.number = session.plan(function.name)
        self._settle()
        self._step = function
        if first and not session.by_hand:
            session.steps += function.runs - 1  # it was not known yet that these were steps too
        if first and not session.by_hand:
            session.phase(_COMPUTE)
        self._enter(function)
        session.step_done()
        if first:
            for call in self.steps_began:
                call()


def _signature(spans: bool, leaves: Any) -> tuple[Any, ...]:
    """What comes out of a program, to recognise it."""
    return (spans, *((getattr(leaf, "shape", None), str(getattr(leaf, "dtype", ""))) for leaf in leaves))


def _is_of_jax(jitted: Any) -> bool:
    module = str(getattr(jitted, "__module__", ""))
    return module.startswith("jax.") and "pmap" not in module


def _called() -> tuple[Any, Any, Any] | None:
    """The jitted function that runs for the first time, and its arguments, from the frame of JAX that calls us."""
    frame = sys._getframe(2)
    for _ in range(FRAMES):
        if frame is None:
            break
        if frame.f_code.co_name == CALLED_IN:
            names = frame.f_locals
            if "fun" in names and "args" in names and "kwargs" in names:
                return names["fun"], names["args"], names["kwargs"]
        frame = frame.f_back  # type: ignore[assignment]
    return None

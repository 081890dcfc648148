# SPDX-License-Identifier: Apache-2.0
"""Traced functions: agreement before their first run, entering and leaving, steps, and repeated tracing."""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from keepstep.guard.adapters.tensorflow import batches_in_graph, non_finite, uneven_batches
from keepstep.guard.adapters.tensorflow.batches import FunctionBatches, Places, places_of
from keepstep.guard.adapters.tensorflow.graphs import GraphContent, arguments, contract, read_graph
from keepstep.guard.adapters.tensorflow.tensorflow_state import (
    CALL,
    COMPUTE,
    EVALUATION,
    TensorFlowState,
    enter_call,
    first,
    inside,
    leave_call,
    replace,
)
from keepstep.signals.blackbox import BoxPhase, RecordKind
from keepstep.signals.contracts import REMARK, Subject

COMPILE, _PLAN = int(BoxPhase.COMPILE), int(RecordKind.PLAN)
STORM = 5
RECENT_STEPS = 10
ATTRIBUTE = "_keepstep_plan"


class FunctionPlan:
    """One traced function, as the hot path needs it."""

    __slots__ = ("batches", "name", "number", "places", "shared", "step")

    def __init__(
        self, name: str, number: int, *, step: bool, shared: bool, batches: FunctionBatches | None, places: Places = ()
    ) -> None:
        self.name, self.number, self.step, self.shared = name, number, step, shared
        self.batches, self.places = batches, places

    def __deepcopy__(self, memo: Any) -> FunctionPlan:
        """A copy of the function is the same plan."""
        return self


IGNORED = FunctionPlan("", 0, step=False, shared=False, batches=None)
"""A function that neither trains nor talks to other ranks."""
UNKNOWN = FunctionPlan("", 0, step=False, shared=False, batches=None)
"""The plan of no function: stands for the step before there is one."""


class TracedFunctions:
    """All traced functions of the process."""

    def __init__(self, state: TensorFlowState) -> None:
        self.state, self.session = state, state.session
        self.agreed: set[tuple[str, str]] = set()
        self.batches: dict[str, FunctionBatches] = {}
        self.traced: dict[str, Traced] = {}
        self.trace_s = 0.0
        self.step = UNKNOWN
        """The function that ran the last fully recorded step."""
        self.lock = threading.RLock()
        self.meet = self.session.guarded("programs", self._meet)

    def plan_of(self, concrete: Any, args: tuple[Any, ...]) -> FunctionPlan:
        """What a function is, at its first execution; all ranks agree on it. Raises OutOfStep if they differ."""
        plan = self.meet(concrete, len(args[0]) if args else 0) or IGNORED
        vars(concrete)[ATTRIBUTE] = plan
        return plan

    def _meet(self, concrete: Any, count: int) -> FunctionPlan:
        state, session = self.state, self.session
        graph = concrete.graph
        seen = read_graph(graph, inside("framework.tensor_util").constant_value)
        name = str(getattr(graph, "name", "function"))
        if not seen.whole:
            session.uncovered("graphs inside graphs", f"not every graph that {name} calls could be read")
        self._count(concrete, name)
        shared = bool(seen.collectives) and state.world > 1 and not state.coordinated and _spans(graph)
        if shared and seen.exchanges:
            state.exchanges = True
        if not shared and not seen.trains:
            return IGNORED
        batches, places = None, places_of(graph, count) if seen.trains else ()
        if places:
            batches = self.batches.setdefault(name, FunctionBatches(state, first=not self.batches))
        if shared:
            self._agree(concrete, seen, name)
        number = session.plan(f"{name} ({len(seen.collectives)} collectives)")
        return FunctionPlan(name, number, step=seen.trains, shared=shared, batches=batches, places=places)

    def _agree(self, concrete: Any, seen: GraphContent, name: str) -> None:
        """Only what is new: a rank that traces again for another shape, with the same collectives, need not ask."""
        with self.lock:
            if (name, seen.key) in self.agreed:
                return
            self.agreed.add((name, seen.key))
        state, session = self.state, self.session
        order = {CALL: f"next{REMARK}{state.calls + 1}"}
        session.agree(Subject.PROGRAM, contract(seen, name) | order)
        if seen.trains:
            taken = {f"argument {key}": words for key, words in arguments(concrete, rows=False).items() if "[" in words}
            session.compare(f"{Subject.BATCH} of {name}", taken)

    def _count(self, concrete: Any, name: str) -> None:
        """Report a function that is traced for nearly every step, with the argument that keeps changing."""
        steps = self.session.steps
        known = self.traced.setdefault(name, Traced())
        storm = known.again(steps, arguments(concrete), self.trace_s)
        self.trace_s = 0.0
        if storm is not None:
            quote = f"{name} was traced {storm['count']} times in {steps} steps: {storm['reason']}"
            self.session.note("Recompiling", {"function": name, **storm}, quote)
            if known.told == 1:
                self.session.say(quote)


class Traced:
    """The tracings of all functions with one name."""

    def __init__(self) -> None:
        self.count = 0
        self.after_first = 0
        self.told = 0
        self.at: deque[int] = deque(maxlen=RECENT_STEPS)
        self.recent: deque[dict[str, str]] = deque(maxlen=STORM)
        self.seconds: float = 0.0

    def again(self, steps: int, taken: dict[str, str], seconds: float) -> dict[str, Any] | None:
        """Count one more; returns the fields of the fact once there are too many."""
        self.count += 1
        self.recent.append(taken)
        self.seconds = seconds or self.seconds
        if steps == 0:
            return None
        self.after_first += 1
        if not self.at or self.at[-1] != steps:
            self.at.append(steps)
        recent = sum(1 for step in self.at if step > steps - RECENT_STEPS)
        if self.after_first < STORM * 4**self.told or recent <= RECENT_STEPS // 2 - 1:
            return None
        self.told += 1
        reason = self._reason()
        return {"count": self.count, "reason": reason, "seconds": round(self.seconds, 3) or None, "storm": True}

    def _reason(self) -> str:
        names = dict.fromkeys(name for taken in self.recent for name in taken)
        values = {name: list(dict.fromkeys(taken.get(name, "(none)") for taken in self.recent)) for name in names}
        name = max(names, key=lambda name: len(values[name]), default="")
        if len(values.get(name, ())) < 2:
            return "its arguments do not change: a new tf.function is made each time"
        return f"argument {name} keeps changing: {', '.join(values[name])}"


def attach(state: TensorFlowState) -> None:
    session = state.session
    programs = TracedFunctions(state)
    module = first(
        "eager.polymorphic_function.concrete_function",
        "eager.polymorphic_function.monomorphic_function",
        "eager.function",
    )
    owner = getattr(module, "ConcreteFunction", None)
    replace(session, "traced functions", owner, "_call_flat", lambda original: _executed(programs, original))
    graphs = inside("framework.func_graph")
    replace(session, "tracing", graphs, "func_graph_from_py_func", lambda original: _traced(programs, original))
    strategies = getattr(inside("distribute.distribute_lib"), "StrategyBase", None)
    replace(session, "strategy.run", strategies, "run", lambda original: _run(state, original))
    coordinators = getattr(first("distribute.coordinator.cluster_coordinator"), "ClusterCoordinator", None)
    replace(session, "the coordinator's steps", coordinators, "schedule", lambda original: _scheduled(state, original))


def _executed(programs: TracedFunctions, original: Any) -> Callable[..., Any]:
    """Around every execution of a traced function. If it is no plan, one attribute is looked at.

    Kept in one function where possible: a training step has emptied the caches, and each further call costs
    microseconds.
    """
    state, session = programs.state, programs.session
    local, executing_eagerly = state.local, state.executing_eagerly
    now = time.monotonic_ns

    def lean_call(self: Any, plan: FunctionPlan, args: Any, kwargs: Any) -> Any:
        """A lean step: only that it was taken is written down."""
        local.inside = True
        session.phase_now = COMPUTE
        if (mark := state.source) is not None:
            mark.trained += 1
        if plan.shared:
            enter_call(state, plan.name, training=True)
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            uneven_batches.left_by(state, plan.shared, error)
            raise
        finally:
            local.inside = False
            leave_call(state)
            if plan.shared and not session.lean:  # it took long, so it was written down after all
                session.write(_PLAN, plan.number, 0)
        if plan.shared:
            state.shares.steps += 1
        if state.asks_output:
            non_finite.take_output(state, result, self, args)
        session.step_done()
        if state.replicas is not None:
            state.replicas.stepped()
        return result

    def call_flat(self: Any, *args: Any, **kwargs: Any) -> Any:
        plan = self.__dict__.get(ATTRIBUTE)
        if (
            session.lean
            and plan is programs.step
            and not state.in_run
            and state.refusal is None
            and not getattr(local, "inside", False)
        ):
            return lean_call(self, plan, args, kwargs)
        if plan is IGNORED or not executing_eagerly() or getattr(local, "inside", False):
            return original(self, *args, **kwargs)
        if plan is None:
            plan = programs.plan_of(self, args)
            if plan is IGNORED:
                return original(self, *args, **kwargs)
        if state.coordinated:
            return original(self, *args, **kwargs)
        began = now()
        step = plan.step and session.phase_now != EVALUATION and not state.in_run
        local.inside = True
        try:
            try:
                if step:
                    if state.refusal is not None:
                        non_finite.refuse(state)
                    if not state.first_step_done:
                        session.open()
                        state.first_step()
                    if state.replicas is not None and state.replicas.fresh:
                        state.replicas.first()
                    if session.phase_now != COMPUTE:
                        session.phase(COMPUTE)
                    if plan.batches is not None and args:
                        plan.batches.see(args[0], plan.places, plan.shared)
                    mark = state.source
                    if mark is not None:
                        mark.trained += 1
                        if mark.trained == 1:
                            uneven_batches.first_batch(state, mark, plan.shared)
                elif session.phase_now not in (EVALUATION, COMPUTE):
                    session.phase(COMPUTE)
                if plan.shared:
                    enter_call(state, plan.name, training=step)
                session.write(_PLAN, plan.number, 1)
            except Exception as error:
                _fail(session, error)
            session.spent_ns += now() - began
            result = original(self, *args, **kwargs)
        except BaseException as error:
            uneven_batches.left_by(state, plan.shared, error)
            session.write(_PLAN, plan.number, 0)
            raise
        finally:
            local.inside = False
            if state.entered_at:
                leave_call(state)
        began = now()
        session.write(_PLAN, plan.number, 0)
        if step:
            if plan.shared:
                state.shares.steps += 1
            programs.step = plan
            if state.asks_output:
                non_finite.take_output(state, result, self, args)
            session.step_done()
        session.spent_ns += now() - began
        if step and state.replicas is not None:
            state.replicas.stepped()
        return result

    session.at_catching_up.append(functools.partial(_catch_up, programs))
    return call_flat


def _catch_up(programs: TracedFunctions) -> None:
    """A lean step takes long: the plan that it is in."""
    if programs.state.entered_at and programs.state.running == programs.step.name:
        programs.session.write(_PLAN, programs.step.number, 1)


def _fail(session: Any, error: Exception) -> None:
    from keepstep.errors import OutOfStep

    if isinstance(error, OutOfStep):
        raise error
    session.failed("steps", error)


def _traced(programs: TracedFunctions, original: Any) -> Callable[..., Any]:
    """Tracing is a phase of its own; branches and loops are traced inside it."""
    session, local = programs.session, programs.state.local

    def trace(*args: Any, **kwargs: Any) -> Any:
        if getattr(local, "tracing", False):
            return original(*args, **kwargs)
        local.tracing = True
        before, began = session.phase(COMPILE), time.monotonic()
        local.traced_in = before
        try:
            return original(*args, **kwargs)
        finally:
            local.tracing = False
            programs.trace_s += time.monotonic() - began
            session.phase(before)

    return trace


def _run(state: TensorFlowState, original: Any) -> Callable[..., Any]:
    """Called eagerly, `strategy.run` is a step; in a graph it shows whose collectives the graph has."""
    session = state.session
    mark = session.guarded("strategies of graphs", _mark)
    traced = session.guarded(batches_in_graph.PART, lambda *given: state.drawn.traced(*given))
    took = session.guarded(batches_in_graph.PART, lambda *given: state.drawn.took(*given))
    ran = session.guarded(non_finite.PART, lambda *given: state.finite.ran_eagerly(*given))

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not state.executing_eagerly():
            mark(self)
            result = (
                original(self, *args, **kwargs)
                if state.finite is None
                else state.finite.around(original, self, args, kwargs)
            )
            if state.drawn is not None:
                traced(self, args[1:], kwargs)
            return result
        if state.in_run or session.phase_now == EVALUATION:
            return original(self, *args, **kwargs)
        state.in_run = True  # its replicas run in separate threads
        try:
            with session.part("steps"):
                if not state.first_step_done:
                    session.open()
                    state.first_step()
            if state.replicas is not None and state.replicas.fresh:
                state.replicas.first()
            session.phase(COMPUTE)
            updates = state.updates
            result = original(self, *args, **kwargs)
        finally:
            state.in_run = False
        if state.updates > updates:
            took(self, args[1:], kwargs)
            if state.finite is not None:
                ran(self, result)
        session.step_done()
        if state.replicas is not None:
            state.replicas.stepped()
        return result

    return run


def _mark(strategy: Any) -> None:
    graph = inside("framework.ops").get_default_graph()
    while getattr(getattr(graph, "outer_graph", None), "building_function", False):
        graph = graph.outer_graph
    several = int(getattr(strategy.extended, "_num_workers", 1) or 1) > 1
    setattr(graph, "_keepstep_spans" if several else "_keepstep_local", True)


def _spans(graph: Any) -> bool:
    """Whether its collectives leave the process: those of a strategy within one process do not."""
    return bool(getattr(graph, "_keepstep_spans", False)) or not getattr(graph, "_keepstep_local", False)


def _scheduled(state: TensorFlowState, original: Any) -> Callable[..., Any]:
    """With parameter servers, steps count when the coordinator hands them over."""
    session = state.session

    def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
        with session.part("steps"):
            if not state.first_step_done:
                state.first_step()
            if session.phase_now != EVALUATION:
                session.phase(COMPUTE)
        result = original(self, *args, **kwargs)
        if session.phase_now != EVALUATION:
            session.step_done()
        return result

    return schedule

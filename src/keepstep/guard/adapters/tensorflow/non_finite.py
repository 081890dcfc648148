# SPDX-License-Identifier: Apache-2.0
"""Batches and losses that are NaN or infinite: noticed when they appear, with the rank or device where they started.

A batch that is drawn inside a `tf.function` never shows in Python, and by the time a loss does, the all-reduce has
carried its NaN to every replica. So where several replicas train and draw their batches in the graph, counters are
traced after `strategy.run`: how often it ran, how often its batch was not finite, and for each device of this process
how often its own loss was not. They are a few numbers in a resource on the host; the guard's thread reads them. Where a
program calls `strategy.run` eagerly, the losses that it returns on the host are counted as they come.

The program's own operations do not change. The counters read the batch as it was drawn, not what the program made of
it, and the loss, which goes into a collective or out of the graph; so TensorFlow's optimizer still merges whatever it
would have merged. XLA cannot compile a graph that draws batches as a whole, and where XLA picks parts by itself nothing
is counted. Elsewhere the guard's thread asks now and then for what the next step returns, and looks at it if it is on
the host.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from keepstep.errors import OutOfStep
from keepstep.guard.adapters.tensorflow.batches import MOST_LOOKED_AT, values
from keepstep.guard.adapters.tensorflow.graphs import OWN_NAME
from keepstep.guard.adapters.tensorflow.step_again import StepAgain
from keepstep.guard.adapters.tensorflow.tensorflow_state import EVALUATION, TensorFlowState, inside

PART = "finite values"
LOOK_S = 0.5
LASTS = 3
"""This many losses in a row: dynamic loss scaling skips single ones by design."""
TOPIC = "not finite"
DRAWS = ("IteratorGetNext", "MultiDeviceIteratorGetNext")
MOST_HELD = 48 << 20
"""Bytes of the arguments of the step that was looked at last."""
MOST_LOOKS = 10
"""The time for other ranks to say when theirs started."""


def attach(state: TensorFlowState) -> None:
    state.finite = Finite(state)
    state.session.pulse.every(LOOK_S, PART, state.finite.look)
    state.session.at_close.append(state.finite.at_end)


class Finite:
    """What is counted in the graphs of this process, and what was found."""

    def __init__(self, state: TensorFlowState) -> None:
        self._state, self._session = state, state.session
        self._handle: Any = None
        self._devices: list[str] = []
        """Of the replicas in this process, whose losses are counted apart."""
        self._eager: list[int] = []
        """What the resource holds, counted in Python."""
        self._bad_on: list[int] = []
        self._ran = self._bad_batches = self._bad_losses = 0
        self._steps_before = 0
        self._batch_told = self._loss_told = False
        self._first: int | None = None
        self._waited = 0
        self._bad_outputs = 0
        self._finite_at = 0
        self._again = StepAgain(state.session)

    # --- in the graph, while it is traced

    def around(self, run: Callable[..., Any], strategy: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`strategy.run` in a graph, followed by the counters: the program's own trace stays the same, seeds too."""
        result = run(strategy, *args, **kwargs)
        with self._session.part(PART):
            if self._counts(strategy):
                self._count(args[1:], kwargs, result)
        return result

    def _counts(self, strategy: Any) -> bool:
        if not self._is_shared(strategy) or self._session.is_off(PART):
            return False
        return not chosen_by_compiler() and draws_batches(inside("framework.ops").get_default_graph())

    def _is_shared(self, strategy: Any) -> bool:
        """Whether several replicas train together, each with a loss of its own."""
        state, extended = self._state, strategy.extended
        if state.coordinated or self._session.by_hand:
            return False
        if strategy.num_replicas_in_sync < 2:  # no strategy at all is one, too, and knows no devices
            return False
        devices = [str(each).rpartition("/device:")[2] for each in extended.worker_devices]
        if not self._devices:
            self._devices = devices
        return self._devices == devices

    def _count(self, args: Any, kwargs: Any, result: Any) -> None:
        nest = inside("util.nest")
        batch = [
            each
            for each in nest.flatten((args, kwargs), expand_composites=True)
            if _is_floating(each) and as_drawn(each)
        ]
        training = getattr(self._state.local, "traced_in", None) != EVALUATION
        own = self._own_losses(result) if training else [[] for _ in self._devices]
        self._add(batch if self._session.batches.finite else [], own)

    def _own_losses(self, result: Any) -> list[list[Any]]:
        """For each device of this process, the losses that `strategy.run` gave there."""
        own: list[list[Any]] = [[] for _ in self._devices]
        for each in chosen(result, inside("util.nest"), parts=False):
            parts = getattr(each, "values", None)  # of several devices
            for place, part in enumerate(parts[: len(own)] if isinstance(parts, tuple) else (each,)):
                if _is_single(part) and _is_floating(part):
                    own[place].append(part)
        return own

    def ran_eagerly(self, strategy: Any, result: Any) -> None:
        """A training step by `strategy.run` outside any graph has returned."""
        if not self._is_shared(strategy):
            return
        self._eager = self._eager or [0] * (2 + len(self._devices))
        self._eager[0] += 1
        for place, losses_there in enumerate(self._own_losses(result)):
            seen = [values(each) for each in losses_there]
            self._eager[2 + place] += any(each is not None and not each[2] for each in seen)

    def _add(self, batch: list[Any], own: list[list[Any]]) -> None:
        ops, array_ops, math_ops = inside("framework.ops"), inside("ops.array_ops"), inside("ops.math_ops")
        pack, is_finite = inside("ops.gen_array_ops").pack, inside("ops.gen_math_ops").is_finite
        variables, dtypes = inside("ops.gen_resource_variable_ops"), inside("framework.dtypes")
        handle = self._resource()
        with ops.name_scope(OWN_NAME):

            def bad(tensors: list[Any]) -> Any:
                """1 where one of them is not finite."""
                each = [math_ops.reduce_any(~is_finite(_some(tensor, array_ops))) for tensor in tensors]
                return (
                    math_ops.cast(math_ops.reduce_any(pack(each)), dtypes.int64)
                    if each
                    else ops.convert_to_tensor(0, dtypes.int64)
                )

            more = pack([ops.convert_to_tensor(1, dtypes.int64), bad(batch), *(bad(losses) for losses in own)])
            with ops.device(handle.device):
                variables.assign_add_variable_op(handle, more)

    def _resource(self) -> Any:
        """A few numbers on the host, made by operations: a `tf.Variable` would belong to the strategy."""
        if self._handle is None:
            ops, dtypes = inside("framework.ops"), inside("framework.dtypes")
            variables = inside("ops.gen_resource_variable_ops")
            zeros = [0] * (2 + len(self._devices))
            with ops.init_scope(), ops.device("CPU:0"):
                handle = variables.var_handle_op(
                    dtype=dtypes.int64, shape=[len(zeros)], shared_name=f"{OWN_NAME}_{os.getpid()}", container=""
                )
                variables.assign_variable_op(handle, ops.convert_to_tensor(zeros, dtypes.int64))
            self._handle = handle
        return self._handle

    # --- from the guard's thread

    def look(self) -> None:
        session = self._session
        if session.by_hand or not session.batches.finite:
            return
        self._look_at_output()
        if self._is_counting:
            self._look_at_counts()
        self._steps_before = session.steps

    def at_end(self) -> None:
        """The process ends: report what was counted since the last look."""
        if self._is_counting and not self._session.is_off(PART) and getattr(self._session, "framework", None):
            self._read()
            if self._bad_batches:
                self._tell_batch(raising=False)
            if self._bad_losses >= LASTS and not self._loss_told:
                self._first = self._ran - self._bad_losses
                self._tell_loss(self._began(self._first), raising=False)

    @property
    def _is_counting(self) -> bool:
        return self._handle is not None or bool(self._eager)

    def _read(self) -> None:
        read: Any = self._eager
        if self._handle is not None:
            dtypes, variables = inside("framework.dtypes"), inside("ops.gen_resource_variable_ops")
            read = variables.read_variable_op(self._handle, dtype=dtypes.int64).numpy()
        self._ran, self._bad_batches, *self._bad_on = (int(each) for each in read)
        self._bad_losses = max(self._bad_on)

    def _look_at_counts(self) -> None:
        self._read()
        if self._bad_batches and not self._batch_told:
            self._tell_batch()
        if self._loss_told or self._bad_losses < LASTS:
            return
        first = self._ran - self._bad_losses
        if self._first != first:  # not settled yet, or finite ones in between
            self._first, self._waited = first, 0
        elif self._waited == 0:
            self._waited = 1
            self._session.tell_peers(TOPIC, json.dumps([first, self._batch_told]))
        else:
            self._waited += 1
            if (
                self._waited > MOST_LOOKS
                or len({*self._session.heard(TOPIC), self._session.who.rank}) >= self._state.world
            ):
                self._tell_loss(self._began(first))

    def _tell_batch(self, *, raising: bool = True) -> None:
        if self._batch_told:
            return
        self._batch_told = True
        session, since = self._session, self._steps_before
        words = f"a batch holds NaN or infinite values (seen in {self._bad_batches} of {self._ran} batches)"
        fields = {
            "kind": "not finite",
            "part": "batch",
            "seen": "NaN or infinite values",
            "wanted": "finite values",
            "step": since,
        }
        session.note("BatchOdd", fields | {"declared": False}, f"batch after step {since}: {words}")
        session.say(f"{words}, first after step {since}")
        session.flush()
        if session.strict and raising:
            self._state.refusal = words

    def _began(self, first: int) -> tuple[int, ...]:
        """The ranks whose own loss was the first that was not finite, or those with such a batch if there are any."""
        session = self._session
        said = {rank: json.loads(text) for rank, text in session.heard(TOPIC).items()}
        if session.who.rank is not None:
            said[session.who.rank] = [first, self._batch_told]
        fed = [rank for rank, (_, batch) in said.items() if batch]
        if fed or len(said) < self._state.world:
            return tuple(sorted(fed))
        earliest = min(each for each, _ in said.values())
        began = sorted(rank for rank, (each, _) in said.items() if each == earliest)
        return tuple(began) if len(began) < len(said) else ()

    def _tell_loss(self, began: tuple[int, ...], *, raising: bool = True) -> None:
        self._loss_told = True
        session = self._session
        step = min(self._first if self._first is not None else session.steps, session.steps)
        most = max(self._bad_on, default=0)
        devices = [device for device, bad in zip(self._devices, self._bad_on, strict=False) if bad == most]
        if len(devices) == len(self._devices) or (began and session.who.rank not in began):
            devices = []  # all at once; or another rank was before this one
        first = [f"rank {', '.join(map(str, began))}"] if began else []
        first += [f"device {', '.join(devices)}"] if devices else []
        where = f", on {', '.join(first)} first" if first else ""
        words = f"the loss has been NaN or infinite since step {step + 1}{where}"
        session.note(
            "LossNotFinite", {"step": step, "world": self._state.world, "began": list(began), "devices": devices}, words
        )
        if session.who.rank in (None, 0, *began):
            session.say(words)
        session.flush()
        self._again.look(self._state.last_call, lambda result: chosen(result, inside("util.nest"), parts=True))
        self._state.last_call = None
        if session.strict and raising and (not began or session.who.rank in began):
            self._state.refusal = words

    def _look_at_output(self) -> None:
        """Look at what a step returned. Does not wait for it, and fetches nothing from a device."""
        state, session = self._state, self._session
        taken, state.output = state.output, None
        seen = [values(each) for each in taken or ()]
        if any(each is not None and not each[2] for each in seen):
            self._bad_outputs += 1
            if self._bad_outputs >= LASTS and not self._loss_told and not self._bad_losses:
                self._first = self._finite_at
                self._tell_loss(())
        elif taken:
            self._bad_outputs, self._finite_at = 0, session.steps
        state.asks_output = not self._loss_told


def refuse(state: TensorFlowState) -> None:
    """In strict mode, before the next step."""
    words, state.refusal = state.refusal, None
    raise OutOfStep(f"{state.session.who.prefix}{words}", hint="KEEPSTEP=on only reports it")


def take_output(state: TensorFlowState, result: Any, function: Any = None, args: Any = ()) -> None:
    """Keep the loss among what a step returned, and what it was called with, for the guard's thread."""
    state.asks_output = False
    given = list(args[0]) if args else []
    draws = any(each.dtype.name == "resource" for each in given)
    small = sum(int(each.shape.num_elements() or 0) * each.dtype.size for each in given) <= MOST_HELD
    state.last_call = (
        (function, given, state.session.steps + 1) if function is not None and small and not draws else None
    )
    with state.session.part(PART):
        state.output = [each for each in losses(result, inside("util.nest")) if _is_floating(each)][:8]


def losses(result: Any, nest: Any) -> Iterator[Any]:
    """The tensors among the results of a step that are, by name or place, its loss: single numbers."""
    return (each for each in chosen(result, nest, parts=True) if _is_single(each))


def chosen(result: Any, nest: Any, *, parts: bool) -> list[Any]:
    """What is, by name or place, the loss. ``parts``: what replicas gave, each by itself."""
    found: Any = [result]
    if isinstance(result, dict):
        found = [value for key, value in result.items() if "loss" in str(key).lower()]
    elif isinstance(result, tuple | list):
        found = list(result[:1])
    return list(nest.flatten(found, expand_composites=parts))


def _is_single(tensor: Any) -> bool:
    shape = getattr(tensor, "shape", None)
    return shape is not None and getattr(shape, "rank", None) == 0


def _some(tensor: Any, array_ops: Any) -> Any:
    """At most as many elements as may be looked at."""
    count = tensor.shape.num_elements() if tensor.shape.rank is not None else None
    flat = array_ops.reshape(tensor, [-1])
    return flat if count is not None and count <= MOST_LOOKED_AT else flat[:MOST_LOOKED_AT]


def draws_batches(graph: Any) -> bool:
    return any(op.type.startswith(DRAWS) for op in graph.get_operations())


def as_drawn(tensor: Any) -> bool:
    """Whether it comes from the iterator, perhaps through the check whether there is a batch left."""
    op = getattr(tensor, "op", None)
    while op is not None and op.type == "Identity":
        op = op.inputs[0].op
    return op is not None and op.type.startswith((*DRAWS, "If", "StatelessIf", "OptionalGetValue"))


def chosen_by_compiler() -> bool:
    """Whether XLA picks parts of graphs by itself: an added operation may change what it picks."""
    return "auto_jit" in os.environ.get("TF_XLA_FLAGS", "") or bool(inside("eager.context").context().optimizer_jit)


def _is_floating(tensor: Any) -> bool:
    return bool(getattr(getattr(tensor, "dtype", None), "is_floating", False))

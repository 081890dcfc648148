# SPDX-License-Identifier: Apache-2.0
"""Batches that a training draws inside its graph, as `fit` does: how many rows a few of them have, and their content.

Such a batch never shows in Python. So where several workers train on their processors, a few operations are traced
after `strategy.run`: they add up numbers from all over the batch as it was drawn, and put the sum and the number of
rows into a resource on the host. The guard's thread reads it. On other devices nothing is added: the batch would have
to be fetched. The program's own operations and its seeds do not change.
"""

from __future__ import annotations

import os
from typing import Any

from keepstep.guard.adapters.tensorflow.graphs import OWN_NAME, read_graph
from keepstep.guard.adapters.tensorflow.non_finite import as_drawn, chosen_by_compiler, draws_batches
from keepstep.guard.adapters.tensorflow.tensorflow_state import TensorFlowState, inside
from keepstep.guard.batches.batch_hashes import Fed
from keepstep.signals.contracts import UNKNOWN, Subject
from keepstep.signals.same_batches import FIRST

PART = "batches drawn in graphs"
LOOK_S = 0.5
SAMPLE = 512
"""The most numbers of each tensor that are looked at."""
MOST_TENSORS = 16
DOUBLED = 20
"""After the first batches, the ones whose number is a power of two, up to this many times."""
SLOTS = FIRST + DOUBLED + 1
"""The last one is for all other batches."""
STEP, START = 6364136223846793005, 1442695040888963407
"""Weights that differ from place to place."""


def attach(state: TensorFlowState) -> None:
    state.drawn = Drawn(state)
    state.session.pulse.every(LOOK_S, PART, state.drawn.look)
    state.session.at_close.append(state.drawn.at_end)


class Drawn:
    """What is counted in the graphs of this process."""

    def __init__(self, state: TensorFlowState) -> None:
        self._state, self._session = state, state.session
        self._handle: Any = None
        self._fed = Fed(state.session)
        self._known = 0
        """How many slots have been read."""
        self._rows: list[int] = []
        self._eager = 0
        """Steps that are not graphs."""
        self._stated = False

    # --- in the graph, while it is traced

    def traced(self, strategy: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`strategy.run` was traced with these arguments."""
        graph = inside("framework.ops").get_default_graph()
        if not self._counts(strategy, graph):
            return
        flat = inside("util.nest").flatten((args, kwargs), expand_composites=True)
        batch = [each for each in flat if as_drawn(each) and _has_numbers(each)][:MOST_TENSORS]
        if batch and read_graph(graph, inside("framework.tensor_util").constant_value).trains:
            self._add(batch)

    def _counts(self, strategy: Any, graph: Any) -> bool:
        state = self._state
        if not state.formed or state.world < 2 or state.coordinated or self._session.is_off(PART):
            return False
        if self._session.by_hand or int(getattr(strategy.extended, "_num_workers", 1) or 1) < 2:
            return False
        if any("CPU" not in str(device).upper() for device in strategy.extended.worker_devices):
            self._session.uncovered(PART, "they lie on devices; only batches on the host are looked at")
            return False
        return not chosen_by_compiler() and draws_batches(graph)

    def _add(self, batch: list[Any]) -> None:
        ops, array_ops, math_ops = inside("framework.ops"), inside("ops.array_ops"), inside("ops.math_ops")
        variables, dtypes = inside("ops.gen_resource_variable_ops"), inside("framework.dtypes")
        handle, pack = self._resource(), inside("ops.gen_array_ops").pack
        with ops.name_scope(OWN_NAME), ops.device(handle.device):
            total = ops.convert_to_tensor(0, dtypes.int64)
            for number, tensor in enumerate(batch, 1):
                total = total * 31 + _sum(tensor, number)
            rows = array_ops.shape_v2(batch[0], out_type=dtypes.int64)[0]
            before = variables.read_variable_op(handle, dtype=dtypes.int64)[0]
            slot = _slot(before + 1, math_ops, array_ops, dtypes)
            places = pack([ops.convert_to_tensor(0, dtypes.int64), 1 + 2 * slot, 2 + 2 * slot])
            values = pack([before + 1, total, rows])
            variables.resource_scatter_update(handle, places, values)

    def _resource(self) -> Any:
        """Numbers on the host, made by operations: a `tf.Variable` would belong to the strategy."""
        if self._handle is None:
            ops, dtypes = inside("framework.ops"), inside("framework.dtypes")
            variables, size = inside("ops.gen_resource_variable_ops"), 1 + 2 * SLOTS
            with ops.init_scope(), ops.device("CPU:0"):
                handle = variables.var_handle_op(
                    dtype=dtypes.int64, shape=[size], shared_name=f"{OWN_NAME}_drawn_{os.getpid()}", container=""
                )
                variables.assign_variable_op(handle, ops.convert_to_tensor([0] * size, dtypes.int64))
            self._handle = handle
        return self._handle

    # --- in a step that is not a graph

    def took(self, strategy: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`strategy.run` was called eagerly with these arguments, and an optimizer changed the weights."""
        state = self._state
        if state.world < 2 or state.coordinated or int(getattr(strategy.extended, "_num_workers", 1) or 1) < 2:
            return
        self._eager += 1
        name = self._fed.wants(1, self._eager)
        if name is not None:
            self._fed.see(name, 1, self._eager, inside("util.nest").flatten((args, kwargs), expand_composites=True))
            self._fed.stepped(data_parallel=True)

    # --- from the guard's thread

    def look(self) -> None:
        if self._handle is None:
            return
        dtypes, variables = inside("framework.dtypes"), inside("ops.gen_resource_variable_ops")
        read = [int(each) for each in variables.read_variable_op(self._handle, dtype=dtypes.int64).numpy()]
        while self._known < SLOTS - 1 and _number(self._known) <= read[0]:
            total, rows = read[1 + 2 * self._known : 3 + 2 * self._known]
            if rows:  # a worker whose data is over is fed empty batches
                self._fed.add(f"batch {_number(self._known)}", f"{total & (1 << 64) - 1:016x}-{rows}")
            self._known += 1
            self._rows.append(rows)
        if self._known >= FIRST and not self._stated and not self._state.shares.stated:
            self._stated = self._state.shares.stated = True
            first = set(self._rows[:FIRST])
            self._session.compare(Subject.BATCH, {"rows": str(first.pop()) if len(first) == 1 else UNKNOWN})

    def at_end(self) -> None:
        """The process ends: note what was drawn since the last look."""
        if not self._session.is_off(PART) and getattr(self._session, "framework", None):
            self.look()


def _sum(tensor: Any, number: int) -> Any:
    """A number that depends on a tensor's numbers and their places; overflows wrap around."""
    array_ops, math_ops, dtypes = inside("ops.array_ops"), inside("ops.math_ops"), inside("framework.dtypes")
    flat = array_ops.reshape(tensor, [-1])
    size = array_ops.size_v2(flat, out_type=dtypes.int64)
    bits = array_ops.strided_slice(flat, [0], [size], [size // SAMPLE + 1])
    if bits.dtype.is_floating:
        whole = {2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}[bits.dtype.size]
        bits = array_ops.bitcast(bits, whole)
    bits = math_ops.cast(bits, dtypes.int64)
    places = math_ops.range(array_ops.size_v2(bits, out_type=dtypes.int64))
    return math_ops.reduce_sum((bits + number) * (places * STEP + START)) + size


def _slot(number: Any, math_ops: Any, array_ops: Any, dtypes: Any) -> Any:
    """Where the batch of a number is put: the first ones, then 8, 16, 32, ..., else the last place."""
    doubled = math_ops.cast(
        math_ops.floor(math_ops.log(math_ops.cast(number, dtypes.float64) + 0.5) / 0.6931471805599453), dtypes.int64
    )
    fits = math_ops.logical_and(
        math_ops.equal(inside("ops.gen_bitwise_ops").bitwise_and(number, number - 1), 0), doubled < DOUBLED + 3
    )
    later = array_ops.where_v2(fits, doubled + (FIRST - 3), SLOTS - 1)
    return array_ops.where_v2(number <= FIRST, number - 1, later)


def _number(slot: int) -> int:
    """The number of the batch in a slot."""
    return slot + 1 if slot < FIRST else 1 << (slot - FIRST + 3)


def _has_numbers(tensor: Any) -> bool:
    """Whether it has rows of numbers whose bits can be looked at."""
    dtype, shape = getattr(tensor, "dtype", None), getattr(tensor, "shape", None)
    if dtype is None or shape is None or shape.rank is None or shape.rank < 1:
        return False
    return bool(dtype.is_bool or dtype.is_integer or (dtype.is_floating and dtype.size in (2, 4, 8)))

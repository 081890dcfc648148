# SPDX-License-Identifier: Apache-2.0
"""Iterators of tf.data and of distributed datasets: the wait for a batch, and what the pipeline says about it."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable
from typing import Any

from keepstep.guard.adapters.tensorflow import uneven_batches
from keepstep.guard.adapters.tensorflow.counts import Mark
from keepstep.guard.adapters.tensorflow.tensorflow_state import (
    ITERATOR,
    TensorFlowState,
    enter_call,
    first,
    inside,
    leave_call,
    replace,
)
from keepstep.signals.blackbox import BoxPhase

INPUT, EVALUATION, CHECKPOINT = int(BoxPhase.INPUT), int(BoxPhase.EVALUATION), int(BoxPhase.CHECKPOINT)
ATTRIBUTE = "_keepstep_mark"
MOST_PARTS = 64
_SHAPES = re.compile(r"Shape of tensor \S+ \[([\d,]+)\] is not compatible with expected shape \[([\d,?]+)\]")


def attach(state: TensorFlowState) -> None:
    session = state.session
    owned = getattr(inside("data.ops.iterator_ops"), "OwnedIterator", None)
    replace(session, "iterators of tf.data", owned, "__next__", lambda original: _next(state, original))
    distributed = getattr(first("distribute.input_lib"), "DistributedIteratorBase", None)
    replace(session, "iterators of strategies", distributed, "__next__", lambda original: _next(state, original))
    strategies = getattr(first("distribute.input_lib"), "DistributedDataset", None)
    replace(session, "sizes of datasets", strategies, "__iter__", lambda original: _iter(state, original))
    datasets = getattr(first("data.ops.dataset_ops"), "DatasetV2", None)
    replace(session, "sizes of datasets", datasets, "__iter__", lambda original: _iter(state, original))


def _refused(state: TensorFlowState, text: str) -> None:
    """The pipeline itself expected batches of another shape: reported like a batch that breaks its contract."""
    found = _SHAPES.search(text)
    if found is None:
        return
    seen, wanted = (each.split(",") for each in found.groups())
    kind = "short" if seen[1:] == wanted[1:] else "shape"
    fields: dict[str, Any] = {
        "kind": kind,
        "part": "batch",
        "seen": f"[{','.join(seen)}]",
        "wanted": f"[{','.join(wanted)}]",
    }
    fields |= {"step": state.session.steps, "declared": True}
    state.session.note("BatchOdd", fields, f"batch after step {state.session.steps}: {found.group()}")


def _next(state: TensorFlowState, original: Any) -> Callable[..., Any]:
    session, local, executing_eagerly, now = state.session, state.local, state.executing_eagerly, time.monotonic_ns
    look = session.guarded("dataset iterators", _look_at)
    failed = session.guarded("refused batches", functools.partial(_failed, state))

    def lean_take(self: Any, mark: Mark) -> Any:
        """The batch of a lean step."""
        before, session.phase_now = session.phase_now, INPUT
        shared = state.formed and mark.shared
        if shared:
            enter_call(state, ITERATOR, training=True)
        try:
            batch = original(self)
        except Exception as error:
            failed(mark, shared, error)
            raise
        finally:
            session.phase(before)
            if shared:
                leave_call(state)
        state.source = mark
        return batch

    def take(self: Any) -> Any:
        if session.lean and (mark := self.__dict__.get(ATTRIBUTE)) is not None:
            return lean_take(self, mark)
        if getattr(local, "taking", False) or not executing_eagerly():
            return original(self)
        began = now()
        local.taking = True
        mark = self.__dict__.get(ATTRIBUTE) or look(self, None)
        shared = state.formed and mark is not None and mark.shared
        if shared:
            enter_call(state, ITERATOR, training=session.phase_now != EVALUATION)
        before = session.phase_now
        if before not in (EVALUATION, CHECKPOINT):
            session.phase(INPUT)
        session.spent_ns += now() - began
        try:
            batch = original(self)
        except Exception as error:
            failed(mark, shared, error)
            raise
        finally:
            began = now()
            local.taking = False
            session.phase(before)
            if shared:
                leave_call(state)
            session.spent_ns += now() - began
        state.source = mark
        return batch

    return take


def _failed(state: TensorFlowState, mark: Mark | None, shared: bool, error: Exception) -> None:
    """There is no batch: the dataset is over, a peer is gone, or the pipeline expected another one."""
    if isinstance(error, StopIteration):
        uneven_batches.iterator_ended(state, mark)
    else:
        uneven_batches.left_by(state, shared, error)
        _refused(state, str(error)[:4000])


def _is_shared(iterator: Any) -> bool:
    """Whether it belongs to a strategy with several workers."""
    strategy = getattr(iterator, "_strategy", None)
    return strategy is not None and int(getattr(strategy.extended, "_num_workers", 1) or 1) > 1


def _iter(state: TensorFlowState, original: Any) -> Callable[..., Any]:
    """The dataset knows how many batches there will be; its iterator does not."""
    look = state.session.guarded("dataset iterators", _look_at)

    def iterate(self: Any) -> Any:
        iterator = original(self)
        if state.executing_eagerly():
            look(iterator, self)
        return iterator

    return iterate


def _look_at(iterator: Any, dataset: Any) -> Mark | None:
    """Once per iterator: the parts of its elements, and how many it will give."""
    spec = getattr(iterator, "element_spec", None)
    found: list[tuple[str, tuple[int | None, ...]]] = []
    _parts(spec, found)
    mark = vars(iterator)[ATTRIBUTE] = Mark(found, _length(dataset), _is_shared(iterator))
    return mark


def _length(dataset: Any) -> int | None:
    """The length that the dataset knows without reading anything; None if it does not know."""
    length = getattr(dataset, "cardinality", None)
    if callable(length):
        length = length()
    if length is None:
        return None
    number = int(length)
    return number if number >= -1 else None


def _parts(spec: Any, found: list[tuple[str, tuple[int | None, ...]]]) -> None:
    if len(found) >= MOST_PARTS:
        return
    if isinstance(spec, dict):
        for each in spec.values():
            _parts(each, found)
    elif isinstance(spec, tuple | list):
        for each in spec:
            _parts(each, found)
    elif hasattr(spec, "_value_specs"):  # a value for each replica of this process: all alike
        _parts(spec._value_specs[0], found)
    elif hasattr(spec, "shape") and hasattr(spec, "dtype") and getattr(spec.shape, "rank", None) is not None:
        found.append((str(getattr(spec.dtype, "name", spec.dtype)), tuple(spec.shape)))

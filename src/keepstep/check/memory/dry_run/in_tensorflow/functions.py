# SPDX-License-Identifier: Apache-2.0
"""Every call of a `tf.function`, and every step of Keras: traced, written in XLA's form, planned, and not run."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from keepstep.check.memory.dry_run.storage_log import StorageLog
from keepstep.check.memory.hlo_plan import plan
from keepstep.check.memory.hlo_text import parse_hlo

CHANGES = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply")


class Functions:
    """``enough`` is called when one that changes variables has been called twice."""

    def __init__(self, log: StorageLog, enough: Callable[[], None], *, on_gpu: bool) -> None:
        self.log = log
        self.on_gpu = on_gpu
        self.programs: dict[str, Any] = {}
        self.uncompiled = False
        """The largest function runs as a graph, operation by operation."""
        self.steps = 0
        self._enough = enough
        self._known: dict[Any, tuple[int, Any, bool]] = {}
        self._calls: dict[Any, int] = {}
        self._most = 0
        self._alive: list[Any] = []
        self._inside = False

    def install(self) -> None:
        plain = Function.__call__

        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside or not tf.executing_eagerly():
                return plain(function, *args, **kwargs)
            jit = bool(function._jit_compile)
            return self.called(function, function.python_function, args, kwargs, jit)

        Function.__call__ = call
        self._keras()

    def _keras(self) -> None:
        """Keras takes batches within its function; here they are taken before it."""
        try:
            from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
            from keras.src.trainers.trainer import model_supports_jit
        except ImportError:
            return

        def make(model: Any, step: Any) -> Any:
            def one(iterator: Any) -> Any:
                return self.called((id(model), step.__name__), step, (next(iterator),), {}, bool(model.jit_compile))

            return one

        TensorFlowTrainer._make_function = make
        if self.on_gpu:
            # with a GPU Keras compiles what it can, unless there is a strategy; without one it would not
            TensorFlowTrainer._resolve_auto_jit_compile = lambda model: (
                model._distribute_strategy is None and model_supports_jit(model)
            )

    def called(self, key: Any, function: Any, args: Any, kwargs: Any, jit: bool) -> Any:
        """Count one call, and give results without content."""
        if tf.distribute.get_replica_context() is None or tf.distribute.get_strategy().num_replicas_in_sync > 1:
            self.log.guessed("a strategy with several replicas: one of them was counted")
        shapes = repr(tf.nest.map_structure(_described, (args, kwargs)))
        if (key, shapes) not in self._known:
            self._alive.append(key)
            self._inside = True
            try:
                self._known[key, shapes] = self._trace(len(self._known), function, args, kwargs, jit)
            finally:
                self._inside = False
        number, results, changes = self._known[key, shapes]
        self._count(number, args, kwargs)
        if changes:
            self._calls[key] = self._calls.get(key, 0) + 1
            self.steps = max(self.steps, self._calls[key])
            if self.steps == 2:
                self._enough()
        return tf.nest.map_structure(_empty, results)

    def _trace(self, number: int, function: Any, args: Any, kwargs: Any, jit: bool) -> tuple[int, Any, bool]:
        once = tf.function(function, jit_compile=True, autograph=True)
        concrete = once.get_concrete_function(*args, **kwargs)
        text = once.experimental_get_compiler_ir(*args, **kwargs)(stage="hlo")
        made = plan(parse_hlo(text), compiled=jit)
        self.programs[str(number)] = {"name": getattr(function, "__name__", "step"), **asdict(made)}
        if made.arguments + made.extra > self._most:
            self._most, self.uncompiled = made.arguments + made.extra, not jit
        graphs = [
            concrete.graph,
            *(each.graph for each in concrete.graph._functions.values() if hasattr(each, "graph")),
        ]
        changes = any(each.type.startswith(CHANGES) for graph in graphs for each in graph.get_operations())
        return number, concrete.structured_outputs, changes

    def _count(self, number: int, args: Any, kwargs: Any) -> None:
        made = self.programs[str(number)]
        given = [each for each in tf.nest.flatten((args, kwargs)) if isinstance(each, tf.Tensor)]
        held = [self.log.born(_variables(), "variable"), self.log.born(sum(map(_size, given)), "input")]
        held.append(self.log.born(made["extra"], f"program {number}"))
        self.log.scratch = max(self.log.scratch, made["scratch"])
        for each in held:
            self.log.died(each)


def _described(value: Any) -> Any:
    return (value.shape, value.dtype) if isinstance(value, tf.Tensor) else value


def _size(value: Any) -> int:
    return (value.shape.num_elements() or 0) * value.dtype.size


def _variables() -> int:
    """The bytes of all variables that live."""
    found = {}
    for each in gc.get_objects():
        if isinstance(each, tf.Variable) and getattr(each, "shape", None) is not None:
            found[getattr(each, "_unique_id", id(each))] = _size(each)
    return sum(found.values())


def _empty(value: Any) -> Any:
    """What the script gets for a result: ones."""
    if not isinstance(value, tf.Tensor):
        return value
    shape = [1 if each is None else each for each in value.shape]
    return tf.ones(shape, value.dtype) if value.dtype.is_floating else tf.zeros(shape, value.dtype)

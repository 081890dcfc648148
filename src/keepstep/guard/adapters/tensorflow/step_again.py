# SPDX-License-Identifier: Apache-2.0
"""Which operation of a step of TensorFlow gives a number that is not finite: its graph is run once more, beside it.

A step changes its variables in place, so the step that was lost cannot be repeated. But where the variables are still
finite while the loss is not, what the guard has last seen of the step (its arguments) gives the same again. Operations
are executed one by one, in a thread of the guard, and only those that change nothing: no variable, iterator, collective
or call into Python. From the loss one goes back along what is not finite; so a NaN that a mask discards is no answer.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.tensorflow.graphs import library_function
from keepstep.guard.adapters.tensorflow.tensorflow_state import inside
from keepstep.guard.batches.batch_hashes import digest_of
from keepstep.guard.record.user_line import is_library, name_of_line

if TYPE_CHECKING:
    from keepstep.guard.protocols import Adapts

PART = "the first non-finite value of TensorFlow's steps"
MOST_S, MOST_BYTES, MOST_OPERATIONS = 5.0, 256 << 20, 20_000
READS = ("ReadVariableOp", "ResourceGather")
"""Operations with a state that change none..."""
DRAWS = {"RandomUniform": "random", "RandomStandardNormal": "standard_normal", "TruncatedNormal": "standard_normal"}
"""... and those in whose place numbers of our own are drawn: TensorFlow's generators stay where they are."""
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
GIVEN = ("Placeholder",)


class NotAgain(Exception):
    """It cannot be run once more; the words say why."""


class Seen:
    """An operation of the graph and whether its result is finite; None: it was not run."""

    __slots__ = ("finite", "inputs", "op", "order")

    def __init__(self, op: Any, order: int, finite: bool | None, inputs: list[Any]) -> None:
        self.op, self.order, self.finite, self.inputs = op, order, finite, inputs


class Run:
    """One evaluation of a graph, with the graphs it calls."""

    def __init__(self) -> None:
        self._until = time.monotonic() + MOST_S
        self._bytes = self._count = 0
        import numpy  # TensorFlow has imported it

        self._execute, self._context = inside("eager.execute"), inside("eager.context").context()
        self._numpy = numpy
        self._drawn = numpy.random.default_rng(0)

    def of(self, graph: Any, given: list[Any], seen_of: list[Seen | None]) -> list[tuple[Any, Seen | None]]:
        """The outputs: each with its value, where there is one, and what made it."""
        known: dict[int, tuple[Any, Seen | None]] = {
            id(each): (value, seen) for each, value, seen in zip(graph.inputs, given, seen_of, strict=True)
        }
        for op in graph.get_operations():
            self._count += 1
            if time.monotonic() > self._until or self._count > MOST_OPERATIONS or self._bytes > MOST_BYTES:
                raise NotAgain("the step is too large to be run operation by operation")
            if op.type in GIVEN:
                continue
            taken = [known.get(id(each), (None, None)) for each in op.inputs]
            makers = [seen for _, seen in taken if seen is not None]
            values = [value for value, _ in taken]
            if op.type in CALLS and all(value is not None for value in values):
                inner = library_function(graph, str(op.get_attr("f").name))
                if inner is not None and len(inner.inputs) == len(values):
                    results = self.of(inner, values, [seen for _, seen in taken])
                    known.update((id(out), each) for out, each in zip(op.outputs, results, strict=True))
                    continue
            made = self._made(op, values) if all(value is not None for value in values) else None
            seen = Seen(op, self._count, None if made is None else self._are_finite(made), makers)
            for place, out in enumerate(op.outputs):
                known[id(out)] = (None if made is None else made[place], seen)
        return [known.get(id(each), (None, None)) for each in graph.outputs]

    def _made(self, op: Any, values: list[Any]) -> list[Any] | None:
        if op.type == "Const":
            value = inside("framework.tensor_util").MakeNdarray(op.get_attr("value"))
            return [inside("framework.ops").convert_to_tensor(value)]
        if op.type in DRAWS:
            drawn = getattr(self._drawn, DRAWS[op.type])([int(each) for each in values[0].numpy()])
            return [inside("framework.ops").convert_to_tensor(drawn.astype(op.outputs[0].dtype.as_numpy_dtype))]
        if (op.op_def.is_stateful and op.type not in READS) or not op.outputs:
            return None
        try:
            attrs = [part for each in op.op_def.attr for part in (each.name, _plain(op.get_attr(each.name)))]
            made = self._execute.execute(
                op.type, len(op.outputs), inputs=_grouped(op, values), attrs=tuple(attrs), ctx=self._context
            )
        except Exception:  # an operation that knows only graphs: what follows from it is unknown
            return None
        self._bytes += sum(int(each.shape.num_elements() or 0) * each.dtype.size for each in made)
        return list(made)

    def _are_finite(self, made: list[Any]) -> bool:
        floating = [each for each in made if each.dtype.is_floating]
        return all(bool(self._numpy.isfinite(each.numpy().astype("float64")).all()) for each in floating)


class StepAgain:
    """``look`` from the guard's thread, once the loss stays lost."""

    def __init__(self, session: Adapts) -> None:
        self._session = session
        self._thread: threading.Thread | None = None
        session.at_close.append(self._end)

    def look(self, step: tuple[Any, Any, int] | None, chosen: Any) -> None:
        """``step``: a traced function, its arguments, and its number; ``chosen`` picks the loss among its results."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._session.guarded(PART, self._find), args=(step, chosen), daemon=True, name="keepstep-again"
            )
            self._thread.start()

    def _end(self) -> None:
        if self._thread is not None:
            self._thread.join(2 * MOST_S)

    def _find(self, step: tuple[Any, Any, int] | None, chosen: Any) -> None:
        try:
            if os.environ.get("KEEPSTEP_REPLAY") == "off":
                raise NotAgain("KEEPSTEP_REPLAY=off")
            if step is None:
                raise NotAgain("its batch is drawn inside the graph, or the step is no traced function")
            self._tell(step, *self._origin(step, chosen))
        except NotAgain as error:
            self._session.uncovered(PART, str(error))

    def _origin(self, step: tuple[Any, Any, int], chosen: Any) -> tuple[Any, str | None]:
        """The operation, or None and what was not finite before it."""
        concrete, args, _ = step
        graph = concrete.graph
        given = [*args, *concrete.captured_inputs]
        for variable in graph.variables:
            value = variable.read_value() if "CPU" in str(variable.device) else None
            if value is None:
                raise NotAgain("its variables are not on the host's processor")
            if value.dtype.is_floating and not _is_finite(value):
                name = str(variable.name).partition(":")[0]
                raise NotAgain(
                    f"the step has changed its variables in place ({name} is not finite by now), so nothing is left to "
                    "run it with"
                )
        if any(each.dtype.is_floating and not _is_finite(each) for each in args):
            return None, None
        with inside("framework.ops").device("CPU:0"):
            outputs = Run().of(graph, given, [None] * len(given))
        losses = {id(each) for each in chosen(graph.structured_outputs)}
        roots = [seen for each, (_, seen) in zip(graph.outputs, outputs, strict=True) if id(each) in losses and seen]
        found, waiting, known = list[Seen](), list(roots), set[int]()
        while waiting:
            seen = waiting.pop()
            if id(seen) in known or seen.finite:
                continue
            known.add(id(seen))
            waiting += seen.inputs
            if seen.finite is False and all(each.finite for each in seen.inputs):
                found.append(seen)
        if not found:
            raise NotAgain("its batch is drawn inside the graph, or the repeat gave only finite numbers")
        return min(found, key=lambda each: each.order).op, None

    def _tell(self, step: tuple[Any, Any, int], op: Any, layer: str | None) -> None:
        session, (_, args, number) = self._session, step
        line = None if op is None else _line(op)
        kind = None if op is None else _snake(op.type)
        layer = layer if op is None else str(op.name).rpartition("/")[0] or None
        batch = next((each for each in args if each.dtype.is_floating and each.shape.rank), None)
        words = None
        if batch is not None:
            digest = digest_of(batch.numpy())
            words = f"{batch.dtype.name}{list(batch.shape)}" + (f", hash {digest}" if digest is not None else "")
        if op is None:
            said = "a batch is not finite"
        else:
            where = (f" in {layer}" if layer else "") + (f" at {line}" if line else "")
            said = f"probably {kind}{where} gives the first such value"
        said = f"in step {number} {said}"
        fields = {"step": number, "op": kind, "layer": layer, "own": True, "sure": op is None, "batch": words}
        session.note("FirstNonFinite", fields | {"line": line, "no_line": None}, said)
        session.say(said)
        session.flush()


def _is_finite(tensor: Any) -> bool:
    import numpy

    return bool(numpy.isfinite(tensor.numpy().astype("float64")).all())


def _plain(value: Any) -> Any:
    """An attribute as the eager runtime takes it."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.as_datatype_enum if hasattr(value, "as_datatype_enum") else value


def _grouped(op: Any, values: list[Any]) -> list[Any]:
    """The inputs, of which some are lists by the operation's definition."""
    found, at = list[Any](), 0
    for each in op.op_def.input_arg:
        many = None
        if each.number_attr:
            many = int(op.get_attr(each.number_attr))
        elif each.type_list_attr:
            many = len(op.get_attr(each.type_list_attr))
        if many is None:
            found.append(values[at])
        else:
            found += values[at : at + many]
        at += 1 if many is None else many
    return found


def _line(op: Any) -> str | None:
    """Where the program made it: the innermost line outside libraries."""
    for each in reversed(list(op.traceback or ())):
        if not is_library(each.filename):
            return name_of_line(each.filename, each.lineno)
    return None


def _snake(kind: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() and at else each.lower() for at, each in enumerate(kind))

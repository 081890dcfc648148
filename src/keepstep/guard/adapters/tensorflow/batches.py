# SPDX-License-Identifier: Apache-2.0
"""The tensors that a training function is called with, shown to the batch checks for a microsecond or two."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from keepstep.guard.batches.batch_contract import LEARN, Batches
from keepstep.guard.batches.batch_hashes import Fed
from keepstep.signals.contracts import Subject

if TYPE_CHECKING:
    from keepstep.guard.adapters.tensorflow.tensorflow_state import TensorFlowState

Places = tuple[tuple[int, str, tuple[int | None, ...] | None], ...]
"""Which of the flat inputs are data: place, dtype, and the shape that the function was traced for."""
MOST_LOOKED_AT = 1 << 16
"""The most elements of a tensor whose values are looked at."""
VALUES_EVERY = 32
"""Batches whose shapes are as before are looked into only now and then."""
GLANCE_EVERY = 500
"""The pause between two looks at whether a batch is finite, as a multiple of what the last one took."""
NO_DATA = ("resource", "variant", "string")


class _BatchTensor:
    """One tensor of a batch as the batch checks expect it. Kept, and filled again at each step."""

    __slots__ = ("dtype", "shape", "tensor")

    def __init__(self, dtype: str, shape: tuple[int | None, ...]) -> None:
        self.dtype, self.shape = dtype, shape
        self.tensor: Any = None


class FunctionBatches:
    """The batches of all functions with one name: training and fine-tuning may take different ones."""

    def __init__(self, state: TensorFlowState, *, first: bool) -> None:
        self._state, session = state, state.session
        self._batches = session.batches if first else Batches(session)
        self._batches.declare_like(session.batches)
        self._shapes: list[tuple[int | None, ...]] = []
        self._places: Places = ()
        self._parts: tuple[_BatchTensor, ...] = ()
        self._count = 0
        self._fed = Fed(session) if first else None
        self._stated = self._told_finite = False
        self._glance_due = 0
        session.values = values

    def see(self, flat: Any, places: Places, shared: bool) -> None:
        self._count += 1
        fed = self._fed
        due = fed is not None and self._state.session.steps >= fed.next_step
        if places is self._places and self._count > LEARN + 1 and self._count % VALUES_EVERY and not due:
            for (place, _, _), known in zip(places, self._shapes, strict=True):
                quick = getattr(flat[place], "_shape_tuple", None)
                if quick is None or quick() != known:
                    break
            else:
                self._glance(flat, places)
                return
        shapes = [_shape(flat[place]) for place, _, _ in places]
        same = shapes == self._shapes and places is self._places
        session = self._state.session
        if session.by_hand or session.is_off("batch checks"):
            return
        tensors = [flat[place] for place, _, _ in places]
        if not same:
            self._parts = tuple(
                _BatchTensor(dtype, self._open(dtype, shape, traced))
                for (_, dtype, traced), shape in zip(places, shapes, strict=True)
            )
            self._shapes, self._places = shapes, places
        if shared and fed is not None and (name := fed.wants(1, self._count)) is not None:
            fed.see(name, 1, self._count, tensors)
            fed.stepped(data_parallel=True)  # all workers of such a strategy train on data of their own
        for part, tensor in zip(self._parts, tensors, strict=True):
            part.tensor = tensor
        self._batches.see(self._parts, session.values)
        for part in self._parts:
            part.tensor = None
        if shared and not self._stated and self._count > LEARN and self._state.shares.stated is False:
            self._stated = self._state.shares.stated = True
            session.compare(Subject.BATCH, self._batches.signature)

    def _glance(self, flat: Any, places: Places) -> None:
        """Whether a batch is finite: as often as its share of the time allows, for a small one always. Hot."""
        began = time.monotonic_ns()
        if self._told_finite or began < self._glance_due or not self._batches.finite or self._state.session.by_hand:
            return
        for number, (place, dtype, _) in enumerate(places):
            if "float" in dtype and (seen := values(flat[place])) is not None and not seen[2]:
                self._told_finite = True
                self._batches.not_finite(f"batch[{number}]")
        self._glance_due = began + (time.monotonic_ns() - began) * GLANCE_EVERY

    def _open(
        self, dtype: str, shape: tuple[int | None, ...], traced: tuple[int | None, ...] | None
    ) -> tuple[int | None, ...]:
        """The shape without the sizes that the function's signature or the dataset declares to vary."""
        declared = [traced] if traced is not None and len(traced) == len(shape) else []
        if self._state.source is not None:
            declared += [
                sizes for kind, sizes in self._state.source.sizes if kind == dtype and len(sizes) == len(shape)
            ]
        return tuple(
            size if number == 0 or all(sizes[number] is not None for sizes in declared) else None
            for number, size in enumerate(shape)
        )


def places_of(graph: Any, count: int) -> Places:
    """The data among a function's first ``count`` inputs, its arguments: handles are not data.

    Its captures are not read: that would draw the keys of the next collectives.
    """
    found = []
    for place, tensor in enumerate(graph.inputs[: min(count, 64)]):
        dtype = tensor.dtype.name
        if dtype not in NO_DATA:
            shape = tuple(tensor.shape) if tensor.shape.rank is not None else None
            found.append((place, dtype, shape))
    return tuple(found)


def _shape(tensor: Any) -> tuple[int | None, ...]:
    quick = getattr(tensor, "_shape_tuple", None)
    return tuple(quick() if quick is not None else tensor.shape)


def values(thing: Any) -> tuple[float, float, bool] | None:
    """Least, largest and whether all are finite, among the first elements; None if not numbers on the host."""
    tensor = getattr(thing, "tensor", thing)
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if not isinstance(tensor, numpy.ndarray):
        if not hasattr(tensor, "_numpy") or "CPU" not in str(getattr(tensor, "device", "")):
            return None
        tensor = tensor._numpy()
    if tensor.size == 0 or tensor.dtype.kind not in "fiu":
        return None
    some = tensor if tensor.size <= MOST_LOOKED_AT else tensor.flat[:MOST_LOOKED_AT]
    finite = True if tensor.dtype.kind != "f" else bool(numpy.isfinite(some).all())
    return float(some.min()), float(some.max()), finite

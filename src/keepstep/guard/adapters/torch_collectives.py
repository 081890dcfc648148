# SPDX-License-Identifier: Apache-2.0
"""Collectives that a script issues itself: which, of what shape and type, on which group, remembered in words.

DDP, FSDP and compiled code issue theirs below Python; those show only in torch's own sequence numbers.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from types import ModuleType
from typing import Any, NamedTuple

from keepstep.core.blackbox import Kind
from keepstep.guard.adapters import torch_watch
from keepstep.guard.adapters.torch_state import Torch, replace

_COLLECTIVE = int(Kind.COLLECTIVE)
REMEMBERED = 48


class Form(NamedTuple):
    """Where a function takes its tensor, group and reduction, and what must be the same on every rank."""

    tensor: tuple[int, str] | None
    group: int
    reduction: int | None = None
    same: str = "sizes"
    """``sizes``: operation, type and number of elements; ``bytes``: operation and bytes; ``type``: operation and type."""


FORMS = {
    "all_reduce": Form((0, "tensor"), 2, 1),
    "broadcast": Form((0, "tensor"), 2, same="bytes"),
    "reduce": Form((0, "tensor"), 3, 2),
    "all_gather": Form((1, "tensor"), 2, same="type"),
    "all_gather_into_tensor": Form((1, "input_tensor"), 2, same="bytes"),
    "all_gather_single": Form((1, "input_tensor"), 2, same="bytes"),
    "gather": Form((0, "tensor"), 3, same="type"),
    "scatter": Form((0, "tensor"), 3, same="bytes"),
    "reduce_scatter": Form((0, "output"), 3, 2),
    "reduce_scatter_tensor": Form((1, "input"), 3, 2),
    "reduce_scatter_single": Form((1, "input"), 3, 2),
    "all_to_all": Form(None, 2),
    "all_to_all_single": Form((1, "input"), 4, same="type"),
    "barrier": Form(None, 0),
    "monitored_barrier": Form(None, 0),
}


OPERATIONS = tuple(FORMS)
DTYPES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128",
    "bool", "bfloat16", "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64",
)  # fmt: skip


def packed(operation: str, dtype: str, elements: int) -> int:
    """A collective as the ``extra`` of its record, above the eight bits of the group; 0 where it does not fit."""
    if elements >= 1 << 39:
        return 0
    kind = DTYPES.index(dtype) + 1 if dtype in DTYPES else 0
    return (OPERATIONS.index(operation) + 1) << 8 | kind << 16 | elements << 24


def unpacked(extra: int) -> str:
    """The words for it; empty where there are none."""
    operation, kind, elements = extra >> 8 & 0xFF, extra >> 16 & 0xFF, extra >> 24
    if not 0 < operation <= len(OPERATIONS):
        return ""
    name = OPERATIONS[operation - 1]
    return f"{name} {DTYPES[kind - 1]}, {elements} elements" if 0 < kind <= len(DTYPES) else name


class Issued:
    """One collective. Holds no tensor."""

    __slots__ = ("dtype", "failed", "form", "group", "itemsize", "number", "operation", "plan", "reduction", "running", "sequence", "shape")

    def __init__(self, operation: str, form: Form) -> None:
        self.operation, self.form = operation, form
        self.shape: tuple[int, ...] | None = None
        self.dtype: Any = None
        self.itemsize = 1
        self.reduction: Any = None
        self.group = ""
        self.number = 0
        """The how-manieth of the script's collectives on its group."""
        self.sequence = 0
        """The group's own number of it."""
        self.plan = 0
        self.running = True
        self.failed = False

    @property
    def elements(self) -> int:
        found = 1
        for size in self.shape or ():
            found *= size
        return found

    @property
    def packed(self) -> int:
        dtype = str(self.dtype).rpartition(".")[2] if self.shape is not None else ""
        return packed(self.operation, dtype, self.elements if dtype else 0)

    @property
    def words(self) -> str:
        text = self.operation
        if self.shape is not None:
            text += f" {str(self.dtype).rpartition('.')[2]}{list(self.shape)}"
        reduction = str(self.reduction or "").rpartition(".")[2]
        return text + (f" {reduction}" if reduction.isupper() and reduction != "SUM" else "")

    @property
    def key(self) -> str:
        """What must be the same on every rank."""
        elements, dtype = self.elements, str(self.dtype).rpartition(".")[2]
        if self.form.same == "bytes":
            return f"{self.operation} {elements * self.itemsize} bytes"
        if self.form.same == "type" or self.shape is None:
            return f"{self.operation} {dtype}"
        return f"{self.operation} {dtype}x{elements} {str(self.reduction or '').rpartition('.')[2]}"


class Collectives:
    """The last ones of each group."""

    def __init__(self, state: Torch) -> None:
        self._state = state
        self.recent: dict[str, deque[Issued]] = {}
        self._counts: dict[str, int] = {}
        self._plans: dict[tuple[Any, ...], tuple[int, int]] = {}
        self.inside = threading.local()

    def begin(self, operation: str, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Issued | None:
        state = self._state
        group = kwargs.get("group") if len(args) <= form.group else args[form.group]
        if group is None:
            group = state.default_group()
        if state.closed or not hasattr(group, "group_name"):
            return None  # no world, or not in the group
        issued = Issued(operation, form)
        if form.tensor is not None:
            place, name = form.tensor
            tensor = args[place] if len(args) > place else kwargs.get(name)
            if tensor is not None:
                issued.shape, issued.dtype, issued.itemsize = tuple(tensor.shape), tensor.dtype, tensor.element_size()
        if form.reduction is not None:
            issued.reduction = args[form.reduction] if len(args) > form.reduction else kwargs.get("op")
        name = issued.group = group.group_name
        issued.sequence = state.sequence(group) + 1
        issued.number = self._counts[name] = self._counts.get(name, 0) + 1
        recent = self.recent.get(name)
        if recent is None:
            recent = self.recent[name] = deque(maxlen=REMEMBERED)
        recent.append(issued)
        key = (operation, issued.shape, issued.dtype)
        known = self._plans.get(key)
        if known is None:
            known = state.session.plan(issued.words) if len(self._plans) < 100 else 0, issued.packed
            if len(self._plans) < 1000:
                self._plans[key] = known
        issued.plan, extra = known
        session = state.session
        session.write(_COLLECTIVE, issued.sequence, extra)
        if issued.plan:
            session.plan_entered(issued.plan)
        if state.thread != threading.get_ident() and not state.steps:
            state.thread, state.native_thread = threading.get_ident(), threading.get_native_id()
        return issued

    def end(self, issued: Issued) -> None:
        issued.running = False
        if issued.plan:
            self._state.session.plan_left(issued.plan)

    def failed(self, issued: Issued) -> None:
        issued.failed = True


def hook(state: Torch, c10d: ModuleType) -> None:
    """Every function of torch.distributed that moves tensors between all members of a group."""
    state.collectives = collectives = Collectives(state)
    modules = [c10d, state.torch.distributed]
    for name, form in FORMS.items():
        if hasattr(c10d, name):
            replace(modules, name, _watched(state, collectives, name, form, getattr(c10d, name)))


def _watched(state: Torch, collectives: Collectives, name: str, form: Form, original: Any) -> Any:
    session, is_compiling, inside = state.session, state.is_compiling, collectives.inside
    begin = session.guarded("collectives", collectives.begin)
    end = session.guarded("collectives", collectives.end)
    failed = session.guarded("collectives", collectives.failed)
    tell = session.guarded("failed collectives", functools.partial(torch_watch.after_failure, state))

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        if getattr(inside, "one", False):
            return original(*args, **kwargs)
        inside.one = True
        try:
            issued = begin(name, form, args, kwargs)
            try:
                result = original(*args, **kwargs)
            except Exception:
                if issued is not None:
                    failed(issued)
                    tell(issued)
                raise
            if issued is not None:
                end(issued)
            return result
        finally:
            inside.one = False

    return call

# SPDX-License-Identifier: Apache-2.0
"""Collectives that a script issues itself: which ones, of what shape and type, on which group.

DDP, FSDP and compiled code issue theirs below Python; those show only in torch's own sequence numbers.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import deque
from types import CodeType, ModuleType
from typing import Any

from keepstep.guard.adapters.torch.collectives import progress_watch
from keepstep.guard.adapters.torch.issued_collective import Form, IssuedCollective, Shaped
from keepstep.guard.adapters.torch.torch_state import TorchState, replace
from keepstep.guard.adapters.tracebacks import OWN
from keepstep.signals.blackbox import RecordKind
from keepstep.signals.collective_history import MOST_FILES, place

_COLLECTIVE, _PLAN = int(RecordKind.COLLECTIVE), int(RecordKind.PLAN)
REMEMBERED = 48
CALLER, DEEPEST = 4, 40
"""Calls between the script and the place that asks for its line, and the most calls searched for it."""
TORCHS_OWN, PACKAGE = -2, -1
NAMED, KNOWN = 100, 1000
"""The most shapes that get a plan of their own, and the most that are kept."""


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
    "all_gather_object": Form(None, 2, same="objects"),
    "broadcast_object_list": Form(None, 2, same="objects"),
    "gather_object": Form(None, 3, same="objects"),
    "scatter_object_list": Form(None, 3, same="objects"),
}


class Collectives:
    """The last ones of each group."""

    def __init__(self, state: TorchState) -> None:
        self._state = state
        self._recent = state.issued
        self._counts: dict[str, int] = {}
        self._shaped: dict[tuple[Any, ...], Shaped] = {}
        self.inside: set[int] = set()
        """Threads that are in one: what it calls itself is not a collective of the script."""
        self._files: dict[str, int] = {}
        """The number of each file of the script; negative: torch's own, or of an installed package."""

    def begin(
        self, operation: str, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> IssuedCollective | None:
        state = self._state
        given = len(args)
        group = kwargs.get("group") if given <= form.group else args[form.group]
        if group is None:
            group = state.default_group()
        if state.closed or not hasattr(group, "group_name"):
            return None  # no world, or not in the group
        tensor = reduction = None
        if form.tensor is not None:
            position, name = form.tensor
            tensor = args[position] if given > position else kwargs.get(name)
            if tensor is not None and not isinstance(tensor, state.torch.Tensor):
                return None  # torch refuses it
        if form.reduction is not None:
            reduction = args[form.reduction] if given > form.reduction else kwargs.get("op")
        name = group.group_name
        key = (
            (operation, tensor.shape, tensor.dtype, reduction, name)
            if tensor is not None
            else (operation, None, None, reduction, name)
        )
        try:
            shaped = self._shaped.get(key)
        except TypeError:  # the script's own reduction, which is not hashable
            key = (operation, key[1], key[2], str(reduction), name)
            shaped = self._shaped.get(key)
        if shaped is None:
            shaped = self._new(key, form, tensor)
        number = self._counts[name] = self._counts.get(name, 0) + 1
        file, code, lineno = self._site()
        issued = IssuedCollective(shaped, number, state.sequence(group) + 1, code, lineno)
        self._recent[name].append(issued)
        write = state.session.write
        write(_COLLECTIVE | place(file, lineno) << 32, issued.sequence, shaped.packed)
        if shaped.plan:
            write(_PLAN, shaped.plan, 1)
        if not state.steps and state.thread != threading.get_ident():
            state.thread, state.native_thread = threading.get_ident(), threading.get_native_id()
        return issued

    def _site(self) -> tuple[int, CodeType | None, int]:
        """The script's line that issues it: the innermost outside torch and installed packages, else outside torch."""
        frame = sys._getframe(CALLER)
        files, nearest = self._files, None
        for _ in range(DEEPEST):
            code = frame.f_code
            file = files.get(code.co_filename)
            if file is None:
                file = self._new_file(code.co_filename)
            if file > 0:
                return file, code, frame.f_lineno
            if nearest is None and file == PACKAGE:
                nearest = code, frame.f_lineno
            if frame.f_back is None:
                break
            frame = frame.f_back
        return (0, *nearest) if nearest is not None else (0, None, 0)

    def _new_file(self, path: str) -> int:
        if path.startswith(("<", self._state.folder, OWN)) or len(self._files) >= MOST_FILES - 1:
            number = TORCHS_OWN
        elif path.startswith((sys.prefix, os.path.dirname(os.__file__))):
            number = PACKAGE
        else:
            number = self._state.session.file(os.path.basename(path))
        self._files[path] = number
        return number

    def _new(self, key: tuple[Any, ...], form: Form, tensor: Any) -> Shaped:
        operation, _, _, reduction, name = key
        shaped = Shaped(operation, form, tensor, reduction, name)
        self._recent.setdefault(name, deque(maxlen=REMEMBERED))
        if len(self._shaped) < NAMED:
            shaped.plan = self._state.session.plan(shaped.words)
        if len(self._shaped) < KNOWN:
            self._shaped[key] = shaped
        return shaped

    def end(self, issued: IssuedCollective) -> None:
        issued.running = False
        if issued.shaped.plan:
            self._state.session.write(_PLAN, issued.shaped.plan, 0)

    def failed(self, issued: IssuedCollective) -> None:
        issued.failed = True


def hook(state: TorchState, c10d: ModuleType) -> None:
    """Every function of torch.distributed that moves tensors between all members of a group."""
    collectives = Collectives(state)
    modules = [c10d, state.torch.distributed]
    for name, form in FORMS.items():
        if hasattr(c10d, name):
            replace(modules, name, _watched(state, collectives, name, form, getattr(c10d, name)))


def _watched(state: TorchState, collectives: Collectives, name: str, form: Form, original: Any) -> Any:
    session, is_compiling, inside = state.session, state.is_compiling, collectives.inside
    begin = session.guarded("collectives", collectives.begin)
    end = session.guarded("collectives", collectives.end)
    failed = session.guarded("collectives", collectives.failed)
    tell = session.guarded("failed collectives", functools.partial(progress_watch.after_failure, state))

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        thread = threading.get_ident()
        if thread in inside:
            return original(*args, **kwargs)
        inside.add(thread)
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
            inside.discard(thread)

    return call

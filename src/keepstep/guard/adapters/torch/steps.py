# SPDX-License-Identifier: Apache-2.0
"""Steps through torch's official optimizer hooks, and batches through its loaders."""

from __future__ import annotations

import functools
import threading
import time
from types import ModuleType
from typing import Any

from keepstep.guard.adapters.torch.numbers.own_past import PART as OWN_PAST
from keepstep.guard.adapters.torch.torch_state import TorchState
from keepstep.guard.agree.fingerprints import PART
from keepstep.signals.blackbox import BoxPhase
from keepstep.signals.contracts import UNKNOWN, Subject

_COMPUTE, _EVALUATION, _INPUT = int(BoxPhase.COMPUTE), int(BoxPhase.EVALUATION), int(BoxPhase.INPUT)
_now = time.monotonic_ns
SIGNED_AT = 4
"""The step at which ranks compare batches: varying sizes have shown up by then."""
SETTINGS = tuple("lr momentum weight_decay betas eps nesterov dampening alpha amsgrad maximize rho".split())


def hook_optimizers(state: TorchState, module: ModuleType) -> None:
    """Every step of every optimizer. A compiled step traces the hooks too: there they do nothing."""
    steps = TorchSteps(state)
    session, is_compiling = state.session, state.is_traced
    before = session.guarded("optimizer steps", steps.before)
    after = session.guarded("optimizer steps", steps.after)
    replicas = state.replicas
    look = session.guarded(PART, replicas.stepped)
    replicated = session.guarded(PART, steps.replicated)
    past = state.own_past
    look_before = session.guarded(OWN_PAST, past.before)
    look_after = session.guarded(OWN_PAST, past.after)

    def leads(optimizer: Any) -> None:
        """The leading optimizer is about to make a step."""
        past.number += 1
        if past.number >= past.next:
            look_before(optimizer)

    def keepstep_before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        if session.lean and id(optimizer) == steps.lead:
            steps.outer = steps.lead
            leads(optimizer)
            return
        before(optimizer)
        if id(optimizer) == steps.outer == steps.lead:
            leads(optimizer)

    def keepstep_after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        if past.looking is not None and id(optimizer) == steps.lead:
            look_after(optimizer)
        if session.lean and steps.outer == steps.lead == id(optimizer):
            steps.outer, steps.backwards = 0, state.backwards
            if steps.lead_shares:
                state.steps += 1
            session.step_done()
            if steps.lead_replicated:
                look(optimizer)
            return
        is_outer = id(optimizer) == steps.outer
        after(optimizer)
        if is_outer and replicas.shared and replicated(optimizer):
            look(optimizer)

    module.register_optimizer_step_pre_hook(keepstep_before)
    module.register_optimizer_step_post_hook(keepstep_after)


class TorchSteps:
    """Which of the optimizers' steps are the training's: those of the one that leads, where there are several."""

    def __init__(self, state: TorchState) -> None:
        self._state, self._session = state, state.session
        self.outer = 0
        self._turn = -1
        self.lead = 0
        self.lead_shares = False
        """It holds parameters that all ranks train together..."""
        self.lead_replicated = False
        """... or that DDP keeps equal on some ranks."""
        self.backwards = 0
        """How many losses had had a backward pass at the last step of any optimizer."""
        self._others = 0
        self._seen: set[int] = set()

    def before(self, optimizer: Any) -> None:
        number = id(optimizer)
        began = _now()
        if self.outer and self.outer != number and self._state.loaders.turns == self._turn:
            return  # inside another one's step (ZeroRedundancyOptimizer)
        self.outer, self._turn = number, self._state.loaders.turns
        if self._state.thread != threading.get_ident():
            self._state.thread, self._state.native_thread = threading.get_ident(), threading.get_native_id()
        self._session.phase(_COMPUTE)
        if not self.lead:
            self.lead = number
            trained = [each for group in optimizer.param_groups for each in group["params"] if each.requires_grad]
            self._state.parameters = sum(each.numel() for each in trained)
            if any(getattr(each, "device_mesh", None) is not None for each in trained):
                self._state.wrapped = True  # DTensors: what is spread over a mesh is trained by its ranks together
            self._session.open()
            self._session.trains_in(self._state.trained_together(), "torch")
        if not self._session.lean:
            self._session.spent_ns += _now() - began

    def after(self, optimizer: Any) -> None:
        number = id(optimizer)
        if number != self.outer:
            return
        self.outer = 0
        state, session = self._state, self._session
        began = _now()
        state.loaders.stepped()
        shares = bool(state.shared) and _first(optimizer) in state.shared
        if shares:
            self._shared_step(optimizer)
        had, self.backwards = self.backwards, state.backwards
        if number == self.lead:
            self._others, self.lead_shares = 0, shares
            session.step_done()
            session.spent_ns += _now() - began
            return
        if had != state.backwards:
            state.own_past.stop("several optimizers train on losses of their own, which may rise")
        self._seen.add(number)
        self._others += 1
        if self._others > 2 * len(self._seen) + 8:  # the leading one has stopped
            self.lead, self.lead_shares, self._others = number, shares, 0
            session.step_done()

    def replicated(self, optimizer: Any) -> bool:
        found = _first(optimizer) in self._state.replicas.shared
        if id(optimizer) == self.lead:
            self.lead_replicated = found
        return found

    def _shared_step(self, optimizer: Any) -> None:
        """A step that every rank takes: contracts are stated at fixed step numbers, so no rank waits for an answer."""
        state = self._state
        state.steps += 1
        if not state.closed:
            state.ends.append((state.steps, state.sequence(state.default_group())))
        if state.steps == 1:
            self._session.compare(Subject.OPTIMIZER, _settings(optimizer), ordinal=0)
            length = state.loaders.length
            self._session.compare(Subject.BATCHES, {"batches": UNKNOWN if length is None else str(length)}, ordinal=0)
        elif state.steps == SIGNED_AT:
            self._session.compare(Subject.BATCH, state.loaders.signature() or {UNKNOWN: UNKNOWN}, ordinal=0)


def _first(optimizer: Any) -> int:
    """The identity of its first parameter; groups may be empty."""
    return next((id(each) for group in optimizer.param_groups for each in group["params"]), 0)


def _settings(optimizer: Any) -> dict[str, str]:
    """What must be the same on every rank; which parameters it holds may differ by design (ZeRO)."""
    found = {"optimizer": type(optimizer).__name__}
    groups = optimizer.param_groups
    found["parameter groups"] = str(len(groups))
    for number, group in enumerate(groups[:16]):
        name = "" if len(groups) == 1 else f" of group {number}"
        for key in SETTINGS:
            value = group.get(key)
            if isinstance(value, bool | int | float) or (
                isinstance(value, tuple) and all(isinstance(v, float) for v in value)
            ):
                found[key + name] = f"{value:g}" if isinstance(value, float) else str(value)
    return found


def hook_loaders(state: TorchState, module: ModuleType) -> None:
    """The wait for each batch, and how many an epoch has."""
    loaders = state.loaders
    session, is_grad_enabled, thread = state.session, state.torch.is_grad_enabled, threading.get_ident
    iterator: Any = module._BaseDataLoaderIter
    loader: Any = module.DataLoader
    get, begin = iterator.__next__, loader.__iter__
    got = session.guarded("loaders", lambda each, batch: loaders.got(each._dataset, batch))
    ended = session.guarded("loaders", lambda each: loaders.ended(each._dataset))
    begun = session.guarded("loaders", loaders.begun)

    @functools.wraps(get)
    def __next__(self: Any) -> Any:
        if thread() != state.thread:  # fetched ahead, in another thread
            return get(self)
        if session.lean:
            before, session.phase_now = _COMPUTE, _INPUT
        else:
            began = _now()
            before = session.phase(_INPUT)
            session.spent_ns += _now() - began
        try:
            batch = get(self)
        except StopIteration:
            ended(self)
            session.phase(_EVALUATION)
            raise
        except BaseException:
            session.phase(before)
            raise
        if is_grad_enabled():
            if session.lean:
                session.phase_now = _COMPUTE
            else:
                began = _now()
                session.phase(_COMPUTE)
                got(self, batch)
                session.spent_ns += _now() - began
        else:
            session.phase(_EVALUATION)
        return batch

    @functools.wraps(begin)
    def __iter__(self: Any) -> Any:
        found = begin(self)
        if is_grad_enabled():
            begun(self)
        return found

    iterator.__next__ = __next__
    loader.__iter__ = __iter__

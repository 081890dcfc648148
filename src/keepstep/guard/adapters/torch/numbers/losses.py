# SPDX-License-Identifier: Apache-2.0
"""This rank's loss, looked at before its backward pass: one step later, a NaN has spread to all ranks.

Only for a loss on the host: reading one on a device would wait for it. ``KEEPSTEP_LOSSES=wait`` asks for that. Without,
the looks of ``own_past`` see it some steps later.
"""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType
from typing import Any

from keepstep.errors import OutOfStep
from keepstep.guard.adapters.torch.numbers.first_non_finite import Found, first_non_finite
from keepstep.guard.adapters.torch.numbers.loss_again import compute_again
from keepstep.guard.adapters.torch.torch_state import TorchState

LASTING = 10
"""This many losses in a row are more than a single bad batch."""
MOST_TOLD = 5


def hook(state: TorchState, module: ModuleType) -> None:
    """`Tensor.backward` and every trainer end up in `torch.autograd.backward`."""
    losses = LossWatch(state)
    original: Any = module.__dict__["backward"]
    look, is_traced = state.session.guarded("losses", losses.look), state.is_traced

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced():
            look(tensors)
        return original(tensors, *args, **kwargs)

    wrappers: tuple[Any, ...] = (backward, look, LossWatch.look)
    state.never_compiled += [each.__code__ for each in wrappers]
    module.__dict__["backward"] = backward
    state.session.at_close.append(losses.leave)


class LossWatch:
    """Counts losses in a row that are not finite."""

    def __init__(self, state: TorchState) -> None:
        self._state, self._session = state, state.session
        self._tensor = state.torch.Tensor
        self._past = state.own_past
        self._unread = False
        self._first = 0
        self._times = 0
        self._told = 0
        self._waits = os.environ.get("KEEPSTEP_LOSSES") == "wait"
        self._again = state.session.guarded("the line of the first non-finite value", compute_again)
        self._origin = state.session.guarded("the first non-finite value", self._find)

    def look(self, loss: Any) -> None:
        if type(loss) is not self._tensor:
            return
        self._state.backwards += 1
        if not loss.is_cpu and not self._waits:
            if self._past.refused:
                raise OutOfStep(f"{self._session.who.prefix}{self._past.refused}", hint="KEEPSTEP=on only reports it")
            if self._past.is_due and loss.numel() == 1:
                self._past.loss, self._past.losses = loss.detach(), 1
            if not self._unread:  # under a name of its own: what is "not covered" is not called again
                self._unread = True
                why = "reading them would make the training wait"
                self._session.uncovered("losses on a device, one by one", why)
            return
        if loss.numel() != 1 or loss.is_complex() or self._state.torch._C._len_torch_dispatch_stack():
            return  # the latter: the program watches every operation, and may forbid some
        value = loss.item()
        self._past.loss += value
        self._past.losses += 1
        if value - value == 0.0:
            self._times = 0
            return
        self._times += 1
        if self._times == 1:
            self._first = self._session.steps + 1
            self._tell(value, self._origin(loss) if not self._told else None)
        elif self._times == LASTING:
            self._note(value)

    def _find(self, loss: Any) -> Found | None:
        """From the graph of this step; the line, from computing the loss once more."""
        torch = self._state.torch
        seen = first_non_finite(torch, loss)
        if seen is not None and seen.op is None and seen.layer is not None:
            return seen  # a parameter was lost before this step
        again = self._again(torch, sys._getframe(1))
        if again is None or again.why is not None:
            return seen._replace(no_line=again and again.why) if seen is not None else None
        batch = seen.batch if seen is not None else None
        sure = again.exact or (seen is not None and seen.op == again.op)
        return Found(again.op, again.layer, True, sure, batch, again.line)

    def leave(self) -> None:
        """The process ends while the loss is not finite."""
        if self._times > 1:
            self._note(float("nan"))

    def _tell(self, value: float, origin: Found | None) -> None:
        self._told += 1
        if self._told > MOST_TOLD:
            return
        session = self._session
        session.open()  # a program that updates its weights by hand has not shown a step
        self._note(value)
        words = f"the loss is {value} in step {self._first}"
        if origin is not None:
            words += f": {origin.words}"
            session.note("FirstNonFinite", {"step": self._first, **origin._asdict()}, words)
        session.say(words)
        if session.strict:
            raise OutOfStep(f"{session.who.prefix}{words}", hint="KEEPSTEP=on only reports it")

    def _note(self, value: float) -> None:
        fields = {"step": self._first, "world": self._state.world, "own": True, "times": self._times}
        often = f"; {self._times} in a row by now" if self._times > 1 else ""
        self._session.note("LossNotFinite", fields, f"the loss is {value} in step {self._first}{often}")

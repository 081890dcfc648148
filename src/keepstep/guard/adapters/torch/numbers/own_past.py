# SPDX-License-Identifier: Apache-2.0
"""A training against its own past: loss, gradient norms, and updates for their weights, by groups of layers.

Now and then, around a step of the leading optimizer, without waiting for a device; the guard's thread reads the values
later and judges them. Gradients are read whole; updates on a sample of each group's largest tensor, because a copy of
all weights would take too much memory. A loss that stays on its device is seen nowhere else, so these looks also say
when it is no longer finite.

Not for programs with several trainings in one process (a generator and a discriminator): their losses may rise.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.torch.numbers.first_non_finite import parameter_names
from keepstep.signals.own_past import Departure, Past, Reading

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.torch_state import TorchState

PART = "own past"
VARIABLE = "KEEPSTEP_OWN_PAST"
"""``off``, or every how many steps; without it, the cost decides."""
FIRST, LEAST_STEPS, LEAST_S = 16, 16, 1.0
MOST_SHARE = 0.0005
"""Looks may take this share of the time; no two are closer to each other than LEAST_STEPS and LEAST_S."""
MOST_GROUPS, SAMPLE = 64, 4_096
MOST_WAITING = 64
LASTS = 2
"""So many looks in a row at a loss that is not finite: a scaler of gradients skips single steps by design."""
SCALER = "torch.amp.grad_scaler"
Parts = list[tuple[int, ...]]


class OwnPast:
    """Looks at the leading optimizer's steps. Between two looks it holds no tensor and no optimizer."""

    def __init__(self, state: TorchState) -> None:
        asked = os.environ.get(VARIABLE, "").strip().lower()
        self._state, self._torch = state, state.torch
        self._asked = int(asked) if asked.isdecimal() and int(asked) else None
        self.number = 0
        """Steps of the leading optimizer."""
        self.next: float = math.inf if asked in ("off", "0", "no", "false") else self._asked or FIRST
        self.loss: Any = 0.0
        """Sum of the losses since the last look; of those on a device, the one of the step that is looked at..."""
        self.losses = 0
        """... and how many they are."""
        self._costs: deque[float] = deque(maxlen=5)
        self._is_first = True
        self._looked: tuple[int, float] = (0, time.monotonic())
        self._held: tuple[int, ...] = ()
        self._groups: Parts = []
        self.looking: _Look | None = None
        """The look that waits for the end of the step."""
        self._waiting: deque[_Look] = deque(maxlen=MOST_WAITING)
        self._past = Past()
        self._signs = 0
        self._found: Departure | None = None
        self._is_over = False
        self._finite_at = 0
        self._lost: list[int] = []
        """Steps of the last looks, as far as their losses were not finite."""
        self.refused = ""
        """Why a strict guard lets the training do no more steps."""

    @property
    def is_due(self) -> bool:
        return self.number + 1 >= self.next

    # --- in the training's thread

    def stop(self, why: str) -> None:
        self.next, self.looking = math.inf, None
        self._state.session.uncovered(PART, why)

    def before(self, optimizer: Any) -> None:
        """Its step is due for a look: the gradients are there."""
        torch, loss, losses, began = self._torch, self.loss, self.losses, time.perf_counter()
        self.loss, self.losses, self.looking = 0.0, 0, None
        self.next = self.number + LEAST_STEPS  # where nothing can be seen, not at each step
        if not losses or torch._C._len_torch_dispatch_stack():
            return
        held = [each for group in optimizer.param_groups for each in group["params"]]
        if tuple(map(id, held)) != self._held:
            self._begin(held)
        tensors = [self._local(each) for each in held]
        grads = [each if each is None else self._local(each) for each in (each.grad for each in held)]
        place = next((each.device for each in tensors if each is not None), None)
        if place is None or place.type not in ("cpu", "cuda"):
            return
        if place.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return
        with torch.no_grad():
            there = [(at, each) for at, each in enumerate(grads) if each is not None and each.device == place]
            norms = torch._foreach_norm([each for _, each in there]) if there else []
            chosen = [max(group, key=lambda at: _size(tensors[at])) for group in self._groups]
            samples = [(at, _sample(tensors[at])) for at in chosen if _size(tensors[at])]
            scaler = _scaler(sys._getframe(1))
            look = _Look(
                step=self._state.session.steps + 1,
                rate=float(optimizer.param_groups[0].get("lr", 1.0)),
                begun=self._state.loaders.epochs,
                loss=loss / losses,
                scale=scaler._scale if scaler is not None and scaler.is_enabled() else 1.0,
                groups=self._groups,
                held=self._held,
                norms=dict(zip((at for at, _ in there), norms, strict=True)),
                samples={at: each.clone() for at, each in samples if each.device == place},
            )
        look.cost_s = time.perf_counter() - began
        self.looking = look

    def after(self, optimizer: Any) -> None:
        """The step is done: how far did it move the weights?"""
        look, self.looking = self.looking, None
        if look is None:
            return
        torch, began = self._torch, time.perf_counter()
        held = [each for group in optimizer.param_groups for each in group["params"]]
        with torch.no_grad():
            old = list(look.samples.values())
            new = [_sample(self._local(held[at])) for at in look.samples]
            if old:
                look.updates = torch._foreach_norm(torch._foreach_sub(new, old))
                look.weights = torch._foreach_norm(old)
            look.ship(torch)
        self._waiting.append(look)
        if self._is_first:  # it loads what later ones find, so its cost says nothing of theirs
            self._is_first = False
            self._state.session.pulse.every(1.0, PART, self.turn)
        else:
            self._costs.append(look.cost_s + time.perf_counter() - began)
        number, at = self._looked
        step_s = max(1e-6, (time.monotonic() - at) / max(1, self.number - number))
        cost_s = sorted(self._costs)[len(self._costs) // 2] if self._costs else 0.0
        self._looked = (self.number, time.monotonic())
        self.next = self.number + (
            self._asked or max(LEAST_STEPS, math.ceil(max(cost_s / MOST_SHARE, LEAST_S) / step_s))
        )

    def _local(self, tensor: Any) -> Any:
        """What this rank holds of it; None for what cannot be read plainly."""
        local = getattr(tensor, "_local_tensor", tensor)
        is_plain = local.layout is self._torch.strided and local.is_floating_point() and local.numel()
        return local.detach() if is_plain and local.is_contiguous() else None

    def _begin(self, held: Sequence[Any]) -> None:
        """Other parameters are trained: a past of its own begins. A matrix begins a layer."""
        self._held, groups = tuple(map(id, held)), list[list[int]]()
        for place, each in enumerate(held):
            if each.dim() > 1 or not groups:
                groups.append([])
            groups[-1].append(place)
        size = -(-len(groups) // MOST_GROUPS)
        self._groups = [tuple(itertools.chain(*groups[at : at + size])) for at in range(0, len(groups), size)]

    # --- in the guard's thread

    def turn(self) -> None:
        while self._waiting:
            look = self._waiting[0]
            reading = look.read()
            if reading is None:
                return
            self._waiting.popleft()
            if len(reading.signs) != self._signs:  # other parameters are trained
                self._past, self._signs = Past(), len(reading.signs)
            if look.is_of_device:
                self._see_lost(look, reading.loss)
            if math.isfinite(reading.loss) and not self._is_over:
                self._judge(look, self._past.see(reading))

    def _see_lost(self, look: _Look, loss: float) -> None:
        """What is not finite for several looks, the program has not seen either."""
        if math.isfinite(loss):
            self._finite_at, self._lost = look.step, []
            return
        if len(self._lost) == LASTS:
            return  # told
        self._lost.append(look.step)
        if len(self._lost) < LASTS:
            return
        session = self._state.session
        words = f"the loss has been {loss} since a step between {self._finite_at + 1} and {self._lost[0]}"
        fields = {"step": self._finite_at, "world": self._state.world, "times": None}
        session.note("LossNotFinite", fields, words)
        if not session.who.rank:
            session.say(words)
        if session.strict:
            self.refused = words

    def _judge(self, look: _Look, found: Departure | None) -> None:
        if self._found is not None:
            if self._past.has_returned:
                self._is_over = True
                self._note(self._found, look, returned=True)
        elif found is not None:
            self._found = found
            words = self._note(found, look)
            if not self._state.session.who.rank:
                self._state.session.say(words)

    def _note(self, found: Departure, look: _Look, *, returned: bool = False) -> str:
        group, kind = divmod(found.sign, 2)
        what = "update for its weights" if kind else "gradient norm"
        layer = _layer(parameter_names(self._torch)[0], [look.held[at] for at in look.groups[group]], group)
        low, high = found.loss_before
        words = (
            f"the loss has been about {found.loss:.4g} since step {found.after_step} ({low:.4g} to {high:.4g} before), "
            f"and the {what} of {layer} about {found.value:.2g} "
            f"({found.value_before[0]:.2g} to {found.value_before[1]:.2g} before)"
        )
        fields = {
            "after_step": found.after_step, "step": look.step, "loss": found.loss, "loss_before": (low, high),
            "layer": layer, "what": what, "value": found.value, "value_before": found.value_before,
            "returned": returned,
        }  # fmt: skip
        self._state.session.note("LeftItsPast", fields, words)
        return words


class _Look:
    """The values of one look, which a device may still be working on."""

    def __init__(
        self,
        *,
        step: int,
        rate: float,
        begun: int,
        loss: Any,
        scale: Any,
        groups: Parts,
        held: tuple[int, ...],
        norms: dict[int, Any],
        samples: dict[int, Any],
    ) -> None:
        self.step, self.groups, self.held, self.samples = step, groups, held, samples
        self._rate, self._begun, self._loss, self._scale, self._norms = rate, begun, loss, scale, norms
        self.updates: Sequence[Any] = ()
        self.weights: Sequence[Any] = ()
        self.cost_s = 0.0
        self._values: Any = None
        self._done: Any = None

    def ship(self, torch: Any) -> None:
        """All values to the host in one go, without waiting for them."""
        parts = [*self._norms.values(), *self.updates, *self.weights]
        parts += [each for each in (self._loss, self._scale) if isinstance(each, torch.Tensor)]
        self.samples = dict.fromkeys(self.samples)
        if not parts:
            return
        place = parts[0].device
        values = torch.stack([each.to(device=place, dtype=torch.float64).reshape(()) for each in parts])
        if place.type == "cpu":
            self._values = values
            return
        self._values = torch.empty(values.shape, dtype=values.dtype, device="cpu", pin_memory=True)
        self._values.copy_(values, non_blocking=True)
        self._done = torch.cuda.Event()
        self._done.record()

    @property
    def is_of_device(self) -> bool:
        """Whether its loss was not read when it was computed."""
        return not isinstance(self._loss, float)

    def read(self) -> Reading | None:
        """None while the device works."""
        if self._done is not None and not self._done.query():
            return None
        values = self._values.tolist() if self._values is not None else []
        scale, loss = (  # the last first
            each if isinstance(each, float) else values.pop() if each is not None else 1.0
            for each in (self._scale, self._loss)
        )
        return Reading(self.step, loss / scale, self._rate, self._begun, self._signs(values))

    def _signs(self, values: list[float]) -> tuple[float, ...]:
        """For each group, its gradient norm, and its update for its weights at a learning rate of 1."""
        squares = dict(zip(self._norms, (each**2 for each in values), strict=False))
        many = len(self.samples)
        moved = values[len(self._norms) : len(self._norms) + many]
        update = dict(zip(self.samples, zip(moved, values[len(self._norms) + many :], strict=False), strict=False))
        signs: list[float] = []
        for group in self.groups:
            signs.append(_logarithm(math.sqrt(sum(squares.get(at, 0.0) for at in group))))
            change, size = next((update[at] for at in group if at in update), (0.0, 0.0))
            signs.append(_logarithm(change / (size * self._rate)) if size and self._rate else math.nan)
        return tuple(signs)


def _logarithm(value: float) -> float:
    return math.log(value) if 0.0 < value < math.inf else math.nan


def _size(tensor: Any) -> int:
    return 0 if tensor is None else int(tensor.numel())


def _sample(tensor: Any) -> Any:
    """Every so-manieth number of it."""
    flat = tensor.view(-1)
    return flat[:: max(1, flat.numel() // SAMPLE)]


def _scaler(frame: Any) -> Any:
    """The gradient scaler that makes this step, if one does: the loss that was seen is a multiple of the real one."""
    for _ in range(12):
        if frame is None:
            return None
        if frame.f_globals.get("__name__") == SCALER and "self" in frame.f_locals:
            return frame.f_locals["self"]
        frame = frame.f_back
    return None


def _layer(names: dict[int, str], held: Sequence[int], group: int) -> str:
    """What the parameters of a group have in common in their names."""
    known = [names[each].split(".") for each in held if each in names]
    if len(known) < 2:
        return ".".join(known[0]) if known else f"group {group} of the parameters"
    same = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*known, strict=False))
    return ".".join(parts[0] for parts in same) or ".".join(known[0][:-1]) or known[0][0]

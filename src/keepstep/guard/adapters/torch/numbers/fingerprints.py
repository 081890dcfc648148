# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of what DDP keeps equal on all ranks of a group: the parameters, and the optimizer's state of them; and
of the shards that the ranks of one axis of a mesh hold alike (``fully_shard`` over two axes, HSDP).

Sums over the bits, taken on the device at the end of an optimizer's step and read later by the guard's thread. Each
tensor is read once: its words are added up along rows at one look and along columns at another, and the results are
added up plainly and by their place. Any changed word shows at once, swapped ones at one of the two.

Not compared: buffers (DDP overwrites them with rank 0's in every forward pass), parameters that are frozen or that DDP
was told to ignore, models whose gradients a hook of the user's exchanges, and those that step without an exchange.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.torch.numbers.step_again import StepAgain
from keepstep.guard.adapters.torch.numbers.sums import Sums
from keepstep.guard.agree.fingerprints import MOST_TENSORS, OF_MODEL, Answer, Interval, Look

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.torch_state import TorchState

PLACES = ("cpu", "cuda")
ESTIMATED_RATE = {"cpu": 1e9, "cuda": 1e12}
"""Bytes per second, before a look has shown it."""
KEEP_EQUAL = (
    "allreduce_hook", "fp16_compress_hook", "bf16_compress_hook", "fp16_compress_wrapper", "bf16_compress_wrapper",
    "powerSGD_hook", "batched_powerSGD_hook",
)  # fmt: skip
"""Hooks for gradients, of torch itself, after which all ranks hold the same ones."""


class Replicas:
    """The models whose replicas are kept equal, and the looks at them. Holds no model, parameter or optimizer."""

    def __init__(self, state: TorchState) -> None:
        self._state = state
        self.shared: set[int] = set()
        """The ids of parameters that are kept equal."""
        self._models: list[tuple[Any, tuple[int, ...]]] = []
        self._optimizers: dict[int, _Stepped] = {}
        self._ordinal = 0
        """Of the next optimizer that shows up: the same on all ranks, which the identities of objects are not."""
        self._sums: Sums | None = None

    def wrapped(self, model: Any, ranks: tuple[int, ...]) -> None:
        if self._state.session.fingerprints.off:
            return
        self._models.append((weakref.ref(model), ranks))
        self.shared.update(id(each) for each in model.parameters() if each.requires_grad)

    def stepped(self, optimizer: Any) -> None:
        """An optimizer with such parameters has made a step. Hot."""
        own = self._optimizers.get(id(optimizer))
        if own is None or own.optimizer() is not optimizer:
            own = self._optimizers[id(optimizer)] = _Stepped(optimizer, self._ordinal, self._interval())
            self._ordinal += 1
            self._find(own, optimizer)
        own.number += 1
        if own.over:
            return
        for model in own.models:
            found = model()
            if found is None or not getattr(found, "require_forward_param_sync", True):
                self._give_up(own, "it takes steps without an exchange of gradients")
                return
        if own.number >= own.interval.next:
            self._look(own, optimizer)
            if own.again is not None:
                own.interval.next = min(own.interval.next, own.again[1] - 1)

    def _interval(self) -> Interval:
        return Interval(self._state.session.fingerprints.asked)

    def _find(self, own: _Stepped, optimizer: Any) -> None:
        """Which of its parameters are kept equal, under which names, and between which ranks."""
        held = [each for group in optimizer.param_groups for each in group["params"]]
        own.held = tuple(map(id, held))
        wanted = set(own.held)
        own.names, own.models, own.over = {}, [], False
        for model, ranks in self._models:
            found = model()
            if found is None or (own.ranks and ranks != own.ranks):
                continue
            ignored = getattr(found, "parameters_to_ignore", ())
            inner = found.module if hasattr(found, "require_forward_param_sync") else found
            names = {
                id(each): name
                for name, each in inner.named_parameters()
                if each.requires_grad and name not in ignored and id(each) in wanted
            }
            if names:
                own.names.update(names)
                own.models.append(model)
                own.ranks = ranks
        own.over = not own.names

    def _look(self, own: _Stepped, optimizer: Any) -> None:
        torch, session = self._state.torch, self._state.session
        began = time.perf_counter()
        if own.held != tuple(id(each) for group in optimizer.param_groups for each in group["params"]):
            self._find(own, optimizer)
        if own.again is not None and own.number >= own.again[1] - 1:
            names, _, answer = own.again
            own.again = None
            StepAgain(torch, optimizer, own.names, names, answer, own.number)
            own.interval.skip(own.number)
            return
        if own.over or self._is_unusual(own):
            return
        device = next(
            each.device for group in optimizer.param_groups for each in group["params"] if id(each) in own.names
        )
        if device.type not in PLACES:
            self._give_up(own, f"the model is on {device.type}")
            return
        is_recorded = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if is_recorded or torch._C._len_torch_dispatch_stack():  # someone watches every operation
            own.interval.skip(own.number)
            return
        tensors = list(_tensors(torch, own, optimizer, device))[:MOST_TENSORS]
        size = sum(each.nbytes for _, each in tensors)
        if not tensors or not own.interval.affords(own.number, size / ESTIMATED_RATE[device.type]):
            return
        self._sums = self._sums or Sums(torch)
        result = self._sums.of([each for _, each in tensors], by_column=own.number.bit_count() % 2 == 1)
        look = Look(
            subject=f"torch-{own.ordinal}",
            ranks=own.ranks,
            number=own.number,
            step=session.steps,
            exchanged=self._state.sequence(_group(own.models[0]())),
            names=tuple(name for name, _ in tensors),
            read=result.read,
            again=functools.partial(_ask_again, own),
        )
        own.interval.looked(own.number, max(time.perf_counter() - began, own.device_s))
        result.timed = own
        session.fingerprints.add(look)

    def _is_unusual(self, own: _Stepped) -> bool:
        """Whether a hook of the user's exchanges the gradients: then DDP does not promise that replicas are equal."""
        for model in own.models:
            for hook, _ in getattr(model(), "_comm_hooks", ()):
                if getattr(hook, "__name__", "") not in KEEP_EQUAL:
                    self._give_up(own, "a hook of the program exchanges its gradients")
        return own.over

    def _give_up(self, own: _Stepped, why: str) -> None:
        """Its replicas may differ by design, or cannot be looked at."""
        own.over = True
        self._state.session.uncovered(OF_MODEL, why)


class _Stepped:
    """What is known of one optimizer."""

    def __init__(self, optimizer: Any, ordinal: int, interval: Interval) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.ordinal = ordinal
        self.interval = interval
        self.number = 0
        self.over = False
        self.names: dict[int, str] = {}
        self.held: tuple[int, ...] = ()
        self.models: list[Any] = []
        self.ranks: tuple[int, ...] = ()
        self.device_s = 0.0
        """What the device needed for the last look, once that is known."""
        self.again: tuple[Sequence[str], int, Answer] | None = None
        """Of which tensors steps are to be made twice, and from which step on."""


def _ask_again(own: _Stepped, names: Sequence[str], start: int, answer: Answer) -> None:
    """By the guard's thread."""
    own.again = (names, start, answer)
    own.interval.next = min(own.interval.next, start - 1)


def group_of_shards(model: Any) -> Any:
    """Of a sharded model, the group whose ranks hold the same shards; None where each holds one of its own."""
    for each in model.parameters():
        axes = [
            axis
            for axis, placement in enumerate(getattr(each, "placements", ()))
            if placement.is_replicate() and each.device_mesh.size(axis) > 1
        ]
        if len(axes) == 1:
            return each.device_mesh.get_group(axes[0])
    return None


def _group(model: Any) -> Any:
    return getattr(model, "process_group", None) or group_of_shards(model)


def _tensors(torch: Any, own: _Stepped, optimizer: Any, device: Any) -> Iterator[tuple[str, Any]]:
    """The parameters, each followed by the optimizer's state of it, without what cannot be read as plain bits."""
    plain = (torch.Tensor, torch.nn.Parameter)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            name = own.names.get(id(parameter))
            if name is None:
                continue
            held = optimizer.state.get(parameter)
            state = sorted(held.items(), key=lambda each: str(each[0])) if held else ()
            for what, whole in ((None, parameter), *state):
                each = getattr(whole, "_local_tensor", whole)
                if (
                    type(each) in plain
                    and each.device == device
                    and each.layout is torch.strided
                    and each.numel()
                    and not each.is_quantized
                ):
                    yield (name if what is None else f"{what} of {name}"), each

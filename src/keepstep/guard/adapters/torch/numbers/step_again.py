# SPDX-License-Identifier: Apache-2.0
"""Of two replicas that differ, one is wrong: each rank makes some of its next optimizer steps twice, and compares.

Only after a difference was found, only for the tensors that differ, and on copies: the training's own step stays what
it is. Nothing waits, neither for the device nor for the other rank. What went wrong before the difference was found is
not computed again: nobody has kept that step's weights and gradients.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from keepstep.guard.adapters.torch.numbers.sums import Sums
from keepstep.guard.agree.fingerprints import Answer
from keepstep.signals.two_replicas import StepsAgain

STEPS = 4
MOST_BYTES = 64 << 20
"""Of the parameters that are looked at; with their gradients and state, copied twice, it is several times as much."""
COPIES = 12
"""So many times what is looked at must be free on a GPU."""
UNUSUAL = ("LBFGS", "SparseAdam")
OVER_SHARDS = ("Adafactor", "Muon")
"""What these do to one number depends on the whole tensor."""
SHARE, ROUNDINGS = 1e-3, 64.0
"""A result is far from double precision by this share of the step's largest change, or by so many roundings."""
Kept = dict[str, Any]


class StepAgain:
    """For one optimizer, during some steps. Holds nothing of it afterwards."""

    def __init__(
        self, torch: Any, optimizer: Any, names: dict[int, str], tensors: Sequence[str], answer: Answer, number: int
    ) -> None:
        """``number``: of the optimizer's last step."""
        self._number = number
        self._torch, self._answer, self._sums = torch, answer, Sums(torch)
        wanted = {each.rpartition(" of ")[2] for each in tensors}
        self._held: list[tuple[Any, dict[str, Any]]] = []
        for group in optimizer.param_groups:
            self._held += [(each, group) for each in group["params"] if names.get(id(each)) in wanted]
        size = 0
        for number, (each, _) in enumerate(self._held):
            size += _local(each).nbytes
            if size > MOST_BYTES and number:
                del self._held[number:]
                break
        if why := self._obstacle(optimizer, min(size, MOST_BYTES)):
            self._held.clear()
            answer(lambda: StepsAgain(why=why))
            return
        self._settings = _settings(self._held)
        self._seen: list[tuple[int, Any]] = []
        self._before: list[tuple[Any, Any, Kept]] | None = None
        self._is_over = False
        self._hooks = [optimizer.register_step_pre_hook(self._pre), optimizer.register_step_post_hook(self._post)]

    def _obstacle(self, optimizer: Any, size: int) -> str:
        torch, kind = self._torch, type(optimizer)
        if not self._held:
            return "its optimizer no longer holds these tensors"
        if not kind.__module__.startswith("torch.optim.") or kind.__name__ in UNUSUAL:
            return f"{kind.__name__} is not an optimizer of torch that can be asked again"
        if kind.__name__ in OVER_SHARDS and any(hasattr(each, "_local_tensor") for each, _ in self._held):
            return f"{kind.__name__} works on whole tensors, and each rank holds a shard"
        if not hasattr(kind.step, "__wrapped__"):
            return "the step of its optimizer was exchanged"
        place = _local(self._held[0][0])
        if size > MOST_BYTES or place.nbytes > MOST_BYTES:
            return f"the tensor has {place.nbytes >> 20} MiB, and at most {MOST_BYTES >> 20} are copied"
        if place.is_cuda and torch.cuda.mem_get_info(place.device)[0] < COPIES * size:
            return f"copies need {COPIES * size >> 20} MiB on its device, which are not free"
        return ""

    # --- around the optimizer's step

    def _pre(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._is_over:
            self._hooks.pop().remove()  # that of after the step, while torch is not going through them
            return
        try:
            if self._torch._C._len_torch_dispatch_stack():
                raise NotImplementedError("someone watches every operation")
            self._before = self._copies(optimizer)
        except Exception as error:  # never raises into the training
            self._leave(error)

    def _post(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._is_over:
            return
        self._number += 1
        try:
            if self._before is not None:
                closure = args[1] if len(args) > 1 else kwargs.get("closure")  # the first is the optimizer
                self._look(optimizer, has_closure=closure is not None)
        except Exception as error:
            self._leave(error)
        if len(self._seen) >= STEPS or self._is_over:
            self._is_over = True
            self._hooks.pop(0).remove()  # that of before it
            self._before = None
            self._held.clear()
            if self._seen:
                self._answer(self._read)

    def _leave(self, error: Exception) -> None:
        self._is_over, self._before = True, None
        self._seen.clear()
        words = f"{type(error).__name__}: {str(error)[:200]}"
        self._answer(lambda: StepsAgain(why=words))

    def _copies(self, optimizer: Any) -> list[tuple[Any, Any, Kept]]:
        """Each parameter, its gradient and its state, as they are before the step."""
        torch = self._torch
        with torch.no_grad():
            return [
                (
                    _local(each).clone(),
                    None if each.grad is None else _local(each.grad).clone(),
                    {
                        key: _local(value).clone() if isinstance(value, torch.Tensor) else value
                        for key, value in (optimizer.state.get(each) or {}).items()
                    },
                )
                for each, _ in self._held
            ]

    def _look(self, optimizer: Any, *, has_closure: bool) -> None:
        torch, before, self._before = self._torch, self._before or [], None
        after = self._copies(optimizer)
        if has_closure:  # it has computed the gradients inside the step
            before = [(was, now[1], state) for (was, _, state), now in zip(before, after, strict=True)]
        again = self._again(optimizer, before, None)
        exact = self._again(optimizer, before, torch.float64)
        with torch.no_grad():
            gradients = [each for _, each, _ in before if each is not None]
            lines = [
                *self._whole(before, states=False),
                *self._whole(after, states=False),
                *self._whole(after, states=True),
                *self._whole(again, states=True),
            ]
            numbers = [self._distance(before, after, exact).reshape(1), *self._largest(after)]
            result = self._sums.of([*lines, *gradients, *numbers], by_column=False)
        self._seen.append((self._number, result))
        self._shape = (len(self._held), len(self._whole(after, states=True)), len(gradients))

    def _again(self, optimizer: Any, before: list[tuple[Any, Any, Kept]], kind: Any) -> list[tuple[Any, Any, Kept]]:
        """The same step on copies. ``kind``: in this precision, one tensor after the other."""
        torch, copy = self._torch, object.__new__(type(optimizer))

        def of(tensor: Any) -> Any:
            made = tensor.clone()
            return made.to(kind) if kind is not None and made.is_floating_point() else made

        copy.__dict__.update(optimizer.__dict__)
        copy.__dict__.pop("step", None)  # a schedule's
        copy.state, copy.param_groups, made = defaultdict(dict), [], []
        for (_, group), (was, slope, state) in zip(self._held, before, strict=True):
            parameter = torch.nn.Parameter(of(was), requires_grad=was.is_floating_point())
            parameter.grad = None if slope is None else of(slope)
            copy.param_groups.append({**group, "params": [parameter]})
            if kind is not None:
                own = copy.param_groups[-1]
                own |= {name: False for name in ("foreach", "fused", "capturable") if name in own}
            copy.state[parameter] = {
                key: of(value) if isinstance(value, torch.Tensor) else value for key, value in state.items()
            }
            if not state:
                del copy.state[parameter]
            made.append(parameter)
        type(optimizer).step.__wrapped__(copy)
        return [(each.detach(), each.grad, copy.state.get(each, {})) for each in made]

    def _whole(self, copies: list[tuple[Any, Any, Kept]], *, states: bool) -> list[Any]:
        """The tensors; with their state, each in the same place on its own."""
        found = []
        for each, _, state in copies:
            found.append(each)
            if states:
                held = (state[key] for key in sorted(state))
                found += [one for one in held if isinstance(one, self._torch.Tensor) and one.device == each.device]
        return found

    def _distance(self, before: Any, after: Any, exact: Any) -> Any:
        """The largest of all: how far a result is from double precision, in units of what is allowed."""
        torch, found = self._torch, []
        for (was, _, _), (now, _, _), (right, _, _) in zip(before, after, exact, strict=True):
            if not was.is_floating_point() or not was.numel():
                continue
            eps = torch.finfo(was.dtype).eps
            change = (right - was.double()).abs().max()
            allowed = ROUNDINGS / 4 * eps * right.abs() + max(SHARE, ROUNDINGS * eps) * change + 1e-300
            found.append(((now.double() - right).abs() / allowed).max())
        return torch.stack(found).max() if found else torch.zeros((), dtype=torch.float64)

    def _largest(self, after: list[tuple[Any, Any, Kept]]) -> list[Any]:
        """The two largest magnitudes of each tensor, as double precision: their bits are their sum."""
        found = []
        for each in self._whole(after, states=True):
            if each.is_floating_point() and each.numel() > 1:
                found += self._torch.topk(each.reshape(-1).abs().double(), 2).values.unsqueeze(1).unbind()
        return found

    # --- by the guard's thread

    def _read(self) -> StepsAgain | None:
        """None while the device works."""
        read = [(number, result.read()) for number, result in self._seen]
        if any(each is None for _, each in read):
            return None
        held, whole, slopes = self._shape
        outside = unlike = far = 0
        gradients, largest, left = dict[str, str](), (0.0, 0.0), None
        for number, sums in read:
            parts = iter(sums or ())

            def take(many: int, parts: Any = parts) -> list[Any]:
                return [next(parts) for _ in range(many)]

            before, after, now, again = take(held), take(held), take(whole), take(whole)
            outside += left is not None and left != before
            left = after
            unlike += now != again
            digest = hashlib.blake2b(repr(take(slopes)).encode(), digest_size=8).hexdigest()
            gradients[str(number)] = digest
            far += not _double(next(parts)) <= 1.0
            pairs = [_double(each) for each in parts]
            for pair in zip(pairs[::2], pairs[1::2], strict=True):
                if not pair[0] * max(largest[1], 1e-300) <= largest[0] * max(pair[1], 1e-300):
                    largest = pair
        return StepsAgain(
            steps=len(read),
            outside=outside,
            unlike=unlike,
            far=far,
            gradients=gradients,
            settings=self._settings,
            largest=largest,
        )


def _local(tensor: Any) -> Any:
    """The part of it that this rank holds."""
    return getattr(tensor.detach(), "_local_tensor", tensor.detach())


def _double(sums: Sequence[int]) -> float:
    (found,) = struct.unpack("<d", struct.pack("<q", sums[0]))
    return float(found)


def _settings(held: list[tuple[Any, Kept]]) -> dict[str, str]:
    plain = (bool, int, float, str, tuple)
    return {
        key: repr(value) for _, group in held[:1] for key, value in sorted(group.items()) if isinstance(value, plain)
    }

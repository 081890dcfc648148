# SPDX-License-Identifier: Apache-2.0
"""Which batches are trained on, what they have in common, and how many there are."""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any

from keepstep.errors import OutOfStep
from keepstep.guard.batches.batch_contract import Batches, leaves
from keepstep.guard.batches.batch_hashes import Fed
from keepstep.signals.blackbox import RecordKind
from keepstep.signals.contracts import UNKNOWN

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.torch_state import TorchState
    from keepstep.guard.protocols import BatchChecks

_EPOCH = int(RecordKind.EPOCH)
SAMPLERS = tuple(
    "SequentialSampler RandomSampler DistributedSampler SubsetRandomSampler WeightedRandomSampler BatchSampler".split()
)
"""torch's own: asking for their length has no side effect."""
SIGNED = 8
"""This many first batches are looked at for the comparison between ranks."""
LOOK_S = 0.25
"""How often batches like the one before are looked into, unless labels are declared or the mode is strict."""
MOST_DATASETS = 16
"""The most datasets at a time; batches of further ones are not checked."""
WITHOUT_STEPS = 16
"""After this many batches without any optimizer step, a batch counts as a step."""


class Loaders:
    """Batches that are followed by an optimizer's step are trained on; datasets are distinguished by identity alone."""

    def __init__(self, state: TorchState) -> None:
        self._state, self._session = state, state.session
        self.turns = 0
        """How many batches have been handed out, with gradients on."""
        self.epochs = 0
        """How many loops over a loader have begun, with gradients on."""
        self.length: int | None = None
        """How many batches the epoch has, where that is known."""
        self._lengths: dict[int, int | None] = {}
        self._epochs: dict[int, int] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}
        """Shows whether the dataset with an identity still exists: Python reuses identities."""
        self._here = 0
        self._handed = 0
        self._training: set[int] = set()
        self._pending: set[int] = set()
        self._first_steps = 0
        self._since: set[int] = set()
        """Datasets whose batches were handed out since the last step; only until it is known which one trains."""
        self._batches: dict[int, BatchChecks] = {}
        self._is_second = False
        """The first dataset has the session's own contract."""
        self._signed: dict[str, tuple[tuple[int | None, ...], str] | None] = {}
        self._looked = 0
        self._fed = Fed(state.session)
        self._last = self._fed_of = 0
        """The datasets of the last batch, and of the last one that was hashed."""
        self._fed_epoch, self._stepped = 1, False
        """The epoch, not counting those without a step, and whether there was a step in it."""
        self._without = 0
        self._counts = False
        self._steady = 0
        """The dataset whose batches no longer change, and their shapes and types."""
        self._kind: Any = None
        self._quick: list[tuple[Any, Any]] = []
        self._look_again = 0.0

    def begun(self, loader: Any) -> None:
        """An epoch begins."""
        self.epochs += 1
        key = id(loader.dataset)
        if key in self._alive and self._alive[key]() is None:
            self._forget(key)
        if key not in self._alive:
            self._alive[key] = _reference(loader)
        self._lengths[key] = _length(loader)
        self._epochs[key] = self._epochs.get(key, 0) + 1
        self._here, self._handed, self._steady = key, 0, 0
        self._fed.forget()  # what was handed out without a step since was not trained on
        if self._stepped:
            self._stepped, self._fed_epoch = False, self._fed_epoch + 1
        known = self._lengths[key]
        self._session.write(_EPOCH, self._epochs[key], -1 if known is None else known)
        if len(self._lengths) > 1000:
            self._lengths.clear()
            self._epochs.clear()
            self._alive.clear()

    def _forget(self, key: int) -> None:
        """The dataset of this identity is gone."""
        for known in (self._alive, self._lengths, self._epochs):
            known.pop(key, None)
        batches = self._batches.pop(key, None)
        if batches is not None and batches.at_end in self._session.at_close:
            self._session.at_close.remove(batches.at_end)
        self._pending.discard(key)
        self._since.discard(key)
        if key in self._training:
            self._now_trains_on(self._training - {key})

    def _now_trains_on(self, keys: set[int]) -> None:
        """What was learned so far may belong to other batches."""
        self._training = set(keys)
        self._signed.clear()
        self._looked = self._steady = 0

    def got(self, dataset: Any, batch: Any) -> None:
        """A batch is handed to the training, with gradients on."""
        self.turns += 1
        self._handed += 1
        key, session = id(dataset), self._session
        self._last = key
        if self._first_steps < 2:
            self._since.add(key)
        if (
            key == self._steady
            and type(batch) is self._kind
            and len(batch) == len(self._quick)
            and session.steps < self._fed.next_step
            and time.monotonic() < self._look_again
        ):
            for each, (shape, dtype) in zip(batch, self._quick, strict=True):
                if getattr(each, "shape", None) != shape or each.dtype is not dtype:
                    break
            else:
                return  # like the one that was looked at a moment ago
        self._steady = 0
        self.length = self._lengths.get(key)
        if key not in self._training:
            self._pending.add(key)
            if self._training:
                return  # an evaluation, as far as is known
            self._training.add(key)
        if self._looked < SIGNED:
            self._look(batch)
        if key == self._here and (name := self._fed.wants(self._fed_epoch, self._handed)) is not None:
            self._fed.see(name, self._fed_epoch, self._handed, batch)
            self._fed_of = key
        if not session.by_hand:
            self._check(key, batch)
        if not session.steps or self._counts:
            self._count()
        elif self._looked >= SIGNED and not session.strict and not session.batches.labels:
            self._settle(key, batch)

    def _settle(self, key: int, batch: Any) -> None:
        """From now on, for a while, batches of these shapes and types need not be looked into."""
        if type(batch) in (list, tuple) and all(hasattr(each, "shape") and hasattr(each, "dtype") for each in batch):
            self._steady, self._kind, self._look_again = key, type(batch), time.monotonic() + LOOK_S
            self._quick = [(each.shape, each.dtype) for each in batch]

    def ended(self, dataset: Any) -> None:
        """An epoch is over."""
        if self._here == id(dataset) and not self._handed and not self._state.steps and self._state.all_together:
            session = self._session
            fields = {
                "kind": "empty",
                "part": "epoch",
                "seen": "no batches",
                "wanted": "batches",
                "step": session.steps,
            }
            session.note("BatchOdd", fields, "the first epoch has no batches: this rank's share of the data is empty")
            session.say("the first epoch has no batches on this rank: its share of the data is empty")
            self.length = 0

    def stepped(self) -> None:
        """An optimizer took a step: what was handed out before is trained on."""
        self._stepped = True
        if self._fed.waits:
            self._fed.stepped(self._fed_of == self._last and self._state.is_data_parallel())
        if self._pending:
            if self._pending.isdisjoint(self._training):
                self._now_trains_on(set())  # what came first was not training
            self._training |= self._pending
            self._pending.clear()
        if self._first_steps < 2:
            self._first_steps += 1
            # the others were only iterated over, before the training
            if self._first_steps == 2 and self._since and self._since < self._training:
                self._now_trains_on(self._since)
            self._since.clear()
        if self._counts:
            self._counts = False
        self._without = 0

    def signature(self) -> dict[str, str]:
        """What the first batches had in common: types and rows. Lengths may differ between ranks."""
        found: dict[str, str] = {}
        rows: set[int | None] = set()
        for name, known in self._signed.items():
            if known is None:
                continue
            shape, dtype = known
            found[name] = f"{dtype}[...]"
            rows.add(shape[0] if shape else None)
        if found:
            found["rows"] = UNKNOWN if None in rows or len(rows) != 1 else str(rows.pop())
        return found

    def _look(self, batch: Any) -> None:
        self._looked += 1
        for name, shape, dtype, _ in leaves(batch):
            known = self._signed.get(name, (shape, dtype))
            if known is None or len(known[0]) != len(shape) or known[1] != dtype:
                self._signed[name] = None
            else:
                self._signed[name] = tuple(k if k == s else None for k, s in zip(known[0], shape, strict=True)), dtype

    def _check(self, key: int, batch: Any) -> None:
        """Compare the batch with the contract of its dataset."""
        session = self._session
        if session.is_off("batch checks"):
            return
        known = self._batches.get(key)
        if known is None:
            if len(self._batches) >= MOST_DATASETS:
                return
            known = Batches(session) if self._is_second else session.batches
            if self._is_second:
                session.at_close.append(known.at_end)
            self._is_second = True
            known.declare_like(session.batches)
            self._batches[key] = known
        try:
            known.see(batch, session.values)
        except OutOfStep:
            raise
        except Exception as error:
            session.failed("batch checks", error)

    def _count(self) -> None:
        """No optimizer was seen: it is compiled, or not torch's. Then a batch is a step."""
        if self._counts:
            self._session.step_done()
            self._session.lean = False  # steps are counted here
            return
        self._without += 1
        if self._without > WITHOUT_STEPS:
            self._counts = True
            why = (
                "no optimizer's hook was called (compiled into the step, or not torch's own); a batch counts as a step"
            )
            self._session.uncovered("optimizer steps seen", why)
            self._session.trains_in(self._state.trained_together(), "torch")


def _reference(loader: Any) -> weakref.ref[Any]:
    try:
        return weakref.ref(loader.dataset)
    except TypeError:  # a list, say; the loader holds it
        return weakref.ref(loader)


def _length(loader: Any) -> int | None:
    """How many batches it has; None where asking could have side effects."""
    sampler = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    inner = getattr(sampler, "sampler", sampler)
    for each in (sampler, inner):
        kind = type(each)
        if kind.__name__ not in SAMPLERS or not kind.__module__.startswith("torch.utils.data"):
            return None
    return len(sampler)

# SPDX-License-Identifier: Apache-2.0
"""``keepstep.guard.attach()``: the guard through a few lines in the training script, for what no hook can see."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from keepstep.guard import mode, startup_hook
from keepstep.guard.batches.batch_hashes import Fed
from keepstep.guard.session import Session
from keepstep.signals.blackbox import BoxPhase

P = ParamSpec("P")
T = TypeVar("T")

_INPUT, _COMPUTE = int(BoxPhase.INPUT), int(BoxPhase.COMPUTE)
_PHASES = {
    "checkpoint": BoxPhase.CHECKPOINT,
    "evaluation": BoxPhase.EVALUATION,
    "input": BoxPhase.INPUT,
    "compile": BoxPhase.COMPILE,
}


class Guard:
    """What a training script may say to the guard. Every call is safe, even if the guard is off or a part failed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def steps(self, batches: Iterable[T]) -> Iterator[T]:
        """Iterate over ``batches``; each turn is a step, and waiting for a batch is kept apart from working on it."""
        session = self._session
        session.by_hand = True
        session.open()
        source, fed, number = iter(batches), Fed(session), 0
        see = session.guarded("hashes of batches", fed.see)
        stepped = session.guarded(
            "hashes of batches", lambda: fed.stepped(any(known() for known in session.data_parallel))
        )
        while True:
            session.phase(_INPUT)
            try:
                batch = next(source)
            except StopIteration:
                session.phase(_COMPUTE)
                return
            session.phase(_COMPUTE)
            session.see_batch(batch)
            number += 1
            if (name := fed.wants(1, number)) is not None:
                see(name, 1, number, batch)
            yield batch
            if fed.waits:
                stepped()
            session.step_done(by_hand=True)

    def step(self, function: Callable[P, T]) -> Callable[P, T]:
        """A decorator: every call of ``function`` is a training step."""
        session = self._session
        session.by_hand = True

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            session.open()
            session.phase(_COMPUTE)
            result = function(*args, **kwargs)
            session.step_done(by_hand=True)
            return result

        return call

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """``with guard.phase("checkpoint"):`` also "evaluation", "input", "compile": pauses that are not hangs."""
        if name not in _PHASES:
            raise ValueError(f"no such phase: {name!r}; there are {', '.join(_PHASES)}")
        with self._session.during(int(_PHASES[name])):
            yield

    def batches(
        self,
        *,
        labels: dict[str, tuple[float, float]] | None = None,
        dtypes: dict[str, str] | None = None,
        shapes: dict[str, Iterable[int | None]] | None = None,
        finite: bool = True,
    ) -> None:
        """Declare what batches must be: label ranges, dtypes and shapes, by a part's name or its end, as in "[1]".

        In a shape, None stands for any size: ``shapes={"[0]": (None, 3, 224, 224)}``.
        """
        for name, stated in (("labels", labels), ("dtypes", dtypes), ("shapes", shapes)):
            if stated is not None and not isinstance(stated, Mapping):
                raise TypeError(f"{name} must be a dictionary by part of the batch, not {type(stated).__name__}")
        known = self._session.batches
        known.labels.update(labels or {})
        known.dtypes.update(dtypes or {})
        known.shapes.update({part: tuple(sizes) for part, sizes in (shapes or {}).items()})
        known.finite = finite

    def agree(self, subject: str, **stated: Any) -> None:
        """All ranks must state the same here; otherwise raises keepstep.OutOfStep on every rank."""
        self._session.agree(subject, {name: str(value) for name, value in stated.items()})

    def keras(self) -> Any:
        """A callback for ``fit(callbacks=[guard.keras()])``, of Keras 3 or tf_keras."""
        from keepstep.guard.adapters.tensorflow import keras

        return keras.callback(self._session)

    def lightning(self) -> Any:
        """A callback for Lightning's ``Trainer(callbacks=[guard.lightning()])``."""
        from keepstep.guard.adapters.torch import trainers

        return trainers.lightning(self._session)

    def hugging_face(self) -> Any:
        """A callback for transformers' ``Trainer(callbacks=[guard.hugging_face()])``."""
        from keepstep.guard.adapters.torch import trainers

        return trainers.hugging_face(self._session)


def attach(*, buddy: int = 0, **settings: Any) -> Guard:
    """The guard of this process, attached to the imported frameworks; ``settings`` as for :meth:`Guard.batches`.

    ``buddy``: in one step of so many, another rank computes what one rank has computed, and they compare (PyTorch's
    DistributedDataParallel alone; elsewhere the guard says that there are none).
    """
    mode.tell_if_unknown()
    session = startup_hook.session()
    if buddy:
        session.buddy_every = buddy
        while session.at_buddy:
            session.at_buddy.pop()()
    if startup_hook.is_off():
        found = Guard(session)
    else:
        for name in startup_hook.FRAMEWORKS:
            if name in sys.modules:
                startup_hook.attach_once(name, sys.modules[name])
        startup_hook.start()
        found = Guard(session)
        session.open()
        imported = [name for name in startup_hook.FRAMEWORKS if name in sys.modules]
        if buddy and imported and "torch" not in imported:
            session.no_buddies_in(imported[0])
    if settings:
        found.batches(**settings)
    return found

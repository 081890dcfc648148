# SPDX-License-Identifier: Apache-2.0
"""What the parts of the TensorFlow adapter share, and how they wrap functions of `tensorflow.python`."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.tensorflow.counts import EpochCounts, Mark
from keepstep.signals.blackbox import BoxPhase

if TYPE_CHECKING:
    from keepstep.guard.protocols import Adapts

INSIDE = "tensorflow.python"
COMPUTE, EVALUATION = int(BoxPhase.COMPUTE), int(BoxPhase.EVALUATION)
NEXT = "next"
"""What a rank is about to do: create a variable, or run a function."""
CALL = "in the order of calls"
"""The key under which a statement gives, besides what is compared, the number of the next shared call."""
ITERATOR = "next(distributed dataset)"
"""Here the workers ask each other whether any has a batch left."""
UNSEEN_S = 120.0
"""If no step is recognised for this long, the run is reported as not covered."""


class TensorFlowState:
    """What the parts of this adapter share. One per process."""

    def __init__(self, session: Adapts, module: Any) -> None:
        self.session = session
        self.version = str(getattr(module, "__version__", "unknown"))
        self.world = 1
        """The processes that the multi-worker strategy joined."""
        self.formed = False
        """A strategy that spans processes was made."""
        self.joined = False
        """A multi-worker strategy was made, perhaps of one worker."""
        self.alone_by_design = False
        """An evaluator, or a server that trains nothing."""
        self.coordinated = False
        """Steps are handed to workers (parameter servers): they count when they are handed over."""
        self.exchanges = False
        """Something large enough to be gradients went from rank to rank."""
        self.told_apart: int | None = None
        """The step at which it was reported that nothing did."""
        self.finite: Any = None
        """What counts batches and losses that are not finite."""
        self.drawn: Any = None
        """What hashes batches that graphs draw."""
        self.replicas: Any = None
        """What compares mirrored variables."""
        self.asks_output = False
        """The guard's thread asks for what the next step returns..."""
        self.output: list[Any] | None = None
        """... and this is it."""
        self.last_call: tuple[Any, list[Any], int] | None = None
        """The function that gave it, its arguments, and the step's number; None where they are not known."""
        self.refusal: str | None = None
        """Why, in strict mode, the next step is not taken."""
        self.variables = 0
        """How many variables strategies that span processes have created."""
        self.calls = 0
        """Executions of programs that all ranks run together, the one that runs now included."""
        self.entered_at = 0.0
        """When the current one started; 0 if none runs."""
        self.inside_s = 0.0
        """The time spent in them so far."""
        self.running: str | None = None
        self.in_training = False
        """It is a step, or the batch for one."""
        self.callers: set[int] = set()
        """The threads that run such programs."""
        self.in_run = False
        """`strategy.run` was called eagerly: that is the step, whatever it calls."""
        self.updates = 0
        """Updates of optimizers in such steps: what has none may be an evaluation."""
        self.leading: int | None = None
        """The optimizer whose eager updates are the steps of a loop without any `tf.function`."""
        self.first_step_done = False
        self.source: Mark | None = None
        """The iterator that the last batch came from."""
        self.epochs = 0
        self.shares = EpochCounts()
        self.executing_eagerly: Callable[[], bool] = _yes
        self.local = threading.local()
        self._began = time.monotonic()
        session.pulse.every(10.0, "steps seen", self._look_for_steps)

    def is_data_parallel(self) -> bool:
        """Whether the workers of a strategy train together: then each does so on data of its own."""
        return self.formed and self.world > 1 and not self.coordinated

    def first_step(self) -> None:
        """The first training step is about to run: in which world?"""
        self.first_step_done = True
        if not self.alone_by_design and (self.formed or self.joined or _meant_by_tf_config()):
            self.session.trains_in(self.world, "tensorflow")
        else:
            self.session.answer_buddies("tensorflow")

    def _look_for_steps(self) -> None:
        session = self.session
        if session.steps or session.is_off("steps") or self.alone_by_design:
            return
        if not self.formed and self.source is None:
            return  # nothing here looks like a training
        if time.monotonic() - self._began > UNSEEN_S:
            session.uncovered(
                "steps", "no training step was recognised; report steps with `guard.steps` or `guard.step`"
            )


def inside(name: str) -> Any:
    """A loaded module below `tensorflow.python`; None if this version has none of that name."""
    return sys.modules.get(f"{INSIDE}.{name}")


def first(*names: str) -> Any:
    """The first of several modules that is loaded."""
    return next((found for name in names if (found := inside(name)) is not None), None)


def replace(session: Adapts, part: str, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> bool:
    """Replace a function with ``make(original)``, made to look like the original. Reports if there is none."""
    original = None if owner is None else getattr(owner, name, None)
    if not callable(original):
        where = "its module" if owner is None else getattr(owner, "__name__", str(owner))
        session.uncovered(part, f"this version of the framework has no {name} in {where}")
        return False
    if getattr(original, "_keepstep", False):
        return True
    wrapper = functools.wraps(original)(make(original))
    wrapper._keepstep = True  # type: ignore[attr-defined]
    setattr(owner, name, wrapper)
    return True


def enter_call(state: TensorFlowState, name: str, *, training: bool) -> None:
    """One more call of something that all ranks do together, in one order."""
    state.calls += 1
    state.running, state.in_training = name, training
    state.callers.add(threading.get_ident())
    state.entered_at = time.monotonic()


def leave_call(state: TensorFlowState) -> None:
    if state.entered_at:
        state.inside_s += time.monotonic() - state.entered_at
        state.entered_at = 0.0


def _yes() -> bool:
    return True


def _meant_by_tf_config() -> bool:
    """Whether TF_CONFIG, and not some other launcher's variables, means several processes that train together."""
    from keepstep.cluster import understand

    if "horovod" in sys.modules or "byteps" in sys.modules:
        return False
    with contextlib.suppress(Exception):  # whatever is in the variables, the training goes on
        cluster = understand(os.environ)
        if cluster is not None and cluster.said_by == "TF_CONFIG":
            trainers = [task for task in cluster.tasks if task.role not in ("ps", "evaluator")]
            return len(trainers) > 1 and (cluster.own is None or cluster.own in trainers)
    return False

# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of mirrored variables: TensorFlow copies their first values to all replicas and keeps them equal.

Compared are the weights that are trained and the variables of their optimizers: between the devices of this process,
and between the workers. Other variables may differ by design: Keras 3 keeps the statistics of batches per replica.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any

from keepstep.guard.adapters.array_sums import ArraySums
from keepstep.guard.adapters.tensorflow.tensorflow_state import TensorFlowState, inside, replace
from keepstep.guard.agree.fingerprints import OF_MODEL, PART, Interval, Look

MIRRORED = "MirroredVariable"
RATE = 1e9
"""Bytes per second, before a look has shown it."""
MOST_S = 0.1
"""The longest look before a step."""


def attach(state: TensorFlowState) -> None:
    if state.session.fingerprints.off:
        return
    replicas = state.replicas = Replicas(state)
    owner = getattr(inside("distribute.values"), "DistributedVariable", None)
    made = state.session.guarded(PART, replicas.made)

    def with_look(original: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            made(self)

        return init

    replace(state.session, PART, owner, "__init__", with_look)


class Replicas:
    """The mirrored variables of this process, by weak references, in the order in which they were made."""

    def __init__(self, state: TensorFlowState) -> None:
        self._state = state
        self._variables: list[Any] = []
        self.fresh = False
        """Variables were made since the last step."""
        self._optimizers: dict[int, Any] = {}
        self._interval = Interval(state.session.fingerprints.asked)
        self._sums = ArraySums(sys.modules["numpy"])
        self.stepped = state.session.guarded(PART, self._stepped)
        self.first = state.session.guarded(PART, self._first)
        self.updated = state.session.guarded(PART, self._updated)

    def made(self, variable: Any) -> None:
        if type(variable).__name__ == MIRRORED:
            self._variables.append(weakref.ref(variable))
            self.fresh = True

    def _updated(self, optimizer: Any) -> None:
        """It updates weights: its own variables are compared, too."""
        if id(optimizer) not in self._optimizers:
            self._optimizers[id(optimizer)] = weakref.ref(optimizer)

    def _first(self) -> None:
        """Before the first step with new variables: what is equal now must stay so."""
        self.fresh = False
        compared = [] if self._state.coordinated else list(self._compared())
        if sum(_size(each) for _, each in compared) < RATE * MOST_S:
            self._inside(compared, self._state.session.steps)
            self._between(compared, self._state.session.steps)

    def _stepped(self) -> None:
        """A step has ended. Hot."""
        session = self._state.session
        if not self._variables or session.steps < self._interval.next or self._state.coordinated:
            return
        session.fingerprints.stop_if_strict()
        began = time.perf_counter()
        compared = list(self._compared())
        if not compared:
            self._interval.skip(session.steps)
            return
        if not self._interval.affords(session.steps, sum(_size(each) for _, each in compared) / RATE):
            return
        self._inside(compared, session.steps)
        self._between(compared, session.steps)
        self._interval.looked(session.steps, time.perf_counter() - began)

    def _inside(self, compared: list[tuple[str, Any]], step: int) -> None:
        several = [(name, each.values) for name, each in compared if len(each.values) > 1]
        if not several:
            return
        devices = [str(part.device).rpartition("/device:")[2] for part in several[0][1]]
        replicas = {
            device: [self._of(parts[place]) for _, parts in several if len(parts) == len(devices)]
            for place, device in enumerate(devices)
        }
        names = [name for name, parts in several if len(parts) == len(devices)]
        self._state.session.fingerprints.add_inside("tensorflow", step, names, replicas, promised=True)

    def _between(self, compared: list[tuple[str, Any]], step: int) -> None:
        state = self._state
        if state.world < 2 or not state.formed or not compared:
            return
        sums = [self._of(each.values[0]) for _, each in compared]
        look = Look(
            subject="tensorflow",
            ranks=tuple(range(state.world)),
            number=step,
            step=step,
            exchanged=state.calls,
            names=tuple(name for name, _ in compared),
            read=lambda: sums,
            promised=True,
        )
        state.session.fingerprints.add(look)

    def _compared(self) -> Iterator[tuple[str, Any]]:
        of_optimizers = {
            id(getattr(variable, "value", variable)) if not _is_mirrored(variable) else id(variable)
            for known in self._optimizers.values()
            if (optimizer := known()) is not None
            for variable in _variables(optimizer)
        }
        for known in self._variables:
            variable = known()
            if variable is None or not (variable.trainable or id(variable) in of_optimizers):
                continue
            if variable.dtype.is_numpy_compatible and all("CPU" in str(part.device) for part in variable.values):
                yield str(variable.name).partition(":")[0], variable
            else:
                self._state.session.uncovered(OF_MODEL, "its variables are not on the host's processor")

    def _of(self, part: Any) -> tuple[int, int, int]:
        return self._sums.of(part.read_value()._numpy())  # shares its memory: nothing is copied


def _is_mirrored(variable: Any) -> bool:
    return type(variable).__name__ == MIRRORED


def _variables(optimizer: Any) -> list[Any]:
    found = getattr(optimizer, "variables", ())
    return list(found() if callable(found) else found)


def _size(variable: Any) -> int:
    return int(variable.shape.num_elements() or 0) * int(variable.dtype.size) * (len(variable.values) + 1)

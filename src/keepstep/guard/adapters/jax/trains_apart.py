# SPDX-License-Identifier: Apache-2.0
"""Processes that form a world and then train apart: every step runs only on one process's devices, on its own mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from keepstep.guard.adapters.jax.execution_hook import PART

if TYPE_CHECKING:
    from keepstep.guard.adapters.jax.executions import Runs
    from keepstep.guard.adapters.jax.lockstep import Lockstep
    from keepstep.guard.protocols import Observes

SOON = 50
"""Steps after which processes that train together have run a program together."""


RARELY = 10
"""Steps per exchange of JAX's own (a barrier, a comparison at the start), if gradients do not go through them."""


class Apart:
    """Called by the guard's thread."""

    def __init__(self, session: Observes, runs: Runs, lockstep: Lockstep, world: Callable[[], int]) -> None:
        self._session, self._runs, self._lockstep, self._world = session, runs, lockstep, world
        self._told = False
        self._over = False

    def look(self) -> None:
        session = self._session
        together = self._runs.exchanges or self._lockstep.executed * RARELY > session.steps or session.is_off(PART)
        if self._over or session.steps < SOON or together == (not self._told):
            self._over = self._over or (together and not self._told and session.steps >= SOON)
            return
        fields = {"framework": "jax", "world": self._world(), "steps": session.steps}
        if not self._told and self._world() > 1:
            self._told = True
            words = (
                f"no program has spanned the processes in {session.steps} steps, though {self._world()} formed a "
                "world: each trains a model of its own"
            )
            session.note("NeverExchanged", fields, words)
            session.say(words)
        elif self._told:
            self._over = True
            session.note(
                "NeverExchanged",
                {**fields, "over": True},
                f"the processes run a program together after all, since about step {session.steps}",
            )

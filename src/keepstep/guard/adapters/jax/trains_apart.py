# SPDX-License-Identifier: Apache-2.0
"""What a JAX training leaves unused: the other processes, or some of its own devices. Seen after a few dozen steps.

Processes that train apart formed a world, and then run every step only on their own devices, on a mesh of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.jax.execution_hook import PART

if TYPE_CHECKING:
    from keepstep.guard.adapters.jax.executions import Runs
    from keepstep.guard.adapters.jax.lockstep import Lockstep
    from keepstep.guard.adapters.jax.program_contracts import JaxPrograms
    from keepstep.guard.protocols import Observes

SOON = 50
"""Steps after which processes that train together have run a program together, and used every device they use."""
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


class Idle:
    """Devices of this process that no program of the training ever ran on.

    Called by the guard's thread. It asks for devices only after steps, when there is a backend.
    """

    def __init__(self, session: Observes, programs: JaxPrograms, module: Any, world: Callable[[], int]) -> None:
        self._session, self._programs, self._module, self._world = session, programs, module, world
        self._over = False

    def look(self) -> None:
        session = self._session
        if self._over or session.steps < SOON:
            return
        self._over = True
        if self._world() < 2 or session.is_off(PART):
            return  # one process may share its machine with other programs
        own = self._module.local_devices()
        used = self._programs.used & {device.id for device in own}
        if not used or len(used) == len(own):
            return
        what = str(own[0].platform).upper()
        words = f"in {session.steps} steps, no program ran on {len(own) - len(used)} of the {len(own)} devices ({what})"
        session.note("DevicesLeft", {"what": what, "used": len(used), "there": len(own)}, words)
        session.say(words)

# SPDX-License-Identifier: Apache-2.0
"""Devices of this process that no program of the training ever ran on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.jax.execution_hook import PART

if TYPE_CHECKING:
    from keepstep.guard.adapters.jax.program_contracts import Programs
    from keepstep.guard.protocols import Observes

SOON = 50
"""Steps after which every device that a training uses has been used."""


class Idle:
    """Called by the guard's thread. It asks for devices only after steps, when there is a backend."""

    def __init__(self, session: Observes, programs: Programs, module: Any, world: Callable[[], int]) -> None:
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

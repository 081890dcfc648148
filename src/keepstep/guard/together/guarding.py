# SPDX-License-Identifier: Apache-2.0
"""The guard, for what a script calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keepstep.guard import api, startup_hook

if TYPE_CHECKING:
    from keepstep.guard.session import Session


def guarding() -> Session | None:
    """The guard of this process, which a call from the script starts; None with ``KEEPSTEP=off``."""
    if startup_hook.is_off():
        return None
    api.attach()
    return startup_hook.session()

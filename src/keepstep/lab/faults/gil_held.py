# SPDX-License-Identifier: Apache-2.0
"""Native code holds the interpreter lock and never returns: no Python thread of the rank can run."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    ctypes.PyDLL(None).sleep(300)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    if not run.alive(run.scenario.struck):
        raise Unproven(f"rank {run.scenario.struck} has ended")
    return f"{run.proof_that_it_struck()} and sleeps in native code"

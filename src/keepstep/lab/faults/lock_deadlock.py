# SPDX-License-Identifier: Apache-2.0
"""Two threads of the rank take two locks in opposite order, as a logger and a checkpointer might."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

queue_lock = threading.Lock()
state_lock = threading.Lock()


def at(step: int, rank: int) -> None:
    both = threading.Barrier(2)
    threading.Thread(target=write_state, args=(both,), name="checkpointer", daemon=True).start()
    with queue_lock:
        both.wait()
        with state_lock:
            print("never reached")


def write_state(both: threading.Barrier) -> None:
    """The other thread."""
    with state_lock:
        both.wait()
        with queue_lock:
            print("never reached")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    if not run.alive(run.scenario.struck) or "never reached" in run.log_of(run.scenario.struck):
        raise Unproven("the threads are not deadlocked")
    return f"{run.proof_that_it_struck()} and neither thread got its second lock"

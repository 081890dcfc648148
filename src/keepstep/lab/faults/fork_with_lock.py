# SPDX-License-Identifier: Apache-2.0
"""The rank forks while another of its threads holds a lock; the child waits for that lock forever."""

from __future__ import annotations

import multiprocessing
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

cache_lock = threading.Lock()


def at(step: int, rank: int) -> None:
    holding = threading.Event()
    threading.Thread(target=refresh_cache, args=(holding,), daemon=True).start()
    holding.wait()
    child = multiprocessing.get_context("fork").Process(target=preprocess, name="preprocess")
    child.start()
    child.join()


def refresh_cache(holding: threading.Event) -> None:
    """The thread that holds the lock when the process forks."""
    with cache_lock:
        holding.set()
        time.sleep(1)


def preprocess() -> None:
    """The child: its copy of the lock is held by a thread that it does not have."""
    with cache_lock:
        print("never reached", flush=True)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    children = run.children_of(run.pid_of(run.scenario.struck))
    if not children or "never reached" in run.log_of(run.scenario.struck):
        raise Unproven("there is no child that waits")
    return f"{run.proof_that_it_struck()}; its forked child {children[-1]} waits for a lock"

# SPDX-License-Identifier: Apache-2.0
"""Faults on demand: one file per fault, and the two neutral hooks that the jobs call.

A job calls ``faults.at(step, rank)`` at each step and ``faults.change(point, value, step, rank)`` where a value
passes by. Both do nothing unless the environment names a fault:

    KEEPSTEP_LAB_FAULT   the fault, a module of this package
    KEEPSTEP_LAB_RANK    the ranks it strikes, e.g. "1" or "0,2"; all of them when unset
    KEEPSTEP_LAB_STEP    the step it strikes at (``at``) or from (``change``); 0 when unset

A fault module has any of these, the first two and the last in the lab's process, the others in the training's:

    prepare(run)             before the job starts: edit its environment, files, arguments (keepstep.lab.run.Run)
    outside(run)             in a thread beside the running job: signals, limits, the network
    at(step, rank)           inside the rank it hits, once
    change_<point>(value)    inside the rank it hits, returns what takes the value's place
    proof(run)               after it, before anything is judged: a sentence that shows that the fault happened,
                             or raises ``Unproven``; every fault has one

This package is copied beside the job's script, so at import a fault may need nothing but the standard library.
"""

from __future__ import annotations

import importlib
import os
import select
import time
from types import ModuleType
from typing import Any

_told: set[str] = set()


def load(name: str) -> ModuleType:
    """The module of the fault called ``name``."""
    return importlib.import_module(f"{__name__}.{name}")


def at(step: int, rank: int) -> None:
    """Strike now, if a fault is set for this step and rank."""
    name = os.environ.get("KEEPSTEP_LAB_FAULT")
    if name and step == _wanted_step() and _strikes(rank):
        strike = getattr(load(name), "at", None)
        if strike:
            tell(f"{name} hit rank {rank} at step {step}")
            strike(step, rank)


def change(point: str, value: Any, step: int, rank: int) -> Any:
    """``value``, or what a fault set for this point, step and rank makes of it."""
    name = os.environ.get("KEEPSTEP_LAB_FAULT")
    if name and step >= _wanted_step() and _strikes(rank):
        replace = getattr(load(name), f"change_{point}", None)
        if replace:
            if point not in _told:
                _told.add(point)
                tell(f"{name} changed the {point} of rank {rank} at step {step}")
            return replace(value)
    return value


def tell(what: str) -> None:
    """Note the moment for the lab, which measures the time to the verdict from here; faults call it too."""
    with open(os.path.join(os.environ["KEEPSTEP_LAB_WORK"], "struck"), "a") as notes:
        notes.write(f"{time.monotonic()} {what}\n")  # the wall clock of a rank may be a wrong one


def rest(seconds: float) -> None:
    """Sleep; unlike ``time.sleep`` also right where libfaketime gives the process a wrong clock."""
    select.select([], [], [], seconds)


def _wanted_step() -> int:
    return int(os.environ.get("KEEPSTEP_LAB_STEP", "0"))


def _strikes(rank: int) -> bool:
    ranks = os.environ.get("KEEPSTEP_LAB_RANK")
    return ranks is None or str(rank) in ranks.split(",")

# SPDX-License-Identifier: Apache-2.0
"""Faults on demand, one module per theme, and the two neutral hooks that the jobs call.

A job calls ``faults.at(step, rank)`` at each step and ``faults.change(point, value, step, rank)`` where a value
passes by. Both do nothing unless the environment names a fault:

    KEEPSTEP_LAB_FAULT   the fault: ``kill_rank`` is the class ``KillRank`` in any module of this package
    KEEPSTEP_LAB_RANK    the ranks it strikes, e.g. "1" or "0,2"; all of them when unset
    KEEPSTEP_LAB_STEP    the step it strikes at (``at``) or from (``change``); 0 when unset

A fault is a subclass of :class:`Fault`. It has any of these methods, the first two and the last for the lab's process,
the others for the training's:

    prepare(run)             before the job starts: edit its environment, files, arguments (keepstep_lab.run.Run)
    outside(run)             in a thread beside the running job: signals, limits, the network
    at(step, rank)           inside the rank it hits, once
    change_<point>(value)    inside the rank it hits, returns what takes the value's place
    proof(run)               after it, before anything is judged: a sentence that shows that the fault happened,
                             or raises ``run.unproven(why)``

Classes that begin with an underscore, and modules that do, hold what several faults share. This package is copied
beside the job's script, so at import a fault may need nothing but the standard library.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import select
import time
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep_lab.run import Run

_told: set[str] = set()


class Fault:
    """What breaks a job. Its docstring says how."""

    def proof(self, run: Run) -> str:
        """That it happened; where nothing else shows it, that it noted the moment."""
        return run.proof_that_it_struck()


@cache
def table() -> dict[str, Any]:
    """Every fault, by its name."""
    found = {}
    for each in pkgutil.iter_modules(__path__):
        if not each.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{each.name}")
            for name, kind in vars(module).items():
                own = isinstance(kind, type) and issubclass(kind, Fault) and kind.__module__ == module.__name__
                if own and not name.startswith("_"):
                    found[re.sub(r"(?<!^)(?=[A-Z])", "_", name.strip("_")).lower()] = kind()
    return found


def load(name: str) -> Any:
    """The fault called ``name``."""
    return table()[name]


def hooks(fault: Fault) -> set[str]:
    """Which of the methods above it has."""
    return {name for name in dir(fault) if name in ("prepare", "outside", "at", "proof") or name.startswith("change_")}


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

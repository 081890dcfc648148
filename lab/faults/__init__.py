"""Faults on demand: one file per fault, and the two neutral hooks that the jobs call.

A job calls `fault.at(step, rank)` at each step and `fault.change(point, value, step, rank)` where a value
passes by. Both do nothing unless the environment names a fault:

    KEEPSTEP_LAB_FAULT   the fault, a module of this package
    KEEPSTEP_LAB_RANK    the ranks it strikes, e.g. "1" or "0,2"; all of them when unset
    KEEPSTEP_LAB_STEP    the step it strikes at (`at`) or from (`change`); 0 when unset

A fault module has any of these functions:

    prepare(run)             before the job starts: edit its environment, files, arguments (lab.launch.Run)
    outside(run)             in a thread beside the running job: signals, limits
    at(step, rank)           inside the struck rank, once
    change_<point>(value)    inside the struck rank, returns what takes the value's place
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any


def load(name: str) -> ModuleType:
    """The module of the fault called `name`."""
    return importlib.import_module(f"lab.faults.{name}")


def at(step: int, rank: int) -> None:
    """Strike now, if a fault is set for this step and rank."""
    name = os.environ.get("KEEPSTEP_LAB_FAULT")
    if name and step == _wanted_step() and _strikes(rank):
        strike = getattr(load(name), "at", None)
        if strike:
            strike(step, rank)


def change(point: str, value: Any, step: int, rank: int) -> Any:
    """`value`, or what a fault set for this point, step and rank makes of it."""
    name = os.environ.get("KEEPSTEP_LAB_FAULT")
    if name and step >= _wanted_step() and _strikes(rank):
        replace = getattr(load(name), f"change_{point}", None)
        if replace:
            return replace(value)
    return value


def _wanted_step() -> int:
    return int(os.environ.get("KEEPSTEP_LAB_STEP", "0"))


def _strikes(rank: int) -> bool:
    ranks = os.environ.get("KEEPSTEP_LAB_RANK")
    return ranks is None or str(rank) in ranks.split(",")

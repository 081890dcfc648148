# SPDX-License-Identifier: Apache-2.0
"""What the programs that try collectives have in common: their plan, and a line of JSON for each trial."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from keepstep.check.collectives.plan import Plan, Trial, trials

Difference = tuple[int, int, int, int]
"""Rank, the first and the last element that is wrong, and how many are."""
Round = Callable[[], tuple[float, list[Difference]]]
"""One collective: what it took, and what was wrong."""


def plan_given() -> Plan:
    given: Any = json.loads(sys.argv[1])
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Plan(**fields)


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def try_all(plan: Plan, world: int, attempt: Callable[[Trial], Round | None]) -> None:
    """Each trial, and what came of it. ``attempt`` prepares one; what it returns is called once per round."""
    for number, trial in enumerate(trials(plan, world)):
        say(begins=number, at=time.monotonic())
        try:
            if (once := attempt(trial)) is None:
                continue
            rounds = [once() for _ in range(plan.rounds)]
        except (RuntimeError, NotImplementedError, TypeError) as error:
            lacks = isinstance(error, NotImplementedError) or "support" in str(error)
            if not lacks and trial.dtype == plan.dtypes[0]:
                raise
            say(trial=number, refused=str(error).strip().split("\n")[-1].strip()[:200])
            if lacks:
                continue
            return
        bad = [each for _, each in rounds if each]
        took = median(took for took, _ in rounds[1:] or rounds)
        say(trial=number, median_s=took, rounds=len(rounds), wrong=len(bad), differences=bad[0] if bad else [])


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def differences(got: Any, want: Any, rank: int, where: Callable[[Any], Any]) -> list[Difference]:
    """``where`` gives the indices at which an array of truth values is true."""
    if not bool((got != want).any()):
        return []
    places = where(got != want)
    return [(rank, int(places[0]), int(places[-1]), len(places))]

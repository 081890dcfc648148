# SPDX-License-Identifier: Apache-2.0
"""What the programs that try collectives have in common: their plan, and a line of JSON for each trial."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from keepstep.check.collectives.plan import EVEN, Plan, Trial, trials
from keepstep.check.collectives.smallest import smallest

Difference = tuple[int, int, int, int]
"""Rank, the first and the last element that is wrong, and how many are."""
Round = Callable[[], tuple[float, list[Difference]]]
"""One collective: what it took, and what was wrong."""
Attempt = Callable[[Trial], Round | None]
Share = Callable[[str], list[str]]
"""Gives a text to all ranks, through no collective, and gets those of all."""


def plan_given() -> Plan:
    given: Any = json.loads(sys.argv[1])
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Plan(**fields)


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def try_all(plan: Plan, world: int, attempt: Attempt, share: Share | None = None) -> None:
    """Each trial, and what came of it. ``attempt`` prepares one; what it returns is called once per round.

    Where ranks can ``share`` what they saw, they look for the smallest group that is wrong.
    """
    wrong: dict[int, list[int]] = {}
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
        if bad:
            wrong[number] = [rank for rank, *_ in bad[0]]
        took = median(took for took, _ in rounds[1:] or rounds)
        say(trial=number, median_s=took, rounds=len(rounds), wrong=len(bad), differences=bad[0] if bad else [])
    if share is not None:
        _narrow(plan, list(trials(plan, world)), attempt, share, wrong)


def _narrow(plan: Plan, every: list[Trial], attempt: Attempt, share: Share, mine: dict[int, list[int]]) -> None:
    """Of each operation, the first trial that was wrong anywhere, with fewer and fewer ranks."""
    wrong: dict[int, set[int]] = {}
    for told in share(json.dumps(mine)):
        for number, ranks in json.loads(told).items():
            wrong.setdefault(int(number), set()).update(ranks)
    of_operation: dict[str, int] = {}
    for number in sorted(wrong):
        of_operation.setdefault(every[number].operation, number)
    for number in of_operation.values():
        trial = every[number]
        asking = smallest(next(group for group in trial.groups if wrong[number] & set(group)))
        is_wrong: bool | None = None
        while True:
            try:
                part = next(asking) if is_wrong is None else asking.send(is_wrong)
            except StopIteration as end:
                say(smallest=end.value, of=number)
                break
            once = attempt(_among(trial, part))
            bad = once is not None and any([once()[1] for _ in range(plan.rounds)])
            is_wrong = any(share("wrong" if bad else ""))


def _among(trial: Trial, part: tuple[int, ...]) -> Trial:
    elements = -(-trial.elements // len(part)) * len(part) if trial.operation in EVEN else trial.elements
    return trial._replace(groups=(part,), elements=elements)


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

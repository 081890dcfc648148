# SPDX-License-Identifier: Apache-2.0
"""What the programs that try collectives have in common: their plan, and a line of JSON for each trial."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Protocol

from keepstep.check.collectives.links import End, link_between
from keepstep.check.collectives.plan import BYTES, EVEN, Plan, Trial, trials
from keepstep.check.collectives.smallest import smallest
from keepstep.signals.pair_rates import PairRate, far_below

Difference = tuple[int, int, int, int]
"""Rank, the first and the last element that is wrong, and how many are."""
Round = Callable[[], tuple[float, list[Difference]]]
"""One collective: what it took, and what was wrong."""
Attempt = Callable[[Trial], Round | None]
Share = Callable[[str], list[str]]
"""Gives a text to all ranks, through no collective, and gets those of all."""


class Store(Protocol):
    """By which ranks tell each other something, through no collective."""

    rank: int

    def share(self, text: str) -> list[str]: ...

    def agree(self, about: str, group: Sequence[int], text: str) -> str:
        """What the first of the group says."""


MOST_ALONE, ROUNDS_ALONE = 4, 3
"""Pairs that are far below their kind are tried once more, one after the other."""
TRIAL_S, LEAST_ROUNDS = 20.0, 2
"""A trial has fewer rounds where they would take longer than this. A group of ranks agrees on how many."""


def plan_given() -> Plan:
    given: Any = json.loads(sys.argv[1])
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Plan(**fields)


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def try_all(
    plan: Plan, world: int, attempt: Attempt, store: Store | None = None, end: End | None = None, alone: bool = False
) -> None:
    """Each trial, and what came of it. ``attempt`` prepares one; what it returns is called once per round.

    Where ranks have a ``store``, they look for the smallest group that is wrong, and each says by its ``end`` by which
    links it reaches the others: pairs far below their kind are tried again. ``alone``: there is no other process.
    """
    wrong: dict[int, list[int]] = {}
    every = list(trials(plan, world))
    pairs = {number: trial for number, trial in enumerate(every) if trial.of_links}
    of_pairs: dict[int, float] = {}

    def agree(number: int, trial: Trial, rounds: int) -> int:
        """How many rounds, of those that this process would make."""
        if store is None:
            return rounds if alone else plan.rounds
        mine = next(group for group in trial.groups if store.rank in group)
        return int(store.agree(f"rounds/{number}", mine, str(rounds)))

    for number, trial in enumerate(every):
        if pairs and number == max(pairs) + 1 and store is not None and end is not None:
            _links(pairs, of_pairs, end, attempt, store)
        say(begins=number, at=time.monotonic())
        try:
            if (once := attempt(trial)) is None:
                continue
            began = time.monotonic()
            rounds = [once()]
            fewer = max(LEAST_ROUNDS, int(TRIAL_S / (time.monotonic() - began)))
            for _ in range(1, agree(number, trial, min(plan.rounds, fewer))):
                say(begins=number, at=time.monotonic())
                rounds.append(once())
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
        of_pairs[number] = took = _usual(rounds)
        say(trial=number, median_s=took, rounds=len(rounds), wrong=len(bad), differences=bad[0] if bad else [])
    if store is not None:
        _narrow(plan, every, attempt, store.share, wrong)


def _usual(rounds: list[tuple[float, list[Difference]]]) -> float:
    return median(took for took, _ in rounds[1:] or rounds)


def _links(pairs: dict[int, Trial], took: dict[int, float], end: End, attempt: Attempt, store: Store) -> None:
    """What the pairs were given by their links, and once more, one after the other, those far below their kind."""
    mine = {number: took[number] for number in pairs if number in took}
    told = [json.loads(each) for each in store.share(json.dumps([end, mine]))]
    ends = [End(*each) for each, _ in told]
    rates = {}
    for number, trial in pairs.items():
        for pair in trial.groups:
            link = link_between(ends[pair[0]], ends[pair[1]])
            if store.rank in pair:
                say(link=link, of=number)
            times = [told[rank][1].get(str(number), 0.0) for rank in pair]
            if all(times):
                bytes_s = trial.elements * BYTES[trial.dtype] / max(times)
                rates[pair] = number, PairRate(pair, link.medium, bytes_s, link.gives)
    for slow in far_below([rate for _, rate in rates.values()])[:MOST_ALONE]:
        number, _ = rates[slow.pair]
        say(begins=number, at=time.monotonic())
        if (once := attempt(pairs[number]._replace(groups=(slow.pair,)))) is not None:
            say(again=number, median_s=_usual([once() for _ in range(ROUNDS_ALONE)]), rounds=ROUNDS_ALONE)
        store.share("")  # the others wait until this pair is done


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

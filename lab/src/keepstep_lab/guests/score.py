# SPDX-License-Identifier: Apache-2.0
"""Run guests, one or many, and judge them: the work behind ``keepstep lab guests run`` and ``score``."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from keepstep.base.did_you_mean import did_you_mean
from keepstep.errors import UserError
from keepstep_lab.guests import broken, judge
from keepstep_lab.guests.catalogue import GUESTS
from keepstep_lab.guests.faults import FAULTS
from keepstep_lab.guests.guest import Guest, Way
from keepstep_lab.guests.judge import Result
from keepstep_lab.guests.seen import Seen
from keepstep_lab.score import end_with_the_parent

SCHEMA = "keepstep.guests/1"
Told = Callable[[Result], None]


def run_healthy(guest: Guest, ways: Sequence[Way], told: Told, keep: Path | None = None) -> list[Result]:
    """Run one guest without keepstep, then in each of these ways, and compare."""
    if missing := what_is_missing(guest):
        return _told([Result(guest.name, way.value, skipped=missing) for way in ways], told)
    first, before = judge.plain(guest, keep)
    if not first.right:  # without keepstep: a port that another program took says nothing about the guest
        first, before = judge.plain(guest, keep)
    results = _told([first], told)
    if first.right:
        for way in ways:
            if way is not Way.PLAIN:
                results += _told([judge.healthy(guest, way, before, keep)], told)
    return results


def run_broken(guest: Guest, fault: str, ways: Sequence[Way], told: Told, keep: Path | None = None) -> list[Result]:
    """Break one guest in each of these ways."""
    if missing := what_is_missing(guest):
        return _told([Result(guest.name, way.value, skipped=missing, fault=fault) for way in ways], told)
    results = []
    for way in ways:
        if way is not Way.PLAIN and not (way is Way.RANKS and FAULTS[fault].not_with_n):
            results += _told([broken.broken(guest, FAULTS[fault], way, keep)], told)
    return results


def run_many(tasks: Iterable[Sequence[str]], *, jobs: int, told: Told) -> list[Result]:
    """Run guests side by side, each task (the words after `guests run`) in a process of its own."""
    pool = ThreadPoolExecutor(jobs)
    running: set[subprocess.Popen[str]] = set()
    waiting = [pool.submit(_in_a_process, list(words), running) for words in tasks]
    results: list[Result] = []
    try:
        for task in as_completed(waiting):
            results += _told(task.result(), told)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.terminate()
        pool.shutdown(wait=True)
    order = list(GUESTS)
    return sorted(results, key=lambda result: (bool(result.fault), order.index(result.guest)))


def _in_a_process(words: list[str], running: set[subprocess.Popen[str]]) -> list[Result]:
    command = [sys.executable, "-m", "keepstep", "lab", "guests", "run", *words, "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=end_with_the_parent
    )
    running.add(process)
    printed, complained = process.communicate()
    running.discard(process)
    try:
        return [result_from(each) for each in json.loads(printed)["results"]]
    except (ValueError, KeyError):
        why = (complained.strip() or "it printed nothing").splitlines()[-1]
        return [Result(words[0], "", wrong=[f"the bench failed: {why}"])]


def result_from(found: dict[str, Any]) -> Result:
    """A result that went through JSON."""
    return Result(**{**found, "seen": [Seen(**each) for each in found["seen"]]})


def _told(results: list[Result], told: Told) -> list[Result]:
    for result in results:
        told(result)
    return results


def what_is_missing(guest: Guest) -> str:
    """The modules that this environment lacks for a guest, as a sentence; empty: none."""
    absent = [name for name in (guest.framework, *guest.needs) if _is_absent(name)]
    return f"needs {', '.join(absent)} (`make guests` sets up an environment with all of them)" if absent else ""


def _is_absent(name: str) -> bool:
    """Looking for a part of a package imports the package, so ask for the package first."""
    return importlib.util.find_spec(name.partition(".")[0]) is None or importlib.util.find_spec(name) is None


def named(names: Iterable[str], framework: str | None = None, quick: bool = False) -> list[Guest]:
    """The guests of these names, or all; of one framework; only the quick ones."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in GUESTS]
    if unknown:
        hint = did_you_mean(unknown[0], GUESTS, "see `keepstep lab guests list`")
        raise UserError(f"no such guest: {', '.join(unknown)}", hint=hint)
    chosen = [GUESTS[name] for name in wanted] or list(GUESTS.values())
    return [guest for guest in chosen if framework in (None, guest.framework) and (guest.quick or not quick)]

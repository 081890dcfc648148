# SPDX-License-Identifier: Apache-2.0
"""``keepstep profile``: record some steps of a running job, and say what takes the time."""

from __future__ import annotations

import argparse
import json

from keepstep.analyze.question import run_place
from keepstep.base.visible import visible
from keepstep.supervise.profile_run import Profiled, RankProfile, newest_profile, odd_one, profile_run

SHOWN = 3
WIDTH = 48


def profile_verb(asked: argparse.Namespace) -> int:
    """Ask the ranks, wait, read what they recorded."""
    place = run_place(asked.run)
    found = newest_profile(place) if asked.last else profile_run(place, asked.ranks, asked.steps, asked.wait)
    if asked.json:
        print(json.dumps(_document(found), indent=1))
    else:
        _print(found)
    return 3 if found.silent or any(each.answer.failed for each in found.ranks) else 0


def _print(found: Profiled) -> None:
    for each in found.ranks:
        said = each.answer
        if said.failed:
            print(f"rank {said.rank}: no profile ({visible(said.failed)})")
            continue
        print(f"rank {said.rank}, steps {said.first + 1} to {said.last}: {each.step_s * 1e3:.1f} ms per step")
        for name, seconds in list(each.per_step.items())[:SHOWN]:
            print(f"  {seconds * 1e3:9.1f} ms  {_short(name)}")
    for rank in found.silent:
        print(f"rank {rank}: no answer in time; it records as soon as it takes its next steps")
    if (odd := odd_one(found.ranks)) is not None:
        print(f"slowest part: rank {odd.rank} spends {odd.more_s * 1e3:.1f} ms more of each step in")
        print(f"  {_short(odd.name)}")
    elif slowest := [each for each in found.ranks if each.per_step]:
        name = next(iter(max(slowest, key=lambda each: each.step_s).per_step))
        print("slowest part, on all ranks alike:", _short(name), sep="\n  ")
    if any(each.traces for each in found.ranks):
        print(f"traces: tensorboard --logdir {found.folder}")
        print("torch's *.pt.trace.json also open in ui.perfetto.dev")


def _short(name: str) -> str:
    name = visible(name)
    return name if len(name) <= WIDTH else f"{name[: WIDTH - 3]}..."


def _document(found: Profiled) -> dict[str, object]:
    return {
        "folder": str(found.folder),
        "ranks": [_rank(each) for each in found.ranks],
        "silent": list(found.silent),
        "odd_one": vars(odd) if (odd := odd_one(found.ranks)) is not None else None,
    }


def _rank(each: RankProfile) -> dict[str, object]:
    said = each.answer
    return {
        "rank": said.rank,
        "steps": [said.first + 1, said.last],
        "step_s": each.step_s,
        "failed": said.failed,
        "traces": [str(path) for path in each.traces],
        "seconds_per_step": dict(list(each.per_step.items())[:50]),
    }

# SPDX-License-Identifier: Apache-2.0
"""Ask ranks of a running job for a profile of some steps, and name what takes the time."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from keepstep.base import foreign_json
from keepstep.base.safe_files import open_regular
from keepstep.errors import Unavailable, UserError
from keepstep.guard.record.profile import NOTICE_S
from keepstep.parse.formats.data.example_proto import NotAnExample
from keepstep.parse.formats.profile_trace import IDLE, time_by_operation, torch_spans, xplane_spans
from keepstep.store import profile_request
from keepstep.store.profile_request import Answer
from keepstep.supervise.running_ranks import led_attempt, running_ranks

POLL_S = 0.2
SHARE = 0.05
"""An operation that takes this much more of a rank's step than of another's is named."""
LARGEST, MOST_EVENTS = 500_000_000, 50_000_000


@dataclass(frozen=True)
class RankProfile:
    """What one rank recorded, and its time per step and operation."""

    answer: Answer
    traces: tuple[Path, ...]
    per_step: dict[str, float]
    """Seconds, the most first."""

    @property
    def step_s(self) -> float:
        return self.answer.seconds / max(1, self.answer.last - self.answer.first)


@dataclass(frozen=True)
class OddOne:
    """A rank that does something longer than the others."""

    rank: int
    name: str
    more_s: float
    """In each step."""


@dataclass(frozen=True)
class Profiled:
    """What the ranks recorded."""

    folder: Path
    ranks: tuple[RankProfile, ...]
    silent: tuple[int, ...]
    """Ranks that did not answer in time."""


def profile_run(place: Path, wanted: Collection[int] | None, steps: int, wait_s: float) -> Profiled:
    """``place``: a run folder, or a folder of guards. ``wanted`` None: all ranks on this machine."""
    if led_attempt(place) is not None:
        raise Unavailable(
            f"{place} is on several nodes, where ranks cannot be asked for a profile",
            hint="`keepstep watch` shows which rank the others wait for; profile it with the framework's own profiler",
        )
    folder, found = running_ranks(place)
    there = {each.rank: each for each in found if each.rank is not None}
    ranks = sorted(there if wanted is None else wanted)
    if missing := [rank for rank in ranks if rank not in there]:
        raise UserError(
            f"rank {missing[0]} of {place} is not running on this machine",
            hint="its guard must be on (`keepstep run` turns it on); " + _running_here(there),
        )
    if not ranks:
        raise UserError(f"no rank of {place} is running on this machine", hint="`keepstep runs` lists runs")
    now = [state for rank in ranks if (state := there[rank].doing()) is not None]
    if not any(state.steps for state in now):
        raise UserError("no rank has taken a step yet", hint="ask again once the training steps")
    usual = max((state.usual_ns or 0) for state in now) / 1e9
    ahead = math.ceil(NOTICE_S / usual) if usual else 2
    request = profile_request.ask(folder, ranks, max(state.steps for state in now) + max(2, ahead), steps)
    until = time.monotonic() + wait_s
    answers: dict[int, Answer] = {}
    while len(answers) < len(ranks) and time.monotonic() < until:
        time.sleep(POLL_S)
        for rank in ranks:
            said = profile_request.answered(folder / request.folder, rank)
            if said is not None:
                answers[rank] = said
    return _read_all(folder / request.folder, answers, ranks)


def newest_profile(place: Path) -> Profiled:
    """What was recorded last, whether the job still runs or not."""
    found = sorted(place.rglob("profile-*/"), key=lambda each: each.name)
    if not found:
        raise UserError(f"{place} has no profile", hint="`keepstep profile RUN` records one while the job runs")
    folder = found[-1]
    names = (each.stem.removeprefix("rank") for each in folder.glob("rank*.json"))
    ranks = sorted(int(name) for name in names if name.isdecimal())
    return _read_all(folder, {rank: said for rank in ranks if (said := profile_request.answered(folder, rank))}, ranks)


def _read_all(folder: Path, answers: Mapping[int, Answer], ranks: Collection[int]) -> Profiled:
    profiles = tuple(_read(folder / f"rank{rank}", said) for rank, said in sorted(answers.items()))
    return Profiled(folder, profiles, tuple(rank for rank in ranks if rank not in answers))


def odd_one(profiles: tuple[RankProfile, ...]) -> OddOne | None:
    """Which rank spends more of its own time on something than the others do, and on what."""
    found: list[OddOne] = []
    for each in profiles:
        others = [other for other in profiles if other is not each]
        for name, seconds in each.per_step.items():
            usual = sorted(other.per_step.get(name, 0.0) for other in others)[len(others) // 2] if others else seconds
            if seconds - usual > SHARE * each.step_s and not _waits(name):
                found.append(OddOne(each.answer.rank, name, seconds - usual))
    return max(found, key=lambda each: each.more_s, default=None)


def _waits(name: str) -> bool:
    """In a collective the others wait for the slow one: that is no sign of a slow rank."""
    word = name.lower().replace("_", "").replace("-", "")
    return any(part in word for part in ("allreduce", "allgather", "reducescatter", "gloo", "nccl", "c10d", "barrier"))


def _running_here(there: Collection[int]) -> str:
    return f"running here: {', '.join(map(str, sorted(there))) or 'none'}"


def _read(folder: Path, answer: Answer) -> RankProfile:
    traces = tuple(sorted(folder.rglob("*.trace.json"))) or tuple(sorted(folder.rglob("*.xplane.pb")))
    own: dict[str, float] = {IDLE: answer.seconds}
    for path in traces:
        with contextlib.suppress(OSError, ValueError, NotAnExample), open_regular(path) as stream:
            data = stream.read(LARGEST)
            if path.suffix == ".json":
                spans = list(torch_spans(foreign_json.loads(data, most_parts=MOST_EVENTS)))
            else:
                spans = list(xplane_spans(data))
            own = time_by_operation(spans, answer.seconds)
    count = max(1, answer.last - answer.first)
    ordered = sorted(own.items(), key=lambda each: -each[1])
    return RankProfile(answer, traces, {name: seconds / count for name, seconds in ordered if seconds > 0})

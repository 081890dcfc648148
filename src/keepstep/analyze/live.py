# SPDX-License-Identifier: Apache-2.0
"""A live job on this host: its processes and their stacks, sampled several times.

A job that makes progress is not disturbed: the first samples stop no process. Only if no rank has moved between them is
each process stopped once, for a moment, for its native stack.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.wording import count
from keepstep.model.evidence import Coverage, CoverageState, Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import ConnectionStuck
from keepstep.model.facts.process import Frame, ProcessSeen, StackDump
from keepstep.model.identity import Rank
from keepstep.signals.stacks import Whose, whose
from keepstep.signals.waits import WaitKind, waits_in
from keepstep.sources.host import processes, sockets
from keepstep.sources.host.processes import ProcessReading, Training
from keepstep.sources.stacks import process_stacks as stacks
from keepstep.sources.stacks.process_stacks import Stacks

MOST_HELPERS = 16
MOST_CONNECTIONS = 4
MOVES_DATA = 4 << 20
"""Bytes read or written while watched: a rank that loads or saves is working."""
_ASKS_PEERS = lazy_pattern(r"keepstep/guard/(?:contract|peers|exchange)\.py$")
"""The guard polls for what the other ranks state: where it is in that loop does not count."""
PAUSES_S = (0.4, 1.2, 2.6)
"""Seconds between samples: unequal, so a periodic loop is not caught at the same place each time."""


@dataclass
class _Watched:
    training: Training
    readings: list[ProcessReading] = field(default_factory=list)
    ended: bool = False
    """Whether it was gone when it was looked at again."""
    places: list[tuple[Frame, ...] | None] = field(default_factory=list)
    stacks: Stacks = field(default_factory=Stacks)
    helpers: dict[int, Stacks] = field(default_factory=dict)
    """Child processes it may wait for: loaders, pools."""
    unanswered: list[ConnectionStuck] = field(default_factory=list)
    """Its connections that get no answer, if it does not move."""

    @property
    def still(self) -> bool | None:
        """Whether the main thread was at the same Python line each time; None: unknown."""
        if len(self.readings) > 1 and all(r.state in "Tt" for r in self.readings):
            return True
        if len(self.places) < 2 or None in self.places:
            return None
        if self._moves_data:
            return False
        return len(set(self.places)) == 1

    @property
    def moves(self) -> bool:
        """Whether it certainly makes progress: it was elsewhere, or it woke up often and worked each time."""
        return self.still is False or self._wakes_and_works

    @property
    def _moves_data(self) -> bool:
        first, last = self.readings[0].transferred, self.readings[-1].transferred
        return first is not None and last is not None and last - first > MOVES_DATA

    @property
    def _wakes_and_works(self) -> bool:
        if len(self.readings) < 2:
            return False
        first, last = self.readings[0], self.readings[-1]
        if first.switches is None or last.switches is None or last.at <= first.at:
            return False
        passed = last.at - first.at
        return (last.switches - first.switches) / passed > 5 and (last.cpu_s - first.cpu_s) / passed > 0.05

    @property
    def frozen(self) -> bool:
        return bool(self.readings) and self.readings[-1].state in "DTtZ"


def look_at_live(
    pids: list[int] | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    pauses: Sequence[float] = PAUSES_S,
    stopped_s: float = stacks.STOPPED_S,
    early: Callable[[EvidenceSet], None] | None = None,
    one_job: bool = False,
) -> EvidenceSet:
    """Evidence from the jobs running here, or from the given processes; each may be stopped for ``stopped_s``.

    A job of which no process moves is looked at closely; ``one_job``: they all belong to one, whatever they say.

    ``early`` gets what the Python stacks alone show if no rank moves: native stacks take a while.
    """
    found, coverage = processes.find(pids)
    if not found:
        if pids is None and not any(c.state is CoverageState.UNAVAILABLE for c in coverage):
            why = "no Python process on this host has TensorFlow, PyTorch or JAX loaded"
            coverage = [Coverage(what="training processes on this host", state=CoverageState.UNAVAILABLE, why=why)]
        return EvidenceSet(items=(), coverage=tuple(coverage))
    watched = [_Watched(training) for training in found]
    _look(watched)
    for pause in pauses:
        sleep(pause)
        _look(watched)
        still = [each for job in _jobs(watched, one_job) if not any(each.moves for each in job) for each in job]
        if not still and not any(each.frozen for each in watched):
            break
    coverage += _gone(watched)
    watched = _without_launchers([each for each in watched if each.readings])
    stuck = [job for job in _jobs(watched, one_job) if not any(each.moves for each in job)]
    if stuck:
        if early is not None:
            early(_all_evidence(watched, coverage))
        _look_closely(stuck, stopped_s)
    coverage += stacks.coverage_of({each.training.pid: each.stacks for each in watched})
    if stacks.have_pystack() and watched and all(each.still is None for each in watched):
        coverage.append(
            Coverage(
                what="whether the job makes progress",
                state=CoverageState.NOT_CHECKED,
                why="no stacks could be compared",
            )
        )
    return _all_evidence(watched, coverage)


def _jobs(watched: Sequence[_Watched], one_job: bool) -> list[list[_Watched]]:
    """By job: that one job moves says nothing about another."""
    found: dict[str, list[_Watched]] = {}
    for each in watched:
        found.setdefault("" if one_job else each.training.job, []).append(each)
    return list(found.values())


def _gone(watched: Sequence[_Watched]) -> list[Coverage]:
    """Processes that ended while they were watched: how, nobody here can tell."""
    gone = [each.training.pid for each in watched if each.ended]
    if not gone:
        return []
    what = f"how {count(len(gone), 'process', 'processes')} ended (pid {', '.join(map(str, gone[:8]))})"
    why = "gone while it was looked at" if len(gone) == 1 else "gone while they were looked at"
    return [Coverage(what=what, state=CoverageState.UNAVAILABLE, why=why)]


def _all_evidence(watched: Sequence[_Watched], coverage: Sequence[Coverage]) -> EvidenceSet:
    return EvidenceSet(items=tuple(e for each in watched for e in _evidence(each)), coverage=tuple(coverage))


def _look(watched: list[_Watched]) -> None:
    for each in watched:
        reading = processes.read(each.training.pid)
        each.ended = reading is None or reading.state == "Z"
        if reading is not None and not each.ended:
            each.readings.append(reading)
    seen = stacks.look_at_all([each.training.pid for each in watched], native=False, stop=False)
    for each in watched:
        each.stacks = seen[each.training.pid]
        each.places.append(_python_place(each.stacks.main))


def _look_closely(jobs: list[list[_Watched]], stopped_s: float) -> None:
    """Native stacks of those that can be stopped: a process in state D or T is only read."""
    watched = [each for job in jobs for each in job]
    for each in watched:
        each.unanswered = sockets.stuck(each.training.pid)[:MOST_CONNECTIONS]
    able = [each for each in watched if not each.frozen]
    seen = stacks.look_at_all([each.training.pid for each in able], native=True, stopped_s=stopped_s)
    for each in able:
        closer = seen[each.training.pid]
        if not closer.native and _says_nothing(closer.main):  # alone it is faster
            closer = stacks.look(each.training.pid, native=True, stopped_s=stopped_s)
        if closer.threads:
            each.stacks = closer
            each.places.append(_python_place(closer.main))
    for each in watched:
        main = each.stacks.main
        wait = waits_in(main.frames) if main is not None else None
        if wait is not None and wait.kind in (WaitKind.INPUT, WaitKind.LOCK, WaitKind.CHILDREN):
            children = processes.children(each.training.pid)[:MOST_HELPERS]
            each.helpers = stacks.look_at_all(children, native=False, stop=False)
            for pid in [pid for pid, helper in each.helpers.items() if _in_own_code(helper.main)]:
                each.helpers[pid] = stacks.look(pid, native=True, stopped_s=stopped_s)
    for job in jobs:
        hidden = next(
            (each for each in job if not each.frozen and each.still and _hides_threads(each.stacks.main)), None
        )
        if hidden is not None:
            closer = stacks.look(hidden.training.pid, native=True, every=True, stopped_s=stopped_s)
            hidden.stacks = closer if closer.native else hidden.stacks


def _says_nothing(main: StackDump | None) -> bool:
    """Whether its Python lines show no wait: then only its native frames can."""
    return main is None or waits_in(main.frames) is None


def _in_own_code(main: StackDump | None) -> bool:
    """Whether the innermost Python line is the user's: only a native stack shows what it waits for there."""
    return main is not None and bool(main.frames) and whose(main.frames[0]) is Whose.USER


def _hides_threads(main: StackDump | None) -> bool:
    """Whether the main thread only waits for its other threads, which then show what for."""
    wait = waits_in(main.frames) if main is not None else None
    return wait is not None and (wait.kind is WaitKind.DEVICE or wait.vague)


def _without_launchers(watched: list[_Watched]) -> list[_Watched]:
    """The list without processes that only wait for others on it."""
    parents = {each.training.parent for each in watched}

    def launches(each: _Watched) -> bool:
        main = each.stacks.main
        wait = waits_in(main.frames) if main is not None else None
        return each.training.pid in parents and wait is not None and wait.kind is WaitKind.CHILDREN

    return [each for each in watched if not launches(each)]


def _python_place(main: StackDump | None) -> tuple[Frame, ...] | None:
    if main is None or not main.frames:
        return None
    frames = [frame for frame in main.frames if not frame.is_native]
    asking = [n for n, frame in enumerate(frames) if _ASKS_PEERS.search(frame.file or "")]
    return tuple(frames[asking[-1] :] if asking else frames)


def _evidence(each: _Watched) -> list[Evidence[Fact]]:
    training, first, last = each.training, each.readings[0], each.readings[-1]
    source = f"pid {training.pid}"
    who = training.member
    rank = Rank(index=who.rank, local=who.local, role=who.role) if who else None
    states = {r.state for r in each.readings}
    seen = ProcessSeen(
        pid=training.pid,
        command=training.command,
        state=last.state if len(states) == 1 or last.state in "TtZ" else "S",
        waits_in=last.waits_in,
        age_s=max(0.0, last.at - training.started),
        watched_s=last.at - first.at,
        cpu_s=last.cpu_s - first.cpu_s,
        switches=last.switches - first.switches if last.switches is not None and first.switches is not None else None,
        still=each.still,
        job=training.job,
        world=who.world if who else None,
        meets=training.meets,
    )
    origin = Origin(source=source)
    items: list[Evidence[Fact]] = [Evidence(fact=seen, origin=origin, rank=rank, at=last.at, quote=_words(seen))]
    items.extend(stacks.as_evidence(each.stacks, source, rank, at=last.at))
    for stuck in each.unanswered:
        items.append(Evidence(fact=stuck, origin=origin, rank=rank, at=last.at, quote=_connection_words(stuck)))
    for pid, helper in each.helpers.items():
        told = Stacks(threads=tuple(replace(t, current=False) for t in helper.threads if t.current))
        items.extend(stacks.as_evidence(told, f"pid {pid} (child of {training.pid})", rank, at=last.at))
    return items


_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in uninterruptible I/O",
    "T": "stopped",
    "t": "stopped by a tracer",
    "Z": "a zombie",
}


def _words(seen: ProcessSeen) -> str:
    state = _STATES.get(seen.state or "", f"in state {seen.state}")
    used = f", {seen.cpu_s:.2f} s of CPU in {seen.watched_s:.1f} s" if seen.cpu_s is not None and seen.watched_s else ""
    where = f", in the kernel's {seen.waits_in}" if seen.waits_in else ""
    return f"{seen.command} (pid {seen.pid}) is {state}{where}{used}"


def _connection_words(stuck: ConnectionStuck) -> str:
    if stuck.connecting:
        return f"connecting to {stuck.peer}: no answer, tried {stuck.tries + 1} times"
    return f"connection to {stuck.peer}: {stuck.unsent} bytes not acknowledged, sent {stuck.tries} times again"

# SPDX-License-Identifier: Apache-2.0
"""What the supervisor itself saw, as evidence in the attempt's folder. The report is made from that folder alone.

Nothing here raises if the disk is full: the run continues, and less is known about it.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from keepstep.base import safe_files
from keepstep.base.launchers import LAUNCHERS
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import GuardPart, RankLate, SaidLive
from keepstep.model.facts.network import SendsSlowly
from keepstep.model.facts.process import (
    LauncherRestartedRanks,
    ProcessExited,
    StartedWith,
    TerminationRequested,
    WorkerReplaced,
)
from keepstep.model.facts.resource import OomKilled
from keepstep.model.identity import Rank
from keepstep.store.evidence_file import append
from keepstep.store.reserved_space import Reserve
from keepstep.supervise.decide.situation import Happened
from keepstep.supervise.start import core_files
from keepstep.supervise.start.process_exit import Exit
from keepstep.supervise.start.spares import Launch
from keepstep.supervise.start.started_process import StartedProcess
from keepstep.supervise.watch.hang_detector import Stop
from keepstep.supervise.watch.metrics import OomCounters
from keepstep.supervise.watch.run_pace import Sagging
from keepstep.supervise.watch.slow_network import Waits

if TYPE_CHECKING:
    from keepstep.supervise.attempt_context import Outcome
    from keepstep.supervise.watch.foreign_ranks import ForeignEnd
    from keepstep.supervise.watch.rank_stacks import StacksLooked

REPORTER = "keepstep run"
START, EXITS, STACKS, PACE, FORECAST = "start.jsonl", "exits.jsonl", "stacks.jsonl", "pace.jsonl", "forecast.jsonl"
TELLING = re.compile(
    r"(?:PYTHON|TORCH|PYTORCH|NCCL|GLOO|UCX|OMP|MKL|OPENBLAS|CUDA|XLA|TF|JAX|GRPC)_?[A-Z0-9_]*|KEEPSTEP"
)
OF_ONE_RANK = {"PYTHONPATH", *(name for each in LAUNCHERS for name in (*each.of_one_rank, *each.size))}


class Records:
    """Writes the evidence of one attempt."""

    def __init__(self, folder: Path, reserve: Reserve | None = None) -> None:
        self.folder = folder
        self.unwritten: list[Evidence[Fact]] = []
        """What could not be written: the report is made with it anyway."""
        self._reserve = reserve or Reserve()
        self._gone: set[int] = set()

    def started(self, launch: Launch, ranks: int | None = None) -> None:
        """What ranks are started with: it makes no sense to advise setting what is set already."""
        variables = tuple(
            f"{name}={value}"
            for name, value in sorted(launch.env.items())
            if TELLING.fullmatch(name) and name not in OF_ONE_RANK
        )
        fact = StartedWith(
            variables=variables,
            limits=tuple((name.removeprefix("RLIMIT_"), value) for name, value in launch.limits),
            ranks=ranks,
        )
        with contextlib.suppress(OSError):
            append(self.folder / START, [Evidence(fact=fact, origin=Origin(source=START), quote=" ".join(variables))])

    def forecast(self, forecasts: Iterable[Evidence[Fact]]) -> None:
        """What `keepstep check memory` had said, for the report on this attempt."""
        with contextlib.suppress(OSError):
            append(self.folder / FORECAST, forecasts)

    def exited(self, member: StartedProcess, exit_: Exit, *, first: bool = False) -> None:
        """A rank ended by itself."""
        self._gone.add(exit_.pid)
        fact = ProcessExited(
            reporter=REPORTER, code=exit_.code, signal=exit_.signal, pid=exit_.pid, local_rank=member.rank, first=first
        )
        quote = f"{member.name} (pid {exit_.pid}) ended with {exit_.words}" + (", the first to fail" if first else "")
        self._add(EXITS, [(fact, member.rank, exit_.at, quote)])

    def replaced(self, member: StartedProcess, exit_: Exit, times: int, steps: int, aside: Path) -> None:
        """A worker of a parameter server training was lost and is restarted alone."""
        fact = WorkerReplaced(
            index=member.index,
            code=exit_.code,
            signal=exit_.signal,
            pid=exit_.pid,
            times=times,
            steps=steps or None,
            left_in=aside.name,
        )
        name = f"worker {member.index} (rank {member.rank}, pid {exit_.pid})"
        output = f"its earlier output is in {aside.parent.name}/{aside.name}"
        quote = f"{name} ended with {exit_.words} and was restarted alone; {output}"
        self._add(EXITS, [(fact, member.rank, exit_.at, quote)])

    def lost(self, below: ForeignEnd | None) -> None:
        """A rank of the user's own launcher that is gone while the launcher still runs."""
        if below is not None and below.exit.pid not in self._gone:
            self.exited(StartedProcess(rank=below.rank), below.exit, first=True)

    def restarted(self, below: Iterable[ForeignEnd]) -> None:
        """Ranks that failed before the user's own launcher started them again."""
        for each in below:
            exit_ = each.exit
            fact = LauncherRestartedRanks(code=exit_.code, signal=exit_.signal, pid=exit_.pid)
            quote = f"rank {each.rank} (pid {exit_.pid}) ended with {exit_.words}, and its launcher started it again"
            self._add(EXITS, [(fact, each.rank, exit_.at, quote)])

    def failed_first(self, member: StartedProcess, exit_: Exit, below: ForeignEnd | None) -> None:
        """The first failure; ``below``: of a launcher's ranks, the one that made it fail."""
        self.lost(below)
        self.exited(member, exit_, first=below is None)

    def ending(
        self,
        members: Iterable[StartedProcess],
        outcome: Outcome,
        *,
        asked: int | None = None,
        sent: int = signal.SIGTERM,
    ) -> None:
        """The ranks that are about to be ended, and why.

        ``sent``: the signal they get. ``asked``: the signal that the run itself got.
        """
        name = signal.Signals(asked if asked is not None else sent).name
        because = {
            Happened.EXITED: f"rank {outcome.rank} failed",
            Happened.RAISED: f"rank {outcome.rank} failed but has not exited",
            Happened.STOPPED: "the run hangs",
            Happened.SUSPECTED: "the run seems to hang",
            Happened.NODE_LOST: "a node of the run was lost",
            Happened.GROWS: "more nodes can take part",
            Happened.SHRINKS: "a limit was passed, and the run goes on with one rank fewer",
            Happened.INTERRUPTED: "the user pressed Ctrl-C" if asked == signal.SIGINT else f"the run received {name}",
        }.get(outcome.happened, "the run is over")
        by: str | None = "agent"
        if outcome.happened is Happened.INTERRUPTED:
            by = "user" if asked == signal.SIGINT else None
        fact = TerminationRequested(signal=name, by=by, reason=because)
        quote = f"({signal.Signals(sent).name}): {because}"
        self._add(EXITS, [(fact, member.rank, time.time(), f"ending {member.name} {quote}") for member in members])

    def standing(self, ranks: Mapping[int, int | None]) -> None:
        """Where the others were when one failed."""
        if not ranks:
            return
        with contextlib.suppress(Exception):  # whatever prevents the look: the failed rank matters more
            from keepstep.supervise.watch.rank_stacks import look_once

            found, _ = look_once(ranks)
            append(self.folder / STACKS, found)

    def stopped(self, stop: Stop, looked: StacksLooked) -> None:
        """Nothing moves: who, and the stacks of all. An earlier stop is replaced."""
        from keepstep.supervise.watch.rank_stacks import as_evidence

        self.forget_stop()
        with contextlib.suppress(OSError):
            append(self.folder / STACKS, [*as_evidence(stop, STACKS, looked.report), *looked.seen.items])

    def seen(self, looked: StacksLooked) -> None:
        """The stacks of all, where it is another node's ranks that have stopped."""
        self.forget_stop()
        with contextlib.suppress(OSError):
            append(self.folder / STACKS, looked.seen.items)

    def event(self, what: str, **more: object) -> None:
        """What the supervisor itself did or saw, for later readers; it is not evidence."""
        line = json.dumps({"schema": "keepstep.events/1", "at": round(time.time(), 3), "what": what, **more})
        with contextlib.suppress(OSError):
            safe_files.append(self.folder / "events.jsonl", f"{line}\n".encode())

    def forget_stop(self) -> None:
        """The run continued after all: what was written would mislead."""
        with contextlib.suppress(OSError):
            (self.folder / STACKS).unlink(missing_ok=True)

    def said(self, words: str, rank: int | None = None) -> None:
        """What the user was told while the run was on."""
        self._add(PACE, [(SaidLive(words=words), rank, time.time(), words)])

    def late(self, sagging: Sagging) -> None:
        fact = RankLate(
            phase="compute",
            seconds=sagging.now_s,
            usual_s=sagging.before_s,
            against="past",
            steps=sagging.steps,
            step_s=sagging.now_s,
        )
        self._add(PACE, [(fact, None, time.time(), sagging.words)])

    def slow_network(self, waits: Waits) -> None:
        fact = SendsSlowly(peer=waits.peer, bytes_s=waits.bytes_s, busy=waits.busy, seconds=waits.seconds)
        self._add(PACE, [(fact, waits.rank, time.time(), waits.words)])

    def memory_kills(self, outcome: Outcome, counters: OomCounters) -> None:
        """The control group counts a kill, and a rank was killed."""
        exit_ = outcome.exit
        if exit_ is None or not (exit_.signal == "SIGKILL" or exit_.code == 137):
            return
        risen = counters.risen(exit_.pid)
        if risen is not None:
            path, more = risen
            fact = OomKilled(by="cgroup", pid=exit_.pid)
            self._add(EXITS, [(fact, outcome.rank, exit_.at, f"{path}: oom_kill rose by {more} while the run was on")])

    def cores(
        self, exits: list[tuple[StartedProcess, Exit]], pids: Mapping[int, int | None], cwd: Path, since: float
    ) -> None:
        """The core files of processes that crashed, brought into the folder, or why there are none."""
        if all(exit_.well for _, exit_ in exits):
            return
        crashed = [(member, exit_) for member, exit_ in exits if exit_.dumped or _crash_code(exit_)]
        there = core_files.place()
        found = core_files.find(there, pids.keys(), cwd, since)
        for number, (path, pid) in enumerate(found.items()):
            rank = pids[pid]
            with contextlib.suppress(OSError):
                core_files.bring(
                    there, path, self.folder / "cores" / (f"rank{rank}.core" if rank is not None else f"core-{number}")
                )
        for member, exit_ in crashed if not found else []:
            why = there.why_none(exit_.pid) or f"none was found at {there.pattern}"
            fact = GuardPart(part=f"core file of {member.name}", why=why, off=False)
            self._add(EXITS, [(fact, member.rank, exit_.at, f"no core file of {member.name}: {why}")])

    def _add(self, name: str, rows: Iterable[tuple[Fact, int | None, float, str]]) -> None:
        evidence = [
            Evidence(
                fact=fact,
                origin=Origin(source=name),
                rank=Rank(index=rank) if rank is not None else None,
                at=at,
                quote=quote,
            )
            for fact, rank, at, quote in rows
        ]
        try:
            self._reserve.used_for(lambda: append(self.folder / name, evidence))
        except OSError:
            self.unwritten += evidence


def _crash_code(exit_: Exit) -> bool:
    """A shell in front of a rank reports it as a code: SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV."""
    return exit_.code in (131, 132, 133, 134, 135, 136, 139)

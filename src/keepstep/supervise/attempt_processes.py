# SPDX-License-Identifier: Apache-2.0
"""The processes of one attempt: starts each, restarts those that may come back alone, and notes how each ended."""

from __future__ import annotations

import os
import time
from pathlib import Path

from keepstep.errors import UserError
from keepstep.supervise.attempt_context import AttemptStarted, Means
from keepstep.supervise.show.rank_output import Output
from keepstep.supervise.start.ending import ended
from keepstep.supervise.start.lone_restart import Comeback, LoneRestarts, put_aside
from keepstep.supervise.start.process_exit import Doors
from keepstep.supervise.start.spares import Launch
from keepstep.supervise.start.started_process import StartedProcess
from keepstep.supervise.watch.metrics import OomCounters
from keepstep.supervise.watch.own_evidence import Records

SERVERS_S = 30.0
"""How long an evaluator may go on after the training has ended."""
RETURN_S = 60.0
"""A worker that was started again imports its framework; the coordinator may have no other."""


class Members:
    """All that an attempt has started."""

    def __init__(self, folder: Path, launches: list[Launch], means: Means, records: Records) -> None:
        self.launches = launches
        self.all: list[AttemptStarted] = []
        self.output = Output(means.reserve)
        self.doors = Doors()
        self.oom = OomCounters()
        self._folder = folder
        self._means = means
        self._records = records
        self._began = time.monotonic()
        self._alone = LoneRestarts(servers=means.job.servers)
        self._comebacks: list[Comeback] = []
        self._brought_back = time.monotonic() - RETURN_S
        self._trained_at: float | None = None

    # --- starting

    def start(self) -> None:
        """Start every member, from a spare if there is one. Raises :class:`UserError` if the program cannot start."""
        for member, launch in zip(self._means.job.members, self.launches, strict=True):
            self.all.append(self._start(member, launch))
        self._means.terminal.follow(self.output)

    def _start(self, member: StartedProcess, launch: Launch) -> AttemptStarted:
        pool, reaper = self._means.pool, self._means.reaper
        out, err = self.output.open(member.name, member.rank, self._folder / f"{member.name}.log")
        try:
            process = pool.take(launch, out, err) if pool is not None else None
            process = process or reaper.start(launch, out, err)
        except OSError as error:
            raise UserError(f"{launch.command[0]} could not be started: {error.strerror}") from error
        finally:
            os.close(out)
            os.close(err)
        self.doors.add(process.pid)
        self.oom.remember(process.pid)
        return AttemptStarted(member, process)

    # --- while they run

    @property
    def living(self) -> list[AttemptStarted]:
        return [each for each in self.all if each.exit is None]

    @property
    def given_up(self) -> str | None:
        """Why a lost worker is not started again alone."""
        return self._alone.given_up

    def new_ends(self) -> list[AttemptStarted]:
        """Those that have ended since the last call."""
        new = []
        for each in self.living:
            if (exit_ := ended(each.process)) is not None:
                each.exit = exit_
                self.doors.drop(each.pid)
                new.append(each)
        return new

    def are_done(self) -> bool:
        """Whether the training is over. An evaluator may finish its work; parameter servers never end by themselves.

        Of several nodes: as far as this one can tell. One that only serves the chief of another node is never done.
        """
        lead = [each for each in self.all if each.member.ends_training(served=self._means.job.servers > 0)]
        if not lead or any(each.exit is None for each in lead):
            return False
        self._trained_at = self._trained_at or time.monotonic()
        evaluates = any(each.member.role == "evaluator" for each in self.living)
        return not evaluates or time.monotonic() - self._trained_at > SERVERS_S

    def announce_end(self, each: AttemptStarted) -> None:
        """Say how a member ended, before anything is done about it."""
        assert each.exit is not None
        after = f"{time.monotonic() - self._began:.1f} s after its start"
        self._means.terminal.say(f"{each.member.words} ended with {each.exit.words} (pid {each.pid}), {after}")

    # --- workers that come back alone

    def replace_lost(self, lost: list[AttemptStarted], steps: int) -> list[AttemptStarted]:
        """Plan the comeback of those that may come back alone. Returns the others: they end the attempt."""
        now, fatal = time.monotonic(), []
        for each in lost:
            comeback = None
            if each.exit is not None and self._alone.is_for(each.member) and not self._coordinator_ended():
                comeback = self._alone.decide(each.member, each.exit, now)
            if comeback is None or each.exit is None:
                fatal.append(each)
                continue
            self.announce_end(each)
            self._means.terminal.say(comeback.words)
            self.output.drain_of(each.member.name, 0.5)
            aside = put_aside(self._folder, each.member, each.pid, comeback.times)
            self._records.replaced(each.member, each.exit, comeback.times, steps, aside)
            self._comebacks.append(comeback)
        return fatal

    def _coordinator_ended(self) -> bool:
        return any(each.exit is not None for each in self.all if each.member.role == "chief")

    @property
    def is_returning(self) -> bool:
        """Whether a lost worker is to be started, or was started a moment ago."""
        return bool(self._comebacks) or time.monotonic() - self._brought_back < RETURN_S

    def bring_back(self, now: float) -> None:
        """Start the lost workers whose time has come, with the variables and the address that they had."""
        for comeback in [each for each in self._comebacks if each.due <= now]:
            self._comebacks.remove(comeback)
            self._brought_back = now
            launch = next(each for each in self.launches if each.rank == comeback.member.rank)
            place = next(n for n, each in enumerate(self.all) if each.member is comeback.member)
            self.all[place] = self._start(comeback.member, launch)
            self._means.terminal.follow_new(self.output)

    # --- at the end

    def close(self) -> None:
        """After the last of them is gone: collect what they printed, and how those that were killed ended."""
        for each in self.living:
            each.exit = ended(each.process)
        self.output.drain(1.0)
        self.output.close()
        self._means.terminal.unfollow()

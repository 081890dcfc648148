# SPDX-License-Identifier: Apache-2.0
"""One attempt: starts its processes, watches them until something must be decided, and ends them.

It owns all that is known about the attempt.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.report import Report
from keepstep.store.fallback_folder import FindRoom
from keepstep.supervise.attempt_context import AttemptStarted, Means, Outcome
from keepstep.supervise.attempt_processes import Members
from keepstep.supervise.decide.attempt_progress import AttemptProgress
from keepstep.supervise.decide.hang_patience import IN_STEPS
from keepstep.supervise.decide.remedy import Remedy, offered
from keepstep.supervise.decide.situation import Happened, Situation
from keepstep.supervise.decide.transport import other_transport
from keepstep.supervise.start.ending import end
from keepstep.supervise.start.spares import Launch
from keepstep.supervise.watch.hang_detector import Stop
from keepstep.supervise.watch.own_evidence import Records
from keepstep.supervise.watch_attempt import Watching

TICK_S, BARE_TICK_S = 0.25, 0.5
"""With black boxes, and without: then only idleness of many seconds counts."""
SLOWEST_TICK_S, OF_ITS_AGE = 1.0, 15
"""Without black boxes, ticks become rarer as the attempt grows older: a guard would have begun with the script."""
SETTLE_S = 0.3
"""After the first failure, others may be about to say why."""
OF_ITSELF = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
"""Ends that no other rank's failure brings about: nobody else need be waited for to know who was first."""
FAILED_GRACE_S = 0.5
"""For ranks whose peer is dead or that are stuck: there is little that they could still do."""
IDLE_S = 0.25
"""Of it, while they do nothing."""
STOPPED = 143
"""The status of a rank that stopped because all were asked to (`keepstep.should_stop`): the others may still save."""


class Attempt:
    """``begin``, then ``watch`` (again, after a ``hold``), then ``end``; ``situation`` is what is decided upon."""

    def __init__(self, number: int, folder: Path, launches: list[Launch], means: Means) -> None:
        self.number = number
        self.folder = folder
        self.records = Records(folder, means.reserve)
        self._means = means
        self._members = Members(folder, launches, means, self.records)
        self._watching = Watching(number, folder, self._members, means, self.records)
        self._tick_due = 0.0
        self.env = launches[0].env
        self.parts: tuple[Path, ...] = ()

    def begin(self) -> None:
        """Start every member. Raises :class:`UserError` if the program cannot be started."""
        job, launch = self._means.job, self._members.launches[0]
        self.records.started(launch, ranks=None if job.as_given else sum(each.trains for each in job.members))
        self.records.forecast(self._means.forecasts)
        self._means.reaper.keep(self.folder / "guard")
        self._members.start()

    def move(self, find_room: FindRoom, outcome: Outcome) -> None:
        """On one machine, ranks and guards have its folder open: it stays where it is."""

    def look_further(self, report: Report, progress: AttemptProgress) -> bool:
        """On one machine, everything was looked at while it ran."""
        return False

    def goes_on(self, outcome: Outcome) -> bool:
        """Whether ranks that had stopped have moved since."""
        return outcome.stop is not None and self._watching.has_moved(outcome.stop)

    def offers(self, report: Report, progress: AttemptProgress) -> tuple[Remedy, ...]:
        """What could be done about the report's root cause."""
        job = self._means.job
        found = offered(report, self.env, job.cwd, restored_from=progress.restored_from, saved_in=progress.saved_in)
        if any(not each.advice_only for each in found):
            return found
        return (*found, *other_transport(report, progress.frameworks, self.env))

    # --- watching

    def watch(self) -> Outcome:
        """Wait until a rank fails, all ranks are done, the run hangs, or the user interrupts it."""
        while (outcome := self.look()) is None:
            pass
        return outcome

    def look(self) -> Outcome | None:
        """Once a tick, and whenever a process ends: what must be decided, if anything."""
        outcome = self._look()
        if outcome is not None and outcome.happened in (Happened.RAISED, Happened.STOPPED, Happened.INTERRUPTED):
            self.records.lost(self._watching.below.first_to_fail())
        if outcome is not None and outcome.happened is Happened.ENDED_WELL:
            self.records.restarted(self._watching.below.failed_before())
        return outcome

    def wake_for(self, handle: int) -> None:
        """``look`` also returns when this descriptor can be read."""
        self._members.doors.also(handle)

    def look_too(self) -> None:
        """Whether ranks of this node move, because those of another one have stopped."""
        self._watching.hangs.look_too()

    def take_stacks(self) -> None:
        """Where every rank is, because one has failed."""
        self.records.standing({self._watching.process_of(each): each.member.rank for each in self._members.living})

    def hold(self, wait_s: float) -> None:
        """Leave a stop that is only suspected alone for this long."""
        self._watching.hangs.hold(time.monotonic() + wait_s)

    def _look(self) -> Outcome | None:
        self._members.doors.wait(max(0.0, min(BARE_TICK_S, self._tick_due - time.monotonic())))
        if self._means.interrupted() is not None:
            return Outcome(Happened.INTERRUPTED)
        self._watching.below.look()
        if (outcome := self._ends()) is not None:
            return outcome
        now = time.monotonic()
        self._members.bring_back(now)
        if now < self._tick_due:
            return None
        self._tick_due = now + self._tick_s()
        return self._watching.tick(now)

    def _tick_s(self) -> float:
        if self._watching.has_boxes:
            return TICK_S
        if self._means.job.as_given:
            return BARE_TICK_S  # its ranks show themselves by their boxes alone
        return min(max(BARE_TICK_S, self._watching.age_s / OF_ITS_AGE), SLOWEST_TICK_S)

    @property
    def is_guarded(self) -> bool:
        """Whether a guard of any rank has shown itself."""
        return self._watching.has_boxes

    def _ends(self) -> Outcome | None:
        bad = [each for each in self._members.new_ends() if each.exit and not each.exit.well]
        bad.sort(key=lambda each: each.exit is None or each.exit.signal is None)
        if bad and (bad := self._members.replace_lost(bad, self._watching.steps)):
            return self._failed(bad)
        return Outcome(Happened.ENDED_WELL) if self._members.are_done() else None

    def _failed(self, bad: list[AttemptStarted]) -> Outcome:
        """The first failure: where the others stand, before anything is ended."""
        first = bad[0]
        assert first.exit is not None
        below = self._watching.below.first_to_fail()
        self.records.failed_first(first.member, first.exit, below)
        self._members.announce_end(first)
        self._watching.hangs.take_along(time.monotonic)
        looking = threading.Thread(target=self.take_stacks, daemon=True)
        looking.start()
        until = time.monotonic() + (0.0 if first.exit.signal in OF_ITSELF else SETTLE_S)
        later = bad[1:]
        while True:
            later += self._members.new_ends()
            if (time.monotonic() >= until and not looking.is_alive()) or not self._members.living:
                break
            time.sleep(0.01)
        for each in later:
            if each.exit is not None and not each.exit.well:
                self.records.exited(each.member, each.exit)
        rank = below.rank if below is not None else first.member.rank
        return Outcome(Happened.EXITED, rank=rank, exit=first.exit, given_up=self._members.given_up)

    # --- ending

    def end(self, outcome: Outcome) -> None:
        """End what is left, leave nothing behind, and put everything where it will be looked for."""
        means, members, watching = self._means, self._members, self._watching
        watching.pause.end(time.monotonic())
        watching.let_spares(signal.SIGCONT)
        if outcome.happened in (Happened.INTERRUPTED, Happened.ENDED_WELL):
            watching.hangs.forget_moved()
        if outcome.happened is Happened.INTERRUPTED and not means.hurry():
            watching.hangs.take_along(time.monotonic)
        self._record_ends(outcome)
        grace, idle = means.grace_s, None
        stops = any(each.process.poll() == STOPPED for each in members.all)
        if not stops and outcome.happened not in (Happened.INTERRUPTED, Happened.ENDED_WELL):
            grace, idle = min(means.grace_s, FAILED_GRACE_S) if watching.uses_grace() else 0.0, IDLE_S
        if not end(
            [each.process for each in members.all],
            means.reaper,
            grace_s=grace,
            idle_s=idle,
            saving=watching.is_saving,
            saving_s=means.grace_s,
            spare=means.pool.pids() if means.pool is not None else (),
            hurry=means.hurry,
            first=means.first_signal(),
        ):
            means.terminal.say(
                "some processes of the run could not be killed; they may be stuck in the kernel, "
                "waiting for a device or a file system"
            )
        members.close()
        watching.keep_boxes()
        self.records.memory_kills(outcome, members.oom)
        exits = [(each.member, each.exit) for each in members.all if each.exit is not None]
        self.records.cores(exits, watching.pids(), means.job.cwd, watching.began)
        members.doors.close()

    def _record_ends(self, outcome: Outcome) -> None:
        """Who ended well by itself, or who is about to be ended."""
        if outcome.happened is Happened.ENDED_WELL:
            for each in self._members.all:
                if each.exit is not None and each.exit.well:
                    self.records.exited(each.member, each.exit)
        elif living := [each.member for each in self._members.living]:
            asked, sent = self._means.interrupted(), self._means.first_signal()
            self.records.ending(living, outcome, asked=asked, sent=sent)

    def close(self) -> None:
        self._watching.close()

    # --- what is known

    @property
    def steps(self) -> int | None:
        """How many the rank that got furthest has done; None without a guard."""
        return self._watching.steps or None

    @property
    def step_s(self) -> float | None:
        """How long a step usually takes."""
        return self._watching.usual_s

    @property
    def quiet_s(self) -> float | None:
        """For how long none of its ranks has moved, where one has moved at all."""
        return self._watching.quiet_s

    @property
    def is_returning(self) -> bool:
        """Whether a worker is about to come back alone."""
        return self._members.is_returning

    @property
    def unwritten(self) -> list[Evidence[Fact]]:
        """Evidence that found no room on the disk."""
        return self.records.unwritten

    @property
    def has_gaps(self) -> bool:
        """Whether something could not be written."""
        return self._members.output.is_full or bool(self.records.unwritten)

    def situation(
        self, outcome: Outcome, report: Report, progress: AttemptProgress, *, remedies: tuple[str, ...] = ()
    ) -> Situation:
        """What the policy decides upon."""
        exit_, stop, hangs = outcome.exit, outcome.stop, self._watching.hangs
        back = self._watching.coming_back
        steps, pool = self._watching.steps, self._means.pool
        named = report.root.ranks if stop is not None and report.root is not None else ()
        return Situation(
            number=self.number,
            happened=outcome.happened,
            report=report,
            first_rank=named[0] if named else outcome.rank,
            code=exit_.code if exit_ is not None else None,
            signal=exit_.signal if exit_ is not None else None,
            steps=max(steps, progress.steps) if progress.steps is not None else steps or None,
            shown_step=progress.shown_step,
            shown_every=progress.shown_every,
            saved=progress.saved or back.saved,
            resumed=progress.resumed or back.restored,
            restored_from=progress.restored_from,
            lived_s=self._watching.age_s,
            stopped_s=stop.quiet_s if stop is not None else None,
            usual_s=self._watching.usual_s,
            kind=kind_of(stop, named) if stop is not None else None,
            idle_s=hangs.idle_s() if stop is not None else None,
            place=hangs.place if stop is not None else None,
            endured_s=hangs.endured_s if stop is not None else None,
            start_s=back.start_s(warm=pool is not None and bool(pool.pids())),
            work_s=back.work_s(),
            unsaved_s=back.unsaved_s(),
            saved_step=back.saved_step,
            remedies=remedies,
        )


def kind_of(stop: Stop, named: Sequence[int]) -> str:
    """What kind of silence it is: that of the ranks that the others wait for.

    The others may be in a checkpoint that all must join.
    """
    awaited = [sign for sign in stop.suspicion.signs if sign.rank in named]
    in_step = bool(awaited) and all(sign.is_stepping and not sign.between for sign in awaited)
    return "step" if in_step and stop.suspicion.kind not in ("busy", *IN_STEPS) else stop.suspicion.kind

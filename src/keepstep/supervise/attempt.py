# SPDX-License-Identifier: Apache-2.0
"""One attempt: its processes are started, watched until something must be decided, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

from keepstep.core.blackbox import Doing, Phase
from keepstep.errors import UserError
from keepstep.guard.box import keep
from keepstep.supervise.below import Below
from keepstep.supervise.coming_back import ComingBack
from keepstep.supervise.ending import Doors, end, ended
from keepstep.supervise.hangs import Hangs
from keepstep.supervise.launch import Member
from keepstep.supervise.lone_restart import Comeback, LoneRestarts, put_aside
from keepstep.supervise.metrics import Metrics, OomCounters
from keepstep.supervise.output import Output
from keepstep.supervise.pace import Pace
from keepstep.supervise.policy import Happened
from keepstep.supervise.preparing import prepare, rehearse
from keepstep.supervise.reaper import Entry, family
from keepstep.supervise.records import Records
from keepstep.supervise.signs import signs_of
from keepstep.supervise.spares import Launch
from keepstep.supervise.started import Means, Outcome, Started
from keepstep.supervise.stopped import Sign
from keepstep.supervise.told import Told
from keepstep.supervise.vitals import Boxes, Seer, is_same, training_process, uses_grace

TICK_S = 0.25
SETTLE_S = 0.3
"""After the first failure others may be about to say why."""
OF_ITSELF = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
"""Ends that no other rank's failure brings about: nobody else need be waited for to know who was first."""
FAILED_GRACE_S = 0.5
"""For ranks whose peer is dead or that are stuck: there is little that they could still do."""
IDLE_S = 0.25
"""Of it, while they do nothing."""
SERVERS_S = 30.0
"""For an evaluator, after the training has ended."""
PREPARE_AFTER_S = 1.0
TRAINS_AFTER = 3


class Attempt:
    """``begin``, then ``watch`` (again, if told to wait), then ``end``."""

    def __init__(self, number: int, folder: Path, launches: list[Launch], means: Means) -> None:
        self.number = number
        self.folder = folder
        self.began = time.time()
        self.warm = 0
        """How many ranks came from spares."""
        self.steps = 0
        self.usual_s: float | None = None
        self.records = Records(folder, means.reserve)
        self._launches = launches
        self._means = means
        self._started: list[Started] = []
        self._output = Output(means.reserve)
        self._doors = Doors()
        self._below = Below(self._doors, means.terminal.say)
        self._boxes = Boxes(folder / "guard")
        self._seer = Seer()
        self._hangs = Hangs(self.records, means.looks, means.terminal.say, least_s=means.hang_s, forgiven=means.pauses)
        self._told = Told(folder / "guard", grace_s=means.grace_s)
        self.coming_back = ComingBack(self.began)
        self._ask_whether_anew = [1.0, 5.0, 20.0, 60.0]
        self._tick_due = 0.0
        self._slow_due = time.monotonic() + 1.0
        self._trained_at: float | None = None
        self._metrics = Metrics(folder / "metrics.jsonl", (means.job.cwd, folder))
        self._pace = Pace()
        self._oom = OomCounters()
        self._trees: set[int] = set()
        """Every process that was seen below those that were started."""
        self._prepared = self._rehearsed = False
        self._alone = LoneRestarts(means.job.members)
        self._comebacks: list[Comeback] = []

    # --- starting

    def begin(self) -> None:
        """Start every member, from a spare where there is one. Raises :class:`UserError` where the program cannot be started."""
        means = self._means
        for member, launch in zip(means.job.members, self._launches, strict=True):
            self._started.append(self._start(member, launch))
        means.terminal.follow(self._output)

    def _start(self, member: Member, launch: Launch) -> Started:
        means = self._means
        out, err = self._output.open(member.name, member.rank, self.folder / f"{member.name}.log")
        try:
            process = means.pool.take(launch, out, err) if means.pool is not None else None
            self.warm += process is not None
            process = process or means.reaper.start(launch, out, err)
        except OSError as error:
            raise UserError(f"{launch.command[0]} could not be started: {error.strerror}") from error
        finally:
            os.close(out)
            os.close(err)
        self._doors.add(process.pid)
        self._oom.remember(process.pid)
        return Started(member, process)

    # --- workers that come back alone

    def _replace_lost(self, lost: list[Started]) -> list[Started]:
        """Plan the comeback of those who may come back alone. Returns the others: they end the attempt."""
        now, fatal = time.monotonic(), []
        for each in lost:
            comeback = None
            if each.exit is not None and self._alone.is_for(each.member) and not self._coordinator_ended():
                comeback = self._alone.decide(each.member, each.exit, now)
            if comeback is None or each.exit is None:
                fatal.append(each)
                continue
            self._means.terminal.say(
                f"{each.member.words} ended with {each.exit.words} (pid {each.pid}), {time.time() - self.began:.1f} s after its start"
            )
            self._means.terminal.say(comeback.words)
            self._output.drain_of(each.member.name, 0.5)
            aside = put_aside(self.folder, each.member, each.pid, comeback.times)
            self.records.replaced(each.member, each.exit, comeback.times, self.steps, aside)
            self._comebacks.append(comeback)
        return fatal

    def _coordinator_ended(self) -> bool:
        return any(each.exit is not None for each in self._started if each.member.role == "chief")

    def _bring_back(self, now: float) -> None:
        """Start the lost workers whose time has come, with the variables and the address that they had."""
        for comeback in [each for each in self._comebacks if each.due <= now]:
            self._comebacks.remove(comeback)
            launch = next(each for each in self._launches if each.rank == comeback.member.rank)
            place = next(n for n, each in enumerate(self._started) if each.member is comeback.member)
            self._started[place] = self._start(comeback.member, launch)
            self._means.terminal.follow_new(self._output)

    # --- watching

    def watch(self) -> Outcome:
        """Until a rank fails, all are done, nothing moves any more, or the user has enough."""
        while (outcome := self._look()) is None:
            pass
        if outcome.happened in (Happened.RAISED, Happened.STOPPED, Happened.INTERRUPTED):
            self.records.lost(self._below.first_to_fail())
        return outcome

    def _look(self) -> Outcome | None:
        """Once a tick, and whenever a process ends."""
        self._doors.wait(max(0.0, min(TICK_S, self._tick_due - time.monotonic())))
        if self._means.interrupted() is not None:
            return Outcome(Happened.INTERRUPTED)
        self._below.look()
        if (outcome := self._exits()) is not None:
            return outcome
        now = time.monotonic()
        self._bring_back(now)
        if now < self._tick_due:
            return None
        self._tick_due = now + TICK_S
        return self._tick(now)

    def hold(self, wait_s: float) -> None:
        """A stop that is only suspected shall be left alone for so long."""
        self._hangs.hold(time.monotonic() + wait_s)

    def _exits(self) -> Outcome | None:
        new = []
        for each in self._started:
            if each.exit is None and (exit_ := ended(each.process)) is not None:
                each.exit = exit_
                self._doors.drop(each.pid)
                new.append(each)
        bad = sorted(
            (each for each in new if each.exit and not each.exit.well),
            key=lambda each: each.exit is None or each.exit.signal is None,
        )
        if bad and (bad := self._replace_lost(bad)):
            return self._failed(bad)
        training = [each for each in self._started if each.member.trains]
        lead = [each for each in training if each.member.role == "chief"] if self._has("ps") else training
        if all(each.exit is not None for each in lead):
            self._trained_at = self._trained_at or time.monotonic()
            rest = [each for each in self._started if each.exit is None]
            waits = any(each.member.role == "evaluator" for each in rest)
            if not rest or not waits or time.monotonic() - self._trained_at > SERVERS_S:
                return Outcome(Happened.ENDED_WELL)
        return None

    def _has(self, role: str) -> bool:
        return any(each.member.role == role for each in self._started)

    def _failed(self, bad: list[Started]) -> Outcome:
        """The first failure: how the others stand, before anything is ended."""
        first = bad[0]
        assert first.exit is not None
        below = self._below.first_to_fail()
        self.records.failed_first(first.member, first.exit, below)
        self._means.terminal.say(
            f"{first.member.words} ended with {first.exit.words} (pid {first.pid}), {time.time() - self.began:.1f} s after its start"
        )
        self._hangs.take_along(time.monotonic)
        living = {self._process_of(each): each.member.rank for each in self._started if each.exit is None}
        looking = threading.Thread(target=self.records.standing, args=(living,), daemon=True)
        looking.start()
        until = time.monotonic() + (0.0 if first.exit.signal in OF_ITSELF else SETTLE_S)
        later = bad[1:]
        while True:
            for each in self._started:
                if each.exit is None and (exit_ := ended(each.process)) is not None:
                    each.exit = exit_
                    self._doors.drop(each.pid)
                    later.append(each)
            if time.monotonic() >= until and not looking.is_alive():
                break
            if all(each.exit is not None for each in self._started):
                break
            time.sleep(0.01)
        for each in later:
            if each.exit is not None and not each.exit.well:
                self.records.exited(each.member, each.exit)
        return Outcome(
            Happened.EXITED,
            rank=below.rank if below is not None else first.member.rank,
            exit=first.exit,
            given_up=self._alone.given_up,
        )

    def _tick(self, now: float) -> Outcome | None:
        self._boxes.refresh()
        if self._means.job.as_given:
            self._below.see(self._boxes)
        doings = {box.pid: box.doing() for box in self._boxes.open.values()}
        listed = self._seer.processes(doings, now)
        signs = self._signs(doings, listed, now)
        self._remember(doings, signs)
        self._told.read(now)
        outcome = self._settled(signs, now) or self._stop(signs, now)
        self._metrics.tick(
            {each.member.key: each.pid for each in self._started if each.exit is None}, signs, doings, listed
        )
        if now >= self._slow_due:
            self._slow_due = now + 1.0
            self._slowly(signs, listed, now)
        return outcome

    def _signs(self, doings: dict[int, Doing | None], listed: dict[int, Entry], now: float) -> list[Sign]:
        """Of every living rank that trains."""
        printed = {stream.name: stream.printed for stream in self._output.streams}
        training = [each for each in self._started if each.exit is None and each.member.trains]
        for each in training:
            self._trees |= family(listed, [each.pid]) or {each.pid}
        boxes = [box for box in self._boxes.open.values() if is_same(box, listed.get(box.pid))]
        return [
            sign
            for each in training
            for sign in signs_of(each, boxes, doings, listed, at=now, printed=printed.get(each.member.name, 0))
        ]

    def _process_of(self, each: Started) -> int:
        """The process that trains, where a shell or a launcher is in front of it."""
        listed = self._seer.processes({}, time.monotonic())
        tree = family(listed, [each.pid])
        return next((box.pid for box in self._boxes.open.values() if box.pid in tree), None) or training_process(
            each.pid, listed
        )

    def _remember(self, doings: dict[int, Doing | None], signs: list[Sign]) -> None:
        self.steps = max([self.steps, *(doing.steps for doing in doings.values() if doing is not None)])
        usual = [sign.usual_s for sign in signs if sign.usual_s is not None]
        self.usual_s = max(usual) if usual else self.usual_s
        self.coming_back.see(signs, self._boxes.open.values())

    def _settled(self, signs: list[Sign], now: float) -> Outcome | None:
        """What guards have told settles it: nothing more is waited for."""
        if self._has("ps"):
            return None  # a worker that fails is no end of the run there
        raised = self._told.blocked(signs, now)
        if raised is not None:
            return Outcome(Happened.RAISED, rank=raised.rank)
        in_vain = not self._means.job.as_given and self._told.never_meet(self._means.job.world)
        if in_vain or self._told.stopped_by_difference(signs, now):
            return Outcome(Happened.STOPPED)
        return Outcome(Happened.STARTED_OVER) if self._may_have_started_over() else None

    def _may_have_started_over(self) -> bool:
        """It steps, and was not seen to load a checkpoint. Asked a few times: what it prints tells more as it goes on."""
        began = self.coming_back.first_step
        if (
            not self._means.may_start_over
            or began is None
            or not self._ask_whether_anew
            or time.time() - began < self._ask_whether_anew[0]
        ):
            return False
        del self._ask_whether_anew[0]
        return self.checkpointed()[0] is False

    def idle_s(self) -> float:
        """For how long those that the others wait for have shown no sign of work."""
        return self._hangs.idle_s(time.monotonic())

    @property
    def place(self) -> str | None:
        """The line of the script at which the awaited rank stands."""
        return self._hangs.place

    def has_spares(self) -> bool:
        return self._means.pool is not None and bool(self._means.pool.pids())

    def _stop(self, signs: list[Sign], now: float) -> Outcome | None:
        looked = self._hangs.is_looking
        stop = self._hangs.tick(signs, now)
        if self._hangs.is_looking is not looked:  # what spares import meanwhile would cost the looks their time
            self._let_spares(signal.SIGCONT if looked else signal.SIGSTOP)
        if stop is None:
            return None
        return Outcome(
            Happened.STOPPED if stop.proven else Happened.SUSPECTED, rank=stop.suspicion.held_up[0].rank, stop=stop
        )

    def _let_spares(self, number: int) -> None:
        for pid in self._means.pool.pids() if self._means.pool is not None else ():
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def _slowly(self, signs: list[Sign], listed: dict[int, Entry], now: float) -> None:
        """Once a second: what is not urgent."""
        means = self._means
        means.reaper.see_to_it()
        for each in self._started:
            if each.exit is None:
                self._oom.remember(each.pid)
        for words in self._metrics.rising.news(now):
            means.terminal.say(words)
        late = self._pace.see(signs, self._boxes, now)
        if late:
            self.records.late(late)
            means.terminal.say(late.words)
        means.terminal.status(self._pace.status(signs, self._metrics.newest, time.time() - self.began))
        quiet = self._hangs.is_quiet and not any(now - (sign.progress or 0.0) > 1.0 for sign in signs)
        trains = quiet and bool(signs) and all(sign.steps >= TRAINS_AFTER for sign in signs)
        if means.pool is not None and not means.job.as_given:
            pids = {
                each.member.rank: each.pid
                for each in self._started
                if each.exit is None and each.member.rank is not None
            }
            means.pool.tick({launch.rank: launch for launch in self._launches}, pids, training=trains)
        if not self._prepared and time.time() - self.began > PREPARE_AFTER_S:
            self._prepared = True
            threading.Thread(target=prepare, args=(len(self._started),), daemon=True).start()
        if trains and not self._rehearsed and self.number == 0:
            self._rehearsed = True
            threading.Thread(target=rehearse, args=(self.folder,), daemon=True).start()

    # --- ending

    def end(self, outcome: Outcome) -> None:
        """End what is left, leave nothing behind, and put everything where it will be looked for."""
        means = self._means
        self._let_spares(signal.SIGCONT)
        living = [each for each in self._started if each.exit is None]
        if outcome.happened is Happened.INTERRUPTED and not means.hurry():
            self._hangs.take_along(time.monotonic)
        if outcome.happened is Happened.ENDED_WELL:
            for each in self._started:
                if each.exit is not None and each.exit.well:
                    self.records.exited(each.member, each.exit)
        if living and outcome.happened is not Happened.ENDED_WELL:
            self.records.ending(
                [each.member for each in living], outcome, asked=means.interrupted(), sent=means.first_signal()
            )
        spare = means.pool.pids() if means.pool is not None else ()
        grace, idle = means.grace_s, None
        if outcome.happened not in (Happened.INTERRUPTED, Happened.ENDED_WELL):
            grace, idle = min(means.grace_s, FAILED_GRACE_S), IDLE_S
            self._boxes.refresh(now=True)
            if not any(uses_grace(each.pid, self._boxes.open.values()) for each in living):
                grace = 0.0
        processes = [each.process for each in self._started]
        if not end(
            processes, means.reaper, grace_s=grace, idle_s=idle, saving=self._is_saving, saving_s=means.grace_s, spare=spare, hurry=means.hurry,
            first=means.first_signal(),
        ):  # fmt: skip
            means.terminal.say(
                "some processes of the run would not end (in the kernel, waiting for a device or file system?)"
            )
        for each in self._started:
            if each.exit is None:
                each.exit = ended(each.process)
        self._output.drain(1.0)
        self._output.close()
        means.terminal.unfollow()
        self._boxes.refresh(now=True)
        self.records.memory_kills(outcome, self._oom)
        self.records.cores(
            [(each.member, each.exit) for each in self._started if each.exit is not None],
            self._pids(),
            means.job.cwd,
            self.began,
        )
        for name in list(self._boxes.open):
            with contextlib.suppress(OSError):
                keep(self.folder / "guard" / name)
        self._doors.close()

    @property
    def has_gaps(self) -> bool:
        """Whether something could not be written."""
        return self._output.is_full or bool(self.records.unwritten)

    def _is_saving(self) -> bool:
        """Whether a living rank is in the middle of a checkpoint, such as a handler of SIGTERM writes."""
        living = {each.pid for each in self._started if each.process.poll() is None}
        doings = [box.doing() for box in self._boxes.open.values() if box.pid in living]
        return any(doing is not None and doing.phase is Phase.CHECKPOINT for doing in doings)

    def close(self) -> None:
        self._boxes.close()

    def _pids(self) -> dict[int, int | None]:
        """Every process of the run that was seen, and which rank it was, if one."""
        found: dict[int, int | None] = dict.fromkeys(self._trees)
        found |= {each.pid: each.member.rank for each in self._started}
        return found | {box.pid: box.rank for box in self._boxes.open.values()}

    def checkpointed(self) -> tuple[bool | None, bool | None]:
        """Whether a rank was in the phase of checkpoints, before its first step and after it; None without boxes."""
        self.coming_back.look(self._boxes.open.values())
        return self.coming_back.restored, self.coming_back.saved

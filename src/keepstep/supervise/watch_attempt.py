# SPDX-License-Identifier: Apache-2.0
"""What the ranks of one attempt show while they run, tick by tick, and whether it requires a decision."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

from keepstep.base.proc_stat import ProcStat, family, with_descendants
from keepstep.extend.run_settings import RunSettings
from keepstep.signals.blackbox import BoxPhase, Doing
from keepstep.signals.box_files import keep
from keepstep.supervise.attempt_context import AttemptStarted, Means, Outcome
from keepstep.supervise.attempt_processes import Members
from keepstep.supervise.decide.situation import Happened
from keepstep.supervise.watch.alarms import SAVES_S, Alarms
from keepstep.supervise.watch.foreign_ranks import Below
from keepstep.supervise.watch.guard_reports import GuardReports
from keepstep.supervise.watch.hang_detector import Sign, Stop
from keepstep.supervise.watch.hangs import Hangs
from keepstep.supervise.watch.history_recorder import HistoryRecorder, most_left
from keepstep.supervise.watch.memory_ahead import MemoryAhead
from keepstep.supervise.watch.metrics import Metrics
from keepstep.supervise.watch.own_evidence import Records
from keepstep.supervise.watch.pause import Pause
from keepstep.supervise.watch.preload import prepare, rehearse
from keepstep.supervise.watch.restart_cost import ComingBack
from keepstep.supervise.watch.run_pace import Pace
from keepstep.supervise.watch.slow_network import SlowNetwork
from keepstep.supervise.watch.vitals import Boxes, Seer, is_same, signs_of, training_process, uses_grace

PREPARE_AFTER_S = 1.0
TRAINS_AFTER = 3


class Watching:
    """``tick`` several times per second; the rest says what has been learned so far."""

    def __init__(self, number: int, folder: Path, members: Members, means: Means, records: Records) -> None:
        self.began, self._since = time.time(), time.monotonic()
        self.steps = 0
        self.usual_s: float | None = None
        self.quiet_s: float | None = None
        self.hangs = Hangs(records, means.looks, means.terminal.say, least_s=means.hang_s, forgiven=means.pauses)
        self.below = Below(members.doors, means.terminal.say)
        self._folder = folder
        self._members = members
        self._means = means
        self._records = records
        self._boxes = Boxes(folder / "guard")
        self._seer = Seer()
        self._told = GuardReports(folder / "guard", grace_s=means.grace_s)
        self._coming_back = ComingBack(self._since)
        self._ask_whether_anew = [1.0, 5.0, 20.0, 60.0]
        self._slow_due = time.monotonic() + 1.0
        self._metrics = Metrics(folder / "metrics.jsonl", (means.job.cwd, folder))
        self._history = HistoryRecorder(folder, (means.job.cwd, folder), self._metrics.gpus)
        self._alarms = means.alarms or Alarms(RunSettings(), means.terminal.say)
        self._ahead = MemoryAhead(means.forecasts)
        alone = means.measured is None
        self.pause = Pause(folder / "guard", self._tell if alone else lambda words: None)
        self._pace = Pace()
        self._network = SlowNetwork()
        self._trees: set[int] = set()
        """Every process that was seen below those that were started."""
        self._prepared = False
        self._number = number
        self._rehearses = number == 0 and means.explains

    # --- a tick

    def tick(self, now: float) -> Outcome | None:
        """See what every rank shows. Returns an outcome when something must be decided."""
        self._boxes.refresh()
        if self._means.job.as_given:
            self.below.see(self._boxes)
        doings = {box.pid: box.doing() for box in self._boxes.open.values()}
        listed = self._seer.processes(doings, now, self._roots())
        signs = self._signs(doings, listed, now)
        self._remember(doings, signs)
        progress = [sign.progress for sign in signs if sign.progress is not None]
        paused = self.pause.explains(signs, now)
        self.quiet_s = now - max(progress) if progress and not paused else None
        self._told.read(now)
        outcome = self._settled(signs, now) or (None if paused else self._stop(signs, now))
        self._metrics.tick({each.member.key: each.pid for each in self._members.living}, signs, doings, listed)
        if self._history.tick(signs, self._boxes.open.values(), listed, self._logs, self._told.held):
            job = self._means.job
            pause = None if job.servers else self.pause  # workers of servers take steps of their own
            for words in self._ahead.news(self._told.held, self._history.newest["rank"]):
                self._tell(words)
            if self._means.measured is not None:
                self._means.measured(self._history.newest)
            else:
                self._alarms.see(self._history.newest, now, self._folder.parent, self.quiet_s, self._tell, pause, job)
        self.pause.tick(now)
        outcome = outcome or self._shrinks(now)
        if now >= self._slow_due:
            self._slow_due = now + 1.0
            self._slowly(signs, now)
        return outcome

    def _shrinks(self, now: float) -> Outcome | None:
        """A limit asks for fewer ranks, and a checkpoint was written since, or is not waited for any longer."""
        at, saved_at = self._alarms.fewer_at, self._coming_back.saved_at
        if at is None or (now - at < SAVES_S and (saved_at is None or saved_at < at)) or self.is_saving():
            return None
        self._alarms.fewer_at = None
        return Outcome(Happened.SHRINKS)

    def has_moved(self, stop: Stop) -> bool:
        """Whether a stop is over: asked before anything is done about it, which may be long after it was reported."""
        self._boxes.refresh(now=True)
        doings = {box.pid: box.doing() for box in self._boxes.open.values()}
        listed = with_descendants({*doings, *(each.pid for each in self._members.living)})
        return self.hangs.has_moved(stop, self._signs(doings, listed, time.monotonic()))

    def _signs(self, doings: dict[int, Doing | None], listed: dict[int, ProcStat], now: float) -> list[Sign]:
        """The signs of every living rank that trains."""
        printed = {stream.name: stream.printed for stream in self._members.output.streams}
        training = [each for each in self._members.living if each.member.trains]
        for each in training:
            self._trees |= family(listed, [each.pid]) or {each.pid}
        boxes = [box for box in self._boxes.open.values() if is_same(box, listed.get(box.pid))]
        return [
            sign
            for each in training
            for sign in signs_of(
                each.pid, each.member.rank, boxes, doings, listed, at=now, printed=printed.get(each.member.name, 0)
            )
        ]

    @property
    def has_boxes(self) -> bool:
        return bool(self._boxes.open)

    def _roots(self) -> set[int] | None:
        """The processes we started; None where a launcher's ranks may be anywhere on the host."""
        return None if self._means.job.as_given else {each.pid for each in self._members.living}

    def _remember(self, doings: dict[int, Doing | None], signs: list[Sign]) -> None:
        self.steps = max([self.steps, *(doing.steps for doing in doings.values() if doing is not None)])
        usual = [sign.usual_s for sign in signs if sign.usual_s is not None]
        self.usual_s = max(usual) if usual else self.usual_s
        self._coming_back.see(signs, self._boxes.open.values())

    def _settled(self, signs: list[Sign], now: float) -> Outcome | None:
        """What guards have reported settles it: nothing more is waited for."""
        if self._means.job.servers:
            return None  # there, a worker that fails does not end the run
        raised = self._told.blocked(signs, now)
        if raised is not None:
            return Outcome(Happened.RAISED, rank=raised.rank)
        in_vain = not self._means.job.as_given and self._told.never_meet(self._means.job.world)
        if in_vain or self._told.stopped_by_difference(signs, now):
            return Outcome(Happened.STOPPED)
        return Outcome(Happened.STARTED_OVER) if self._may_have_started_over() else None

    @property
    def age_s(self) -> float:
        """How long the attempt has lived, whatever somebody did to the clock."""
        return time.monotonic() - self._since

    def _may_have_started_over(self) -> bool:
        """It steps, and was not seen to load a checkpoint. Asked a few times: its output says more as it goes on."""
        began = self._coming_back.first_step
        if (
            not self._means.may_start_over
            or began is None
            or not self._ask_whether_anew
            or time.monotonic() - began < self._ask_whether_anew[0]
        ):
            return False
        del self._ask_whether_anew[0]
        return self.coming_back.restored is False

    def _stop(self, signs: list[Sign], now: float) -> Outcome | None:
        looked = self.hangs.is_looking
        stop = self.hangs.tick(signs, now)
        if self.hangs.is_looking is not looked:  # what spares import meanwhile would slow the looks down
            self.let_spares(signal.SIGCONT if looked else signal.SIGSTOP)
        if stop is None:
            return None
        happened = Happened.STOPPED if stop.proven else Happened.SUSPECTED
        return Outcome(happened, rank=stop.suspicion.held_up[0].rank, stop=stop)

    def let_spares(self, number: int) -> None:
        """Send a signal to every spare."""
        for pid in self._means.pool.pids() if self._means.pool is not None else ():
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def _slowly(self, signs: list[Sign], now: float) -> None:
        """Once a second: what is not urgent."""
        means, members = self._means, self._members
        means.reaper.see_to_it()
        for each in members.living:
            members.oom.remember(each.pid)
        for words in self._metrics.rising.news(now):
            self._tell(words)
        late = self._pace.see(signs, self._boxes, now)
        if late:
            self._records.late(late)
            self._tell(late.words)
        if jump := self._pace.jump(self._boxes, now):
            self._tell(jump)
        guarded = {box.rank: box.pid for box in self._boxes.open.values() if box.rank is not None}
        for waits in self._network.see({**guarded, **self._rank_pids()}, now):
            self._records.slow_network(waits)
            self._tell(waits.words)
        left_s = most_left(self._history.newest)
        means.terminal.status(self._pace.status(signs, self._metrics.newest, self.age_s, self._number, left_s))
        quiet = self.hangs.is_quiet and not any(now - (sign.progress or 0.0) > 1.0 for sign in signs)
        trains = quiet and bool(signs) and all(sign.steps >= TRAINS_AFTER for sign in signs)
        if means.pool is not None and not means.job.as_given:
            means.pool.tick({launch.rank: launch for launch in members.launches}, self._rank_pids(), training=trains)
        if not self._prepared and self.age_s > PREPARE_AFTER_S:
            self._prepared = True
            ranks, kind = len(members.all), {"explains": means.explains}
            threading.Thread(target=prepare, args=(ranks,), kwargs=kind, daemon=True).start()
        if trains and self._rehearses:
            self._rehearses = False
            threading.Thread(target=rehearse, args=(self._folder,), daemon=True).start()

    def _tell(self, words: str) -> None:
        self._records.said(words)
        self._means.terminal.say(words)

    @property
    def _logs(self) -> dict[int, Path]:
        """The log of each rank that was started alone."""
        return {
            each.member.rank: self._folder / f"{each.member.name}.log"
            for each in self._members.living
            if each.member.rank is not None
        }

    def _rank_pids(self) -> dict[int, int]:
        return {each.member.rank: each.pid for each in self._members.living if each.member.rank is not None}

    # --- what has been learned

    @property
    def coming_back(self) -> ComingBack:
        """What a restart would cost, as of now."""
        self._coming_back.look(self._boxes.open.values())
        return self._coming_back

    def process_of(self, each: AttemptStarted) -> int:
        """The process that trains, where a shell or a launcher is in front of it."""
        listed = self._seer.processes({}, time.monotonic(), self._roots())
        tree = family(listed, [each.pid])
        boxed = next((box.pid for box in self._boxes.open.values() if box.pid in tree), None)
        return boxed or training_process(each.pid, listed)

    def uses_grace(self) -> bool:
        """Whether a living rank can use the time between SIGTERM and SIGKILL."""
        self._boxes.refresh(now=True)
        return any(uses_grace(each.pid, self._boxes.open.values()) for each in self._members.living)

    def is_saving(self) -> bool:
        """Whether a living rank is writing a checkpoint, as a handler of SIGTERM may do."""
        living = {each.pid for each in self._members.all if each.process.poll() is None}
        doings = [box.doing() for box in self._boxes.open.values() if box.pid in living]
        return any(doing is not None and doing.phase is BoxPhase.CHECKPOINT for doing in doings)

    def pids(self) -> dict[int, int | None]:
        """Every process of the run that was seen, and which rank it was, if one."""
        found: dict[int, int | None] = dict.fromkeys(self._trees)
        found |= {each.pid: each.member.rank for each in self._members.all}
        return found | {box.pid: box.rank for box in self._boxes.open.values()}

    def keep_boxes(self) -> None:
        """Black boxes in shared memory become files of the attempt's folder, and so does the rest of the history."""
        self._history.close()
        self._boxes.refresh(now=True)
        for name in list(self._boxes.open):
            with contextlib.suppress(OSError):
                keep(self._folder / "guard" / name)

    def close(self) -> None:
        self._boxes.close()

# SPDX-License-Identifier: Apache-2.0
"""``keepstep run``: attempt after attempt, until the run is done or going on cannot help. The only code that acts."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from keepstep import __version__
from keepstep.errors import UserError
from keepstep.model.cause import Cause
from keepstep.model.report import Report, Verdict
from keepstep.store import boxes_in_memory, run_folders
from keepstep.store.run_folders import RunFolder
from keepstep.supervise.attempt_context import Outcome
from keepstep.supervise.decide import policy
from keepstep.supervise.decide import remedy as remedies
from keepstep.supervise.decide.attempt_progress import AttemptProgress
from keepstep.supervise.decide.decision import REFUSED, Action, Decision, Settings
from keepstep.supervise.decide.final_status import AS_IT_IS, Statuses
from keepstep.supervise.decide.remedy import Remedy
from keepstep.supervise.decide.situation import Happened, Situation
from keepstep.supervise.executor import Applied, Crew, Overtaken, Superseded, ThisMachine, Trial
from keepstep.supervise.options import RunOptions
from keepstep.supervise.show import status_file
from keepstep.supervise.show.journal import LARGEST_LOGS, Account
from keepstep.supervise.show.notices import Notices
from keepstep.supervise.show.run_terminal import Terminal
from keepstep.supervise.start.interrupts import Interrupts
from keepstep.supervise.start.script_check import CodeLook, script_of
from keepstep.supervise.watch.alarms import not_possible

ASK_AGAIN_S = 5.0
MakeCrew = Callable[[RunOptions, Mapping[str, str], Terminal, Interrupts], Crew]


class Supervisor:
    """One run."""

    def __init__(
        self,
        asked: RunOptions,
        env: Mapping[str, str] = os.environ,
        *,
        make_crew: MakeCrew | None = None,
        take_over: Callable[[Account, int], None] | None = None,
        statuses: Statuses = AS_IT_IS,
    ) -> None:
        """``make_crew``: who runs the attempts, if not this machine. ``take_over``: if another process led before."""
        self._asked = asked
        self._env = env
        self._terminal = Terminal(quiet=asked.quiet)
        alone = asked.job.members[0]
        self._interrupt = Interrupts(
            self._terminal.say,
            asked.grace_s,
            program=alone.words if alone.role == "command" else None,
            preempted=statuses.preempted,
        )
        self._statuses = statuses
        self._applied = Applied()
        self._make_crew = make_crew
        self._take_over = take_over
        self._before: list[Situation] = []
        self._wondered = False

    def run(self) -> int:
        """All of it. Returns the exit status."""
        path = self._asked.status_file
        if path is not None:
            status_file.clear(path)
        status = self._run()
        if path is not None and (trouble := status_file.write(path, status)):
            print(f"keepstep: {trouble}", file=sys.stderr, flush=True)
        return status

    def _run(self) -> int:
        for problem in (*self._asked.settings.problems, *not_possible(self._asked.settings, self._asked.job)):
            self._terminal.say(problem)
        with self._interrupt.listening():
            try:
                account = Account(
                    self._make_folder(),
                    self._terminal,
                    self._asked.on_failure,
                    Notices(self._asked.settings.notices, self._terminal.say),
                )
                try:
                    must_check = self._asked.check and self._make_crew is None  # on several nodes, the crew does it
                    if must_check and not self._check(account.folder.path):
                        return account.finish("failed", 1)
                    with self._answering(account), self._reading_the_script():
                        return self._attempts(account)
                finally:
                    account.close()
                    boxes_in_memory.sweep()
            finally:
                self._terminal.close()

    @contextlib.contextmanager
    def _answering(self, account: Account) -> Iterator[None]:
        """Prometheus, if the user asked for it."""
        if self._asked.metrics is None:
            yield
            return
        from keepstep.supervise.show.metrics_server import MetricsServer

        server = MetricsServer(self._asked.metrics, lambda: account.folder.path)
        self._terminal.say(f"metrics for Prometheus: {server.address}")
        try:
            yield
        finally:
            server.close()

    # --- before

    def _make_folder(self) -> RunFolder:
        job, root = self._asked.job, self._asked.run_dir or run_folders.DEFAULT
        try:
            folder = run_folders.create(
                root, list(job.command), name=self._asked.name, ranks=job.world, version=__version__
            )
        except OSError as error:
            raise UserError(
                f"cannot make a run folder under {root}: {error.strerror}",
                hint="choose another place with --run-dir DIR",
            ) from error
        folder.manifest.roles = [member.role for member in job.members]
        folder.save()
        threading.Thread(target=_tidy_up, args=(root,), daemon=True).start()
        self._terminal.say(f"run {folder.path}: {job.words}")
        return folder

    def _check(self, folder: Path) -> bool:
        """The fast parts of the check. False where something would surely kill the run."""
        from keepstep.supervise.start.preflight import preflight, would_end_it

        script = script_of(self._asked.job.command, self._asked.job.cwd)
        words, fatal = would_end_it(preflight(self._asked.job, folder, self._env, script))
        for line in (*words, *([REFUSED] if fatal else ())):
            self._terminal.say(line)
        return not fatal

    @contextlib.contextmanager
    def _reading_the_script(self) -> Iterator[None]:
        """Look for bugs in the script meanwhile. A process that took the lead over does not say again what was said."""
        job = self._asked.job
        script = script_of(job.command, job.cwd)
        if not self._asked.check or self._take_over is not None or script is None:
            yield
            return
        look = CodeLook(script, job.cwd, self._terminal.say)
        try:
            yield
        finally:
            look.close()

    # --- attempts

    def _attempts(self, account: Account) -> int:
        crew = self._crew(account)
        status = 1
        try:
            number = crew.first_attempt
            if self._take_over is not None:
                self._take_over(account, number - 1)
            while (ended := self._attempt(number, crew, account)) is None:
                number = max(number + 1, crew.first_attempt)
            status = ended
            return status
        except Superseded as error:
            account.break_off(str(error))
            raise
        finally:
            crew.close(status)

    def _crew(self, account: Account) -> Crew:
        if self._make_crew is not None:
            return self._make_crew(self._asked, self._env, self._terminal, self._interrupt)
        return ThisMachine(self._asked, self._env, self._terminal, self._interrupt, account.folder.reserve)

    def _attempt(self, number: int, crew: Crew, account: Account) -> int | None:
        """One attempt. Returns the run's status, or None if another attempt follows."""
        folder, exchange = account.begin(number), account.folder.exchange(number)
        may_start_over = self._has_much_to_lose()
        attempt = crew.attempt(number, folder, exchange.absolute(), self._applied, may_start_over=may_start_over)
        try:
            attempt.begin()
            decision, outcome = self._see_through(attempt, account)
            return self._conclude(attempt, account, outcome, decision)
        except Overtaken:
            account.withdraw()
            return None
        finally:
            attempt.close()
            shutil.rmtree(exchange, ignore_errors=True)

    def _has_much_to_lose(self) -> bool:
        """Whether earlier attempts have saved checkpoints of more work than may be lost."""
        limit = self._asked.max_lost_work_s
        saved = any(each.saved for each in self._before)
        return limit is not None and saved and max(each.work_s or 0.0 for each in self._before) > limit

    def _see_through(self, attempt: Trial, account: Account) -> tuple[Decision | None, Outcome]:
        """Watch until the attempt is over: by itself, or by a decision (None where nothing had to be decided)."""
        waited_for: tuple[str, float] = ("", 0.0)
        while True:
            outcome = attempt.watch()
            if outcome.happened in (Happened.INTERRUPTED, Happened.ENDED_WELL):
                return None, outcome
            if outcome.happened in (Happened.GROWS, Happened.SHRINKS):
                return account.resizes(self._decide(_of(attempt, outcome), outcome, ())), outcome
            account.find_room(attempt, outcome)
            if outcome.happened is Happened.EXITED:
                attempt.end(outcome)
            report, progress = account.explain(attempt)
            if attempt.look_further(report, progress):
                report, progress = account.explain(attempt)
            if outcome.happened in (Happened.STOPPED, Happened.SUSPECTED) and attempt.goes_on(outcome):
                attempt.hold(ASK_AGAIN_S)  # if it stops again, or part of it still stands, that is told then
                continue
            now = attempt.situation(outcome, report, progress, remedies=tuple(self._applied.names))
            if outcome.happened is Happened.STARTED_OVER and not self._begins_anew(now):
                continue
            offered: tuple[Remedy, ...] = ()
            with contextlib.suppress(Exception):
                offered = attempt.offers(report, progress)
            decision = self._decide(now, outcome, offered)
            kind, since = decision.waits_for, outcome.stop.began if outcome.stop is not None else 0.0
            if decision.action is Action.WAIT and kind == waited_for[0] and abs(since - waited_for[1]) < 1.0:
                attempt.hold(decision.wait_s)  # the same silence, for the same reason: no news
                continue
            waited_for = kind, since
            account.announce(outcome, report, decision)
            decision = decision.accepted([each for each in decision.ask if self._may(each)])
            account.note(attempt, outcome, report, decision)
            if decision.action is not Action.WAIT:
                self._before.append(now)
                return decision, outcome
            attempt.hold(decision.wait_s)

    def _decide(self, now: Situation, outcome: Outcome, offered: tuple[Remedy, ...]) -> Decision:
        asked = self._asked
        settings = Settings(
            remedy=asked.remedy,
            suspected_wait_s=asked.suspected_wait_s,
            max_lost_work_s=asked.max_lost_work_s,
            restarts=not asked.job.as_given or asked.max_attempts is not None,
            **({"max_attempts": asked.max_attempts} if asked.max_attempts is not None else {}),
        )
        decision = policy.decide(now, tuple(self._before), settings, offered=offered, chance=random.random())
        if outcome.given_up is not None and decision.action is not Action.END:
            return Decision(action=Action.END, reason=outcome.given_up, advice=decision.advice)
        return decision

    def _begins_anew(self, now: Situation) -> bool:
        """Whether the numbers that the script prints count from its first step again, as far as it has printed any."""
        if now.shown_step is None and not self._wondered and not now.resumed:
            self._wondered = True
            self._terminal.say(
                "the script was not seen to load a checkpoint and prints no step numbers, "
                "so it is unknown whether it resumed"
            )
        return (
            now.shown_step is not None and now.steps is not None and now.shown_step <= now.steps + 1 and not now.resumed
        )

    def _may(self, each: Remedy) -> bool:
        if not sys.stdin.isatty():
            return False
        self._terminal.status("")
        with contextlib.suppress(EOFError):
            return input(f"keepstep: {each.does}? [y/N] ").strip().lower() in ("y", "yes")
        return False

    # --- the end of an attempt

    def _conclude(self, attempt: Trial, account: Account, outcome: Outcome, decision: Decision | None) -> int | None:
        """End what still runs and carry the decision out. Returns the run's status, or None for another attempt."""
        if outcome.happened is not Happened.EXITED:
            attempt.end(outcome)
        if outcome.happened is Happened.ENDED_WELL:
            return self._ended_well(attempt, account, outcome)
        if decision is None or (outcome.happened is not Happened.EXITED and self._interrupt.signal is not None):
            return self._interrupted(attempt, account)
        status = outcome.exit.status if outcome.exit is not None else 1
        account.ended(attempt, outcome.happened, status, _of(attempt, outcome))
        if decision.action is Action.SHRINK:
            self._applied.fewer += 1
            account.folder.manifest.ranks -= 1
        if decision.action in (Action.RESTART, Action.GROW, Action.SHRINK) and self._prepare_next(decision, account):
            return None
        if outcome.happened is not Happened.EXITED:  # what was seen while it still ran is not all
            report, _ = account.explain(attempt)
            account.save(attempt, report)
        if self._interrupt.signal is not None:
            return account.finish("stopped", self._interrupt.status)
        account.show_all()
        return account.finish("failed", self._statuses.of_failure(status or 1, repeats=decision.repeats))

    def _prepare_next(self, decision: Decision, account: Account) -> bool:
        """Apply remedies and wait. False where the user ended the run meanwhile."""
        for each in decision.remedies:
            self._applied.take(each)
            self._terminal.say(f"remedy: {remedies.apply(each) or each.does}")
        account.folder.manifest.remedies = list(self._applied.names)
        account.folder.save()
        until = time.monotonic() + decision.wait_s
        while (left := until - time.monotonic()) > 0 and self._interrupt.signal is None:
            time.sleep(min(left, 0.1))
        return self._interrupt.signal is None

    def _ended_well(self, attempt: Trial, account: Account, outcome: Outcome) -> int:
        account.ended(attempt, Happened.ENDED_WELL, 0, _of(attempt, outcome))
        if sum(path.stat().st_size for path in attempt.folder.rglob("*.log")) <= LARGEST_LOGS:
            report, _ = account.explain(attempt)
            account.save(attempt, report)
            if report.verdict is not Verdict.HEALTHY and report.findings:
                account.show(report)
        return account.finish("finished", 0)

    def _interrupted(self, attempt: Trial, account: Account) -> int:
        account.ended(attempt, Happened.INTERRUPTED, self._interrupt.status)
        if not self._interrupt.again:  # runs are often stopped by hand because they hang: then that is what happened
            report, _ = account.explain(attempt)
            account.blame(report)
            account.save(attempt, report)
            if report.root is not None and report.root.cause is not Cause.PREEMPTION_SIGTERM:
                account.show(report)
        return account.finish("stopped", self._interrupt.status)


def _of(attempt: Trial, outcome: Outcome) -> Situation:
    return attempt.situation(outcome, Report(verdict=Verdict.UNKNOWN), AttemptProgress())


def _tidy_up(root: Path) -> None:
    """What earlier runs left: old folders, and black boxes of processes that are gone."""
    run_folders.prune(root)
    boxes_in_memory.sweep()

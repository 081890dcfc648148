# SPDX-License-Identifier: Apache-2.0
"""``keepstep run``: attempt after attempt, until the run is done or going on cannot help. The only code that acts."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from keepstep import __version__
from keepstep.core.cause import Cause
from keepstep.core.report import Report, Verdict
from keepstep.core.wording import count, duration, size
from keepstep.errors import UserError
from keepstep.store import runs
from keepstep.store.runs import AttemptSaid, RunFolder
from keepstep.supervise import policy
from keepstep.supervise import remedy as remedies
from keepstep.supervise.as_policy import as_policy
from keepstep.supervise.asked import Asked
from keepstep.supervise.attempt import Attempt
from keepstep.supervise.ending import Reaper
from keepstep.supervise.gaps import Gaps
from keepstep.supervise.interrupts import Interrupts
from keepstep.supervise.launch import launches
from keepstep.supervise.policy import Action, Decision, Happened
from keepstep.supervise.progress import Progress
from keepstep.supervise.remedy import Remedy
from keepstep.supervise.spares import Pool
from keepstep.supervise.started import Means, Outcome
from keepstep.supervise.terminal import Terminal
from keepstep.supervise.told import forget_repeated

LARGEST_LOGS = 2 << 30
"""A run that ended well is not searched for more than this."""
LARGE_CORES = 100 << 20
"""From this size on reading them takes seconds, and silence would look like a hang."""


@dataclass
class _Standing:
    """What remedies have changed for the attempts to come."""

    names: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)


class Supervisor:
    """One run."""

    def __init__(self, asked: Asked, env: Mapping[str, str] = os.environ) -> None:
        self._asked = asked
        self._env = env
        self._terminal = Terminal(quiet=asked.quiet)
        alone = asked.job.members[0]
        self._interrupt = Interrupts(
            self._terminal.say, asked.grace_s, program=alone.words if alone.role == "command" else None
        )
        self._standing = _Standing()
        self._before: list[policy.Attempt] = []
        self._wondered = False
        self._hooks: list[threading.Thread] = []
        self._reports: dict[int, Report] = {}
        """By attempt."""
        self.folder: RunFolder | None = None
        self._gaps = Gaps(self._terminal.say)

    def run(self) -> int:
        """All of it. Returns the exit status."""
        with self._interrupt.listening():
            try:
                self._make_folder()
                if self._asked.check and not self._check():
                    return self._finished("failed", 1)
                return self._attempts()
            finally:
                for hook in self._hooks:
                    hook.join(timeout=15.0)
                self._terminal.close()

    # --- before

    def _make_folder(self) -> None:
        job, root = self._asked.job, self._asked.run_dir or runs.DEFAULT
        try:
            self.folder = runs.create(
                root, list(job.command), name=self._asked.name, ranks=job.world, version=__version__
            )
        except OSError as error:
            raise UserError(
                f"no run folder can be made under {root}: {error.strerror}", hint="give --run-dir DIR"
            ) from error
        self.folder.manifest.roles = [member.role for member in job.members]
        self.folder.save()
        threading.Thread(target=runs.prune, args=(root,), daemon=True).start()
        self._terminal.say(f"run {self.folder.path}: {job.words}")

    def _check(self) -> bool:
        """The fast parts of the check. False where something would surely kill the run."""
        from keepstep.supervise.preflight import preflight

        assert self.folder is not None
        script = next((Path(word) for word in self._asked.job.command if word.endswith(".py")), None)
        report = preflight(self._asked.job, self.folder.path, self._env, script)
        fatal = [f for f in report.findings if f.severity.value == "fatal"]
        for finding in report.findings:
            self._terminal.say(f"check: {finding.title}" + (f" ({finding.fixes[0].do})" if finding.fixes else ""))
        if fatal:
            self._terminal.say(
                "the check found what would kill the run; nothing was started (--no-check starts it all the same)"
            )
        return not fatal

    # --- attempts

    def _attempts(self) -> int:
        assert self.folder is not None
        asked, job = self._asked, self._asked.job
        token = secrets.token_hex(12)
        reaper = Reaper(token)
        pool = Pool(start=reaper.start, say=self._terminal.say, on=asked.spares and not job.as_given)
        for folder in pool.variables.values():
            reaper.remove(folder)
        means = Means(
            job=job,
            reaper=reaper,
            pool=pool,
            terminal=self._terminal,
            interrupted=lambda: self._interrupt.signal,
            hurry=lambda: self._interrupt.again,
            first_signal=lambda: self._interrupt.first,
            grace_s=asked.grace_s,
            hang_s=asked.hang_timeout_s,
            reserve=self.folder.reserve,
        )
        try:
            number = 0
            while True:
                status = self._attempt(number, token, means)
                if status is not None:
                    return status
                number += 1
        finally:
            with contextlib.suppress(Exception):
                pool.close()
            reaper.kill_all(patience_s=5.0)
            reaper.bye()
            means.looks.shutdown(wait=False, cancel_futures=True)

    def _attempt(self, number: int, token: str, means: Means) -> int | None:
        """One attempt. Returns the run's status, or None where there shall be another attempt."""
        assert self.folder is not None
        folder = self.folder.attempt(number)
        said = AttemptSaid(number=number, began=time.time())
        self.folder.manifest.attempts.append(said)
        self.folder.save()
        variables = {**self._standing.variables, **(means.pool.variables if means.pool is not None else {})}
        started = launches(
            self._asked.job,
            attempt=number,
            folder=folder.absolute(),
            exchange=self.folder.exchange(number).absolute(),
            token=token,
            env=self._env,
            more=variables,
            limits=tuple(self._standing.limits.items()),
        )
        limit = self._asked.max_lost_work_s
        means.may_start_over = (
            limit is not None
            and any(each.saved for each in self._before)
            and max(each.work_s or 0.0 for each in self._before) > limit
        )
        attempt = Attempt(number, folder.absolute(), started, means)
        attempt.records.started(started[0], ranks=None if means.job.as_given else means.job.world)
        means.reaper.keep(folder.absolute() / "guard")
        try:
            attempt.begin()
            return self._see_through(attempt, said, started[0].env)
        finally:
            attempt.close()
            shutil.rmtree(self.folder.exchange(number), ignore_errors=True)

    def _see_through(self, attempt: Attempt, said: AttemptSaid, env: Mapping[str, str]) -> int | None:
        waited_for: tuple[str, float] = ("", 0.0)
        while True:
            outcome = attempt.watch()
            if outcome.happened is Happened.INTERRUPTED:
                return self._interrupted(attempt, said, outcome)
            if outcome.happened is Happened.ENDED_WELL:
                return self._ended_well(attempt, said, outcome)
            if outcome.happened is Happened.EXITED:
                attempt.end(outcome)
            forget_repeated(attempt.folder, attempt.folder / "guard")
            report, progress = self._explain(attempt)
            now = as_policy(attempt, outcome, report, progress, remedies=tuple(self._standing.names))
            if outcome.happened is Happened.STARTED_OVER and not self._begins_anew(now):
                continue
            decision = self._decide(now, env)
            if outcome.given_up is not None and decision.action is not Action.END:
                decision = Decision(action=Action.END, reason=outcome.given_up, advice=decision.advice)
            kind, since = decision.waits_for, outcome.stop.began if outcome.stop is not None else 0.0
            if decision.action is Action.WAIT and kind == waited_for[0] and abs(since - waited_for[1]) < 1.0:
                attempt.hold(decision.wait_s)  # the same silence, for the same reason: no news
                continue
            waited_for = kind, since
            self._tell(outcome, report, decision)
            decision = decision.accepted([each for each in decision.ask if self._may(each)])
            said.told = said.told or time.time()
            said.happened, said.decision, said.steps = outcome.happened.value, decision.reason, attempt.steps or None
            said.cause, said.title = (report.root.cause.value, report.root.title) if report.root else (None, None)
            self._save(attempt, report)
            self._call_hook(attempt, report, outcome, decision)
            if decision.action is Action.WAIT:
                attempt.hold(decision.wait_s)
                continue
            if outcome.happened is not Happened.EXITED:
                attempt.end(outcome)
                if self._interrupt.signal is not None:
                    return self._interrupted(attempt, said, outcome)
            said.ended = time.time()
            said.status = outcome.exit.status if outcome.exit is not None else 1
            self._before.append(now)
            if decision.action is Action.RESTART and self._prepare_next(decision):
                assert self.folder is not None
                self.folder.save()
                return None
            if outcome.happened is not Happened.EXITED:  # what was seen while it still ran is not all
                report, _ = self._explain(attempt)
                self._save(attempt, report)
            return self._failed(said)

    def _decide(self, now: policy.Attempt, env: Mapping[str, str]) -> Decision:
        asked = self._asked
        settings = policy.Settings(
            remedy=asked.remedy,
            suspected_wait_s=asked.suspected_wait_s,
            max_lost_work_s=asked.max_lost_work_s,
            restarts=not asked.job.as_given or asked.max_attempts is not None,
            **({"max_attempts": asked.max_attempts} if asked.max_attempts is not None else {}),
        )
        offered: tuple[Remedy, ...] = ()
        with contextlib.suppress(Exception):
            offered = remedies.offered(now.report, env, asked.job.cwd, restored_from=now.restored_from)
        return policy.decide(now, tuple(self._before), settings, offered=offered, chance=random.random())

    def _begins_anew(self, now: policy.Attempt) -> bool:
        """Whether the numbers that the script prints count from its first step again, as far as it has printed any."""
        if now.shown_step is None and not self._wondered and not now.resumed:
            self._wondered = True
            self._terminal.say(
                "the script was not seen to load a checkpoint, and prints no step numbers: it is not known whether it resumed"
            )
        return (
            now.shown_step is not None and now.steps is not None and now.shown_step <= now.steps + 1 and not now.resumed
        )

    def _prepare_next(self, decision: Decision) -> bool:
        """Apply remedies and wait. False where the user ended the run meanwhile."""
        for each in decision.remedies:
            self._standing.names.append(each.name)
            self._standing.variables.update(dict(each.variables))
            self._standing.limits.update(dict(each.limits))
            self._terminal.say(f"remedy: {remedies.apply(each) or each.does}")
        assert self.folder is not None
        self.folder.manifest.remedies = list(self._standing.names)
        until = time.monotonic() + decision.wait_s
        while (left := until - time.monotonic()) > 0 and self._interrupt.signal is None:
            time.sleep(min(left, 0.1))
        return self._interrupt.signal is None

    def _may(self, each: Remedy) -> bool:
        if not sys.stdin.isatty():
            return False
        self._terminal.status("")
        with contextlib.suppress(EOFError):
            return input(f"keepstep: {each.does}? [y/N] ").strip().lower() in ("y", "yes")
        return False

    # --- what is said and kept

    def _explain(self, attempt: Attempt) -> tuple[Report, Progress]:
        """The report, made of the folder alone, as `keepstep why` will make it again."""
        assert self.folder is not None
        self._gaps.look(attempt.folder, self.folder.full or attempt.has_gaps)
        cores = [each.stat().st_size for each in (attempt.folder / "cores").glob("*") if each.is_file()]
        if sum(cores) >= LARGE_CORES:
            self._terminal.say(f"reading {count(len(cores), 'core file')} ({size(sum(cores))}), which takes a while")
        try:
            from keepstep.supervise.diagnosis import explain

            return explain(attempt.folder, unwritten=attempt.records.unwritten)
        except Exception as error:  # the run and its status are worth more than the report
            self._terminal.say(f"no report could be made ({type(error).__name__}: {error}); try `keepstep why` later")
            return Report(verdict=Verdict.UNKNOWN), Progress()

    def _save(self, attempt: Attempt, report: Report) -> None:
        from keepstep.analyze.comeback import numbered
        from keepstep.core.redact import redacted
        from keepstep.render.json import render_json

        assert self.folder is not None
        self._reports[attempt.number] = report
        with self._terminal.telling():
            self.folder.write(attempt.folder / "report.json", render_json(redacted(numbered(report, attempt.number))))
            self.folder.write(self.folder.path / "report.json", render_json(redacted(self._whole())))
        self.folder.save()
        self._gaps.look(attempt.folder, self.folder.full)

    def _whole(self) -> Report:
        """The report on all attempts so far, as `keepstep why RUN` will make it."""
        from keepstep.analyze.comeback import of_all_attempts

        assert self.folder is not None
        return of_all_attempts(self._reports, self.folder.manifest.attempts)

    def _tell(self, outcome: Outcome, report: Report, decision: Decision) -> None:
        from keepstep.core.redact import redacted

        root = redacted(report).root
        if outcome.happened is Happened.RAISED:
            self._terminal.say(
                f"rank {outcome.rank} is on its way out with an error, and has not exited: the run cannot go on"
            )
        if outcome.stop is not None:
            self._terminal.say(outcome.stop.words + ("" if outcome.stop.proven else "; it may still go on"))
        if root is not None and decision.action is Action.END:  # the whole report follows
            decision = replace(decision, advice=tuple(each for each in decision.advice if each not in root.fixes))
        elif root is not None:
            self._terminal.say(f"{root.title} [{root.cause.value}]")
            self._terminal.say(f"  because {root.because}")
        self._terminal.say(decision.words)

    def _call_hook(self, attempt: Attempt, report: Report, outcome: Outcome, decision: Decision) -> None:
        if self._asked.on_failure is None:
            return
        assert self.folder is not None
        about = {
            "folder": str(self.folder.path),
            "attempt": attempt.number,
            "happened": outcome.happened.value,
            "action": decision.action.value,
            "decision": decision.reason,
            "status": outcome.exit.status if outcome.exit is not None else None,
        }

        def call(target: str) -> None:
            from keepstep.supervise.on_failure import tell

            self._terminal.say(tell(target, report, about))

        hook = threading.Thread(target=call, args=(self._asked.on_failure,), daemon=True)
        hook.start()
        self._hooks.append(hook)

    # --- the end

    def _ended_well(self, attempt: Attempt, said: AttemptSaid, outcome: Outcome) -> int:
        attempt.end(outcome)
        said.ended, said.status, said.happened, said.steps = (
            time.time(),
            0,
            outcome.happened.value,
            attempt.steps or None,
        )
        if sum(path.stat().st_size for path in attempt.folder.glob("*.log")) <= LARGEST_LOGS:
            report, _ = self._explain(attempt)
            self._save(attempt, report)
            if report.verdict is not Verdict.HEALTHY and report.findings:
                self._print(report)
        return self._finished("finished", 0)

    def _failed(self, said: AttemptSaid) -> int:
        status = said.status or 1
        if self._interrupt.signal is not None:
            return self._finished("stopped", self._interrupt.status)
        with self._terminal.telling():
            self._print(self._whole())
        return self._finished("failed", status)

    def _interrupted(self, attempt: Attempt, said: AttemptSaid, outcome: Outcome) -> int:
        attempt.end(Outcome(Happened.INTERRUPTED))
        said.ended, said.status, said.happened, said.steps = (
            time.time(),
            self._interrupt.status,
            Happened.INTERRUPTED.value,
            attempt.steps or None,
        )
        if not self._interrupt.again:  # runs are often stopped by hand because they hang: then that is what happened
            report, _ = self._explain(attempt)
            self._save(attempt, report)
            said.cause, said.title = (report.root.cause.value, report.root.title) if report.root else (None, None)
            if report.root is not None and report.root.cause is not Cause.PREEMPTION_SIGTERM:
                self._print(report)
        return self._finished("stopped", self._interrupt.status)

    def _print(self, report: Report) -> None:
        from keepstep.core.redact import redacted
        from keepstep.render.terminal import render_terminal

        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        with self._terminal.telling():
            self._terminal.plainly(
                render_terminal(redacted(report), colour=colour, width=shutil.get_terminal_size().columns)
            )

    def _finished(self, state: str, status: int) -> int:
        assert self.folder is not None
        manifest = self.folder.manifest
        manifest.state, manifest.status, manifest.ended = state, status, time.time()
        self.folder.save()
        self.folder.reserve.close()
        again = len(manifest.attempts) - 1
        came_back = f", came back {count(again, 'time')}" if again > 0 else ""
        took = duration(manifest.ended - manifest.began)
        more = "" if state == "finished" else f"; keepstep why {self.folder.path}"
        self._terminal.say(f"{state} with status {status} after {took}{came_back}{more}")
        return status

# SPDX-License-Identifier: Apache-2.0
"""What is said about a run and kept of it: reports, decisions, the manifest, the user's hook. Decides nothing."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from keepstep.base.safe_files import open_private
from keepstep.base.wording import count, duration, size
from keepstep.model.report import Report, Verdict
from keepstep.sources.files.left_files import GAPS
from keepstep.store import fallback_folder
from keepstep.store.run_folders import AttemptSaid, RunFolder
from keepstep.supervise.attempt_context import Outcome
from keepstep.supervise.decide.attempt_progress import AttemptProgress
from keepstep.supervise.decide.decision import Action, Decision
from keepstep.supervise.decide.situation import Happened, Situation
from keepstep.supervise.executor import Page, Trial
from keepstep.supervise.show.notices import Notices
from keepstep.supervise.show.run_terminal import Terminal
from keepstep.supervise.watch.guard_reports import forget_repeated

LARGEST_LOGS = 2 << 30
"""A run that ended well is not searched for more than this."""
LARGE_CORES = 100 << 20
"""From this size on reading them takes seconds, and silence would look like a hang."""


class _Gaps:
    """A full disk: said once, and marked in the folder, because what is missing must not be taken for health."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told = False

    def look(self, attempt: Path, are_there: bool, trouble: str) -> None:
        """``are_there``: something of this attempt could not be written."""
        if not are_there:
            return
        with contextlib.suppress(OSError):
            os.close(open_private(attempt / GAPS, os.O_WRONLY))  # an empty file takes no room
        if not self._told:
            self._told = True
            self._say(f"{trouble}: the recording in {attempt.parent} has gaps; the training itself is not affected")


class Account:
    """Of one run, attempt after attempt."""

    def __init__(
        self, folder: RunFolder, terminal: Terminal, on_failure: str | None = None, notices: Notices | None = None
    ) -> None:
        self.folder = folder
        self._terminal = terminal
        self._on_failure = on_failure
        self._notices = notices
        self._hooks: list[threading.Thread] = []
        self._reports: dict[int, Report] = {}
        """By attempt."""
        self._gaps = _Gaps(terminal.say)
        self._since = time.monotonic()

    # --- one attempt

    def begin(self, number: int) -> Path:
        """Open the page of an attempt. Returns its folder."""
        folder = self.folder.attempt(number)
        if number and (moved := fallback_folder.move(self.folder, number, though_full=False)) is not None:
            self._terminal.say(moved.words)
            folder = self.folder.attempt(number)
        self.folder.manifest.attempts.append(AttemptSaid(number=number, began=time.time()))
        self.folder.save()
        return folder.absolute()

    def withdraw(self) -> None:
        """The newest attempt was never started, and its number belongs to another."""
        said = self.folder.manifest.attempts.pop()
        shutil.rmtree(self.folder.path / f"attempt-{said.number}", ignore_errors=True)
        self.folder.save()

    @property
    def _said(self) -> AttemptSaid:
        """The page of the current attempt."""
        return self.folder.manifest.attempts[-1]

    def find_room(self, attempt: Trial, outcome: Outcome) -> None:
        """Where the run folder cannot be written any more, go on in another one, with what the agents still have."""

        def find() -> fallback_folder.Moved | None:
            if (moved := fallback_folder.move(self.folder, attempt.number)) is not None:
                self._terminal.say(moved.words)
            return moved

        attempt.move(find, outcome)

    def explain(self, attempt: Page) -> tuple[Report, AttemptProgress]:
        """The report, made of the folder alone, as `keepstep why` will make it again."""
        for part in attempt.parts or (attempt.folder,):
            forget_repeated(part, part / "guard")
        self._gaps.look(attempt.folder, self.folder.full or attempt.has_gaps, self.folder.trouble)
        cores = [each.stat().st_size for each in (attempt.folder / "cores").glob("*") if each.is_file()]
        if sum(cores) >= LARGE_CORES:
            self._terminal.say(f"reading {count(len(cores), 'core file')} ({size(sum(cores))}), which takes a while")
        try:
            from keepstep.supervise.show.diagnosis import explain

            return explain(attempt.folder, unwritten=attempt.unwritten)
        except Exception as error:  # the run and its status are worth more than the report
            self._terminal.say(
                f"the report could not be made ({type(error).__name__}: {error}); try `keepstep why` later"
            )
            return Report(verdict=Verdict.UNKNOWN), AttemptProgress()

    def announce(self, outcome: Outcome, report: Report, decision: Decision) -> None:
        """Say what happened and what will be done about it."""
        from keepstep.base.redact import redacted

        root = redacted(report).root
        if outcome.happened is Happened.RAISED:
            self._terminal.say(f"rank {outcome.rank} failed with an error but has not exited; the run cannot continue")
        if outcome.stop is not None:
            self._terminal.say(outcome.stop.words + ("" if outcome.stop.proven else "; it may still recover"))
        if root is not None and decision.action is Action.END:  # the whole report follows
            decision = replace(decision, advice=tuple(each for each in decision.advice if each not in root.fixes))
        elif root is not None:
            self._terminal.say(f"{root.title} [{root.cause.value}]")
            self._terminal.say(f"  because {root.because}")
        self._terminal.say(decision.words)
        why = root.title if root is not None else decision.reason
        if outcome.stop is not None:
            self._page("hang", f"{outcome.stop.words}: {why}")
        if decision.action is Action.RESTART:
            self._page("restart", f"attempt {self._said.number} ended, another one starts: {why}")

    def _page(self, kind: str, text: str) -> None:
        if self._notices is not None:
            self._notices.send(kind, text, self.folder.path)

    def note(self, attempt: Page, outcome: Outcome, report: Report, decision: Decision) -> None:
        """Write down what was decided and why, and tell the user's hook."""
        said = self._said
        said.told = said.told or time.time()
        said.happened, said.decision, said.steps = outcome.happened.value, decision.reason, attempt.steps
        self.blame(report)
        self.save(attempt, report)
        self._call_hook(attempt, report, outcome, decision)

    def resizes(self, decision: Decision) -> Decision:
        """Nothing is wrong with this attempt; a larger or smaller one follows."""
        self._terminal.say(decision.words)
        grows = decision.action is Action.GROW
        self._said.decision = decision.reason
        self._said.title = "more nodes can take part" if grows else "a limit was passed, which costs the run a rank"
        return decision

    def blame(self, report: Report) -> None:
        """Write down what the attempt ended for."""
        root = report.root
        self._said.cause, self._said.title = (root.cause.value, root.title) if root is not None else (None, None)

    def ended(self, attempt: Page, happened: Happened, status: int, now: Situation | None = None) -> None:
        """Write down how the attempt ended."""
        said = self._said
        said.ended, said.status, said.happened, said.steps = time.time(), status, happened.value, attempt.steps
        said.step_s, said.remedies = attempt.step_s, self.folder.manifest.remedies
        if now is not None:
            said.resumed, said.unsaved_s = now.resumed, now.unsaved_s
        self.folder.save()

    def break_off(self, why: str) -> None:
        """Another process goes on with the run."""
        if self.folder.manifest.attempts and self._said.ended is None:
            said = self._said
            said.ended, said.status, said.happened, said.decision = time.time(), 1, Happened.NODE_LOST.value, why
        self._terminal.say(why)
        self.finish("stopped", 1)

    def save(self, attempt: Page, report: Report) -> None:
        """Write the report on the attempt, and that on all attempts so far."""
        from keepstep.analyze.report_on_attempts import numbered
        from keepstep.base.redact import redacted
        from keepstep.render.json import render_json

        self._reports[attempt.number] = report
        with self._terminal.telling():
            self.folder.write(attempt.folder / "report.json", render_json(redacted(numbered(report, attempt.number))))
            self.folder.write(self.folder.path / "report.json", render_json(redacted(self._whole())))
        self.folder.save()
        self._gaps.look(attempt.folder, self.folder.full, self.folder.trouble)

    def _call_hook(self, attempt: Page, report: Report, outcome: Outcome, decision: Decision) -> None:
        if self._on_failure is None:
            return
        about = {
            "folder": str(self.folder.path),
            "attempt": attempt.number,
            "happened": outcome.happened.value,
            "action": decision.action.value,
            "decision": decision.reason,
            "status": outcome.exit.status if outcome.exit is not None else None,
        }

        def call(target: str) -> None:
            from keepstep.supervise.show.on_failure import tell

            self._terminal.say(tell(target, report, about))

        hook = threading.Thread(target=call, args=(self._on_failure,), daemon=True)
        hook.start()
        self._hooks.append(hook)

    # --- the whole run

    def _whole(self) -> Report:
        """The report on all attempts so far, as `keepstep why RUN` will make it."""
        from keepstep.analyze.report_on_attempts import of_all_attempts

        return of_all_attempts(self._reports, self.folder.manifest.attempts)

    def show_all(self) -> None:
        """Print the report on all attempts."""
        with self._terminal.telling():
            self.show(self._whole())

    def show(self, report: Report) -> None:
        """Print a report."""
        from keepstep.base.redact import redacted
        from keepstep.render.terminal import render_terminal

        colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        with self._terminal.telling():
            self._terminal.plainly(
                render_terminal(redacted(report), colour=colour, width=shutil.get_terminal_size().columns)
            )

    def finish(self, state: str, status: int) -> int:
        """The last line, and the last of the manifest. Returns the status."""
        manifest = self.folder.manifest
        manifest.state, manifest.status, manifest.ended = state, status, time.time()
        self.folder.save()
        with contextlib.suppress(Exception):  # the run and its status are worth more
            from keepstep.analyze.goodput import goodput

            manifest.goodput = goodput(self.folder.path).share
            self.folder.save()
        self.folder.reserve.close()
        again = len(manifest.attempts) - 1
        restarts = f", with {count(again, 'restart')}" if again > 0 else ""
        took = duration(time.monotonic() - self._since)
        more = "" if state == "finished" else f"; to see why: keepstep why {shlex.quote(str(self.folder.path))}"
        self._terminal.say(f"{state} with status {status} after {took}{restarts}{more}")
        self._page("ended", f"{manifest.name} {state} with status {status} after {took}{restarts}")
        return status

    def close(self) -> None:
        """Give the user's hooks a moment to end."""
        for hook in self._hooks:
            hook.join(timeout=15.0)
        if self._notices is not None:
            self._notices.close()

# SPDX-License-Identifier: Apache-2.0
"""What is known of an attempt at the moment when something must be decided about it. Pure."""

from __future__ import annotations

from enum import Enum

from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.wording import count, shorten
from keepstep.model.finding import Confidence, Finding, Severity
from keepstep.model.report import Report, Verdict
from keepstep.supervise.decide.attempt_progress import AttemptProgress
from keepstep.supervise.decide.cause_recurs import Returns, returns


class Happened(Enum):
    """How an attempt came to the point where something must be decided."""

    EXITED = "exited"
    """A rank ended badly (an exit code that is not 0, or a signal)."""
    RAISED = "raised"
    """A rank raised an exception that nobody catches, and has not exited: something keeps it on its way out."""
    STARTED_OVER = "started over"
    """The script began at its first step again, though an earlier attempt had saved checkpoints."""
    STOPPED = "stopped"
    """No rank gets on, and the stacks prove it."""
    SUSPECTED = "suspected"
    """No rank gets on, but nothing proves that it never will."""
    NODE_LOST = "node lost"
    """A node of several has been silent for longer than its ranks may run without a word from it."""
    GROWS = "grows"
    """It has just saved a checkpoint, and more nodes can take part from there on."""
    SHRINKS = "shrinks"
    """A limit was passed for which the user wants one rank fewer."""
    INTERRUPTED = "interrupted"
    """The user or the scheduler told the supervisor to end."""
    ENDED_WELL = "ended well"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation(AttemptProgress):
    """How far an attempt came, and what else is known when something must be decided. Unknown parts are None."""

    number: int
    happened: Happened
    report: Report
    first_rank: int | None = None
    """The rank that failed or stopped first."""
    code: int | None = None
    """Its exit code (None when a signal ended it, or when it still lives)."""
    signal: str | None = None
    lived_s: float = 0.0
    stopped_s: float | None = None
    """How long nothing has moved (STOPPED, SUSPECTED)."""
    kind: str | None = None
    """In which kind of silence (:class:`keepstep.supervise.watch.hang_detector.Suspicion`)."""
    idle_s: float | None = None
    """How long those that the others wait for have shown no sign of work."""
    place: str | None = None
    """The line of the script at which the awaited rank stands."""
    endured_s: float | None = None
    """The longest silence at that line that ended by itself."""
    start_s: float | None = None
    """How long a start takes, up to the first step, as measured."""
    work_s: float | None = None
    """How long it has trained in this attempt."""
    unsaved_s: float | None = None
    """... and since its last checkpoint."""
    saved_step: int | None = None
    usual_s: float | None = None
    """The usual time of a step."""
    remedies: tuple[str, ...] = ()
    """Names of the remedies that were in force."""

    @property
    def root(self) -> Finding | None:
        """The finding to decide on: the first that can have ended a run."""
        fatal = (
            each
            for each in self.report.findings
            if each.severity is Severity.FATAL and returns(each, None)[0] is not Returns.NOT_FATAL
        )
        return next(fatal, None)

    @property
    def who(self) -> str:
        return f"rank {self.first_rank}" if self.first_rank is not None else "the run"

    @property
    def what(self) -> str:
        """What happened, in a few words."""
        if (root := self.root) is not None:
            return shorten(root.title, 160)
        if self.happened is Happened.RAISED:
            return f"{self.who} failed and has not exited"
        if self.happened is not Happened.EXITED:
            return f"{self.who} hangs"
        how = f"was killed by {self.signal}" if self.signal else f"exited with status {self.code}"
        return f"{self.who} {how}"

    @property
    def unproven(self) -> str:
        """A silence of which nothing proves that it lasts, in the words and with the grade of the report."""
        root = self.root
        if root is None or self.report.verdict is not Verdict.HUNG:
            return f"{self.who} may be hanging, but this is not proven"
        if root.confidence is Confidence.ESTABLISHED:
            return f"{shorten(root.title, 160)}; that may end by itself"
        return f"{shorten(root.title, 160)}, but this is not proven"

    @property
    def reached(self) -> str:
        """How far it came, in a few words."""
        if self.shown_every == 1 and self.shown_step is not None:
            return f"at step {self.shown_step}"
        return f"after {count(self.steps, 'step')}" if self.steps else "before the first step"

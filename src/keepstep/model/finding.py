# SPDX-License-Identifier: Apache-2.0
"""Findings: what a rule concludes, how sure it is, on what evidence, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact


class Severity(Enum):
    FATAL = "fatal"
    WARNING = "warning"
    NOTE = "note"


class Confidence(Enum):
    ESTABLISHED = "established"
    SUPPORTED = "supported"
    HYPOTHESIS = "hypothesis"


class Role(Enum):
    INITIATING = "initiating"
    CASCADE = "cascade"
    TEARDOWN = "teardown"
    CONTRIBUTING = "contributing"


class Standing(Enum):
    """How much a rule's cause can explain: the order in which causality asks.

    A MECHANISM (a taken port, a full disk) explains what follows it. An EXCEPTION is the user's program failing for
    its own reason. A SYMPTOM (lost peer, time-out) is a cause only if nothing else was seen. A GUESS is the fallback.
    """

    MECHANISM = 0
    EXCEPTION = 1
    SYMPTOM = 2
    GUESS = 3


class Safety(Enum):
    SAFE = "safe"
    CHANGES_RESULTS = "changes_results"
    NEEDS_OWNER = "needs_owner"


RUN_FOLDER = "RUN_FOLDER"
"""In a command: where the evidence was read. Whoever reads it puts the place there."""


_BLANK = lazy_pattern(
    r"(?<![\w$-])(?:PID|HOST1|HOST2|HOST_OF_RANK_0|OTHER_HOST|HOST|ADDRESS_OF_THIS_HOST|ADDRESS|COORDINATOR|PORT|NODE|POD|N"
    r"|SCRIPT|COMMAND|OPTIONS|IMAGE|PACKAGE|NAME|DIR|FILE|DATA|CKPT_FILE|CKPT_DIR|CHECKPOINT|train\.py)(?!\w)"
)
"""Words of a command that stand for the reader's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A fix as a change of one line of a program: what stands from ``column`` up to ``end`` becomes ``text``.

    Columns count characters from 1. Both may be the same: then the text is put in there.
    """

    source: str
    line: int
    column: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """One thing to do. ``command`` can be pasted into a shell; ``safety`` says what it may change."""

    do: str
    command: str | None = None
    code: str | None = None
    """Or lines for the program or its job script."""
    edit: Edit | None = None
    """Or the change itself, where it is one line of a program: `keepstep check code --fix` makes it."""
    safety: Safety = Safety.SAFE

    @property
    def blanks(self) -> tuple[str, ...]:
        """What to replace in the command before it is run: PID, HOST, SCRIPT."""
        return tuple(dict.fromkeys(_BLANK.findall(self.command))) if self.command else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a rule yields; the engine adds which rule it was.

    ``ranks`` are those it concerns or blames, if not simply those that printed the evidence.
    ``confidence``, ``severity`` and ``standing`` override the rule's own; so does ``cause``, which only a
    hypothesis may: a rule has one cause, but the last resort infers from an error's words what it may be about.
    """

    title: str
    because: str
    evidence: tuple[Evidence[Fact], ...]
    fixes: tuple[Fix, ...] = ()
    ranks: tuple[int, ...] | None = None
    confidence: Confidence | None = None
    severity: Severity | None = None
    standing: Standing | None = None
    cause: Cause | None = None

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError("a finding needs at least one piece of evidence")
        if self.cause is not None and self.confidence is not Confidence.HYPOTHESIS:
            raise ValueError("only a hypothesis may name a cause other than its rule's")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One conclusion of the report."""

    rule: str
    cause: Cause
    title: str
    because: str
    evidence: tuple[Evidence[Fact], ...]
    ranks: tuple[int, ...]
    confidence: Confidence
    severity: Severity
    standing: Standing
    fixes: tuple[Fix, ...] = ()
    role: Role = Role.INITIATING
    explains: tuple[Cause, ...] = ()
    attempt: int | None = None
    """The attempt it was found in, if the run had several."""
    placed: tuple[str, ...] = ()
    """How its ranks are known, if no line states them: ``rank 9: local rank 1 on node 1, 8 per node``."""


def ranks_of(evidence: tuple[Evidence[Fact], ...]) -> tuple[int, ...]:
    """The ranks concerned, in order of first mention, each once."""
    return tuple(dict.fromkeys(who for e in evidence if (who := e.who) is not None))

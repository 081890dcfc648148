# SPDX-License-Identifier: Apache-2.0
"""The leader's office, where another process may take it over: whose word counts, and what a new leader inherits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.nodes import NodeLost
from keepstep.store.evidence_file import append
from keepstep.supervise.attempt_context import Outcome
from keepstep.supervise.decide.decision import Action, Decision
from keepstep.supervise.decide.situation import Happened
from keepstep.supervise.nodes.agent.heartbeat import now
from keepstep.supervise.nodes.agent.lease import SILENT_S
from keepstep.supervise.nodes.connection.interface import Connection
from keepstep.supervise.nodes.lead.leader import Leader
from keepstep.supervise.nodes.messages import NEVER

if TYPE_CHECKING:
    from keepstep.supervise.show.journal import Account

ASK_S = 2.0
SELDOM_S = 30.0
LOST = "nodes.jsonl"


class Office(Protocol):
    """The engine's word about who leads."""

    term_s: float
    """How long the word is good for."""
    elected: bool
    """It was this node, when the engine was last asked because the leader could not be reached."""
    out: bool
    """This node does not belong to the run any more."""
    words: str
    """What the engine said last."""
    counted: tuple[str, ...]
    """The hosts that the engine counted when it was last asked."""

    refused: bool
    """The leader's host answers, but nobody leads there."""
    followed: str
    """The host of the leader that this agent was last connected to; empty: none yet."""

    @property
    def give_up_s(self) -> float:
        """How long an agent without a leader waits for the engine to name another."""

    def call(self) -> Connection:
        """A connection to whoever leads now."""

    def address(self) -> str:
        """Where the other nodes reach this one."""

    def leads(self) -> bool | None:
        """Ask. None: there is no answer."""

    def says_about(self, host: str) -> str:
        """What the engine knows about a host, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """What an agent that becomes leader knows about the run so far."""

    lost: NodeLost
    """The leader that it takes over from."""
    began: float
    why: str


class Term:
    """Asks the engine, beside everything else, whether this process still leads.

    A process takes over only after it has lost touch with this one. So while all nodes that the engine counts are
    connected here and heard, no other process leads, and the engine's controller may be away for hours.
    """

    def __init__(self, leader: Leader, office: Office, out: set[str], say: Callable[[str], None]) -> None:
        """``out``: gets the hosts that the engine does not count any more."""
        self._leader, self._office, self._out, self._say = leader, office, out, say
        self._all = office.counted
        self._asked = now()
        self._over = threading.Event()
        threading.Thread(target=self._run, name="keepstep-term", daemon=True).start()

    def end(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(ASK_S):
            at = now()
            everyone = self._leader.hears(self._office.counted)
            if everyone:
                self._leader.confirmed(at - SILENT_S)
            if everyone and at - self._asked < SELDOM_S:
                continue
            self._asked = at
            answer = self._office.leads()
            if answer:
                self._leader.confirmed(at)
            elif answer is False:
                self._leader.supersede(f"this node does not lead the run any more{self._office.words}")
                return
            self._tell_who_is_out()

    def _tell_who_is_out(self) -> None:
        """Ranks of such a node may run on, and are left alone until they fail or the node is lost."""
        for host in self._all:
            if host not in self._office.counted and host not in self._out:
                self._out.add(host)
                self._say(
                    f"{self._office.says_about(host)} and not part of the run any more: no further attempt uses it"
                )


@dataclass(frozen=True, slots=True)
class _Past:
    """An attempt that another process led, as far as this one has seen it."""

    number: int
    folder: Path
    steps: int | None = None
    step_s: float | None = None
    has_gaps: bool = False
    unwritten: Sequence[Evidence[Fact]] = ()
    parts: Sequence[Path] = ()


def take_over(account: Account, attempt: int, *, past: Inherited, most: int) -> None:
    """Write down what became of the attempt that the old leader led, and say so. ``most``: how many may get nowhere."""
    if attempt == NEVER:
        return
    folder = account.begin(attempt)
    which = f" (node {past.lost.node})" if past.lost.node >= 0 else ""
    quote = f"{past.lost.host}{which}, which led the run, cannot be reached: {past.why}"
    evidence = Evidence(fact=past.lost, origin=Origin(source=LOST), at=past.began, quote=quote)
    append(folder / LOST, [evidence])
    trial = _Past(attempt, folder)
    report, _ = account.explain(trial)
    outcome = Outcome(Happened.NODE_LOST, rank=past.lost.ranks[0] if past.lost.ranks else None)
    decision = Decision(
        action=Action.RESTART, reason=f"{past.lost.host} led the run until now; {past.why}", attempts_left=most - 1
    )
    account.announce(outcome, report, decision)
    account.note(trial, outcome, report, decision)
    account.ended(trial, Happened.NODE_LOST, 1)

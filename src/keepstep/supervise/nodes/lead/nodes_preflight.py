# SPDX-License-Identifier: Apache-2.0
"""The fast parts of the check, on all nodes of an attempt: judged before the first one and where a node is new."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keepstep.base import foreign_json
from keepstep.base.wording import listing
from keepstep.model.facts.base import Fact
from keepstep.store.evidence_file import append
from keepstep.supervise.decide.decision import REFUSED
from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.lead.leader import Answer, Leader
from keepstep.supervise.start.layout import Layout

if TYPE_CHECKING:
    from keepstep.check.place import Collected

PATIENCE_S = 30.0
"""For the answers. A look takes a fraction of a second; a run does not wait for one that takes longer."""
MOST_NODES = 256
"""Of more nodes, these many are compared: what differs between hosts shows in so many."""
MOST_WRITTEN = 16
"""Of so many nodes all facts are kept, of the others what was found fault with: a restart should not wait for it."""
FILE = "check.jsonl"


class FirstLook:
    """What the hosts of a run look like, as their agents say. What is judged or kept together is of one attempt."""

    def __init__(self, leader: Leader, say: Callable[[str], None], *, on: bool) -> None:
        self._leader = leader
        self._say = say
        self._on = on
        self._attempt = said.NEVER
        """The newest that was asked about."""
        self._judged: set[tuple[int, str]] = set()
        """Nodes and their hosts, in any attempt."""
        self._late: set[tuple[int, str]] = set()
        """Those that did not answer in time: they are not waited for again."""
        self._odd: dict[tuple[int, str], set[type[Fact]]] = {}
        """Which facts of a host were found fault with."""
        self._told: set[str] = set()
        if on:
            threading.Thread(target=_load, daemon=True).start()

    def take(self, attempt: int, layout: Layout, nodes: Sequence[int]) -> bool:
        """Ask all nodes, and judge them if one is new. False: something would surely kill the run, and none ran yet.

        Each attempt has ranks, ports and members of its own, so what was said about an earlier one is not used. A
        restart on known hosts does not wait for the answers: they are kept for :meth:`write`.
        """
        if not self._on:
            return True
        who = {node: (node, self._leader.host(node)) for node in nodes[:MOST_NODES]}
        self._attempt = attempt
        self._leader.forget(said.Looked)
        self._leader.tell(who, said.Look(attempt=attempt, layout=layout))
        if self._judged.issuperset(who.values()):
            return True
        first = not self._judged
        self._judged.update(who.values())
        self._wait([node for node in who if who[node] not in self._late])
        words, fatal = self._judge()
        for line in words:
            if line not in self._told:
                self._told.add(line)
                self._say(line)
        if fatal and first:
            self._say(REFUSED)
        return not (fatal and first)

    def _wait(self, nodes: Sequence[int]) -> None:
        leader = self._leader
        answers = answered(leader, said.Looked, self._attempt, nodes, PATIENCE_S)
        if late := [node for node in nodes if node not in answers]:
            self._late.update((node, leader.host(node)) for node in late)
            names = listing([leader.host(node) for node in late[:4]])
            self._say(f"check: no answer from {names} within {PATIENCE_S:.0f} s; the run starts without it")

    def _judge(self) -> tuple[list[str], bool]:
        """What is wrong with the hosts, in words, and whether it would surely kill the run."""
        from keepstep.check.checkup import judge
        from keepstep.check.place import Collected
        from keepstep.supervise.start.preflight import would_end_it

        together, whose = Collected(), {}
        for who, found in self._answers():
            together.take(found)
            whose.update({id(each): who for each in found.evidence})
        together.coverage = list(dict.fromkeys(together.coverage))
        report = judge(together)
        self._odd.clear()
        for each in (e for finding in report.findings for e in finding.evidence if id(e) in whose):
            self._odd.setdefault(whose[id(each)], set()).add(type(each.fact))
        return would_end_it(report)

    def _answers(self) -> Iterator[tuple[tuple[int, str], Collected]]:
        """What each host looks like in the newest attempt."""
        from keepstep.check.meeting.packing import unpacked
        from keepstep.check.place import Collected

        for node, answer in sorted(self._leader.answers(said.Looked, self._attempt).items()):
            host = self._leader.host(node)
            try:
                found = unpacked(dict(foreign_json.loads(answer.told)), host)
            except (TypeError, ValueError) as error:
                found = Collected()
                found.unavailable(f"what {host} looks like", f"it cannot be read: {error}")
            yield (node, host), found

    def write(self, folder: Path) -> None:
        """Beside the evidence of the newest attempt, which failed: what a host looks like may explain it."""
        if not self._on or (folder / FILE).exists():
            return
        some = []
        for n, (who, found) in enumerate(self._answers()):
            odd = self._odd.get(who, set())
            # what has a time of its own (the kernel log of the last day) is from before the run
            some += [e for e in found.evidence if e.at is None and (n < MOST_WRITTEN or type(e.fact) in odd)]
        if some:
            with contextlib.suppress(OSError):
                append(folder / FILE, some)


def answered(
    leader: Leader, kind: type[Answer], attempt: int, nodes: Sequence[int], seconds: float
) -> dict[int, Answer]:
    """The answers of these nodes, as soon as all that are connected have answered, or those that came in time."""
    until = time.monotonic() + seconds
    while True:
        found = {node: each for node, each in leader.answers(kind, attempt).items() if node in nodes}
        waits = [node for node in nodes if node not in found and _is_here(leader, node)]
        if not waits or time.monotonic() > until:
            return found
        leader.wait(0.02)


def _is_here(leader: Leader, node: int) -> bool:
    member = leader.member(node)
    return member is not None and member.connection is not None


def _load() -> None:
    """While nodes are awaited: what judging needs."""
    with contextlib.suppress(Exception):
        import keepstep.supervise.start.preflight  # noqa: F401
        from keepstep.rules import builtin_rules

        builtin_rules()

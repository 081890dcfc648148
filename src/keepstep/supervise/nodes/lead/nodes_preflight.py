# SPDX-License-Identifier: Apache-2.0
"""The fast parts of the check, on all nodes, before the first attempt; and on nodes that come later."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keepstep.base import foreign_json
from keepstep.base.wording import listing
from keepstep.model.evidence import Evidence
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
    """What the hosts of a run look like, as their agents say."""

    def __init__(self, leader: Leader, say: Callable[[str], None], *, on: bool) -> None:
        self._leader = leader
        self._say = say
        self._on = on
        self._looked: dict[tuple[int, str], Collected] = {}
        self._told: set[str] = set()
        self._first = True
        self._odd: list[Evidence[Fact]] = []
        """What was found fault with."""
        if on:
            threading.Thread(target=_load, daemon=True).start()

    def take(self, attempt: int, layout: Layout, nodes: Sequence[int]) -> bool:
        """Ask the nodes that were not asked before. False: something would surely kill the run, and none ran yet."""
        fresh = [node for node in nodes if (node, self._leader.host(node)) not in self._looked]
        fresh = fresh[: max(0, MOST_NODES - len(self._looked))]
        if not self._on or not fresh:
            return True
        first, self._first = self._first, False
        self._ask(attempt, layout, fresh)
        from keepstep.check.checkup import judge
        from keepstep.check.place import Collected
        from keepstep.supervise.start.preflight import would_end_it

        together = Collected()
        for each in self._looked.values():
            together.take(each)
        together.coverage = list(dict.fromkeys(together.coverage))
        report = judge(together)
        self._odd = [e for finding in report.findings for e in finding.evidence]
        words, fatal = would_end_it(report)
        for line in words:
            if line not in self._told:
                self._told.add(line)
                self._say(line)
        if fatal and first:
            self._say(REFUSED)
        return not (fatal and first)

    def _ask(self, attempt: int, layout: Layout, nodes: Sequence[int]) -> None:
        from keepstep.check.meeting.packing import unpacked
        from keepstep.check.place import Collected

        leader = self._leader
        leader.forget(said.Looked)
        leader.tell(nodes, said.Look(attempt=attempt, layout=layout))
        answers = answered(leader, said.Looked, attempt, nodes, PATIENCE_S)
        for node, answer in answers.items():
            host = leader.host(node)
            try:
                found = unpacked(dict(foreign_json.loads(answer.told)), host)
            except (TypeError, ValueError) as error:
                found = Collected()
                found.unavailable(f"what {host} looks like", f"it cannot be read: {error}")
            self._looked[node, host] = found
        if late := [leader.host(node) for node in nodes if node not in answers]:
            self._say(f"check: no answer from {listing(late[:4])} within {PATIENCE_S:.0f} s; the run starts without it")

    def write(self, folder: Path) -> None:
        """Beside the evidence of an attempt that failed: what a host looks like may explain it."""
        # what has a time of its own (the kernel log of the last day) is from before the run
        some = [e for each in list(self._looked.values())[:MOST_WRITTEN] for e in each.evidence]
        found = [e for e in {id(e): e for e in (*self._odd, *some)}.values() if e.at is None]
        if found and not (folder / FILE).exists():
            with contextlib.suppress(OSError):
                append(folder / FILE, found)


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

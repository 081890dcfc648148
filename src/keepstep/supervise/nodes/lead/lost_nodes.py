# SPDX-License-Identifier: Apache-2.0
"""The nodes that an attempt has lost, as evidence in its folder."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.nodes import NodeLost
from keepstep.model.identity import Rank
from keepstep.store.evidence_file import append
from keepstep.supervise.nodes.agent.heartbeat import now

NAME = "nodes.jsonl"
JUST_NOW_S = 30.0


@dataclass
class NodeLosses:
    """Those that are silent now, and those that came back too late."""

    folder: Path
    attempt: int
    facts: dict[int, NodeLost] = field(default_factory=dict)
    """By node."""
    own: bool = False
    """They are the leader's fault: it was not run for longer than a lease, and answered nobody."""
    _since: dict[int, float] = field(default_factory=dict)
    """By a clock that nobody sets, as all times here but those that are written."""
    _back: dict[int, tuple[NodeLost, float]] = field(default_factory=dict)
    """What was seen of nodes that have come back, and when they did."""

    def add(self, fact: NodeLost, since_s: float) -> None:
        self.facts[fact.node] = fact
        self._since[fact.node] = now() - since_s
        self._note(fact)

    def is_back(self, node: int) -> None:
        """It was not lost after all: what was written would mislead if another node is."""
        if (fact := self.facts.pop(node, None)) is not None:
            self._back[node] = fact, now()
        with contextlib.suppress(OSError):
            (self.folder / NAME).unlink(missing_ok=True)
        for fact in self.facts.values():
            self._note(fact)

    def move(self, folder: Path) -> None:
        """What was written could not be kept: write it here."""
        self.folder = folder
        for fact in self.facts.values():
            self._note(fact)

    def was_lost(self, node: int) -> bool:
        """Whether it was away until a moment ago. Then that was for longer than its ranks may run, and it was lost."""
        fact, back = self._back.get(node, (None, 0.0))
        if fact is None or now() - back > JUST_NOW_S:
            return False
        self.facts[node] = fact
        self._note(fact, back)
        return True

    def write(self, fact: Fact, at: float, quote: str, rank: Rank | None = None) -> None:
        """Anything that the leader knows about nodes."""
        with contextlib.suppress(OSError):
            found = Evidence(fact=fact, origin=Origin(source=NAME), rank=rank, at=at, quote=quote)
            append(self.folder / NAME, [found])

    def _note(self, fact: NodeLost, back: float | None = None) -> None:
        since, how = self._since[fact.node], fact.why or "nothing arrives from it"
        silent = f"has been silent for {now() - since:.1f}" if back is None else f"was silent for {back - since:.1f}"
        quote = f"{fact.host} (node {fact.node}) {silent} s: {how}"
        rank = Rank(index=fact.ranks[0], node=fact.host, attempt=self.attempt) if fact.ranks else None
        self.write(fact, time.time() - (now() - since), quote, rank)

# SPDX-License-Identifier: Apache-2.0
"""The nodes that an attempt has lost, as evidence in its folder."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.core.evidence import Evidence, Origin
from keepstep.core.facts.base import Fact
from keepstep.core.facts.nodes import NodeLost
from keepstep.core.identity import Rank
from keepstep.store.evidence import append

NAME = "nodes.jsonl"


@dataclass
class Losses:
    """Those that are silent now. What is written stays until :meth:`keep_only_lost`."""

    folder: Path
    attempt: int
    facts: dict[int, NodeLost] = field(default_factory=dict)
    """By node."""
    _since: dict[int, float] = field(default_factory=dict)

    def add(self, fact: NodeLost, since_s: float) -> None:
        self.facts[fact.node] = fact
        self._since[fact.node] = time.time() - since_s
        self._note(fact)

    def is_back(self, node: int) -> None:
        self.facts.pop(node, None)

    def keep_only_lost(self) -> None:
        """Nodes that have come back were not lost: what was written would mislead."""
        with contextlib.suppress(OSError):
            (self.folder / NAME).unlink(missing_ok=True)
        for fact in self.facts.values():
            self._note(fact)

    def write(self, fact: Fact, at: float, quote: str, rank: Rank | None = None) -> None:
        """Anything that the leader knows about nodes."""
        with contextlib.suppress(OSError):
            found = Evidence(fact=fact, origin=Origin(source=NAME), rank=rank, at=at, quote=quote)
            append(self.folder / NAME, [found])

    def _note(self, fact: NodeLost) -> None:
        at, how = self._since[fact.node], fact.why or "nothing arrives from it"
        quote = f"{fact.host} (node {fact.node}) has been silent for {time.time() - at:.1f} s: {how}"
        rank = Rank(index=fact.ranks[0], node=fact.host, attempt=self.attempt) if fact.ranks else None
        self.write(fact, at, quote, rank)

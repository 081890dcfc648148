# SPDX-License-Identifier: Apache-2.0
"""An attempt with fewer nodes than it may have: when more can take part, it is started anew after a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Sequence

from keepstep.base.wording import count, listing
from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.lead.leader import Leader
from keepstep.supervise.nodes.lead.rendezvous import Gathering

ASK_S = 2.0
"""Between two questions after the newest checkpoint; also the time that one gets to be written to its end."""


class Growing:
    """Of one attempt. Only the guard sees checkpoints: without it, the run keeps its size."""

    def __init__(self, leader: Leader, gathering: Gathering, attempt: int, nodes: Sequence[int]) -> None:
        self._leader, self._gathering = leader, gathering
        self._attempt, self._nodes = attempt, nodes
        self._due = 0.0
        self._told: list[int] = []
        self._asked = False
        self._known: dict[int, int | None] | None = None
        """The newest checkpoint of each node when the spare was first seen."""

    def is_time(self) -> bool:
        """Whether to end this attempt now for a larger one. To be called often: it also sees to agents that ended."""
        if time.monotonic() < self._due:
            return False
        self._due = time.monotonic() + ASK_S
        self._gathering.tend()
        more = self._gathering.spares(self._nodes)
        if self._gathering.as_given or len(self._nodes) >= self._gathering.most:
            self._gathering.tell_spares(more)
            return False
        self._tell(more)
        if not more:
            self._known, self._asked = None, False
            return False
        saved = self._saved() if self._asked else None
        self._leader.forget(said.Collected)
        self._leader.tell(self._nodes, said.Collect(attempt=self._attempt, stacks=False))
        self._asked = True
        if not saved:
            return False
        if self._known is None:
            self._known = saved
        return any(self._known.get(node) != step for node, step in saved.items() if step is not None)

    def _saved(self) -> dict[int, int | None]:
        answers = self._leader.answers(said.Collected, self._attempt)
        return {node: each.known.saved_step for node, each in answers.items()}

    def _tell(self, more: list[int]) -> None:
        if more == self._told:
            return
        self._told = more
        if more:
            after = min(len(self._nodes) + len(more), self._gathering.most)
            who = listing([self._leader.host(node) for node in more])
            self._gathering.say(
                f"{who} can take part: at its next checkpoint the run is started again with {count(after, 'node')} "
                f"instead of {len(self._nodes)}"
            )

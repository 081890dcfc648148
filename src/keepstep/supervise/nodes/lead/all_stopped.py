# SPDX-License-Identifier: Apache-2.0
"""Whether the ranks of all nodes have stopped, once one node says that its ranks have."""

from __future__ import annotations

import time
from collections.abc import Iterable

from keepstep.supervise.nodes.lead.leader import Leader

SETTLE_S = 4.0
"""One node's ranks have stopped: those of the others may be about to show it too."""
LOOK_S = 0.25


def all_stand_still(leader: Leader, nodes: Iterable[int], first: int) -> bool:
    """Whether the ranks of all nodes make no steps, as far as their agents can tell."""
    others = [node for node in nodes if node != first]
    before = {node: leader.steps(node) for node in others}
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        if any(leader.steps(node) != before[node] for node in others):
            return False
        quiet = [leader.quiet_s(node) for node in others]
        if all(each is not None and each > SETTLE_S / 2 for each in quiet):
            break
        time.sleep(LOOK_S)
    return True

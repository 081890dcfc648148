# SPDX-License-Identifier: Apache-2.0
"""What the command line says about nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keepstep.errors import UserError
from keepstep.supervise.nodes.lead.placement import ONLY_WORKERS, Roles

MOST_NODES = 100_000


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The options that concern nodes, as given."""

    nodes: str | None = None
    spare_nodes: int | None = None
    """None: as many as the engine thinks fit."""
    node_rank: int | None = None
    meet: str | None = None
    hosts: str | None = None
    on: str | None = None
    per_node: int | None = None
    wait_s: float | None = None
    more_s: float | None = None
    """None: as long as the engine thinks fit."""
    remote: str = "keepstep"
    """The keepstep command on other hosts."""
    again: tuple[str, ...] = ()
    """The rest of the command line, for agents that this process starts."""
    roles: Roles = ONLY_WORKERS
    command: tuple[str, ...] = ()
    status_file: str | None = None
    requeue: bool = False
    """With Slurm: may the job be put back into the queue?"""
    resources: str | None = None
    """With Ray: what to ask for on each node, as JSON."""

    @property
    def any(self) -> bool:
        """Whether more than this machine is meant."""
        return any(
            each is not None for each in (self.nodes, self.node_rank, self.meet, self.hosts, self.on, self.per_node)
        )

    def least_and_most(self, default: int | None = None) -> tuple[int, int]:
        """``--nodes 4`` or ``--nodes 3:4``. Raises :class:`UserError`."""
        if self.nodes is None:
            if default is None:
                raise UserError("how many nodes?", hint="give --nodes N, or --nodes MIN:MAX")
            return default, default
        found = re.fullmatch(r"(\d{1,6})(?::(\d{1,6}))?", self.nodes.strip())
        if found is None:
            raise UserError(
                f"--nodes {self.nodes[:40]} is neither N nor MIN:MAX", hint="for example --nodes 4 or --nodes 3:4"
            )
        least, most = int(found[1]), int(found[2] or found[1])
        if not 1 <= least <= most <= MOST_NODES:
            raise UserError(f"--nodes {self.nodes} makes no sense", hint="MIN must be at least 1 and at most MAX")
        return least, most

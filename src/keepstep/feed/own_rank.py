# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, for dividing data: as the process group says, else as the launcher does."""

from __future__ import annotations

import os
import sys

from keepstep.cluster import understand

TRAINS = ("worker", "chief", "master")
"""Roles that read training data."""


def whoami() -> tuple[int, int]:
    """``rank, ranks``. A process that no launcher started is alone."""
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return torch.get_rank(), torch.get_world_size()
    jax = sys.modules.get("jax")
    if jax is not None and jax.distributed.is_initialized():
        return jax.process_index(), jax.process_count()
    cluster = understand(os.environ)
    if cluster is None or cluster.size == 1:
        return 0, 1
    readers = [task.rank for task in cluster.tasks if task.role in TRAINS]
    if cluster.me is None or cluster.me not in readers:
        role = cluster.own.role if cluster.own else "unknown"
        raise ValueError(
            f"{cluster.said_by} describes {cluster.size} tasks, but the data rank of this one (role: {role}) does not"
            " follow from it: give rank= and ranks="
        )
    return readers.index(cluster.me), len(readers)

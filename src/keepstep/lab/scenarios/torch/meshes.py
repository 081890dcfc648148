# SPDX-License-Identifier: Apache-2.0
"""Eight PyTorch ranks in a mesh of data, pipeline and tensor groups; many wait that never talk to the broken one."""

from __future__ import annotations

from functools import partial
from typing import Any

from keepstep.lab.scenario import Scenario

mesh = partial(Scenario, framework="torch", job="torch_mesh", ranks=8)
on_rank_5: dict[str, Any] = {"strike_ranks": (5,), "root_ranks": (5,), "strike_step": 25}

SCENARIOS = (
    mesh("torch_mesh_healthy", note="A clean run of eight ranks in a mesh of 2 x 2 x 2."),
    mesh(
        "torch_mesh_asleep",
        cause="sync.deadlock_or_hang_waiting_rank",
        also_accept=("slow.straggler",),
        fault="sleep_long",
        hang=True,
        args=("--timeout", "120"),
        note="Rank 5 sleeps. Three ranks wait for it in three groups, the others for those.",
        **on_rank_5,
    ),
    mesh(
        "torch_mesh_skipped",
        cause="sync.collective_mismatch",
        also_accept=("sync.deadlock_or_hang_waiting_rank",),
        fault="skipped_exchange",
        hang=True,
        args=("--timeout", "120"),
        note="Rank 5 leaves out the exchange of gradients with rank 1. In the end all wait for each other in a circle; "
        "only their numbers in each group show who began it.",
        **{**on_rank_5, "root_ranks": None, "inside_ranks": (5,)},
    ),
    mesh(
        "torch_mesh_killed",
        cause="network.connection_reset_peer_died",
        also_accept=("resource.host_oom_killed", "unknown.not_established"),
        fault="kill_rank",
        strike_ranks=(5,),
        root_ranks=(5,),
        args=("--steps", "2000"),
        note="Rank 5 gets SIGKILL; three ranks lose it, and the others lose those when they fail.",
    ),
)

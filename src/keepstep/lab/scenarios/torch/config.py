# SPDX-License-Identifier: Apache-2.0
"""PyTorch runs that were set up wrongly."""

from __future__ import annotations

from keepstep.lab.scenarios.torch.parts import WAITING, ddp, four_clocks, fsdp

SCENARIOS = (
    ddp(
        "torch_port_taken",
        cause="network.port_in_use",
        fault="port_taken",
        root_ranks=(0,),
        args=("--timeout", "10"),
        limit=25,
        note="Rank 0's TCPStore cannot listen: another program has the port; rank 1 talks to that program.",
    ),
    ddp(
        "torch_unresolvable_host",
        cause="network.dns",
        fault="unresolvable_host",
        args=("--timeout", "10"),
        note="MASTER_ADDR is a name that does not resolve.",
    ),
    ddp(
        "torch_absent_rank0",
        cause="network.unreachable_or_firewall",
        also_accept=("config.cluster_spec", "network.timeout_slow"),
        fault="absent_peer",
        strike_ranks=(0,),
        args=("--timeout", "8"),
        note="Rank 0 was never started: connection refused until the time-out.",
    ),
    ddp(
        "torch_absent_rank1",
        cause="config.world_size_mismatch",
        also_accept=WAITING,
        fault="absent_peer",
        strike_ranks=(1,),
        args=("--timeout", "8"),
        note="Rank 1 was never started: rank 0's store waits for 2 clients and gets 1.",
    ),
    ddp(
        "torch_waits_for_rank1",
        cause="config.world_size_mismatch",
        also_accept=WAITING,
        fault="absent_peer",
        strike_ranks=(1,),
        args=("--timeout", "60"),
        limit=110,
        note=(
            "Rank 1 was never started, and torch waits for it without a word for as long as it may; the guard "
            "names it after 20 s."
        ),
    ),
    fsdp(
        "torch_absent_rank3",
        cause="config.world_size_mismatch",
        also_accept=WAITING,
        fault="absent_peer",
        strike_ranks=(3,),
        args=("--timeout", "8"),
        note="Rank 3 of four was never started: the others wait for it.",
        **four_clocks,
    ),
    ddp(
        "torch_no_rank",
        cause="config.missing_rank_env",
        fault="no_rank_env",
        note="RANK is not set in the environment of any rank.",
    ),
    ddp(
        "torch_no_master",
        cause="config.missing_rank_env",
        also_accept=("config.cluster_spec",),
        fault="no_master_addr",
        quick=True,
        note="MASTER_ADDR is not set: torch's own words for it.",
    ),
    ddp(
        "torch_trains_alone",
        cause="config.trains_alone",
        fault="alone",
        args=("--epochs", "1"),
        note="Every process was told that it is rank 0 of 1: each trains by itself and ends well.",
    ),
    ddp(
        "torch_never_joins",
        cause="config.trains_alone",
        later="guard",
        fault="never_joins",
        args=("--epochs", "1"),
        note=(
            "RANK and WORLD_SIZE mean two ranks, but the script forms a group of one in each: both train alone "
            "and end well."
        ),
    ),
    ddp(
        "torch_larger_world",
        cause="config.world_size_mismatch",
        also_accept=WAITING,
        fault="larger_world",
        args=("--timeout", "8"),
        note="WORLD_SIZE is 3 but two ranks were started: '2/3 clients joined'.",
    ),
    ddp(
        "torch_same_rank",
        cause="config.world_size_mismatch",
        also_accept=("config.cluster_spec", "network.timeout_slow", "sync.deadlock_or_hang_waiting_rank"),
        fault="same_rank",
        ranks=3,
        args=("--timeout", "8"),
        limit=40,
        note="Two processes have rank 1 and none rank 2.",
    ),
)

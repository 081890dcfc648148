# SPDX-License-Identifier: Apache-2.0
"""JAX runs that were started wrongly."""

from __future__ import annotations

from functools import partial

from keepstep.lab.scenarios.jax.parts import four, multi

NOT_MET = ("network.timeout_slow", "config.cluster_spec", "config.world_size_mismatch")
starting = partial(multi, args=("--timeout", "10"), limit=120)

SCENARIOS = (
    starting(
        "jax_port_taken",
        cause="network.port_in_use",
        fault="port_taken",
        root_ranks=(0,),
        note="The coordinator of process 0 cannot bind its port: one gRPC line, then SIGSEGV (it varies).",
    ),
    starting(
        "jax_port_taken_exception",
        cause="network.port_in_use",
        fault="port_taken",
        root_ranks=(0,),
        launcher="shell",
        env={"PYTHONFAULTHANDLER": "1"},
        note="The same where jaxlib raises instead: UNKNOWN: Failed to start RPC server.",
    ),
    starting(
        "jax_unresolvable_host",
        cause="network.unreachable_or_firewall",
        also_accept=("network.dns", *NOT_MET),
        fault="unresolvable_host",
        note="The coordinator's host name does not resolve; the logs mention only a deadline.",
    ),
    starting(
        "jax_absent_coordinator",
        cause="network.unreachable_or_firewall",
        also_accept=("sync.deadlock_or_hang_waiting_rank", *NOT_MET),
        fault="absent_peer",
        strike_ranks=(0,),
        note="Process 0 was never started: nothing listens at the coordinator's address.",
    ),
    starting(
        "jax_absent_process",
        cause="sync.deadlock_or_hang_waiting_rank",
        also_accept=("network.unreachable_or_firewall", *NOT_MET),
        fault="absent_peer",
        strike_ranks=(2,),
        root_ranks=(2,),
        note="Process 2 was never started; the coordinator names it.",
        **four,
    ),
    starting(
        "jax_larger_world",
        cause="sync.deadlock_or_hang_waiting_rank",
        also_accept=("network.unreachable_or_firewall", *NOT_MET),
        fault="larger_num_processes",
        note="NUM_PROCESSES is 5, four were started; the logs say only that a process never registered.",
        **four,
    ),
    multi(
        "jax_waits_for_larger_world",
        cause="config.world_size_mismatch",
        also_accept=("sync.deadlock_or_hang_waiting_rank", "network.unreachable_or_firewall", *NOT_MET),
        fault="larger_num_processes",
        args=("--timeout", "60"),
        limit=110,
        note=(
            "NUM_PROCESSES is 3, two were started, and JAX waits for the third without a word; the guard names "
            "it after 20 s."
        ),
    ),
    starting(
        "jax_same_process_id",
        cause="config.cluster_spec",
        also_accept=("config.world_size_mismatch", "worker.restarted_or_incarnation_mismatch"),
        fault="same_process_id",
        note="Two processes have id 1 and none id 2.",
        **four,
    ),
    multi(
        "jax_no_process_id",
        cause="config.missing_rank_env",
        fault="no_rank_env",
        quick=True,
        note="PROCESS_ID is not set.",
    ),
    multi(
        "jax_never_joins",
        cause="config.trains_alone",
        later="guard",
        fault="never_joins",
        note=(
            "The variables mean two processes, but the script never calls jax.distributed.initialize: each "
            "trains alone."
        ),
    ),
    multi(
        "jax_local_mesh",
        cause="config.trains_alone",
        later="guard",
        fault="local_mesh",
        args=("--steps", "400"),
        note="The processes join one world, but each makes its mesh of its own devices: no step spans them.",
    ),
    multi(
        "jax_trains_alone",
        cause="config.trains_alone",
        fault="alone",
        note="Every process was told that it is the only one.",
        **four,
    ),
)

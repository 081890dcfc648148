# SPDX-License-Identifier: Apache-2.0
"""JAX runs that hang, judged while they do."""

from __future__ import annotations

from functools import partial

from keepstep.lab.scenarios.jax.parts import LONG, multi, on_process_1

HANG = "sync.deadlock_or_hang_waiting_rank"
stuck = partial(multi, cause=HANG, hang=True, limit=120)

SCENARIOS = (
    stuck(
        "jax_stuck_input",
        also_accept=("slow.input_bound",),
        fault="stuck_input",
        args=LONG,
        note="The next batch of process 1 never comes.",
        **on_process_1,
    ),
    stuck(
        "jax_stuck_storage",
        also_accept=("slow.input_bound",),
        fault="stuck_storage",
        strike_ranks=(1,),
        root_ranks=(1,),
        note="The data file of process 1 is on storage that does not answer.",
    ),
    stuck(
        "jax_conditional_sync",
        also_accept=("sync.collective_mismatch",),
        fault="conditional_sync",
        ranks=4,
        args=LONG,
        note="Process 1 alone comes to a sync_global_devices, the others are in the step.",
        **on_process_1,
    ),
    stuck(
        "jax_lock_deadlock",
        fault="lock_deadlock",
        args=LONG,
        note="Two threads of process 1 wait for each other's lock.",
        **on_process_1,
    ),
    stuck(
        "jax_stopped",
        fault="stop_rank",
        strike_ranks=(1,),
        root_ranks=(1,),
        args=LONG,
        note="SIGSTOP to process 1; process 0 waits for it.",
    ),
    stuck(
        "jax_gil_held",
        fault="gil_held",
        args=LONG,
        note="Native code of process 1 keeps the interpreter lock.",
        **on_process_1,
    ),
    multi(
        "jax_fork",
        cause="sync.multiple_threads_or_fork",
        also_accept=(HANG,),
        fault="jax_fork",
        hang=True,
        limit=120,
        args=LONG,
        note="Process 1 forks a pool after JAX has started its threads; its child's computation never ends.",
        **on_process_1,
    ),
)

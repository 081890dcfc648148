# SPDX-License-Identifier: Apache-2.0
"""TensorFlow runs that hang, judged while they do."""

from __future__ import annotations

from functools import partial

from keepstep.lab.scenarios.tensorflow.parts import LONG, mwms, on_worker_1

HANG = "sync.deadlock_or_hang_waiting_rank"
stuck = partial(mwms, cause=HANG, hang=True)

SCENARIOS = (
    stuck(
        "tf_stuck_generator",
        also_accept=("slow.input_bound",),
        fault="stuck_generator",
        strike_ranks=(1,),
        root_ranks=(1,),
        args=("--shard", "DATA", *LONG),
        note="The tf.data generator of worker 1 waits for a producer that is gone.",
    ),
    stuck(
        "tf_stuck_py_function",
        also_accept=("slow.input_bound",),
        fault="stuck_py_function",
        strike_ranks=(1,),
        root_ranks=(1,),
        args=("--shard", "DATA", *LONG),
        note="A py_function in the input pipeline of worker 1 waits for storage that does not answer.",
    ),
    stuck(
        "tf_chief_evaluates",
        fault="chief_evaluates",
        root_ranks=(0, 1),
        args=("--evaluate", "40", *LONG),
        note="Only the chief evaluates, which ends in a collective; worker 1 waits for the chief's result meanwhile.",
    ),
    stuck(
        "tf_lock_deadlock",
        fault="lock_deadlock",
        args=LONG,
        note="Two threads of worker 1 take two locks in opposite order.",
        **on_worker_1,
    ),
    stuck(
        "tf_stopped",
        fault="stop_rank",
        strike_ranks=(1,),
        root_ranks=(1,),
        args=LONG,
        note="SIGSTOP to worker 1; worker 0 waits in the collective.",
    ),
    stuck(
        "tf_gil_held",
        fault="gil_held",
        args=LONG,
        note="Native code of worker 1 keeps the interpreter lock.",
        **on_worker_1,
    ),
    mwms(
        "tf_fork",
        cause="sync.multiple_threads_or_fork",
        also_accept=(HANG,),
        hang=True,
        fault="fork_pool",
        args=LONG,
        note="Worker 1 forks a pool after TensorFlow started its threads; the child's first op never ends.",
        **on_worker_1,
    ),
)

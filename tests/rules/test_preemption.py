# SPDX-License-Identifier: Apache-2.0
"""Runs that were ended from outside."""

from __future__ import annotations

from tests.rules.explained import causes, findings, root

STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))

TOLD = "W1 api.py:753] Received 15 death signal, shutting down workers\n"


def test_a_signal_to_the_launcher_with_nothing_before_is_preemption(tmp_path):
    assert root(tmp_path, log=STEPS + TOLD) == "preemption.sigterm"


def test_a_signal_after_a_failure_is_teardown(tmp_path):
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    found = findings(tmp_path, log=STEPS + oom + TOLD)
    assert [f.cause.value for f in found] == ["resource.gpu_oom"]


def test_the_agents_own_signal_to_its_children_is_not_preemption(tmp_path):
    text = (
        "Traceback (most recent call last):\n"
        '  File "/srv/train.py", line 3, in <module>\n    x = d["a"]\n'
        "KeyError: 'a'\n"
        "W1 api.py:897] Sending process 5120 closing signal SIGTERM\n"
    )
    assert root(tmp_path, log=text) == "user.code_exception"


def test_the_time_limit_is_told_with_its_reason(tmp_path):
    text = "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2021-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    found = findings(tmp_path, log=STEPS + text)
    assert found[0].cause.value == "preemption.sigterm"
    assert "time limit" in found[0].title


def test_the_time_limit_after_a_failure_is_the_end_and_not_the_cause(tmp_path):
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        "slurmstepd: error: *** JOB 640423 ON n1 CANCELLED AT 2021-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    )
    assert root(tmp_path, log=text) == "resource.gpu_oom"


def test_a_tpu_that_was_taken_back_only_looks_ill(tmp_path):
    text = (
        "INFO:tensorflow:ShutdownHook: lame workers found: "
        "HeartbeatManager(/job:worker/replica:0/task:0/device:CPU:0)\n"
        "WARNING:tensorflow:TPUPollingThread found TPU b'tpu-pre-1' in state PREEMPTED, and health UNKNOWN.\n"
    )
    assert root(tmp_path, run=text) == "preemption.sigterm"


def test_evicted_workers_of_an_mpi_job_were_taken_away(tmp_path):
    assert (
        root(tmp_path, run="    message: 1/8 workers are evicted\n    reason: MPIJobEvicted\n") == "preemption.sigterm"
    )


def test_silence_explains_no_eviction(tmp_path):
    """The times are those of a job's conditions: nothing printed steps, and a node that is drained ends any pod."""
    text = "".join(
        f'  - lastTransitionTime: "2024-08-{when}Z"\n    message: {message}\n    reason: {reason}\n'
        for when, message, reason in (
            ("14T19:45:39", "MPIJob a is created.", "MPIJobCreated"),
            ("14T19:48:02", "MPIJob a is running.", "MPIJobRunning"),
            ("15T04:01:42", "1/8 workers are evicted", "MPIJobEvicted"),
        )
    )
    assert root(tmp_path, run=text) == "preemption.sigterm"


INTERRUPTED = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/srv/train.py", line 636, in <module>\n[rank0]:     main()\n'
    '[rank0]:   File "/srv/model.py", line 162, in forward\n[rank0]:     positions = torch.arange(T)\n'
    "[rank0]: KeyboardInterrupt\n"
)
PINNING = (
    "Exception in thread Thread-3 (_pin_memory_loop):\n"
    "Traceback (most recent call last):\n"
    '  File "/usr/lib/python3.14/threading.py", line 1082, in _bootstrap_inner\n    self._context.run(self.run)\n'
    '  File "/usr/lib/python3.14/multiprocessing/resource_sharer.py", line 57, in detach\n'
    "    with _resource_sharer.get_connection(self._id) as conn:\n"
    '  File "/usr/lib/python3.14/multiprocessing/connection.py", line 412, in _recv\n'
    "    chunk = read(handle, to_read)\n"
    "ConnectionResetError: [Errno 104] Connection reset by peer\n"
)


def test_what_a_loader_says_after_ctrl_c_is_teardown(tmp_path):
    found = findings(tmp_path, rank0=STEPS + INTERRUPTED + PINNING)
    assert found[0].title == "the user ended the run (Ctrl-C)"
    assert "data.loader_worker_killed" not in [each.cause.value for each in found]


def test_a_loader_that_lost_its_worker_is_still_told_where_nothing_had_ended_the_rank(tmp_path):
    raised = (
        "Traceback (most recent call last):\n"
        '  File "/srv/train.py", line 9, in <module>\n    for batch in loader:\n'
        "RuntimeError: DataLoader worker (pid 1288) exited unexpectedly with exit code 1\n"
    )
    assert root(tmp_path, rank0=STEPS + PINNING + raised) == "data.loader_worker_killed"


def test_a_line_below_the_end_in_another_time_zone_is_no_silence(tmp_path):
    text = (
        "srun: forcing job termination\n"
        "slurmstepd: error: *** STEP 524549.1 ON n43 CANCELLED AT 2024-10-09T23:25:32 ***\n"
        'time="2024-10-09T23:25:32+02:00" level=warning msg="Failed to remove cgroup (will retry)"\n'
    )
    assert causes(tmp_path, log=text) == ["preemption.sigterm"]

# SPDX-License-Identifier: Apache-2.0
"""Runs that were ended from outside."""

from __future__ import annotations

from tests.rules.explained import findings, root

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

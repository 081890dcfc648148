# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow's own exceptions say, and the cause that follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding

_IMPL = "tensorflow.python.framework.errors_impl."
_WAITS = (
    "INFO:tensorflow:Waiting for model to be ready.  Ready_for_local_init_op:  Variables not initialized: global_step, "
    "dense/kernel, ready: None\n"
)
_OPENS = (
    "2017-11-03 09:49:{:02}.819230: I tensorflow/core/distributed_runtime/master_session.cc:998] Start master "
    "session 28f97991c51e14a{} with config: \n"
)


def findings(folder: Path, text: str) -> tuple[Finding, ...]:
    (folder / "run.log").write_text(text)
    return explain_paths([folder]).report.findings


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "InvalidArgumentError: Cannot assign a device to node 'x': Could not satisfy explicit device specification "
            "'/job:ps/task:1/device:CPU:0' because no devices matching that specification are registered "
            "in this process; "
            "available devices: /job:ps/replica:0/task:0/cpu:0, /job:worker/replica:0/task:1/cpu:0",
            "config.cluster_spec",
        ),
        (
            "NotFoundError: hdfs://ns/m/model.ckpt-20.data-00001-of-00002; No such file or directory",
            "checkpoint.corrupt_or_missing",
        ),
        (
            "InternalError: CUDA runtime implicit initialization on GPU:0 failed. Status: out of memory",
            "resource.gpu_oom",
        ),
        (
            (
                "InternalError: CUDA runtime implicit initialization on GPU:0 failed. Status: device kernel "
                "image is invalid"
            ),
            "env.framework_cuda_mismatch",
        ),
        ("UnimplementedError: DNN library is not found.", "env.framework_cuda_mismatch"),
        ("InternalError: Blas xGEMM launch failed : a.shape=[1,100,784]", "resource.gpu_oom"),
        (
            "ResourceExhaustedError: SameWorkerRecvDone unable to allocate output tensor. Key: /job:x",
            "resource.gpu_oom",
        ),
        ("InvalidArgumentError: var and delta do not have the same shape[10,20] [10,30]", "data.shape_mismatch"),
        (
            (
                "InvalidArgumentError: TypeError: `generator` yielded an element of shape (3,) where an "
                "element of shape (4,) was expected."
            ),
            "data.shape_mismatch",
        ),
        (
            "InvalidArgumentError: Shape mismatch: The shape of labels (received (64,)) should equal the "
            "shape of logits except "
            "for the last dimension (received (32, 10)).",
            "data.shape_mismatch",
        ),
        ("AbortedError: Graph handle is not found: 0000000000000001", "worker.restarted_or_incarnation_mismatch"),
        (
            "AlreadyExistsError: Resource __per_step_19/gradients/while/f_count/tmp_var/N10tensorflow",
            "framework.bug_segfault",
        ),
        ("FailedPreconditionError: /nfs/ckpt/workertemp_1; Directory not empty", "sync.race_on_shared_state"),
        (
            "InvalidArgumentError: Trying to access resource w located in device "
            "/job:worker/replica:0/task:0/device:CPU:0 from "
            "device /job:worker/replica:0/task:1/device:CPU:0",
            "sync.variable_outside_strategy_scope",
        ),
        ("UnavailableError: Connect Failed", "network.unreachable_or_firewall"),
        ("UnavailableError: Transport closed", "network.connection_reset_peer_died"),
    ],
)
def test_an_exception_of_the_runtime_names_its_cause(tmp_path: Path, line: str, cause: str) -> None:
    text = f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n{_IMPL}{line}\n'
    assert findings(tmp_path, text)[0].cause.value == cause


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("RuntimeError: Must not nest tf.distribute.Strategy scopes.", "sync.variable_outside_strategy_scope"),
        (
            "ValueError: MultiWorkerMirroredStrategy cannot be deep copied in eager mode.",
            "framework.unsupported_combination",
        ),
        ("ValueError: Must specify an explicit `task_index`.", "config.cluster_spec"),
        ("RuntimeError: Requested 4 tasks but only 2 were assigned.", "config.world_size_mismatch"),
        (
            (
                "ValueError: The batch size (5) could not be sharded evenly across the sync replicas (4) in "
                "the distribution strategy."
            ),
            "data.batch_not_divisible",
        ),
    ],
)
def test_an_exception_of_a_strategy_names_its_cause(tmp_path: Path, line: str, cause: str) -> None:
    text = f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n{line}\n'
    assert findings(tmp_path, text)[0].cause.value == cause


def test_a_worker_that_waits_for_the_variables_waits_for_the_chief(tmp_path: Path) -> None:
    found = findings(tmp_path, "INFO:tensorflow:Graph was finalized.\n" + _WAITS * 3)[0]
    assert (found.rule, found.cause.value) == ("SYN059", "sync.deadlock_or_hang_waiting_rank")


def test_sessions_opened_again_and_again_are_a_wait_for_the_chief(tmp_path: Path) -> None:
    found = findings(tmp_path, "".join(_OPENS.format(n, n) for n in range(4)))[0]
    assert found.rule == "SYN059"


def test_a_session_that_then_trains_is_no_wait(tmp_path: Path) -> None:
    steps = "".join(f"INFO:tensorflow:loss = 0.{n}, step = {n}00 (1.0 sec)\n" for n in range(1, 5))
    assert findings(tmp_path, _OPENS.format(1, 1) + _WAITS + _OPENS.format(2, 2) + steps) == ()

# SPDX-License-Identifier: Apache-2.0
"""What errors of TensorFlow, XLA and JAX suggest when no signature matches; and stacks whose top was cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.facts.process import ExceptionRaised, NativeAbort
from keepstep.model.finding import Confidence, Severity
from keepstep.rules.last_resort.naming import named_by, words_of, words_of_abort


def findings(folder: Path, text: str):
    (folder / "rank0.log").write_text(text)
    return explain_paths([folder]).report.findings


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "Cannot assign a device for operation mul: Operation was explicitly assigned to /job:ps/task:4",
            "config.cluster_spec",
        ),
        ("Insufficient devices for this mesh: found 1, expected 8", "config.world_size_mismatch"),
        (
            (
                "'FooDatasetV9' is neither a type of a primitive operation nor a name of a function registered "
                "in binary running"
            ),
            "env.version_mismatch_between_nodes",
        ),
        ("failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED", "resource.gpu_oom"),
        ("slurmstepd: error: Job 8518 exceeded memory limit (626359956 > 512000000)", "resource.host_oom_killed"),
        ("array axis 3 is partitioned 8 times, but its size is 12", "data.batch_not_divisible"),
        ("NotFoundError: /train/model.ckpt-0_temp_5f/part-00000-of-00002.index", "checkpoint.corrupt_or_missing"),
        ("Tile must be a compile-time constant here", "framework.unsupported_combination"),
        ("the input was found to have a mean of 4", None),
        ("Classification scores must be a float32 Tensor; got 3", None),
        ("None values not supported.", None),
        ("worker 3 reached step 100", None),
    ],
)
def test_the_words_of_a_failure_name_its_cause(said, cause):
    named = named_by([(1.0, said)])
    assert (named.cause.value if named else None) == cause


def test_names_of_functions_in_a_native_stack_are_not_words_of_the_failure():
    message = (
        "Check failed: it did not answer\n*** Begin stack trace ***\n"
        "\ttensorflow::CurrentStackTrace[abi:cxx11]()\n\tundefined symbol"
    )
    assert "stack" not in words_of(ExceptionRaised(type="RuntimeError", message=message))[1]
    assert "undefined" not in words_of_abort(NativeAbort(what=message))[1]


def test_attributes_of_a_graphs_nodes_are_not_words_of_the_failure():
    said = 'it broke\n [[Node: dense/mul = Mul[T=DT_FLOAT, _class=["missing key"], _device="/job:ps"](a, b)]]'
    assert named_by([(1.0, said)]) is None


def test_what_a_process_said_when_it_ended_itself_is_weighed(tmp_path):
    text = (
        "terminate called after throwing an instance of 'acme::Error'\n"
        "  what():  Address already in use: the port of the ring is taken\n*** Received signal 6 ***\n"
    )
    assert findings(tmp_path, text)[0].cause.value == "network.port_in_use"


STACK = "".join(f"    @     0x7fa3d080{n}ec6 brpc_{n}::print()\n" for n in range(5))
MPI = "".join(f"[node-04:79058] [ {n}] /opt/lib/libmpi.so.40(ompi_coll_{n}+0x30b)[0x7f5dde571d9b]\n" for n in range(5))


@pytest.mark.parametrize("stack", [STACK, MPI])
def test_a_log_that_ends_in_a_native_stack_is_of_a_crash(tmp_path, stack):
    found = findings(tmp_path, "step 1 loss 0.4\n" + stack)
    assert [(f.cause.value, f.confidence) for f in found[:1]] == [("framework.bug_segfault", Confidence.HYPOTHESIS)]


def test_two_quoted_frames_are_no_stack(tmp_path):
    assert findings(tmp_path, "".join(STACK.splitlines(keepends=True)[:2]) + "step 2 loss 0.3\n") == ()


def test_a_loss_that_is_nan_in_the_last_reading_is_told_as_a_guess(tmp_path):
    found = findings(tmp_path, "epoch 1 step 50, lr: 0.1, loss: nan, loss (avg): nan\n")
    assert [(f.cause.value, f.severity, f.confidence) for f in found] == [
        ("numeric.nan_or_divergence", Severity.WARNING, Confidence.HYPOTHESIS)
    ]


@pytest.mark.parametrize("text", ["step 1 loss nan\nstep 2 loss 0.5\n", "epoch 0 step 0, loss: nan\n"])
def test_a_loss_that_is_nan_before_the_first_step_or_passes_is_not_told(tmp_path, text):
    assert findings(tmp_path, text) == ()


CHANNELS = (
    "2020-05-08 11:58:12.1: I tensorflow/core/distributed_runtime/rpc/grpc_channel.cc:300] Initialize "
    "GrpcChannelCache for job"
)
STARTED = (
    "2020-05-08 11:58:12.1: I tensorflow/core/distributed_runtime/rpc/grpc_server_lib.cc:390] Started server "
    "with target: grpc://localhost:8888\n"
)


@pytest.mark.parametrize(
    "text",
    [
        f"{CHANNELS} worker -> {{0 -> localhost:8888, 1 -> node8:8888}}\n{STARTED}",
        "INFO:tensorflow:Waiting for the cluster, timeout = inf\n",
        "INFO:2024-01-01 10:00:00,1:jax._src.distributed:119: Connecting to JAX distributed service on 10.0.0.1:1234\n",
        (
            "Epoch 1/500\nINFO:tensorflow:Collective all_reduce tensors: 6 all_reduces, num_devices = 1, "
            "group_size = 2, num_packs = 1\n"
        ),
        "box:15421:15488 [0] INFO Launch mode Parallel\n",
    ],
)
def test_a_log_that_ends_where_workers_wait_for_each_other_is_told_as_a_guess(tmp_path, text):
    found = findings(tmp_path, text)
    assert [(f.cause.value, f.confidence) for f in found] == [
        ("sync.deadlock_or_hang_waiting_rank", Confidence.HYPOTHESIS)
    ]


@pytest.mark.parametrize(
    "text",
    [
        (
            f"{CHANNELS} ps -> {{0 -> localhost:8888}}\n{CHANNELS} worker -> "
            f"{{0 -> node7:8888, 1 -> node8:8888}}\n{STARTED}"
        ),
        f"{CHANNELS} worker -> {{0 -> localhost:8888, 1 -> node8:8888}}\n{STARTED}step 1 loss 0.4\n",
        (
            "INFO:tensorflow:Collective all_reduce tensors: 6 all_reduces, num_devices = 1, group_size = 1, "
            "num_packs = 1\n"
        ),
    ],
)
def test_a_server_that_only_serves_and_a_worker_that_went_on_are_well(tmp_path, text):
    assert findings(tmp_path, text) == ()

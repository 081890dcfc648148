# SPDX-License-Identifier: Apache-2.0
"""One cause, as the frameworks word it: the last words of a program, and what they are a sign of."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths

RAISED = 'Traceback (most recent call last):\n  File "/ws/train.py", line 71, in <module>\n    main()\n'
TF = "tensorflow.python.framework.errors_impl."

SAID = {
    "data.shape_mismatch": (
        "ValueError: Cannot reshape a tensor with 12288 elements to shape [16,32,32,3] (49152 elements)",
        TF + "InvalidArgumentError: logits and labels must be same size: logits_size=[128,10] labels_size=[128,1]",
        TF + "InvalidArgumentError: required broadcastable shapes [Op:Mul]",
        TF
        + (
            "InvalidArgumentError: TensorArray has inconsistent shapes.  Index 0 has shape: [2,3] but index 1 "
            "has shape: [3,3]"
        ),
        TF + "InvalidArgumentError: Shapes of all inputs must match: values[0].shape = [4] != values[1].shape = [3]",
        "ValueError: The two structures don't have the same nested structure.",
        "RuntimeError: Tensors must have same number of dimensions: got 3 and 4",
        "RuntimeError: Gather got an input of invalid size: got [2, 5], but expected [2, 7]",
        "ValueError: expected sequence of length 128 at dim 1 (got 97)",
        "ValueError: Input tensor shapes do not match for distributed tensor inputs PerReplica:{0: a, 1: b}",
        "ValueError: `logits` and `labels` must have the same shape, received ((None, 1) vs (None, 10)).",
        (
            "RuntimeError: Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [1, "
            "1, 3, 224, 224]"
        ),
    ),
    "data.batch_not_divisible": (
        "InvalidArgumentError (see above for traceback): Reshape cannot infer the missing input size for "
        "an empty tensor "
        "unless all specified input sizes are non-zero",
        "F tensorflow/stream_executor/cuda/cuda_dnn.cc:444] could not convert BatchDescriptor {count: 0 "
        "feature_map_count: 64 "
        "spatial: 112 112 } to cudnn tensor descriptor: CUDNN_STATUS_BAD_PARAM",
    ),
    "data.sharding_uneven_or_empty": (
        "ValueError: you need to add an explicit nodesplitter to your input pipeline for multi-node training",
        "ValueError: Asked to retrieve element 0, but the Sequence has length 0",
    ),
    "data.dtype_mismatch": (
        TF + "InvalidArgumentError: TensorArray dtype is float but Op is trying to write dtype half.",
        "TypeError: Expected int32, got 1.0 of type 'float' instead.",
        "ValueError: Incompatible type conversion requested to type 'float16' for variable of type 'float32'",
        "TypeError: `x` and `y` must have the same dtype, got tf.float32 != tf.int64",
        (
            "TypeError: Tensors in list passed to 'values' of 'ConcatV2' Op have types [float16, float32] that "
            "don't all match."
        ),
        TF
        + "InvalidArgumentError: Inconsistent values for attr 'T' DT_FLOAT vs. DT_HALF while building NodeDef 'x/AddN'",
        "TypeError: body_fun output and input must have identical types, got",
        "RuntimeError: Input type (float) and bias type (c10::Half) should be the same",
        "ValueError: Must flatten tensors with the same dtype but got torch.float16 and torch.float32",
        "ValueError: Attempting to unscale FP16 gradients.",
        (
            "InvalidArgumentError: Value for attr 'dtype' of bfloat16 is not in the list of allowed values: "
            "uint8, int32, half"
        ),
        (
            "RuntimeError: Internal: Seen floating point types of different precisions in %add.12, but mixed "
            "precision is disallowed."
        ),
        "ValueError: Failed to convert a NumPy array to a Tensor (Unsupported object type list).",
    ),
    "data.corrupt_or_truncated": (
        TF + "InvalidArgumentError: Input size should match (header_size + row_size * abs_height) but they differ by 2",
        TF + "InvalidArgumentError: Header mismatch: Expected RIFF but found ID3",
        TF + "InvalidArgumentError: Input is empty. [Op:DecodeImage]",
        "ValueError: cannot mmap an empty file",
        "RuntimeError: Error opening '/data/a.wav': File contains data in an unknown format.",
    ),
    "data.out_of_range_end_of_sequence": (
        TF + "CancelledError: 2 root error(s) found.\n  (0) Cancelled:  Operation was cancelled\n"
        "  (1) Out of range:  End of sequence\n\t [[{{node IteratorGetNext}}]]",
        TF + "UnavailableError: 2 root error(s) found.\n  (0) Unavailable: x\n"
        "  (1) Out of range: {{function_node __inference_train_function_1}} End of sequence",
    ),
    "data.label_out_of_range": (
        TF + "InvalidArgumentError: assertion failed: [Label IDs must < n_classes] [Condition x < y did not hold]",
        TF + "InvalidArgumentError: Saw a non-null label (index >= num_classes - 1) following a null label, batch: 0",
        "RuntimeError: index out of range: Tried to access index 30522 out of table with 30521 rows.",
    ),
    "data.loader_worker_killed": (
        "RuntimeError: DataLoader worker (pid 1817) is killed by signal: Killed.",
        "RuntimeError: DataLoader worker (pid 1817) is killed by signal: Terminated.",
        (
            "RuntimeError: DataLoader worker exited unexpectedly with exit code 1. Details are lost due to "
            "multiprocessing."
        ),
    ),
    "sync.collective_mismatch": (
        TF + "InternalError: Collective Op CollectiveReduceV2: ReduceV2(Add,Id) is assigned to device "
        "/device:GPU:0 with type "
        "GPU and group_key 1 but that group has type DEFAULT",
        (
            "ValueError: Duplicate tensor name grads_0; If you want to request another tensor, use a different "
            "tensor name."
        ),
        "XlaRuntimeError: UNKNOWN: An unexpected peer shows up in the launch group with a different launch id than the "
        "current group leader.",
    ),
    "sync.variable_outside_strategy_scope": (
        (
            "ValueError: `handle` is not available outside the replica context or a "
            "`tf.distribute.Strategy.update()` call."
        ),
        "RuntimeError: `add_update` was called in a cross-replica context. This is not expected.",
        "RuntimeError: Use DistributionStrategy.update() to modify a MirroredVariable.",
        "RuntimeError: apply_gradients() cannot be called in cross-replica context. Use `tf.distribute.Strategy.run`",
        TF + "InvalidArgumentError: Trying to access resource dense/kernel located in device "
        "/job:localhost/replica:0/task:0/device:CPU:0 from device /job:worker/replica:0/task:0/device:TPU:0",
    ),
    "sync.multiple_threads_or_fork": (
        "RuntimeError: context has already been set",
        TF + "InternalError: CUDA runtime implicit initialization on GPU:0 failed. Status: initialization error",
        "lmdb.BadRslotError: mdb_txn_begin: MDB_BAD_RSLOT: Invalid reuse of reader locktable slot",
        "RuntimeError:\n        An attempt has been made to start a new process before the\n        "
        "current process has "
        "finished its bootstrapping phase.",
    ),
    "sync.unused_parameters": (
        "ValueError: No gradients provided for any variable: ['dense/kernel:0', 'dense/bias:0'].",
        (
            "AssertionError: DistributedDataParallel is not needed when a module doesn't have any parameters "
            "that require a gradient."
        ),
    ),
    "sync.replica_desync": (
        (
            "RuntimeError: replicas[0][0] in this process with sizes [12, 6] appears not to match sizes of the "
            "same param in process 0."
        ),
        "RuntimeError: [1]: params[3] in this process with strides [1152, 1] appears not to match strides "
        "of the same param in "
        "process 0.",
        "AssertionError: checkpoint step. Expected: 1200; got: 1100.",
        "RuntimeError: model weights differ between ranks, max difference 0.4",
    ),
    "sync.race_on_shared_state": (
        "FileNotFoundError: [Errno 2] No such file or directory: 'out/tmp-checkpoint-500' -> 'out/checkpoint-500'",
        TF + "NotFoundError: ./model/variables/variables_temp/part-00000-of-00001.index; No such file or directory",
        "shutil.Error: Destination path './data/x' already exists",
        "FileExistsError: [Errno 17] File exists: '/root/.cache/huggingface/datasets/text/default/0.0.0.incomplete'",
    ),
}


@pytest.mark.parametrize(("cause", "words"), [(cause, words) for cause, all in SAID.items() for words in all])
def test_last_words_are_known_for_what_they_are(tmp_path: Path, cause: str, words: str) -> None:
    (tmp_path / "run.log").write_text(RAISED + words + "\n")
    assert explain_paths([tmp_path]).report.findings[0].cause.value == cause


@pytest.mark.parametrize(
    "words",
    [
        (
            "UserWarning: Using a target size (torch.Size([64])) that is different to the input size "
            "(torch.Size([64, 1]))."
        ),
        'involving a call to the "fork()" system call to create a child process. Open MPI is currently operating',
        "INFO checking that parameters are the same across ranks: 0 mismatched between ranks",
        "2024-01-01 00:00:00.1: W tensorflow/core/framework/local_rendezvous.cc:404] Out of range: End of sequence",
    ],
)
def test_the_same_words_in_passing_are_no_finding(tmp_path: Path, words: str) -> None:
    (tmp_path / "run.log").write_text(f"epoch 1 step 10/100 loss 1.1\n{words}\nepoch 1 step 20/100 loss 1.0\n")
    assert explain_paths([tmp_path]).report.findings == ()


def test_a_folder_made_by_all_ranks_at_once_is_a_race(tmp_path: Path) -> None:
    words = "    os.mkdir(folder)\nFileExistsError: [Errno 17] File exists: './outputs'\n"
    (tmp_path / "run.log").write_text(RAISED + words)
    assert explain_paths([tmp_path]).report.findings[0].cause.value == "sync.race_on_shared_state"


def test_a_fork_that_was_warned_of_before_an_interrupted_wait_is_suspected(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(
        "RuntimeWarning: os.fork() was called. os.fork() is incompatible with multithreaded code, and JAX "
        "is multithreaded\n"
        'Traceback (most recent call last):\n  File "/ws/train.py", line 9, in <module>\n    for batch in loader:\n'
        '  File "/usr/lib/python3.11/threading.py", line 331, in wait\n    gotit = waiter.acquire(True, timeout)\n'
        "KeyboardInterrupt\n"
    )
    found = explain_paths([tmp_path]).report.findings[0]
    assert (found.cause.value, found.confidence.value) == ("sync.multiple_threads_or_fork", "hypothesis")


def test_a_stall_list_that_begins_in_its_middle_names_the_missing_rank(tmp_path: Path) -> None:
    line = (
        "[1,0]<stderr>:[2019-04-13 13:53:31.85: W horovod/common/operations.cc:588] HorovodBroadcast_{}_0 "
        "[missing ranks: 1]\n"
    )
    (tmp_path / "run.log").write_text(line.format("bias") + line.format("kernel"))
    found = explain_paths([tmp_path]).report.findings[0]
    assert (found.cause.value, found.ranks) == ("sync.deadlock_or_hang_waiting_rank", (1,))


def test_one_file_fetched_by_two_ranks_and_found_damaged_is_a_race(tmp_path: Path) -> None:
    fetch = "Downloading https://example.org/mnist.gz to ./data/mnist.gz\n"
    (tmp_path / "run.log").write_text(
        fetch * 2 + RAISED + "EOFError: Compressed file ended before the end-of-stream marker was reached\n"
    )
    assert explain_paths([tmp_path]).report.findings[0].cause.value == "sync.race_on_shared_state"


def test_one_file_fetched_once_and_found_damaged_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(
        "Downloading https://example.org/mnist.gz to ./data/mnist.gz\n"
        + RAISED
        + "EOFError: Compressed file ended before the end-of-stream marker was reached\n"
    )
    assert explain_paths([tmp_path]).report.findings[0].cause.value == "data.corrupt_or_truncated"


def test_a_crash_after_a_fork_that_open_mpi_warned_of_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(
        'A process has executed an operation involving a call to the\n"fork()" system call to create a '
        "child process.  Open "
        "MPI is currently\noperating in a condition that could result in memory corruption\n"
        "[gpu75:21199] *** Process received signal ***\n[gpu75:21199] Signal: Segmentation fault (11)\n"
    )
    assert explain_paths([tmp_path]).report.findings[0].cause.value == "sync.multiple_threads_or_fork"

# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that cannot be read, or are of another model."""

from __future__ import annotations

import pytest

from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable, SlowStorage
from keepstep.parse.tools.programs import checkpoints as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: [enforce fail at inline_container.cc:144] . PytorchStreamReader failed reading zip archive: not a ZIP archive",
        "RuntimeError: unexpected EOF, expected 3302200 more bytes. The file might be corrupted.",
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        "_pickle.UnpicklingError: invalid load key, 'v'.",
        "Not found: Unsuccessful TensorSliceReader constructor: Failed to find any matching files for /tmp/t/model.ckpt-2088",
        "Data loss: Unable to open table file ./model.ckpt: Data loss: not an sstable (bad magic number)",
        "NotFoundError: /train_dir/model.ckpt-0_temp_5fcd97c881a7428db8eded829b964618/part-00000-of-00002.index",
        "FileNotFoundError: [Errno 2] No such file or directory: '/out/checkpoint-500/optimizer.pt'",
        "FileNotFoundError: Checkpoint at lightning_logs/last.ckpt not found. Aborting training.",
        "FileNotFoundError: [Errno 2] No such file or directory: '/m/.metadata'",
    ],
)
def test_an_unreadable_checkpoint_is_read(text):
    assert one(text, CheckpointUnreadable)


def test_the_path_is_read():
    text = "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for /tmp/t/model.ckpt-2088"
    assert one(text, CheckpointUnreadable).path == "/tmp/t/model.ckpt-2088"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Error(s) in loading state_dict for DistributedDataParallel:",
        "size mismatch for module.fc.weight: copying a param with shape torch.Size([10]) from checkpoint",
        "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
        "NotFoundError: Key v3/conv84/moving_variance not found in checkpoint",
        'NotFoundError: Tensor name "dense/kernel" not found in checkpoint files ./m',
        "Assign requires shapes of both tensors to match. lhs shape= [1024,90] rhs shape= [1024,91]",
        "ValueError: Layer count mismatch when loading weights from file. Model expected 3 layers, found 2 saved layers.",
        "ValueError: A total of 2 objects could not be loaded. Example error message for object <Dense>:",
        "ValueError: Size mismatch between saved torch.Size([257152, 2048]) and current: torch.Size([131661824]) for w",
        "RuntimeError: Missing key in checkpoint state_dict: model.embed.weight.",
        "ValueError: User-provided restore item and on-disk value metadata tree structures do not match: {}",
        "ValueError: /run/last.npz: w1 has shape (16, 48), the model wants (16, 32)",
    ],
)
def test_a_checkpoint_of_another_model_is_read(text):
    assert one(text, CheckpointMismatch)


def test_slow_storage_is_read():
    assert one("nfs: server fs1 not responding, still trying", SlowStorage).detail == "fs1"


@pytest.mark.parametrize(
    "text",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.json'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/dataset/images/0001.png'",
        "No checkpoint found at './out', training from scratch",
        "INFO:tensorflow:Restoring parameters from /tmp/model.ckpt-0",
        "WARNING:tensorflow:Value in checkpoint could not be found in the restored object: (root).optimizer.iter",
        "ValueError: Dimensions must be equal, but are 3 and 4",
    ],
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "FileNotFoundError: No steps found in gs://b/run.",
        "ValueError: No checkpoints found in gs://b/x.",
        "ValueError: Path is not a valid T5X checkpoint: /x",
        "FileNotFoundError: Requested directory for restore does not exist at gs://x",
        "FileNotFoundError: Metadata file (named _METADATA) does not exist at gs://x.",
        "ValueError: Save failed: 3/120 params are missing in checkpoint:",
        "Unsuccessful TensorSliceReader constructor: Failed to get matching files on ./x: Not found: ./x",
        "HTTP response code 404 with body 'Not Found' when reading metadata of gs://bucket/checkpoints/tmp20000",
    ],
)
def test_what_orbax_t5x_and_buckets_miss_is_read(text):
    assert one(text, CheckpointUnreadable)


def test_an_object_of_a_bucket_that_is_no_checkpoint_says_nothing():
    assert facts("HTTP response code 404 with body 'Not Found' when reading metadata of gs://bucket/images/a.jpg") == []


@pytest.mark.parametrize(
    "text",
    [
        "The checkpoint was saved with a different topology than the current one. Please provide a target",
        "The field names of the state dict and the named tuple do not match, got {'0'} and {'count'} at path",
        "Shape of `target.embedding` in checkpoint (32128, 512) does not match expected (32000, 512).",
        'For parameter "kernel" in "/Dense_0", the given initializer is expected to generate shape (3, 3), but',
        "Sharding passed to deserialization should be specified, concrete and an instance of `jax.sharding.Sharding`.",
        "ValueError: Checkpoint contains 12 layers but model has 24 layers",
    ],
)
def test_what_does_not_fit_a_jax_model_is_read(text):
    assert one(text, CheckpointMismatch)


def test_a_commit_that_takes_too_long_is_slow_storage():
    assert one("TimeoutError: Timed out while waiting for async_commit_complete barrier.", SlowStorage)


@pytest.mark.parametrize(
    "text",
    [
        "I0101 checkpoint_manager.py:700] No steps found in gs://b/run; starting from scratch.",
        "Found no checkpoint files in /tmp/run with prefix checkpoint_",
    ],
)
def test_a_start_from_scratch_says_nothing(text):
    assert facts(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: [deepspeed] failed to resume from checkpoint /data/run7",
        "ValueError: Can't find a valid checkpoint at output/checkpoint-500",
    ],
)
def test_a_checkpoint_to_resume_from_that_is_not_there_is_read(text):
    assert one(text, CheckpointUnreadable)


def test_objects_that_no_checkpoint_bound_are_a_mismatch():
    text = "AssertionError: Found 106 Python objects that were not bound to checkpointed values, likely due to changes"
    assert one(text, CheckpointMismatch)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: /c/epoch3.pt is a zip archive (did you mean to use torch.jit.load()?)",
        "RuntimeError: Invalid protocol version: 95",
    ],
)
def test_a_format_that_this_torch_does_not_know(text, read, holds):
    assert holds(read(table, text), CheckpointUnreadable)


@pytest.mark.parametrize(
    ("why", "told"),
    [("No such file or directory", True), ("Too many open files", False), ("No space left on device", False)],
)
def test_a_limit_of_the_machine_is_no_fault_of_the_checkpoint(why, told, read, holds):
    text = f'ValueError: Error opening "zarr" driver: Error writing local file "/c/500.tmp/w/.zarray": Failed to open [OS error: {why}]'
    assert holds(read(table, text), CheckpointUnreadable) == told


def test_tensors_of_a_device_that_is_not_here_are_read(read, holds):
    text = (
        "Exception in device=TPU:3: don't know how to restore data location of torch.FloatStorage (tagged with xla:0)"
    )
    assert holds(read(table, text), CheckpointUnreadable)

# SPDX-License-Identifier: Apache-2.0
"""What the libraries of training refuse in seldom seen words, as their sources raise it."""

from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import ClusterSpecInvalid, NotScheduled, RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible, CorruptData, DtypeMismatch, UnevenShards
from keepstep.core.facts.environment import CudaMismatch, LibraryMissing, UnsupportedCombination
from keepstep.core.facts.network import ConnectFailed, PeerLost, PortTaken
from keepstep.core.facts.resource import DeviceMemoryExhausted, SharedMemoryExhausted
from keepstep.core.facts.sync import CollectiveMismatch, CollectiveTimeout, ForkOrThread, RanksMissing, ReplicasDiffer
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.tools.trainers import training_libraries
from tests.parse.reading import reader

read = reader(training_libraries)

REFUSALS: list[tuple[type[Fact], str]] = [
    (
        PortTaken,
        "ConnectionError: Tried to launch distributed communication on port `29500`, but another process is utilizing it.",
    ),
    (PortTaken, "ValueError: Failed to bind to 127.0.0.1:8265 because it's already occupied. You can use `ray start`"),
    (PortTaken, "worker_pool.cc:1: No available ports. Please specify a wider port range using --min-worker-port"),
    (
        PeerLost,
        "node_manager.cc:171: GCS consider this node to be dead. This may happen when GCS is not backed by a DB",
    ),
    (SharedMemoryExhausted, "Failed to put object 00ff in object store because it is full. Object size is 2000 bytes."),
    (DeviceMemoryExhausted, "RuntimeError: No executable batch size found, reached zero."),
    (
        DeviceMemoryExhausted,
        "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the model.",
    ),
    (
        CudaMismatch,
        "RuntimeError: There are currently no available devices found, must be one of 'XPU', 'CUDA' or 'NPU'.",
    ),
    (CudaMismatch, "RuntimeError: No GPU found. A GPU is needed for quantization."),
    (CudaMismatch, "ValueError: fp16 mixed precision requires a GPU (not 'cpu')."),
    (CudaMismatch, 'ValueError: cuda:2 is not available, you should use device="cpu" instead'),
    (
        CudaMismatch,
        "MisconfigurationException: `CUDAAccelerator` can not run on your system since the accelerator is not available.",
    ),
    (
        CheckpointMismatch,
        'ValueError: Trying to set a tensor of shape torch.Size([0]) in "weight" (which has shape torch.Size([32001, 4096])), this look incorrect.',
    ),
    (
        CheckpointMismatch,
        "KeyError: \"Parameter 'a.weight' found in sharded model state dict but missing from full state dict.\"",
    ),
    (
        CheckpointMismatch,
        "KeyError: \"The requested state contains a key 'optim' that does not exist in the loaded checkpoint.\"",
    ),
    (
        CheckpointMismatch,
        "RuntimeError: ZeRO-3 model/optimizer tp_degree or dp_degree mismatch: model=(1,8), optim=(1,4)",
    ),
    (CheckpointMismatch, "AssertionError: Wrong state_dict format, cannot find 'param_state'"),
    (CheckpointUnreadable, "ValueError: Tried to load from /data/ckpt/fsdp_0 but couldn't find a valid metadata file."),
    (
        CheckpointUnreadable,
        "OSError: The safetensors archive passed at /data/m.safetensors does not contain the valid metadata.",
    ),
    (
        CheckpointUnreadable,
        "ValueError: /data/llama is not a folder containing a `.index.json` file or a pytorch_model.bin file",
    ),
    (
        CheckpointUnreadable,
        "OSError: /data/llama-7b does not appear to have a file named config.json. Checkout 'https://x'",
    ),
    (
        CheckpointUnreadable,
        "OSError: out/checkpoint-5 is not a local folder and is not a valid model identifier listed on 'https://x'",
    ),
    (
        CheckpointUnreadable,
        "OSError: It looks like the config file at '/data/llama/config.json' is not a valid JSON file.",
    ),
    (
        CheckpointUnreadable,
        "OSError: Consistency check failed: file should be of size 9942981696 but has size 3423 (model.bin).",
    ),
    (CheckpointUnreadable, "FileNotFoundError: The provided path is not a valid DeepSpeed checkpoint: /data/last.ckpt"),
    (CheckpointUnreadable, "AssertionError: error parsing metadata file /data/run1/latest_checkpointed_iteration.txt"),
    (CheckpointUnreadable, "NotImplementedError: unknown checkpoint format in /data/run1/iter_0000100"),
    (CorruptData, "AssertionError: bad header, cannot read: /data/corpus.idx"),
    (
        CorruptData,
        "AssertionError: Index file doesn't match expected format. Make sure that --dataset-impl is configured properly.",
    ),
    (UnevenShards, "ValueError: Cannot find the batch size from empty list."),
    (
        UnevenShards,
        "RuntimeError: cyclic_iter: iterable produced no data. This may indicate the validation dataloader is empty",
    ),
    (BatchNotDivisible, "AssertionError: number of microbatches should be at least 1, got 0."),
    (BatchNotDivisible, "AssertionError: Micro batch size per gpu: 0 has to be greater than 0"),
    (RankVariableMissing, "ValueError: Could not find job id in environment variable LSB_JOBID"),
    (RankVariableMissing, "ValueError: Using fsdp only works in distributed training."),
    (
        RankVariableMissing,
        "OSError: We tried to initialize torch.distributed for you, but it failed. Make sure you init torch distributed",
    ),
    (RankVariableMissing, "AssertionError: Could not find rank and world size in env"),
    (WorldSizeConflict, "RuntimeError: Each actor should correspond to one rank. Got '3' ranks but '4' actors"),
    (WorldSizeConflict, "IndexError: too few ranks to hold given partitions (ranks: 2, partitions: 4)"),
    (
        WorldSizeConflict,
        "ValueError: autoep_size=16 exceeds num_experts=8 in layer 'mlp'. Each rank must own at least one expert.",
    ),
    (ClusterSpecInvalid, "RuntimeError: CUDA_VISIBLE_DEVICES set incorrectly. Got 0,1, expected to include 3."),
    (ClusterSpecInvalid, "RuntimeError: Unable to set up cluster storage with the following settings:"),
    (ClusterSpecInvalid, "ValueError: Unable to parse port number from abc (full address = 10.0.0.1:abc)"),
    (ReplicasDiffer, "AssertionError: [rank=3] The checkpoint tag name 'step100' is not consistent across all ranks."),
    (ReplicasDiffer, "AssertionError: Data inconsistency within the TP group. Please check the Dataloader"),
    (
        CollectiveMismatch,
        "RuntimeError: Some workers returned results while others didn't. Make sure that `session.report()` are called the same number of times",
    ),
    (CollectiveTimeout, "RuntimeError: Gossip flag timeout"),
    (DtypeMismatch, "RuntimeError: Tensors must have identical dtype. Got: 'torch.float16'."),
    (
        RanksMissing,
        "RuntimeError: Unable to meet other processes at the rendezvous store. If you are using P2P communication, please",
    ),
    (PeerLost, "All copies of 00ffff have been lost due to node failure. Check cluster logs"),
    (ConnectFailed, "RuntimeError: Failed to start GCS. Last connection error: x"),
    (NotScheduled, "TimeoutError: Failed to reserve TPU head for slice with shape: 4x4 after 60 seconds."),
    (
        ForkOrThread,
        "ValueError: To train on TPU in Colab or Kaggle Kernel, the `Accelerator` should only be initialized inside your training function.",
    ),
    (
        LibraryMissing,
        "RuntimeError: called with the custom CUDA extension fused_weight_gradient_mlp_cuda module is not found.",
    ),
    (
        UnsupportedCombination,
        "RuntimeError: Using sequence parallelism requires setting the environment variable CUDA_DEVICE_MAX_CONNECTIONS to 1",
    ),
    (
        UnsupportedCombination,
        "AssertionError: CPUAdam param is on cuda:0 and must be 'cpu', make sure you enabled 'offload_optimizer'",
    ),
    (
        UnsupportedCombination,
        'ZeRORuntimeException: You are using an untested ZeRO Optimizer. Please add <"zero_allow_untested_optimizer": true>',
    ),
    (
        UnsupportedCombination,
        "ValueError: You cannot perform fine-tuning on purely quantized models. Please attach trainable adapters",
    ),
]


@pytest.mark.parametrize(("kind", "text"), REFUSALS)
def test_a_refusal_tells_its_subject(kind: type[Fact], text: str) -> None:
    assert [type(fact) for fact in read(text)] == [kind]


def test_the_port_is_kept() -> None:
    (fact,) = read(
        "ConnectionError: Tried to launch distributed communication on port `29500`, but another process is utilizing it."
    )
    assert isinstance(fact, PortTaken) and fact.port == 29500


OTHERS = [
    "INFO: Micro batch size per gpu: 4",
    "the environment variable LSB_QUEUE is normal",
    "WARNING: No GPU found, training on the CPU",
    "Some parameters are on the meta device because they were offloaded to the cpu.",
    "UserWarning: You are using an untested ZeRO Optimizer. Proceed with caution.",
    "Loading checkpoint from /data/run1/iter_0000100",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_words_say_nothing(text: str) -> None:
    assert read(text) == []

# SPDX-License-Identifier: Apache-2.0
"""What the cores of the frameworks refuse, by what they say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, DuplicateMember, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible, DtypeMismatch, EndOfData, ShapeMismatch, UnevenShards
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.core.facts.network import PeerLost, RdmaTrouble
from keepstep.core.facts.platform import PeerAccessFault, TpuInitFailed
from keepstep.core.facts.sync import (
    CollectiveMismatch,
    CollectiveTimeout,
    ForkOrThread,
    RanksMissing,
    ReplicasDiffer,
)
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.tools.programs import framework_checks as table


def facts(text: str) -> list[object]:
    return [
        fact
        for each in table.SIGNATURES
        if any(anchor in text for anchor in each.anchors) and (fact := each.read(text)) is not None
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("torch.distributed.DistNetworkError: failed to recv, got 0 bytes", PeerLost),
        ("RuntimeError: No ranks successfully processed in monitoredBarrier.", RanksMissing),
        (
            "DistStoreError: Timed out waiting on barrier on rank 0, for key prefix: agent (world_size=4, missing_ranks=[1, 3], timeout=9)",
            RanksMissing,
        ),
        ("ValueError: Rank 4 at index 0 is out of bounds for group size 4. Valid ranks are", WorldSizeConflict),
        (
            "RuntimeError: FSDP currently requires each rank to have at least the optimizer states needed by rank 0's optimizer",
            ReplicasDiffer,
        ),
        (
            "ValueError: Process Mismatch: Local checkpoint at step 5 belongs to Process 1, but current process is 2.",
            CheckpointMismatch,
        ),
        ("AssertionError: libcudart functions unavailable. It looks like you have a broken build?", CudaMismatch),
        ("[PG 0 Rank 1] First PG on this rank that detected no heartbeat of its watchdog.", CollectiveTimeout),
        ("RuntimeError: [gloo/transport/tcp/pair.cc:811] Pair is not connected (10.0.0.4:1 <--> 10.0.0.5:2)", PeerLost),
        ("RuntimeError: Application timeout caused pair closure", PeerLost),
        ("RuntimeError: [gloo/transport/ibverbs/device.cc:61] No ibverbs devices present", RdmaTrouble),
        ("RuntimeError: short read: got 0 bytes while expecting to read 8 bytes", PeerLost),
        ("ValueError: src_rank=4 on rank: 4 does not match with src_rank=0 on rank: 5", CollectiveMismatch),
        ("ValueError: Node worker1 has devices with invalid indices devices = [9]", WorldSizeConflict),
        (
            "ValueError: If passing reshard_after_forward as an int, it should be a factor of 8, not 3",
            WorldSizeConflict,
        ),
        ("AssertionError: Shard(1) requires even sharding: local_tensor.size()=(3, 4)", WorldSizeConflict),
        (
            "RuntimeError: Attempting to deserialize object on CUDA device 4 but torch.cuda.device_count() is 1.",
            WorldSizeConflict,
        ),
        ("RuntimeError: HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES", ClusterSpecInvalid),
        ("RuntimeError: FSDP needs a non-CPU accelerator device, but no accelerator device is detected.", CudaMismatch),
        (
            "RuntimeError: Unable to handle autograd's threading in combination with fork-based multiprocessing.",
            ForkOrThread,
        ),
        ("RuntimeError: Expected PROTO opcode at the start of pickle archive, found 0", CheckpointUnreadable),
        ("RuntimeError: No files found in zip archive.", CheckpointUnreadable),
        ("AssertionError: FSDP assumes w is in the state_dict but the state_dict only has []", CheckpointMismatch),
        ("AssertionError: Local shard size = 4 and the tensor in the state_dict is 8.", CheckpointMismatch),
        (
            "RuntimeError: w is not in the optimizer state. The FSDPParamInfo has the param keys ['a']",
            CheckpointMismatch,
        ),
        ("ValueError: Couldn't find 'checkpoint' file or checkpoints in given directory /ckpt", CheckpointUnreadable),
        ("AssertionError: Some objects had attributes which were not restored: w", CheckpointMismatch),
        ("AssertionError: Unresolved slot restorations: m", CheckpointMismatch),
        (
            'ValueError: Layer #0 (named "conv" in the current model) was found to correspond to layer a in the save file. '
            "However the new layer conv expects 2 weights, but the saved weights have 1 elements.",
            CheckpointMismatch,
        ),
        (
            "ValueError: The dataset you passed contains 4 batches, but you passed `epochs=10` and `steps_per_epoch=9`, "
            "which is a total of 90 steps. We cannot draw that many steps from this dataset.",
            EndOfData,
        ),
        (
            "ValueError: When passing a Python generator to a Keras model, the generator must yield at least one batch. "
            "Received an empty generator.",
            UnevenShards,
        ),
        ("AssertionError: Got an empty `devices` list and unable to recognize any local devices.", CudaMismatch),
        ("RuntimeError: TPU cores on each device is not the same. This should never happen.", TpuInitFailed),
        (
            "InvalidArgumentError: The master (current machine) is not included in the provided cluster_def.",
            ClusterSpecInvalid,
        ),
        ("InvalidArgumentError: Could not find worker with target: /job:worker/replica:0/task:3", ClusterSpecInvalid),
        (
            "InvalidArgumentError: Unexpected heartbeat request from task: /job:jax_worker/replica:0/task:1. This",
            PeerLost,
        ),
        (
            "InvalidArgumentError: Conflicting tasks specified by different processes for the same barrier: x",
            CollectiveMismatch,
        ),
        (
            "XlaRuntimeError: INVALID_ARGUMENT: Requested logical device count (8) with replica count (8) exceeds the number "
            "of available physical devices on the target (4)",
            WorldSizeConflict,
        ),
        ("XlaRuntimeError: INVALID_ARGUMENT: Requested more replicas than there are devices.", WorldSizeConflict),
        ("XlaRuntimeError: INTERNAL: Unable to enable peer access between GPUs 0 and 1; status: x", PeerAccessFault),
        (
            "ValueError: Number of slices/granules 2 must equal the product of dcn_mesh_shape (4, 1)",
            WorldSizeConflict,
        ),
        (
            "XlaRuntimeError: INVALID_ARGUMENT: Attempted to execute with 4 argument lists when local device count is 8",
            WorldSizeConflict,
        ),
        ("InvalidLayoutError: Failed to interpret path /ckpt as a V1 Orbax checkpoint.", CheckpointUnreadable),
        ("FileNotFoundError: All restore strategies failed for step 100.", CheckpointUnreadable),
        (
            "KeyError: \"Requested checkpointables: {'x'} for loading were not found in the checkpoint.\"",
            CheckpointMismatch,
        ),
        ("ValueError: Directory path mismatch in multi-process save. Process 1 has path '/b'.", ClusterSpecInvalid),
        (
            'ValueError: Unknown field(s) "x" in state dict while restoring an instance of A at path .',
            CheckpointMismatch,
        ),
        ("ValueError: Unable to deserialize sharding.", CheckpointMismatch),
        ("ValueError: process_index 3 does not exist in provided `global_mesh`", WorldSizeConflict),
        (
            "ValueError: Attempted to create a barrier across a subset of processes, but the current process: 1 was not present in",
            CollectiveMismatch,
        ),
        ("AssertionError: Number of device IDs (4) must match the global number of devices (8)", WorldSizeConflict),
        ("ValueError: Given ranks is out of range: World size: 4, ranks: [4]", WorldSizeConflict),
        ("ValueError: num_cores_per_replica must be 1, 2, 4, 8, 16, 32, 64, 128; got 3", WorldSizeConflict),
        (
            "AssertionError: Expecting rank 1 for /c/a.pth but it is ranked 0 (out of 1 files). Please",
            CheckpointUnreadable,
        ),
        ("RuntimeError: mm(): cannot matrix-multiply tensors f32[4,8] and f32[4,8].", ShapeMismatch),
        ("ValueError: Both master and cluster are set.", ClusterSpecInvalid),
        ("ValueError: CrossShardOptimizer must be used for model training on TPUs.", UnsupportedCombination),
        ("RuntimeError: ProcessGroupGloo::broadcast: invalid root rank: 5", WorldSizeConflict),
        (
            "RuntimeError: ProcessGroupGloo::allreduce: invalid tensor type at index 1 (expected float, got double)",
            DtypeMismatch,
        ),
        ("RuntimeError: RPC worker name worker1 is not unique. Workers rank 0 and rank 1 share it", DuplicateMember),
        (
            "RuntimeError: CUDA tensor detected and the MPI used doesn't have CUDA-aware MPI support",
            UnsupportedCombination,
        ),
        ("InternalError: cudaGetDevice() failed. Status: cudaGetErrorString symbol not found.", CudaMismatch),
        ("RuntimeError: Failed to initialize zip archive: not a zip archive", CheckpointUnreadable),
        ("InvalidArgumentError: Job name and task index must be specified for worker /job:x", ClusterSpecInvalid),
        ("RuntimeError: Cannot get buffer across nodes, my rank: 1, peer rank: 8", UnsupportedCombination),
        ("CancelledError: Barrier failed because service is shutting down. Barrier_id: x", PeerLost),
        (
            "XlaRuntimeError: INVALID_ARGUMENT: ExecutePortable expects a single-core executable but gets one with 2 replica 1 partition",
            WorldSizeConflict,
        ),
        ("RuntimeError: step: workers disagreed on scalar result: [1, 2]", ReplicasDiffer),
        ("RuntimeError: Different ranks tried to set up mismatching numbers of process sets", CollectiveMismatch),
        ("RuntimeError: Tried to register process set with invalid rank: 8", WorldSizeConflict),
        ("ValueError: Number of entries in splits does not equal number of workers.", WorldSizeConflict),
        (
            "ValueError: splits not provided, but first dimension of tensor is not an even multiple of the number of workers.",
            BatchNotDivisible,
        ),
        ("ValueError: Sum of splits entries is greater than the first dimension of tensor.", ShapeMismatch),
        ("RuntimeError: Expected 8 core ids but got 4. HOROVOD_THREAD_AFFINITY=0,1,2,3", ClusterSpecInvalid),
    ],
)
def test_an_error_says_what_did_not_fit(text: str, kind: type) -> None:
    assert [type(fact) for fact in facts(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "[W TCPStore.cpp:125] recvValue failed on SocketImpl(fd=40): Failed to recv, got 0 bytes. Connection was likely closed.",
        "W gpu_util.cc:68] Unable to enable peer access between GPUs 0 and 1",
        "WARNING:tensorflow:Unresolved object in checkpoint: (root).optimizer.iter",
        "I coordination_service_agent.cc:300] Unexpected request from the user",
        "INFO: HOROVOD_THREAD_AFFINITY=0,1,2,3",
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
    ],
)
def test_a_warning_of_a_run_that_goes_on_is_no_error(text: str) -> None:
    assert facts(text) == []


@pytest.mark.parametrize(
    ("listed", "missing"),
    [("[1, 3]", (1, 3)), ("[<check rank 0 (n1) for missing rank info>]", ()), ("[n1[0]-3]", ())],
)
def test_a_barrier_of_agents_names_the_ranks_that_did_not_come(listed: str, missing: tuple[int, ...]) -> None:
    (found,) = facts(
        f"Timed out waiting on barrier on rank 0, for key prefix: x (world_size=4, missing_ranks={listed}, timeout=9)"
    )
    assert isinstance(found, RanksMissing)
    assert found.missing == missing

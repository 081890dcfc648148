# SPDX-License-Identifier: Apache-2.0
"""What the cores of PyTorch, torch_xla, TensorFlow, Keras, JAX, Orbax and Horovod check for themselves before a run, or at a restore.

They refuse with value errors, assertions and bare runtime errors; the exception's class says nothing.
"""

from __future__ import annotations

import re

from keepstep.core.facts.config import ClusterSpecInvalid, DuplicateMember, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible, DtypeMismatch, EndOfData, ShapeMismatch, UnevenShards
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.core.facts.network import PeerLost, RdmaTrouble
from keepstep.core.facts.platform import PeerAccessFault, TpuInitFailed
from keepstep.core.facts.sync import CollectiveMismatch, CollectiveTimeout, ForkOrThread, RanksMissing, ReplicasDiffer
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature


def _ranks(listed: str) -> tuple[int, ...]:
    """``[1, 3]``, or the ranks' names with their hosts, of which none is a number alone."""
    inside = re.match(r"[\[{]([\d', ]+)[\]}]", listed)
    return tuple(int(n) for n in re.findall(r"\d+", inside[1])) if inside else ()


SIGNATURES = (
    # PyTorch: its groups and stores
    signature(
        r"Error: [Ff]ailed to (?:recv|send), (?:got|sent) -?\d+ bytes(?!\. Connection was likely closed)",
        PeerLost,
        how="the store closed the connection",
    ),
    signature(
        r"No ranks successfully processed in monitoredBarrier",
        lambda m: RanksMissing(missing=(), what="monitored barrier"),
    ),
    signature(
        r"Timed out waiting on barrier on rank \d+, for key prefix: [^\n]{1,120} \(world_size=\d+, missing_ranks=(?P<ranks>[^\n]{0,200})",
        lambda m: RanksMissing(missing=_ranks(m["ranks"]), what="barrier of torchelastic's agents"),
    ),
    signature(
        r"Rank (?P<seen>\d+) at index \d+ is out of bounds for group size (?P<expected>\d+)",
        WorldSizeConflict,
        what="a rank of a group",
    ),
    signature(
        r"ProcessGroup\w{2,12}::\w{2,40}: invalid (?:root )?rank: (?P<seen>-?\d+)",
        WorldSizeConflict,
        what="a rank of a collective",
    ),
    signature(
        r"ProcessGroup\w{2,12}::\w{2,40}: invalid tensor type at index \d+ \(expected (?P<left>[^,\n]{1,80}), got (?P<right>[^\n]{1,60})\)",
        DtypeMismatch,
    ),
    signature(r"RPC worker name (?P<member>\S{1,80}) is not unique", DuplicateMember),
    signature(
        r"CUDA tensor detected and the MPI used doesn't have (?P<what>CUDA-aware MPI support)", UnsupportedCombination
    ),
    signature(
        r"(?P<what>Cannot get buffer across nodes), my rank: \d+",
        UnsupportedCombination,
    ),
    signature(
        r"Error: (?:Unexpected poll revent on the master's listening socket|Barrier failed because service is shutting down)",
        PeerLost,
        how="the store or coordination service went away",
    ),
    signature(
        r"ExecutePortable expects a single-core executable but gets one with (?P<seen>\d+) replica",
        WorldSizeConflict,
        what="replicas of a program",
    ),
    signature(
        r"FSDP currently requires each rank to have at least the optimizer states needed by rank 0's optimizer",
        ReplicasDiffer,
        detail="ranks hold the state of different parameters",
    ),
    signature(
        r"First PG on this rank that detected no heartbeat of its watchdog",
        CollectiveTimeout,
        op="HEARTBEAT",
    ),
    signature(
        r"(?:Error: |Caught exceptions?: |\] )(?:Application timeout caused pair closure|Pair is not (?:SSL )?connected \()",
        PeerLost,
        how="connection closed",
    ),
    signature(r"No ibverbs devices present", RdmaTrouble, what="no ibverbs device"),
    signature(
        r"short (?:read: got|write: wrote) \d+ bytes while expecting to (?:read|write) \d+ bytes",
        PeerLost,
        how="connection closed",
    ),
    signature(
        r"(?P<what>src_rank|sharding_spec)=(?P<left>[^\n]{1,80}?) on rank: \d+ does not match with \w+=(?P<right>[^\n]{1,80}?) on rank: (?P<other_rank>\d+)",
        CollectiveMismatch,
    ),
    signature(
        r"Node \S{1,80} has (?:source |target )?devices with invalid indices",
        WorldSizeConflict,
        what="devices of a node",
    ),
    signature(
        r"Default ProcessGroup and RPC ranks must be the same for ShardedTensor, found process group rank: (?P<seen>\d+) and RPC rank: (?P<expected>\d+)",
        WorldSizeConflict,
        what="the rank of the group and of RPC",
    ),
    signature(
        r"reshard_after_forward as an int, it should be a factor of (?P<expected>\d+), not (?P<seen>\d+)",
        WorldSizeConflict,
        what="shards of a group",
    ),
    signature(
        r"Shard\(-?\d+\) requires even sharding: ",
        WorldSizeConflict,
        what="a sharded dimension",
    ),
    signature(
        r"Attempting to deserialize object on \w+ device (?P<expected>\d+) but torch\.\w+\.device_count\(\) is (?P<seen>\d+)",
        WorldSizeConflict,
        what="devices of a checkpoint and of this host",
    ),
    signature(r"(?P<detail>HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES)", ClusterSpecInvalid),
    signature(
        r"(?P<what>FSDP needs a non-CPU accelerator device, but no accelerator device is detected"
        r"|no accelerator support is found from the current compilation|does not match the current compilation's accelerator support"
        r"|libcudart functions unavailable|cudaGetErrorString symbol not found|PyTorch was compiled without CUDA support|torch\.cuda\.Stream requires CUDA support)",
        CudaMismatch,
    ),
    signature(
        r"Unable to handle autograd's threading in combination with fork-based multiprocessing",
        ForkOrThread,
        what="autograd used before a fork and after it",
    ),
    # PyTorch: checkpoints
    signature(
        r"Error: (?P<why>Expected PROTO opcode at the start of pickle archive|Unexpected end of pickler archive|No files found in zip archive"
        r"|File is an unsupported archive format from the preview release|Failed to initialize zip archive: )",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<detail>FSDP assumes \S{1,200} is in the state_dict but the state_dict only has"
        r"|No `FlatParameter` in `state_dict` for this FSDP instance but it has parameters"
        r"|Local shard size = \d+ and the tensor in the state_dict is \d+|Expects 0 or 1 shard per rank but got \d+ shards on rank \d+"
        r"|is not in the (?:optimizer|output) state\. The FSDPParamInfo has the param keys|Tensor optimizer state does not have same shape as its parameter"
        r"|Differing optimizer state (?:names for the unflattened parameters|types for state)"
        r"|must have the keys \"state\" ?to be a valid optimizer state dict"
        r"|The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler)",
        CheckpointMismatch,
    ),
    # TensorFlow and Keras
    signature(
        r"Couldn't find 'checkpoint' file or checkpoints in given directory (?P<path>\S{1,300})",
        CheckpointUnreadable,
    ),
    signature(
        r"Invalid checkpoint state loaded from (?P<path>\S{1,300})",
        CheckpointUnreadable,
    ),
    signature(
        r"Error: (?P<detail>Checkpoint in \S{1,300} not an object-based checkpoint|Some objects had attributes which were not restored"
        r"|Unused attributes in these objects \(the attributes exist in the checkpoint but were not restored\)|Unresolved slot restorations"
        r"|Object not restored: |Object \S{1,200} not assigned a value from checkpoint|Trackable \S{1,200} does not expect checkpointed values"
        r"|The expected node_id: \d+ to Trackable \S{1,200} to restore does not exist in the checkpoint"
        r"|Forward compatibility load error: Unable to load checkpoint saved in future version)",
        CheckpointMismatch,
    ),
    signature(
        r"Layer #\d+ \(named [^\n]{1,120}\)[^\n]{0,200}? expects \d+ weight(?:s|\(s\)), but the saved weights have \d+ element",
        CheckpointMismatch,
        detail="a layer has another number of weights",
    ),
    signature(
        r"The dataset you passed contains (?P<what>\d+ batches, but you passed )[^\n]{0,200}We cannot draw that many steps",
        EndOfData,
    ),
    signature(
        r"the generator must yield at least one batch\. Received an empty generator",
        UnevenShards,
        detail="a generator gave no batch",
    ),
    signature(r"(?P<what>Got an empty `devices` list and unable to recognize any local devices)", CudaMismatch),
    signature(r"(?P<what>TPU cores on each device is not the same)", TpuInitFailed),
    # TensorFlow's runtime and coordination service
    signature(
        r"(?P<detail>The master \(current machine\) is not included in the provided cluster_def"
        r"|An explicit server port must be specified when using jobs with multiple replicas"
        r"|Job name and task index must be specified for worker|UV Store addr parsing failure"
        r"|Could not find worker with target: \S{1,120}|Unable to find (?:worker interface|remote task) corresponding to (?:task|device) \S{1,120}"
        r"|Local reads require local tf\.data workers, but no local worker is found)",
        ClusterSpecInvalid,
    ),
    signature(
        r"Error: [^\n]{0,60}?Unexpected (?:heartbeat )?request from (?:an already-in-error )?task: (?P<peer>/job:\S{1,80}?)[.,]?(?:\s|$)",
        PeerLost,
        how="the coordination service no longer knew a task",
    ),
    signature(
        r"Conflicting tasks specified by different processes for the same barrier",
        CollectiveMismatch,
        what="the members of a barrier",
    ),
    # JAX and Orbax
    signature(
        r"Requested logical device count \((?P<expected>\d+)\) with replica count \(\d+\) exceeds the number of available physical devices"
        r" on the target \((?P<seen>\d+)\)",
        WorldSizeConflict,
        what="devices",
    ),
    signature(r"Requested more replicas than there are devices", WorldSizeConflict, what="replicas and devices"),
    signature(
        r"Error: INTERNAL: (?P<what>Unable to enable peer access between GPUs \d+ and \d+)",
        PeerAccessFault,
    ),
    signature(
        r"Number of (?P<what>slices(?:/granules)?|granules) (?P<seen>\d+) must equal the product of dcn_mesh_shape \((?P<expected>[\d, ]{1,40})\)",
        WorldSizeConflict,
    ),
    signature(
        r"Attempted to execute with (?P<seen>\d+) (?:argument lists|replicas) when (?:local )?device count is (?P<expected>\d+)",
        WorldSizeConflict,
        what="replicas of a program",
    ),
    signature(r"at least 2 data-parallel replicas are needed", WorldSizeConflict, what="data-parallel replicas"),
    signature(
        r"Backend '(?P<what>cuda|gpu|rocm|tpu)' provides no devices",
        CudaMismatch,
    ),
    signature(
        r"Error: (?P<why>Failed to interpret path (?P<path>\S{1,300}) as a |Could not recognize the checkpoint at |Checkpoint at \S{1,300} is a (?:flat|composite) "
        r"|All restore strategies failed for step \d+|Metadata path does not exist: )",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<detail>Requested checkpointables: [^\n]{1,120} for loading were not found in the checkpoint"
        r"|produced a pytree structure that does not match (?:the caller template structure|restore_args)"
        r"|Tensor '\S{1,200}' not found in Safetensors checkpoint)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Directory path mismatch in multi-process save\. Process \d+ has path)", ClusterSpecInvalid),
    signature(
        r"(?P<detail>workers disagreed on scalar result: [^\n]{0,60})",
        ReplicasDiffer,
    ),
    signature(
        r"(?P<detail>Local checkpoint at step \d+ belongs to Process \d+, but current process is \d+)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Could not parse coordinator IP address from Open MPI environment)", ClusterSpecInvalid),
    signature(
        r"Error: (?P<detail>Unknown field\(s\) \S{1,120} in state dict while restoring an instance of|ArrayMetadata Store contains no metadata for process_index="
        r"|OCDBT settings for parameter \S{1,200} don't match those for the rest|Different ext_metadata types param: |Unable to deserialize sharding)",
        CheckpointMismatch,
    ),
    signature(
        r"process_index (?P<seen>\d+) does not exist in provided `global_mesh`",
        WorldSizeConflict,
        what="a process of the mesh",
    ),
    signature(
        r"Attempted to create a barrier across a subset of processes, but the current process: \d+ was not present",
        CollectiveMismatch,
        what="the members of a barrier",
    ),
    # torch_xla and TPUEstimator
    signature(
        r"PJRT_LOCAL_PROCESS_RANK \(xmp\.spawn\) value of (?P<seen>\d+) is higher than count (?P<expected>\d+)",
        WorldSizeConflict,
        what="local ranks and cores",
    ),
    signature(
        r"Number of device IDs \((?P<seen>\d+)\) must match (?:the global number of devices|mesh size) \((?P<expected>\d+)\)",
        WorldSizeConflict,
        what="devices of a mesh",
    ),
    signature(
        r"Given (?:ranks is out of range|(?:horizontal|vertical) slice doesn't have a correct (?:start|step)): World size: (?P<seen>\d+)",
        WorldSizeConflict,
        what="ranks of a mesh",
    ),
    signature(
        r"num_cores_per_replica must be 1, 2, 4, 8[\d, ]{0,40}; got (?P<seen>\d+)",
        WorldSizeConflict,
        what="cores of a replica",
    ),
    signature(
        r"Error: (?P<why>Expecting rank \d+ for \S{1,200} but it is ranked \d+ \(out of \d+ files\)|Cannot restore from untracked step \d+)",
        CheckpointUnreadable,
    ),
    signature(
        r"mm\(\): cannot matrix-multiply tensors|cannot apply batch matrix-multiplication to `",
        ShapeMismatch,
        op="matmul",
    ),
    signature(
        r"Error: (?P<detail>Both master and cluster are set|You cannot provide a ClusterResolver and session_config\.cluster_def"
        r"|Please specify a tpu_job_name as part of your TPUConfig)",
        ClusterSpecInvalid,
    ),
    signature(
        r"Error: (?P<what>InMemoryEvaluator supports only single machine|run_every_secs should not be set when using MultiWorkerMirroredStrategy"
        r"|Please use `tf\.compat\.v1\.distribute\.experimental\.ParameterServerStrategy` for parameter server strategy with estimator"
        r"|CrossShardOptimizer must be used for model training on TPUs|TPU_LEGACY client is no longer available)",
        UnsupportedCombination,
    ),
    # Horovod
    signature(
        r"(?P<what>Different ranks tried to set up mismatching numbers of process sets"
        r"|Attempted to register process set with mismatching values on different ranks)",
        CollectiveMismatch,
    ),
    signature(
        r"(?:Tried to register process set with invalid rank: |received invalid root rank )(?P<seen>-?\d+)",
        WorldSizeConflict,
        what="a rank of a process set",
    ),
    signature(
        r"Number of entries in splits does not equal number of workers",
        WorldSizeConflict,
        what="splits and workers",
    ),
    signature(
        r"splits not provided, but first dimension of tensor is not an even multiple of the number of workers",
        BatchNotDivisible,
    ),
    signature(r"Sum of splits entries is greater than the first dimension of tensor", ShapeMismatch, op="alltoall"),
    signature(
        r"(?P<detail>Expected \d+ core ids but got \d+\. HOROVOD_THREAD_AFFINITY=|Core ID (?:value is invalid|cannot be less than zero)[^\n]{0,20} in HOROVOD_THREAD_AFFINITY)",
        ClusterSpecInvalid,
    ),
)

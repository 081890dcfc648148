# SPDX-License-Identifier: Apache-2.0
"""What Accelerate, Transformers, DeepSpeed, Lightning, Horovod, Megatron-LM, Ray and fairscale refuse, in seldom seen words.

Found by a replay of the messages of their sources: each is raised, and none is an observation of something else.
"""

from __future__ import annotations

from keepstep.core.facts.config import ClusterSpecInvalid, NotScheduled, RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible, CorruptData, DtypeMismatch, UnevenShards
from keepstep.core.facts.environment import CudaMismatch, LibraryMissing, UnsupportedCombination
from keepstep.core.facts.network import ConnectFailed, PeerLost, PortTaken, Why
from keepstep.core.facts.resource import DeviceMemoryExhausted, SharedMemoryExhausted
from keepstep.core.facts.sync import CollectiveMismatch, CollectiveTimeout, ForkOrThread, RanksMissing, ReplicasDiffer
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature

_PATH = r"(?P<path>\S{1,300}?)"

SIGNATURES = (
    # ports
    signature(
        r"on port `?(?P<port>\d+)`?, but another process is utilizing it",
        PortTaken,
    ),
    signature(
        r"Failed to bind to (?P<address>\S{1,80}?):(?P<port>\d+) because it's already occupied",
        PortTaken,
    ),
    signature(r"No available ports\. Please specify a wider port range", PortTaken),
    # the device's memory, as those see it who try smaller batches or place layers
    signature(r"No executable batch size found, reached zero", DeviceMemoryExhausted),
    signature(
        r"Error: Some modules are dispatched on the CPU or the disk\. Make sure you have enough GPU RAM to fit",
        DeviceMemoryExhausted,
    ),
    signature(
        r"Failed to put object \w{1,80} in object store because it is full",
        SharedMemoryExhausted,
    ),
    # no device is seen
    signature(
        r"(?:Error|Exception): (?P<what>There are currently no available devices found, must be one of|No GPU(?: or Intel XPU)? found\. A GPU [^\n]{0,20}is needed"
        r"|Megatron requires CUDA\.|fp(?:16|8) mixed precision requires a (?:GPU|device)|No available GPU device found"
        r"|(?:cuda|npu|xpu|mlu)(?::\d+)? is not available, you should use device="
        r"|`?(?:CUDA|GPU)Accelerator`? can ?not run on your system since the accelerator is not available)",
        CudaMismatch,
    ),
    # checkpoints of another model, or of other ranks
    signature(
        r"Trying to set a tensor of shape (?P<detail>torch\.Size\(\[[\d, ]{0,60}\]\) in \S{1,80} \(which has shape torch\.Size\(\[[\d, ]{0,60}\]\)\))",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>\S{1,120} found in sharded model state dict but missing from full state dict)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>The (?:requested state|model) contains a key \S{1,120} that does not exist in the loaded checkpoint)",
        CheckpointMismatch,
    ),
    signature(
        r"Error: (?P<detail>ZeRO-3 model/optimizer tp_degree or dp_degree mismatch: [^\n]{1,80}"
        r"|AutoEP ZeRO-3 checkpoints can only be loaded with the same [^\n]{1,60}|Folded AutoEP\+AutoTP checkpoint requires a folded runtime)",
        CheckpointMismatch,
    ),
    signature(
        r"Error: (?P<detail>Model param \S{1,120} not in model_sharded_state_dict|Wrong state_dict format, cannot find \S{1,60}"
        r"|Parameter \S{1,120} has \d+ matches in state dict"
        r"|Parameter \S{1,120} and the parameters in the same group \S{1,60} have different metadata)",
        CheckpointMismatch,
    ),
    # checkpoints that are not there, or not whole
    signature(
        rf"Tried to load from {_PATH} but couldn't find a valid metadata file",
        CheckpointUnreadable,
        why="its metadata is missing",
    ),
    signature(
        rf"The safetensors archive passed at {_PATH} does not contain the valid metadata",
        CheckpointUnreadable,
        why="its metadata is missing",
    ),
    signature(
        r"`checkpoint` should be the path to a file containing a whole state dict, or the index of a sharded checkpoint",
        CheckpointUnreadable,
        why="no state dict is there",
    ),
    signature(
        rf"{_PATH} is not a folder containing a `\.index\.json` file",
        CheckpointUnreadable,
        why="no weights are there",
    ),
    signature(
        rf"Error: {_PATH} does not appear to have a file named (?:config|adapter_config)\.json",
        CheckpointUnreadable,
        why="no configuration of the model is there",
    ),
    signature(
        rf"Error: {_PATH} is not a local folder and is not a valid model identifier listed on",
        CheckpointUnreadable,
        why="it is neither a folder here nor a model of the Hub",
    ),
    signature(
        r"It looks like the config file at '(?P<path>[^'\n]{1,300})' is not a valid JSON file",
        CheckpointUnreadable,
        why="its configuration is not whole",
    ),
    signature(
        r"Consistency check failed: file should be of size \d+ but has size \d+",
        CheckpointUnreadable,
        why="a file of it was not downloaded to its end",
    ),
    signature(
        r"The provided path is not a valid DeepSpeed checkpoint: (?P<path>\S{1,300})",
        CheckpointUnreadable,
        why="it is not one of DeepSpeed's",
    ),
    signature(
        r"Missing (?:AutoEP )?(?:universal|model) fragments for \S{1,200} EP ranks?",
        CheckpointUnreadable,
        why="files of some ranks are missing",
    ),
    signature(
        r"error parsing metadata file (?P<path>\S{1,300})",
        CheckpointUnreadable,
        why="the name of the last one cannot be read",
    ),
    signature(
        r"Error: unknown checkpoint format in (?P<path>\S{1,300})",
        CheckpointUnreadable,
        why="none of the known formats is there",
    ),
    # data
    signature(
        r"Error: (?:(?:bad (?:header|version), cannot read|Zero-sized file): (?P<path>\S{1,300})|Index file doesn't match expected format)",
        lambda m: CorruptData(what="an index file of the dataset", path=m["path"]),
    ),
    signature(
        r"Error: (?P<detail>Cannot find the batch size from empty \S{1,40}|cyclic_iter: iterable produced no data"
        r"|(?:Validation|Training) DataFrame is empty|The \w{1,20} blend oversamples the contributing datasets)",
        UnevenShards,
    ),
    signature(
        r"number of microbatches should be at least 1, got (?P<batch>\d+)",
        BatchNotDivisible,
    ),
    signature(
        r"(?:Train batch size|Micro batch size per gpu|Gradient accumulation steps): (?P<batch>0) has to be greater than 0",
        BatchNotDivisible,
    ),
    # ranks, and who they are
    signature(
        r"environment variable `?(?P<name>LSB_JOBID|LSB_DJOB_RANKFILE)`?",
        RankVariableMissing,
    ),
    signature(
        r"Error: (?:Using [\w -]{2,30} only works in distributed training|We tried to initialize torch\.distributed for you, but it failed)",
        RankVariableMissing,
    ),
    signature(r"Error: rank number is not in current env", RankVariableMissing),
    signature(
        r"Each actor should correspond to one rank\. Got '(?P<seen>\d+)' ranks but '(?P<expected>\d+)' actors",
        WorldSizeConflict,
        what="ranks and actors",
    ),
    signature(
        r"too few ranks to hold given partitions \(ranks: (?P<seen>\d+), partitions: (?P<expected>\d+)\)",
        WorldSizeConflict,
        what="ranks and stages",
    ),
    signature(
        r"Parameter layout was built for (?P<expected>\d+) optimizer shards but the buffer's data-parallel group has (?P<seen>\d+) ranks",
        WorldSizeConflict,
        what="ranks of the data-parallel group",
    ),
    signature(
        r"(?P<what>\w{2,30}_size)=(?P<expected>\d+) exceeds num_experts=(?P<seen>\d+)",
        WorldSizeConflict,
    ),
    signature(r"Error: Insufficient device count for mesh size", WorldSizeConflict, what="devices of the mesh"),
    signature(
        r"Error: (?P<detail>CUDA_VISIBLE_DEVICES set incorrectly\. Got [^\n]{1,80})",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<detail>Unable to set up cluster storage with the following settings)", ClusterSpecInvalid),
    signature(
        r"Error: (?P<detail>Unable to parse port number from [^\n]{1,120}|Malformed (?:host|address):? \S{1,80}"
        r"|Port is not specified for address \S{1,80}|Invalid redis address \S{1,80})",
        ClusterSpecInvalid,
    ),
    signature(
        r"Could not find rank and world size in env",
        RankVariableMissing,
    ),
    # between ranks
    signature(
        r"(?P<detail>The checkpoint tag name \S{1,120} is not consistent across all ranks)",
        ReplicasDiffer,
    ),
    signature(r"(?P<detail>Data inconsistency within the TP group)", ReplicasDiffer),
    signature(r"Error: Gossip flag timeout", CollectiveTimeout, op="gossip"),
    signature(
        r"Some workers returned results while others didn't\. Make sure that (?P<what>[^\n]{1,60}?) (?:are|is) called the same number of times",
        CollectiveMismatch,
    ),
    signature(r"Error: Tensors must have identical dtype\. Got", DtypeMismatch),
    signature(
        r"Unable to (?:get the NCCLUniqueID from the store|meet other processes at the rendezvous store)",
        lambda m: RanksMissing(missing=(), what="rendezvous of Ray's collective group"),
    ),
    signature(
        r"All copies of \w{1,80} have been lost due to node failure",
        PeerLost,
        how="a node of the Ray cluster failed",
    ),
    signature(r"(?P<how>GCS considers? this node to be dead)", PeerLost),
    signature(
        r"Failed to start GCS\. Last connection error",
        ConnectFailed,
        why=Why.FAILED,
        peer="Ray's GCS",
    ),
    signature(
        r"There was a specific connection error when trying to load",
        ConnectFailed,
        why=Why.FAILED,
        peer="huggingface.co",
    ),
    signature(
        r"Failed to reserve (?:a )?(?P<asked>TPU (?:head|slice)[^\n]{0,40}?)(?: after \d|: |$)",
        lambda m: NotScheduled(by="Ray", asked=m["asked"], never=False),
    ),
    signature(
        r"(?P<what>the `Accelerator` should only be initialized inside your training function)",
        ForkOrThread,
    ),
    # what is not built, or not foreseen
    signature(
        r"custom CUDA extension (?P<name>\w{3,60}) module is not found",
        LibraryMissing,
    ),
    signature(
        r"Error: (?P<what>Torch tensor must be on GPU when using NCCL collectives|Local sharding has no support for CPU offloading"
        r"|ZeRO inference only makes sense with ZeRO Stage 3|Detected in-place modification of ZeRO-3 parameters inside GatheredParameters"
        r"|Cannot free a ZeRO-3 parameter while it is still active in submodules|Parameter \S{1,120} is on \S{1,20} but broadcast requires it to be on"
        r"|CPU(?:Adam|Adagrad|Lion) param is on \S{1,20} and must be 'cpu'|--tf32 requires Ampere or a newer GPU arch"
        r"|The strategy `\w{2,30}` requires a GPU accelerator, but received `accelerator=\w+`"
        r"|Using [\w ]{3,40} requires setting the environment variable \w{3,40} to \d"
        r"|You cannot perform fine-tuning on purely quantized models"
        r"|The activation_checkpointing in FSDP config and the gradient_checkpointing in training arg can't be set to True simultaneously"
        r"|[^\n]{1,60} encounters hang issue with torch version < [\d.]{1,8})",
        UnsupportedCombination,
    ),
    signature(
        r"Exception: (?P<what>You are using an untested ZeRO Optimizer)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>A parameter in the optimizer couldn't be switched to its sharded version)", UnsupportedCombination
    ),
)

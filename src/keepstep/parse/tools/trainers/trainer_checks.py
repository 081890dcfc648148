# SPDX-License-Identifier: Apache-2.0
"""What trainers check for themselves: sizes that must fit the ranks, checkpoints that must fit the run.

DeepSpeed, Megatron-LM, ColossalAI, GPT-NeoX, fairseq, Composer, Lightning, verl and Ray Train refuse such things with
bare assertions and value errors, in words of their own; the exception's class says nothing.
"""

from __future__ import annotations

from keepstep.core.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible, UnevenShards
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.core.facts.sync import ModelsDiffer, RanksMissing, SharedStateRace
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # Sample Factory's runner, on a part of it that no longer answers
    signature(
        r"Stopping training due to lack of heartbeats from (?P<what>[^\n]{1,160})",
        lambda m: RanksMissing(missing=(), what=f"heartbeats of {m['what']}"),
    ),
    # fairseq and metaseq, where one process is to start all ranks
    signature(
        r"world size is (?P<expected>\d+) but have (?P<seen>\d+) available devices",
        WorldSizeConflict,
        what="devices",
    ),
    # sizes and the world
    signature(
        r"(?P<what>\w{2,40}) (?:should|must) be a (?:factor|divisor) of (?:the )?world[_ ]size",
        WorldSizeConflict,
    ),
    signature(
        r"\(global_num_gpus / pp_size\) / mp_size \[\((?P<seen>\d+) / (?P<expected>\d+)\) / \d+\] must be a whole number",
        WorldSizeConflict,
        what="GPUs and parallel sizes",
    ),
    signature(
        r"Error: world_size=(?P<seen>\d+), pp=(?P<expected>\d+), mp=\d+", WorldSizeConflict, what="parallel sizes"
    ),
    signature(
        r"Number of KV heads must be at least model_parallel_size", WorldSizeConflict, what="heads and parallel size"
    ),
    signature(
        r"world_size (?P<seen>\d+) is larger than half of num_heads (?P<expected>\d+)",
        WorldSizeConflict,
        what="ranks and heads",
    ),
    signature(
        r"MPI rank (?P<seen>\d+) does not match torch rank (?P<expected>\d+)",
        WorldSizeConflict,
        what="MPI's and torch's rank",
    ),
    signature(
        r"mpu (?:pipeline|tensor/model) parallel world size \((?P<seen>\d+)\) conflicts with \S{1,60}?=(?P<expected>\d+)",
        WorldSizeConflict,
        what="parallel sizes",
    ),
    signature(
        r"Error: Expected (?:at least|exactly) (?P<expected>\d+) ranks, got (?P<seen>\d+)",
        WorldSizeConflict,
        what="ranks",
    ),
    signature(
        r"Grids must span same number of ranks: src=(?P<seen>\d+), dest=(?P<expected>\d+)",
        WorldSizeConflict,
        what="grids of ranks",
    ),
    signature(r"[Hh]ybrid context parallel requires an even number of ranks", WorldSizeConflict, what="ranks"),
    signature(
        r"The provided rank=(?P<seen>\d+) is not valid for (?P<expected>\d+) workers", WorldSizeConflict, what="ranks"
    ),
    signature(
        r"worker count (?P<seen>\d+) != (?:PD )?world size (?P<expected>\d+)",
        WorldSizeConflict,
        what="workers",
    ),
    signature(
        r"The dimension at index \d+ has value (?P<seen>\d+), but it is sharded over (?P<expected>\d+) devices",
        WorldSizeConflict,
        what="a sharded dimension",
    ),
    signature(
        r"[Cc]annot shard (?:the )?(?:dimension (?P<seen>\d+) into|\d+ dimension of tensor into) (?P<expected>\d+) partitions",
        WorldSizeConflict,
        what="a sharded dimension",
    ),
    signature(
        r"\[Megatron-FSDP\] (?:Current rank \d+ (?:in the mesh ranks|is not unique)|FSDP ranks in the mesh \S{1,80} do not match)",
        WorldSizeConflict,
        what="the mesh and its groups",
    ),
    signature(
        r"(?:current )?global batch size \((?P<batch>\d+)\) is too small for micro_batch_size \(\d+\) \* data_parallel_size \((?P<parts>\d+)\)",
        BatchNotDivisible,
    ),
    signature(
        r"(?i:batch[_ ]?size)\W{0,3}(?P<batch>\d+) (?:is )?not divisi?ble by (?:the )?(?i:number of|num_?) ?(?i:GPU|device|card|replica|process|rank)\w{0,3}\W{0,3}(?P<parts>\d+)?",
        BatchNotDivisible,
    ),
    signature(
        r"Got mini_batch_size=(?P<batch>\d+) and self\.engine\.get_data_parallel_size\(\)=(?P<parts>\d+)",
        BatchNotDivisible,
    ),
    signature(
        r"found \S{1,80} devices in process group but world_size=(?P<expected>\d+)",
        WorldSizeConflict,
        what="devices of the group",
    ),
    signature(
        r"Error: n_gpu: (?P<seen>\d+), local_world_size: (?P<expected>\d+)",
        WorldSizeConflict,
        what="GPUs and local ranks",
    ),
    signature(r"tp\*dp \((?P<expected>\d+)\) exceeds rollout GPUs \((?P<seen>\d+)\)", WorldSizeConflict, what="GPUs"),
    signature(r"(?P<what>Invalid REFERENCE_WORLD_SIZE in config)", WorldSizeConflict),
    # who a process is
    signature(
        r"(?P<detail>LOCAL_RANK \(\d+\) != OMPI_COMM_WORLD_LOCAL_RANK \(\d+\)|Mismatch in local rank setting, args\.local_rank=-?\d+ but"
        r" env\['LOCAL_RANK'\]=\d+)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>(?:MPICH|Intel MPI|mvapich) requires same number of devices per node)",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<detail>no enough nodes for request: searching)", ClusterSpecInvalid),
    signature(
        r"non-master node should provide (?P<name>master[_ ]address)",
        RankVariableMissing,
    ),
    signature(r"Cannot determine world size: (?P<name>WORLD_SIZE) environment variable not set", RankVariableMissing),
    signature(
        r"Elasticity V ?[\d.]+ needs (?P<name>WORLD_SIZE) to compute valid batch size",
        RankVariableMissing,
    ),
    signature(
        r"(?P<detail>\S{1,300} is not an? shared directory for rank \d+)",
        ClusterSpecInvalid,
    ),
    # checkpoints of another run
    signature(
        r"(?P<detail>Load checkpoint \S{1,200} dst numel \d+ != src numel \d+|full param numel \d+ != tensor slice numel \d+)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Invalid checkpoints and world size for sd (?:merge|split)|checkpoint count \d+ is different from saved mp_world_size \d+"
        r"|checkpoint (?:has both|contains neither) 'model' (?:and|or) 'module' keys|Empty ds_version in checkpoint)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>(?:DeepSpeed c|C)heckpoint [\w ]{1,60} disagrees across model-state files)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Cannot restore a universal checkpoint into this)", CheckpointMismatch),
    signature(
        r"(?P<detail>Number of unpadded elements must be same in current run \(\d+\) and checkpoint \(\d+\))",
        CheckpointMismatch,
    ),
    signature(
        r"OptimizerParamScheduler: class input value (?P<detail>\S{1,60} and checkpoint ?value \S{1,60}) for",
        CheckpointMismatch,
    ),
    signature(
        r"AnnealingLR: class input value (?P<detail>\S{1,60} and checkpoint ?value \S{1,60}) for",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>(?:Current|Saved) DP size \(\d+\) is not an exact multiple of (?:saved|current) DP size \(\d+\))",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>checkpoint has \d+ param_groups but current optimizer has \d+|You have configured \d+ optimizers but the checkpoint contains \d+"
        r"|has \d+ stateful loaders, but found \d+ states in the checkpoint)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>data iterator has different length than checkpointed data iterator)", CheckpointMismatch),
    signature(
        r"(?P<detail>Cannot load a \w+ checkpoint into this [\w\-]+ model|The checkpoint was saved by a [\w\-]+ model run"
        r"|Grouped checkpoint tensor \S{1,120} has \d+ groups, expected \d+|Cannot split checkpoint tensor \S{1,120} with shape)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Detected load from a distributed checkpoint, but neither|Detected deprecated Megatron checkpoint layout|Found legacy PEFT checkpoint at"
        r"|Invalid key \S{1,120} in Megatron state_dict)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Cannot load state dict with strict=True and checkpoint shards > 1|state_dict does not contain \S{1,120}\. Cannot load)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Model is (?:not )?sharded,? but checkpoint is (?:not )?sharded|Loading a sharded checkpoint requires passing an FSDP config)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>The option indicates that model state_dict is required to save,? or load,? but (?:model|optim) state_dict is empty)",
        CheckpointMismatch,
    ),
    signature(
        r"The checkpoint passed was saved with (?P<detail>\S{1,40}), we need a the pt format", CheckpointMismatch
    ),
    signature(
        r"(?P<detail>Mismatched `state_dict`! cannot found|The loaded `state_dict` of `MessageHub` must contain key"
        r"|Checkpoint format '\w+' from config differs from inferred format|Checkpoint at \S{1,300} is not in a supported format"
        r"|but sharded state dict is not provided|Provided checkpoint does not have arguments saved|pycls checkpoints must contain 'model_state')",
        CheckpointMismatch,
    ),
    # checkpoints that are not there
    signature(
        r"^\s*assert len\(self\.ckpt_list\) > 0",
        CheckpointUnreadable,
        why="no file of the model's states was found",
    ),
    signature(
        r"ZeRO-3 checkpoint has no model/optimizer rank files", CheckpointUnreadable, why="files of ranks are missing"
    ),
    signature(
        r"Error: (?P<path>\S{1,300}) is not a (?:model state|zero) checkpoint",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<path>\S{1,300}) is not a (?:distributed checkpoint|MLM or NeMo sharded checkpoint)",
        CheckpointUnreadable,
    ),
    signature(
        r"The path (?P<path>\S{1,300}) does not point to (?:a )?valid (?:full |sharded )?checkpoints?",
        CheckpointUnreadable,
    ),
    signature(
        r"Invalid checkpoint path (?P<path>\S{1,300})\. Expected a file or a directory",
        CheckpointUnreadable,
    ),
    signature(
        r"It looks like you passed the path to a file inside a DeepSpeed checkpoint folder",
        CheckpointUnreadable,
        why="the path is a file of the checkpoint, not its folder",
    ),
    signature(
        r"(?:Ranks? \[?[\d, ]{1,200}\]? failed to download\.|This likely implies a download failed on local rank \d+, which is global rank (?P<rank>\d+))",
        CheckpointUnreadable,
        why="a rank could not fetch it",
    ),
    signature(
        r"End checkpoint is unfinished and cannot be used to resume",
        CheckpointUnreadable,
        why="it was not written to its end",
    ),
    signature(
        r"Finetuning requires (?:a )?loading from an? (?:available )?pretrained checkpoint",
        CheckpointUnreadable,
        why="there is none to begin from",
    ),
    # data, models, devices
    signature(
        r"Trying to use an uninitialized 'dummy' batch|total number of batches is smaller than the number of participating GPUs",
        UnevenShards,
        detail="fewer batches than ranks",
    ),
    signature(
        r"(?P<detail>dataset has \d+ rows, fewer than dp_world_size=\d+|pattern \S{1,120} did not match any tar shards"
        r"|No \.tar or \.tgz shards found under \S{1,200}|has no \S{1,60} and no worker index shards)",
        UnevenShards,
    ),
    signature(
        r"Detected mixed initialization where some ranks have model on cpu or gpu and some ranks are on meta",
        ModelsDiffer,
        detail="some ranks hold weights, others do not",
    ),
    signature(
        r"(?P<what>shared memory prefix=\S{1,60} was not registered by local leader)",
        SharedStateRace,
    ),
    signature(r"(?P<what>GPUs requested but none are available)", CudaMismatch),
    # what does not go together
    signature(
        r"Error: [^\n]{0,80}(?P<what>zero stage must be 0 or 1 when using pipeline parallelism"
        r"|[Ss]equence parallelism mode \S{1,40} (?:can only be used when|must be enabled when using) \w{2,40}( parallelism)?)",
        lambda m: UnsupportedCombination(what=m["what"]),
    ),
    signature(
        r"Error: (?P<what>When using sequence parallelism[^\n]{0,80}, you must enable [^\n]{1,60})",
        UnsupportedCombination,
    ),
)

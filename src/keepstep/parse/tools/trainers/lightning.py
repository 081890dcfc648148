# SPDX-License-Identifier: Apache-2.0
"""PyTorch Lightning: its launchers, its configuration errors, its deadlock detection."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.model.facts.data import UnevenShards
from keepstep.model.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.model.facts.platform import Preempted
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.sync import ForkOrThread, RanksMissing
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable, NonFinite, Phase, PhaseSeen
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Child process with PID (?P<pid>\d+) terminated with code (?P<code>-?\d+)",
        ProcessExited,
        reporter="Lightning",
        first=True,
    ),
    signature(r"(?P<what>DeadlockDetectedException|DeadLock detected from rank: \d+)", RanksMissing, missing=()),
    signature(r"Initializing distributed: GLOBAL_RANK: (?P<index>\d+), MEMBER: \d+/(?P<size>\d+)", WorldSeen),
    signature(
        r"(?:You requested (?:gpu|GPUs|tpu|hpu|cpu): (?P<expected>\[[^\]\n]{0,80}\])\s*)?But your machine only has: (?P<seen>\[[^\]\n]{0,80}\])",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"You set `--ntasks=(?P<seen>\d+)` in your SLURM bash script, but this variable is not supported",
        WorldSizeConflict,
        what="Slurm's tasks",
    ),
    signature(
        r"(?P<detail>The selected device indices [^\n]{0,80} don't match the local rank values of processes)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>Lightning attempted to launch new distributed processes with `local_rank > 0`)", ClusterSpecInvalid
    ),
    signature(r"(?:random port can only be called from single node training)", RankVariableMissing, name="MASTER_PORT"),
    signature(r"(?P<what>Lightning can't create new processes if CUDA is already initialized)", ForkOrThread),
    signature(
        r"ddp2 only works in SLURM or via torchelastic with the WORLD_SIZE, (?P<name>LOCAL_RANK), GROUP_RANK",
        RankVariableMissing,
    ),
    signature(
        r"Cannot determine (?:world size|global rank|local rank|node rank)\. Environment variable `(?P<name>\w+)` not found",
        RankVariableMissing,
    ),
    signature(
        r"(?P<what>No supported gpu backend found!|CUDAAccelerator can ?not run on your system since the accelerator is not available)",
        CudaMismatch,
    ),
    signature(r"(?P<detail>You selected (?:an invalid )?(?:strategy|accelerator)[^\n]{0,160})", ClusterSpecInvalid),
    signature(
        r"You set `(?:--ntasks|devices|num_nodes)=(?P<seen>\d+)`[^\n]{0,80}but[^\n]{0,60}=(?P<expected>\d+)",
        WorldSizeConflict,
    ),
    signature(
        r"You set `(?:num_nodes|devices)=(?P<seen>\d+)` in Lightning, but the number of (?:nodes|tasks per node) configured in SLURM `[^`]{1,40}=(?P<expected>\d+)` does not match",
        WorldSizeConflict,
    ),
    signature(r"(?:The loss returned in `\w+` is|training_step returned loss) (?P<what>nan|inf)\b", NonFinite),
    signature(r"Detected nan and/or inf values in `(?P<what>[\w.]+)`", NonFinite),
    signature(r"Monitored metric (?P<what>\w+) = nan is not finite", NonFinite),
    signature(
        r"`Trainer\.fit` stopped: `max_(?:epochs|steps|time)=[^`]{1,40}` reached", PhaseSeen, phase=Phase.FINISHED
    ),
    signature(r"`Trainer\.fit` stopped: No training batches", UnevenShards, detail="there are no training batches"),
    signature(
        r"(?P<detail>Total length of `\w+` across ranks is zero)\. Please make sure that it returns at least 1 batch",
        UnevenShards,
    ),
    signature(
        r"(?:Exception|RuntimeError): (?P<detail>`?\w*[Dd]ata[Ll]oader`?s? (?:within local rank has zero length|has (?:a )?length (?:of )?0|is empty))",
        UnevenShards,
    ),
    signature(r"Handling (?:auto-requeue )?signal: (?P<reason>SIG\w+|\d+)", Preempted, by="Slurm"),
    signature(r"handling auto-requeue signal", Preempted, by="Slurm"),
    signature(
        r"(?P<detail>checkpoint has \d+ param_groups but current optimizer has \d+|You have configured \d+ optimizers but the checkpoint contains \d+"
        r"|has \d+ stateful loaders, but found \d+ states in the checkpoint)",
        CheckpointMismatch,
    ),
    signature(
        r"The path (?P<path>\S{1,300}) does not point to (?:a )?valid (?:full |sharded )?checkpoints?",
        CheckpointUnreadable,
    ),
    signature(
        r"It looks like you passed the path to a file inside a DeepSpeed checkpoint folder",
        CheckpointUnreadable,
        why="the path is a file of the checkpoint, not its folder",
    ),
    signature(r"(?P<what>GPUs requested but none are available)", CudaMismatch),
    signature(
        r"(?P<detail>\S{1,120} found in sharded model state dict but missing from full state dict)", CheckpointMismatch
    ),
    signature(
        r"(?P<detail>The (?:requested state|model) contains a key \S{1,120} that does not exist in the loaded checkpoint)",
        CheckpointMismatch,
    ),
    signature(
        r"The provided path is not a valid DeepSpeed checkpoint: (?P<path>\S{1,300})",
        CheckpointUnreadable,
        why="it is not one of DeepSpeed's",
    ),
    signature(r"environment variable `?(?P<name>LSB_JOBID|LSB_DJOB_RANKFILE)`?", RankVariableMissing),
    signature(
        r"(?P<detail>Trying to restore (?:optimizer state|training state|callback state) but checkpoint contains only the model)",
        CheckpointMismatch,
    ),
    signature(
        r"(?:Error|Exception): (?P<what>`?(?:CUDA|GPU)Accelerator`? can ?not run on your system since the accelerator is not available)",
        CudaMismatch,
    ),
    signature(
        r"Error: (?P<what>The strategy `\w{2,30}` requires a GPU accelerator, but (?:received `accelerator='?\w+'?`|got: \w+))",
        UnsupportedCombination,
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed: its launcher, configuration checks, loss scaler, op builder and checkpoints."""

from __future__ import annotations

import re
import signal

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSizeConflict
from keepstep.model.facts.data import BatchNotDivisible
from keepstep.model.facts.environment import (
    CudaMismatch,
    LibraryMissing,
    SymbolMissing,
    UnsupportedCombination,
    VersionSeen,
)
from keepstep.model.facts.network import ConnectFailed, Why
from keepstep.model.facts.process import ProcessExited, TerminationRequested
from keepstep.model.facts.sync import ReplicasDiffer
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable, NonFinite, StepsSkipped
from keepstep.parse.scan.signature import by_hand, signature

_LAST_IS_FIRST = lazy_pattern(r"'--local_rank(?:=|', ?')0'")


def _ended(match: re.Match[str]) -> ProcessExited | None:
    """The command in this line is always that of the last local rank: it names a rank only if there is just one."""
    code = int(match["code"])
    if code == 0:
        return None
    try:
        name = signal.Signals(-code).name if code < 0 else None
    except ValueError:
        name = None
    alone = bool(_LAST_IS_FIRST.search(match.string[: match.start()]))
    return ProcessExited(reporter="DeepSpeed's launcher", code=code, signal=name, local_rank=0 if alone else None)


def _batch_sizes(match: re.Match[str]) -> Fact:
    """No micro batch fits a batch that the world does not divide; otherwise the counts are wrong."""
    if match["batch"] is None:
        return WorldSizeConflict(what="train_batch_size")
    batch, world = int(match["batch"]), int(match["world"])
    if world and batch % world:
        return BatchNotDivisible(batch=match["batch"], parts=match["world"])
    product = f"{match['micro']} * {match['steps']} * {match['world']}"
    return WorldSizeConflict(what="train_batch_size", expected=match["batch"], seen=product)


SIGNATURES = (
    # launcher
    signature(r"sigkill_handler\] Killing subprocess (?P<pid>\d+)", TerminationRequested, by="launcher"),
    signature(r"^Killing subprocess (?P<pid>\d+)", TerminationRequested, by="launcher"),
    signature(r"exits with return code = (?P<code>-?\d+)", _ended),
    signature(r"(?P<detail>No slot '?\w+'? speci\w+ on host '?[\w.\-]+'?)", ClusterSpecInvalid),
    signature(r"(?P<detail>Hostname '?[\w.\-@]+'? not found in hostfile)", ClusterSpecInvalid),
    signature(r"(?P<detail>Hostfile is (?:empty|not formatted correctly)[^\n]{0,60})", ClusterSpecInvalid),
    signature(r"(?P<detail>Hostfile contains multiple entries for \S+)", ClusterSpecInvalid),
    signature(
        r"(?P<detail>Num nodes is >1 but no extra nodes available via hostfile|Cannot specify num_nodes/gpus with include/exclude"
        r"|include_str and exclude_str are mutually exclusive|Launching training without ssh, but --node_rank is not set correctly"
        r"|Master Addr is required when elastic training is enabled|MIN:MAX format is only supported in elastic training"
        r"|num_nodes \S+ is not in MIN:MAX format|Unable to detect suitable master address via `hostname -I`)",
        ClusterSpecInvalid,
    ),
    signature(
        r"Using hostfile at [^\n]{1,300}? but host=(?P<peer>\S+) was not reachable via ssh",
        ConnectFailed,
        why=Why.UNREACHABLE,
    ),
    # the same, as the launcher's own call of ssh says it
    signature(
        r"Command '?\[?'?ssh(?:'?,? '?-\w'?,? '?[\w=]{1,60}){0,4}'?,? '?(?P<peer>[\w.\-@]{1,80})'?,? '?hostname'?\]?'? returned non-zero",
        ConnectFailed,
        why=Why.FAILED,
    ),
    signature(r"(?P<detail>Hostfile contains (?:a bad entry|duplicate hosts)[^\n]{0,60})", ClusterSpecInvalid),
    # sizes
    signature(
        r"train_batch_size is not equal to micro_batch_per_gpu \* gradient_acc_step \* world_size"
        r"(?: ?(?P<batch>\d+) ?!= ?(?P<micro>\d+) ?\* ?(?P<steps>\d+) ?\* ?(?P<world>\d+))?",
        _batch_sizes,
    ),
    signature(
        r"World size \((?P<seen>\d+)\) is not valid with the current list of valid GPU counts", WorldSizeConflict
    ),
    signature(
        r"The checkpoint being loaded used a DP world size of (?P<detail>\d+ but the current world size is \d+)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Expected \d+ of '\*_optim_states\.pt' under '[^'\n]{0,200}' but found \d+ files)",
        CheckpointMismatch,
    ),
    # numbers
    signature(
        r"Current loss scale already at minimum", NonFinite, what="gradients overflow at the smallest loss scale"
    ),
    signature(r"OVERFLOW! Rank (?P<rank>\d+) Skipping step", NonFinite, what="gradients", fatal=False),
    signature(r"OVERFLOW! Rank \d+ Skipping step[^\n]{0,60}?, reducing to (?P<scale>[\d.e+-]{1,30})", StepsSkipped),
    signature(
        r"\bstep=(?P<step>\d+), skipped=(?P<skipped>[1-9]\d*), lr=\[",
        StepsSkipped,
        anchors=by_hand("every step says skipped=0", *(f"skipped={digit}" for digit in "123456789")),
    ),
    # versions and builds
    signature(
        r"(?P<what>Installed CUDA version \S+ does not match the version torch was compiled with[^\n]{0,60})",
        CudaMismatch,
    ),
    signature(r"(?P<what>DeepSpeed Op Builder: Installed CUDA version[^\n]{0,120})", CudaMismatch),
    signature(r"(?P<what>CUDA_HOME does not exist, unable to compile CUDA op\(s\))", CudaMismatch),
    signature(
        r"(?P<what>(?:CUDA|HIP) version mismatch! DeepSpeed ops were compiled and installed with a different version[^\n]{0,80})",
        CudaMismatch,
    ),
    signature(
        r"PyTorch version mismatch! DeepSpeed ops were compiled and installed with a different version",
        SymbolMissing,
        library="DeepSpeed's ops",
    ),
    signature(r"(?P<what>Unable to proceed, no GPU resources available)", CudaMismatch),
    signature(r"(?P<what>DeepSpeed JIT builder for '\w+' found no CUDA devices)", CudaMismatch),
    signature(r"launcher '(?P<name>\w+)' not installed", LibraryMissing),
    signature(
        r"RuntimeError: still have inflight params",
        UnsupportedCombination,
        what="ZeRO stage 3 and a model whose path differs from step to step (or a DeepSpeed that loses track of it)",
    ),
    signature(
        r"Error: (?P<what>[^\n]{0,80}(?:not supported|does not support)[^\n]{0,40}(?:ZeRO )?[Ss]tage[- ]?\d[^\n]{0,60})",
        UnsupportedCombination,
    ),
    signature(r"Unable to JIT load the (?P<name>\w+) op", LibraryMissing),
    signature(r"(?P<what>DeepSpeed[^\n]{0,60}is not (?:supported|compatible) with[^\n]{0,80})", UnsupportedCombination),
    signature(r"DeepSpeed info: version=(?P<version>[^\s,]+)", VersionSeen, component="DeepSpeed"),
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
        r"(?P<detail>LOCAL_RANK \(\d+\) != OMPI_COMM_WORLD_LOCAL_RANK \(\d+\)|Mismatch in local rank setting, args\.local_rank=-?\d+ but"
        r" env\['LOCAL_RANK'\]=\d+)",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<detail>(?:MPICH|Intel MPI|mvapich) requires same number of devices per node)", ClusterSpecInvalid),
    signature(r"Elasticity V ?[\d.]+ needs (?P<name>WORLD_SIZE) to compute valid batch size", RankVariableMissing),
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
        r"(?P<detail>(?:DeepSpeed c|C)heckpoint [\w ]{1,60} disagrees across model-state files)", CheckpointMismatch
    ),
    signature(r"(?P<detail>Cannot restore a universal checkpoint into this)", CheckpointMismatch),
    signature(
        r"^\s*assert len\(self\.ckpt_list\) > 0", CheckpointUnreadable, why="no file of the model's states was found"
    ),
    signature(
        r"ZeRO-3 checkpoint has no model/optimizer rank files", CheckpointUnreadable, why="files of ranks are missing"
    ),
    signature(r"Error: (?P<path>\S{1,300}) is not a (?:model state|zero) checkpoint", CheckpointUnreadable),
    signature(
        r"Error: (?P<detail>ZeRO-3 model/optimizer tp_degree or dp_degree mismatch: [^\n]{1,80}"
        r"|AutoEP ZeRO-3 checkpoints can only be loaded with the same [^\n]{1,60}|Folded AutoEP\+AutoTP checkpoint requires a folded runtime)",
        CheckpointMismatch,
    ),
    signature(
        r"Missing (?:AutoEP \w{1,40}|(?:AutoEP )?(?:universal|model)) fragments for \S{1,200} EP ranks?",
        CheckpointUnreadable,
        why="files of some ranks are missing",
    ),
    signature(
        r"(?:Train batch size|Micro batch size per gpu|Gradient accumulation steps): (?P<batch>0) has to be greater than 0",
        BatchNotDivisible,
    ),
    signature(r"Error: rank number is not in current env", RankVariableMissing),
    signature(r"(?P<what>\w{2,30}_size)=(?P<expected>\d+) exceeds num_experts=(?P<seen>\d+)", WorldSizeConflict),
    signature(r"Error: Insufficient device count for mesh size", WorldSizeConflict, what="devices of the mesh"),
    signature(r"(?P<detail>The checkpoint tag name \S{1,120} is not consistent across all ranks)", ReplicasDiffer),
    signature(r"(?P<detail>Data inconsistency within the TP group)", ReplicasDiffer),
    signature(r"Exception: (?P<what>You are using an untested ZeRO Optimizer)", UnsupportedCombination),
    signature(
        r"Error: (?P<what>ZeRO inference only makes sense with ZeRO Stage 3|Detected in-place modification of ZeRO-3 parameters inside GatheredParameters"
        r"|Cannot free a ZeRO-3 parameter while it is still active in submodules|Parameter \S{1,120} is on \S{1,20} but broadcast requires it to be on"
        r"|CPU(?:Adam|Adagrad|Lion) param is on \S{1,20} and must be 'cpu'|Local sharding has no support for CPU offloading)",
        UnsupportedCombination,
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM and what is built on it: parallel sizes, NaN checks, checkpoints."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSeen, WorldSizeConflict
from keepstep.model.facts.data import BatchNotDivisible, CorruptData, UnevenShards
from keepstep.model.facts.environment import CudaMismatch, LibraryMissing, UnsupportedCombination
from keepstep.model.facts.sync import SharedStateRace
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable, NonFinite, StepsSkipped
from keepstep.parse.scan.signature import by_hand, signature


def _skipped(match: re.Match[str]) -> Fact:
    return StepsSkipped(step=int(match["step"]), skipped=int(match["skipped"]), recent=True)


SIGNATURES = (
    signature(
        r"Rank (?P<rank>\d+)(?:, node [^,\n]{1,80}, device [^,\n]{1,20}, iteration -?(?P<step>\d+))?: Unexpected result (?P<what>nan|inf|-inf)\b",
        NonFinite,
    ),
    signature(r"Unexpected result (?P<what>nan|inf|-inf)\b[^\n]{0,40}?on rank (?P<rank>\d+)", NonFinite),
    signature(r"Unexpected result (?P<what>nan|inf|-inf)\b", NonFinite),
    signature(
        r"(?:Rank (?P<rank>\d+):? )?found (?P<what>NaN|Inf|NaN or Inf) in (?:local )?(?:grad norm|forward loss|gradient)",
        NonFinite,
    ),
    signature(
        r"\biteration +(?P<step>\d+)/ *\d+ \|[^\n]{0,600}?number of skipped iterations: +(?P<skipped>[1-9]\d*) \|",
        _skipped,
        anchors=by_hand(
            "every line says that 0 were skipped",
            *(f"skipped iterations: {blanks}{digit}" for blanks in ("", " ", "  ") for digit in "123456789"),
        ),
    ),
    signature(r"(?P<what>found NaN) in local (?:forward|loss)", NonFinite),
    signature(
        r"world[ _]size \((?P<seen>\d+)\) is not divisible by (?:the )?(?P<what>[\w ]{0,80})\(?(?P<expected>\d+)?",
        WorldSizeConflict,
    ),
    signature(
        r"global batch size \((?P<batch>\d+)\) is not divisible by micro batch size \(\d+\) times data parallel size \((?P<parts>\d+)\)",
        BatchNotDivisible,
    ),
    signature(
        r"(?P<detail>\S{1,60} value from checkpoint \([^)\n]{0,80}\) is not equal to the (?:input argument|currently set)? ?(?:argument )?value)",
        CheckpointMismatch,
    ),
    signature(r"could not load the checkpoint(?! file metadata)", CheckpointUnreadable),
    # index files that one rank writes and the others map
    signature(
        r"(?:No such file or directory: |Failed to open local file )['\"](?P<path>[^'\"\n]{0,300}(?:_(?:doc|sample|shuffle|document|description)_(?:idx|index)|_indexmap_[\w]{1,80}|-(?:document|sample|shuffle)_index)\.npy)",
        SharedStateRace,
        what="an index file that rank 0 writes on one host was missing on another",
    ),
    signature(r"using world size: (?P<size>\d+), data-parallel", WorldSeen),
    signature(
        r"\(global_num_gpus / pp_size\) / mp_size \[\((?P<seen>\d+) / (?P<expected>\d+)\) / \d+\] must be a whole number",
        WorldSizeConflict,
        what="GPUs and parallel sizes",
    ),
    signature(
        r"Grids must span same number of ranks: src=(?P<seen>\d+), dest=(?P<expected>\d+)",
        WorldSizeConflict,
        what="grids of ranks",
    ),
    signature(r"[Hh]ybrid context parallel requires an even number of ranks", WorldSizeConflict, what="ranks"),
    signature(
        r"\[Megatron-FSDP\] (?:Current rank \d+ (?:in the mesh ranks|is not unique)|FSDP ranks in the mesh [^\n]{1,120}? do not match)",
        WorldSizeConflict,
        what="the mesh and its groups",
    ),
    signature(
        r"(?:current )?global batch size \((?P<batch>\d+)\) is too small for micro_batch_size \(\d+\) \* data_parallel_size \((?P<parts>\d+)\)",
        BatchNotDivisible,
    ),
    signature(
        r"(?P<detail>Number of unpadded elements must be same in current run \(\d+\) and checkpoint \(\d+\))",
        CheckpointMismatch,
    ),
    signature(
        r"OptimizerParamScheduler: class input value (?P<detail>\S{1,60} and checkpoint ?value \S{1,60}) for",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>(?:Current|Saved) DP size \(\d+\) is not an exact multiple of (?:saved|current) DP size \(\d+\))",
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
        r"(?P<path>\S{1,300}) is not a (?:distributed checkpoint|MLM or NeMo sharded checkpoint)", CheckpointUnreadable
    ),
    signature(
        r"End checkpoint is unfinished and cannot be used to resume",
        CheckpointUnreadable,
        why="it was not fully written",
    ),
    signature(
        r"Finetuning requires (?:a )?loading from an? (?:available )?pretrained checkpoint",
        CheckpointUnreadable,
        why="there is none to start from",
    ),
    signature(
        r"Error: (?P<detail>Model param \S{1,120} not in model_sharded_state_dict|Wrong state_dict format, cannot find \S{1,60}"
        r"|Parameter \S{1,120} has \d+ matches in state dict"
        r"|Parameter \S{1,120} and the parameters in the same group \S{1,60} have different metadata)",
        CheckpointMismatch,
    ),
    signature(
        r"error parsing metadata file (?P<path>\S{1,300})",
        CheckpointUnreadable,
        why="the name of the latest one cannot be read",
    ),
    signature(
        r"Error: unknown checkpoint format in (?P<path>\S{1,300})", CheckpointUnreadable, why="it is in no known format"
    ),
    signature(
        r"Error: (?:(?:bad (?:header|version), cannot read|Zero-sized file): (?P<path>\S{1,300})|Index file doesn't match expected format)",
        lambda m: CorruptData(what="an index file of the dataset", path=m["path"]),
    ),
    signature(r"number of microbatches should be at least 1, got (?P<batch>\d+)", BatchNotDivisible),
    signature(
        r"Parameter layout was built for (?P<expected>\d+) optimizer shards but the buffer's data-parallel group has (?P<seen>\d+) ranks",
        WorldSizeConflict,
        what="ranks of the data-parallel group",
    ),
    signature(r"custom CUDA extension (?P<name>\w{3,60}) module is not found", LibraryMissing),
    signature(
        r"(?P<detail>(?:Global|Local|Shard) shape mismatch for loaded \([^\n]{0,60}?\) and expected \([^\n]{0,60}?\) tensor for key \S+)",
        CheckpointMismatch,
    ),
    signature(r"(?:Error|Exception): (?P<what>Megatron requires CUDA\.)", CudaMismatch),
    signature(
        r"Error: (?P<detail>cyclic_iter: iterable produced no data|The \w{1,20} blend oversamples the contributing datasets)",
        UnevenShards,
    ),
    signature(
        r"Error: (?P<what>Using [\w ]{3,40} requires setting the environment variable \w{3,40} to \d)",
        UnsupportedCombination,
    ),
)

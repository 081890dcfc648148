# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DeviceMesh, DTensor and pipelines: meshes that do not fit the world, operators without a strategy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import DtypeMismatch, ShapeMismatch
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.sync import ReplicasDiffer
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

_SIZE = re.compile(r"torch\.Size\((\[[\d, ]*\])\)")


def _stage_backward(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The output of a stage and the gradient its successor sent: if the shapes differ, the pipeline is built wrong."""
    sizes = {}
    for line in islice(lines, 4):
        what = line.strip().partition(":")[0]
        if what in ("Stage output", "Output gradient"):
            sizes[what] = _SIZE.findall(line)
    output, gradient = sizes.get("Stage output"), sizes.get("Output gradient")
    if output and gradient and output != gradient:
        yield ShapeMismatch(left=output[0], right=gradient[0], op="the backward pass of a pipeline stage")


BLOCKS = (block(r"Failed to run stage backward:", _stage_backward),)

SIGNATURES = (
    signature(
        r"Mesh should not be bigger than default world size (?P<expected>\d+), but found (?P<seen>\d+) ranks",
        WorldSizeConflict,
        what="device mesh and world",
    ),
    signature(
        r"Mesh should not be bigger than default world size, but found (?P<seen>\d+) ranks",
        WorldSizeConflict,
        what="device mesh and world",
    ),
    signature(
        r"DeviceMesh only support homogeneous hardware, but found (?P<seen>\d+) ranks and (?P<expected>\d+) \w+ devices",
        WorldSizeConflict,
        what="ranks and devices of a host",
    ),
    signature(
        r"the (?:new|split) group's (?:world size|size|rank) should be (?:less or equal to|within|no larger than) the"
        r" world_?\s?size set by init_process_group",
        WorldSizeConflict,
        what="process group and world",
    ),
    signature(
        r"[Tt]he (?:arg 'group_size' \((?P<seen>\d+)\) must not exceed the world size|world size must be divisible by 'group_size')",
        WorldSizeConflict,
        what="process group and world",
    ),
    signature(
        r"(?:world_size|rank) argument (?P<seen>\d+) doesn't match pg (?:size|rank) (?P<expected>\d+)",
        WorldSizeConflict,
        what="RPC and process group",
    ),
    signature(
        r"(?:num_stages \d+ must be evenly divisible by pp_size \d+|Schedule has incorrect number of ranks)",
        WorldSizeConflict,
        what="pipeline stages and ranks",
    ),
    signature(
        r"Pipelining(?:Shape|Metadata)Error: [^\n]{0,120}?(?:shape|stride) mismatch: (?:expected )?(?P<left>\S[^\n]{0,60}?) (?:actual|vs) (?P<right>[^;\n]{1,60})",
        ShapeMismatch,
        op="a pipeline stage",
    ),
    signature(
        r"PipeliningShapeError: [^\n]{0,120}?Number of values \((?P<left>\d+)\) does not match expected number \((?P<right>\d+)\)",
        ShapeMismatch,
        op="a pipeline stage",
    ),
    signature(
        r"Pipelining(?:Shape|Metadata)Error: [^\n]{0,120}?dtype mismatch: (?:expected )?(?P<left>\S{1,40}) (?:actual|vs) (?P<right>\S{1,40})",
        DtypeMismatch,
    ),
    signature(r"(?P<what>Operator \S+ does not have a sharding strategy registered)", UnsupportedCombination),
    signature(r"(?P<what>Sharding propagation failed (?:for|on op) (?:Op\(op=)?[\w.:]{1,80})", UnsupportedCombination),
    signature(
        r"(?P<what>(?:Attempted to (?:flatten|split|unbind)|It cannot be performed without redistribution)[^\n]{0,40}?"
        r"(?: (?:a |the )?sharded dimension| being sharded|, which is disallowed by the current operator))",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>Cannot (?:flatten|unflatten|shard) (?:unevenly (?:sharded|distributed) tensor|tensor with _StridedShard placement)"
        r"|This operation would remove or reshape sharded dimension \d+)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>All operands in \S+ must have the same mesh|Cannot run \S+ on inputs with different meshes"
        r"|Redistribution from one partial type \([^\n]{1,60}?\) to another|Cross device mesh comm)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>[\w.:]{3,80}: got mixed torch\.Tensor and (?:DTensor|distributed tensor))", UnsupportedCombination
    ),
    signature(
        r"ShardedTensor \w+ property does not match from different ranks",
        ReplicasDiffer,
        detail="properties of a sharded tensor",
    ),
    signature(r"Shard\(-?\d+\) requires even sharding: ", WorldSizeConflict, what="a sharded dimension"),
)

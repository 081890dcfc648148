# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DeviceMesh, DTensor and pipeline parallelism: meshes that do not fit the world, operators without a strategy."""

from __future__ import annotations

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.facts.sync import ReplicasDiffer
from keepstep.parse.signature import signature

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
        anchors=("set by init_process_group",),
    ),
    signature(
        r"[Tt]he (?:arg 'group_size' \((?P<seen>\d+)\) must not exceed the world size|world size must be divisible by"
        r" 'group_size')",
        WorldSizeConflict,
        what="process group and world",
        anchors=("must not exceed the world size", "must be divisible by 'group_size'"),
    ),
    signature(
        r"(?:world_size|rank) argument (?P<seen>\d+) doesn't match pg (?:size|rank) (?P<expected>\d+)",
        WorldSizeConflict,
        what="RPC and process group",
        anchors=("doesn't match pg ",),
    ),
    signature(
        r"(?:num_stages \d+ must be evenly divisible by pp_size \d+|Schedule has incorrect number of ranks)",
        WorldSizeConflict,
        what="pipeline stages and ranks",
        anchors=("must be evenly divisible by pp_size", "Schedule has incorrect number of ranks"),
    ),
    signature(
        r"(?P<what>Operator \S+ does not have a sharding strategy registered)",
        UnsupportedCombination,
        anchors=("does not have a sharding strategy registered",),
    ),
    signature(
        r"ShardedTensor \w+ property does not match from different ranks",
        ReplicasDiffer,
        detail="properties of a sharded tensor",
        anchors=("property does not match from different ranks",),
    ),
)

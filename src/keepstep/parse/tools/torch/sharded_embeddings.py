# SPDX-License-Identifier: Apache-2.0
"""Embedding tables that are divided among ranks: TorchRec's planner and the ShardedTensor under it."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.model.facts.sync import CollectiveMismatch, ReplicasDiffer
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # the planner finds no way to place the tables
    signature(
        r"(?P<what>No available sharding type and compute kernel combination after applying user provided constraints(?: for [^\s,]{1,80}[^\s,.])?)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>Unable to find a plan for this model because of the strict constraints)", UnsupportedCombination
    ),
    signature(
        r"Unable to find a plan for this model (?:because of insufficient storage|are evaluating \d+ proposals)",
        DeviceMemoryExhausted,
        requested="the embedding tables of the model",
    ),
    signature(
        r"PlannerError[^\n]{0,80}: Table of size (?P<requested>[^\n]{1,60}?) ?GB cannot be added to any rank",
        DeviceMemoryExhausted,
    ),
    signature(r"(?P<what>Compute kernel validation failed with \d+ violation)", UnsupportedCombination),
    signature(
        r"has rank (?P<seen>\d+) which is greater than world size (?P<expected>\d+)",
        WorldSizeConflict,
        what="sharding plan and world",
    ),
    # what a rank holds is not what the plan says
    signature(
        r"Number of local shards \(\d+\) does not match number of local shards metadata in sharded_tensor_metadata \(\d+\) on rank \((?P<rank>\d+)\)",
        ReplicasDiffer,
        detail="the ranks' plans of a sharded tensor",
    ),
    signature(
        r"Local shards' tensor \w+ property (?:need to be the same on rank: ?|is incompatible with [^\n]{1,80}? on rank )(?P<rank>\d+)",
        ReplicasDiffer,
        detail="properties of a sharded tensor",
    ),
    signature(r"(?P<detail>Local shard tensor device does not match with local Shard's placement)", ClusterSpecInvalid),
    signature(
        r"(?P<detail>Local shard metadata's rank does not match with the rank in its process group)"
        r"(?:! Found current rank in the process group: (?P<rank>\d+))?",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<detail>Global rank \d+ does not exist in input process group)", ClusterSpecInvalid),
    signature(
        r"(?P<what>src_rank|sharding_spec)=(?P<left>[^\n]{1,80}?) on rank: \d+ does not match with \w+=(?P<right>[^\n]{1,80}?) on rank: (?P<other_rank>\d+)",
        CollectiveMismatch,
    ),
    signature(
        r"Default ProcessGroup and RPC ranks must be the same for ShardedTensor, found process group rank: (?P<seen>\d+) and RPC rank: (?P<expected>\d+)",
        WorldSizeConflict,
        what="the rank of the group and of RPC",
    ),
)

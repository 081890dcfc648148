# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate: its launcher, its state, its checks."""

from __future__ import annotations

from keepstep.core.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.core.facts.data import ShapeMismatch, UnevenShards
from keepstep.core.facts.sync import CollectiveMismatch, ForkOrThread
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(r"Process index: (?P<index>\d+)", WorldSeen),
    signature(r"Num processes: (?P<size>\d+)", WorldSeen),
    signature(
        r"(?P<what>Cannot apply desired operation due to shape mismatches\. All shapes across devices must be valid)",
        CollectiveMismatch,
    ),
    signature(r"(?P<what>DistributedOperationException)", CollectiveMismatch),
    signature(
        r"(?P<detail>To launch a multi-(?:GPU|device) training from your notebook[^\n]{0,120})",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<what>\w+ has been initialized before the `notebook_launcher` could create a forked subprocess)",
        ForkOrThread,
    ),
    signature(r"The node_rank must be less than the number of nodes", WorldSizeConflict, what="node rank and nodes"),
    signature(
        r"You need to use at least 2 processes to use `--multi_gpu`", WorldSizeConflict, what="processes", expected="2"
    ),
    signature(
        r"launch on distributed with multinode, but `(?P<name>MASTER_ADDR)` env was not set", RankVariableMissing
    ),
    signature(
        r"When using multiple machines, you need to specify the (?P<name>main process (?:IP|port))", RankVariableMissing
    ),
    signature(
        r"You can't use batches of different size with `dispatch_batches=True`",
        ShapeMismatch,
        op="the batches of processes",
    ),
    signature(
        r"Batch does not contain any data \(`[^`\n]{0,80}`\)",
        UnevenShards,
        detail="the data ended before the ranks' steps did",
    ),
    signature(
        r"(?P<detail>[Yy]ou need to manually pass in `--num_processes` using this config yaml)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>Less than two GPU ids were configured and tried to run on(?: on)? multiple GPUs)",
        ClusterSpecInvalid,
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate: its launcher, its state, its checks."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.model.facts.data import ShapeMismatch, UnevenShards
from keepstep.model.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.model.facts.network import PortTaken
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.model.facts.sync import CollectiveMismatch, ForkOrThread
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature

_PATH = r"(?P<path>\S{1,300}?)"


SIGNATURES = (
    signature(r"Process index: (?P<index>\d+)", WorldSeen),
    signature(r"Num processes: (?P<size>\d+)", WorldSeen),
    signature(
        r"(?P<what>Cannot apply desired operation due to shape mismatches\. All shapes across devices must be valid)",
        CollectiveMismatch,
    ),
    signature(r"(?P<what>DistributedOperationException)", CollectiveMismatch),
    signature(
        r"(?P<detail>To launch a multi-(?:GPU|device) training from your notebook[^\n]{0,120})", ClusterSpecInvalid
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
        r"(?P<detail>[Yy]ou need to manually pass in `--num_processes` using this config yaml)", ClusterSpecInvalid
    ),
    signature(
        r"(?P<detail>Less than two GPU ids were configured and tried to run on(?: on)? multiple GPUs)",
        ClusterSpecInvalid,
    ),
    signature(r"on port `?(?P<port>\d+)`?, but another process is utilizing it", PortTaken),
    signature(r"No executable batch size found, reached zero", DeviceMemoryExhausted),
    signature(
        r"Error: Some modules are dispatched on the CPU or the disk\. Make sure you have enough GPU RAM to fit",
        DeviceMemoryExhausted,
    ),
    signature(
        r"`checkpoint` should be the path to a file containing a whole state dict, or the index of a sharded checkpoint",
        CheckpointUnreadable,
        why="it has no state dict",
    ),
    signature(
        rf"{_PATH} is not a folder containing a `\.index\.json` file", CheckpointUnreadable, why="it has no weights"
    ),
    signature(r"(?P<what>the `Accelerator` should only be initialized inside your training function)", ForkOrThread),
    signature(
        r"(?P<what>A parameter in the optimizer couldn't be switched to its sharded version)", UnsupportedCombination
    ),
    signature(
        r"The checkpoint passed was saved with (?P<detail>\S{1,40}), we need a the pt format", CheckpointMismatch
    ),
    signature(
        r"(?P<what>You can't train a model that has been loaded (?:in \d-bit (?:or \d-bit )?precision|with `?device_map)[^\n]{0,120})",
        UnsupportedCombination,
    ),
    signature(r"Error: (?P<what>fp(?:16|8) mixed precision requires a (?:GPU|device))", CudaMismatch),
    signature(r"Error: (?P<detail>Cannot find the batch size from empty \S{1,40})", UnevenShards),
)

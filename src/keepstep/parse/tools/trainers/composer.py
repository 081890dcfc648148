# SPDX-License-Identifier: Apache-2.0
"""MosaicML Composer: its launcher, its checkpoints, and its helpers for torch.distributed."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSizeConflict
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.sync import ModelsDiffer
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Rank (?P<rank>\d+) crashed with exit code (?P<code>-?\d+)",
        ProcessExited,
        reporter="Composer's launcher",
        first=True,
    ),
    signature(
        r"Global rank (?P<rank>\d+) \(PID (?P<pid>\d+)\) exited with code (?P<code>-?[1-9]\d*)",
        ProcessExited,
        reporter="Composer's launcher",
    ),
    signature(
        r"The world_size\(\d+\) > 1, but the distributed package is not available or has not been initialized",
        RankVariableMissing,
    ),
    signature(
        r"Torch distributed is initialized but environment variable (?P<name>\w{2,40}) is not set", RankVariableMissing
    ),
    signature(
        r"Torch distributed has been initialized with a value of (?P<seen>\d+) for (?P<what>[\w ]{2,40}), but environment variable \w+ "
        r"has value (?P<expected>\d+)",
        WorldSizeConflict,
    ),
    signature(
        r"world_size\((?P<expected>\d+)\) cannot be less than nproc\((?P<seen>\d+)\)",
        WorldSizeConflict,
        what="processes of this node",
    ),
    signature(
        r"(?P<detail>In a multi-node environment, (?:at least one of node_rank and base_rank must be provided|master_\w+ is required))",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<detail>(?:node|base)_rank not provided, but unable to infer from \w+_rank)", ClusterSpecInvalid),
    signature(
        r"(?P<detail>Cannot initialize processes for node with base_rank\(\d+\) and nproc\(\d+\))", ClusterSpecInvalid
    ),
    signature(
        r"(?P<detail>Model is (?:not )?sharded,? but checkpoint is (?:not )?sharded|Loading a sharded checkpoint requires passing an FSDP config)",
        CheckpointMismatch,
    ),
    signature(
        r"(?:Ranks? \[?[\d, ]{1,200}\]? failed to download\.|This likely implies a download failed on local rank \d+, which is global rank (?P<rank>\d+))",
        CheckpointUnreadable,
        why="a rank could not fetch it",
    ),
    signature(
        r"Detected mixed initialization where some ranks have model on cpu or gpu and some ranks are on meta",
        ModelsDiffer,
        detail="some ranks hold weights, others do not",
    ),
)

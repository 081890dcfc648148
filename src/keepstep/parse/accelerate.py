# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate: its launcher, its state, its checks."""

from __future__ import annotations

from keepstep.core.facts.config import ClusterSpecInvalid, WorldSeen, WorldSizeConflict
from keepstep.core.facts.sync import CollectiveMismatch
from keepstep.parse.signature import signature

SIGNATURES = (
    signature(r"Process index: (?P<index>\d+)", WorldSeen),
    signature(r"Num processes: (?P<size>\d+)", WorldSeen),
    signature(
        r"(?P<what>Cannot apply desired operation due to shape mismatches\. All shapes across devices must be valid)",
        CollectiveMismatch,
    ),
    signature(r"(?P<what>DistributedOperationException)", CollectiveMismatch),
    signature(r"(?P<detail>To launch a multi-GPU training from your notebook[^\n]{0,120})", ClusterSpecInvalid),
    signature(
        r"(?P<detail>[Yy]ou need to manually pass in `--num_processes` using this config yaml)",
        ClusterSpecInvalid,
        anchors=("need to manually pass in `--num_processes`",),
    ),
    signature(
        r"(?P<detail>Less than two GPU ids were configured and tried to run on on multiple GPUs)", ClusterSpecInvalid
    ),
    signature(
        r"(?P<detail>There are \d+ GPUs? available[^\n]{0,40}but num_processes[^\n]{0,40})",
        ClusterSpecInvalid,
        anchors=("but num_processes",),
    ),
    signature(
        r"[Tt]he number of processes \((?P<seen>\d+)\)[^\n]{0,60}(?:must be|is not)[^\n]{0,60}\((?P<expected>\d+)\)",
        WorldSizeConflict,
        what="processes",
        anchors=("he number of processes (",),
    ),
)

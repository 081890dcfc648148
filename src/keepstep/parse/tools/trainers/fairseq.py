# SPDX-License-Identifier: Apache-2.0
"""fairseq and metaseq: world size, batches and checkpoints."""

from __future__ import annotations

from keepstep.core.facts.config import WorldSizeConflict
from keepstep.core.facts.data import UnevenShards
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # fairseq and metaseq, where one process is to start all ranks
    signature(
        r"world size is (?P<expected>\d+) but have (?P<seen>\d+) available devices", WorldSizeConflict, what="devices"
    ),
    signature(
        r"(?P<detail>Cannot load state dict with strict=True and checkpoint shards > 1|state_dict does not contain \S{1,120}\. Cannot load)",
        CheckpointMismatch,
    ),
    signature(
        r"Trying to use an uninitialized 'dummy' batch|total number of batches is smaller than the number of participating GPUs",
        UnevenShards,
        detail="fewer batches than ranks",
    ),
    signature(
        r"(?:IOError|OSError): Model file not found: (?P<path>\S+)", CheckpointUnreadable, why="it does not exist"
    ),
    signature(
        r"Cannot load model parameters from checkpoint (?P<detail>[^\s;]{1,300});? ?please ensure that the architectures match",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Optimizer does not match; please reset the optimizer)", CheckpointMismatch),
)

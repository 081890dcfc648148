# SPDX-License-Identifier: Apache-2.0
"""OpenMMLab (mmcv, mmengine), detectron2 and pycls: checkpoints, shared folders, world size."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(r"(?P<what>Invalid REFERENCE_WORLD_SIZE in config)", WorldSizeConflict),
    signature(r"(?P<detail>\S{1,300} is not an? shared directory for rank \d+)", ClusterSpecInvalid),
    signature(
        r"(?P<detail>Mismatched `state_dict`! cannot found|The loaded `state_dict` of `MessageHub` must contain key"
        r"|Checkpoint format '\w+' from config differs from inferred format|Checkpoint at \S{1,300} is not in a supported format"
        r"|but sharded state dict is not provided|Provided checkpoint does not have arguments saved|pycls checkpoints must contain 'model_state')",
        CheckpointMismatch,
    ),
    signature(
        r"(?:IOError|OSError): (?P<path>\S+) is not a checkpoint file", CheckpointUnreadable, why="not a checkpoint"
    ),
    signature(
        r"(?:IOError|OSError|FileNotFoundError): (?P<path>\S+\.(?:pth|pt|ckpt)) (?:is not a checkpoint|can not be found)[^\n]{0,20}",
        CheckpointUnreadable,
    ),
)

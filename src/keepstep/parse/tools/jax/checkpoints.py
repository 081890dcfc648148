# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of Flax, T5X and TensorStore: unreadable, or of another model. Orbax has a table of its own."""

from __future__ import annotations

from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable, SlowStorage
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Error (?:opening|reading) \\?\"(?:zarr3?|ocdbt|n5)\\?\" driver(?![^\n]{0,300} but received: |[^\n]{0,900}\[OS error: (?:Too many open|No space left|Disk quota|No locks|Function not|Operation not supp))|"
        r"NOT_FOUND: Error (?:opening|reading|writing) [^\n]{1,200} in OCDBT database",
        CheckpointUnreadable,
        why="tensorstore cannot open it",
    ),
    signature(
        r"Path is not a valid (?:T5X )?checkpoint: (?P<path>\S{1,300})", CheckpointUnreadable, why="not a checkpoint"
    ),
    signature(r"Save failed: (?P<why>\d+/\d+ params are missing(?: \.zarray)? in checkpoint)", CheckpointUnreadable),
    signature(r"(?P<why>No \"commit_success\.txt\" found on this \"_gda\" directory)", CheckpointUnreadable),
    signature(r"(?P<detail>target dict keys and state dict keys do not match[^\n]{0,120})", CheckpointMismatch),
    signature(
        r"(?P<detail>(?:Initializer expected to generate shape|[Ii]nconsistent shapes between value and initializer)[^\n]{0,160})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>For parameter \"[^\"\n]{0,60}\" in \"[^\"\n]{0,120}\", the given initializer is expected to generate shape[^\n]{0,120})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>The (?:field names of the state dict and the named tuple|size of the list and the state dict) do not match[^\n]{0,100})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Shape of `?[^\s`]{1,160}`? in checkpoint [(\[][^)\]\n]{0,60}[)\]] does not match expected[^\n]{0,60})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<why>Unpack failed: incomplete input|msgpack\.exceptions\.(?:ExtraData|OutOfData|FormatError|StackError))",
        CheckpointUnreadable,
    ),
    signature(r"ScopeParamNotFoundError: (?P<detail>Could not find parameter named [^\n]{0,80})", CheckpointMismatch),
    signature(r"Error: DATA_LOSS: Error (?:reading|decoding|opening) (?P<path>\S{1,160})", CheckpointUnreadable),
    signature(r"(?P<detail>Unmapped tensor keys exist: [^\n]{0,100})", CheckpointMismatch),
    signature(
        r"(?P<detail>Failed to restore optimizer state, path \S{1,120} is not present[^\n]{0,60})", CheckpointMismatch
    ),
    signature(
        r"(?P<detail>Checkpoints containing a multiprocess array need to be restored with a target)", CheckpointMismatch
    ),
    signature(r"(?P<detail>Custom node type mismatch: expected type: [^\n]{0,120})", CheckpointMismatch),
    signature(
        r"(?P<what>Target contains a multiprocess array should be saved/restored with a GlobalAsyncCheckpointManager)",
        UnsupportedCombination,
    ),
    signature(r"(?P<detail>Dict key mismatch; expected keys[^\n]{0,120})", CheckpointMismatch),
    signature(
        r"Error (?:opening|reading) [^\n]{1,400}?(?P<detail>Expected \\?\"(?:shape|dtype|chunks)\\?\" of [^\n]{1,80}? but received: [^\n]{1,60})",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Checkpoint and model arrays have different ranks)", CheckpointMismatch),
    signature(
        r"Error: (?P<why>Attempting to restore a TensorFlow checkpoint as a native T5X checkpoint|Found improperly formatted checkpoint directory"
        r"|TrainState was not found or could not be restored|Checkpoint path(?:\(s\)| '[^'\n]{1,300}') must be (?:a )?valid director)",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<detail>(?:DEADLINE_EXCEEDED|UNAVAILABLE): (?:All \d+ retry attempts failed: )?Error (?:writing|reading|opening) [^\n]{1,160})",
        SlowStorage,
    ),
)

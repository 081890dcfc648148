# SPDX-License-Identifier: Apache-2.0
"""PyTorch's checkpoints (``torch.load``, ``torch.distributed.checkpoint``): unreadable, or of another model."""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.process import TaskNamed
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"don't know how to restore data location of (?P<type>[\w.]{3,60}) \(tagged with (?P<device>[\w:.-]{2,30})\)",
        lambda match: CheckpointUnreadable(
            why=f"it holds {match['type']} of the device {match['device']}, which is not known here"
        ),
    ),
    # torch.distributed.checkpoint gathers the errors of all ranks, each under its number
    signature(r"Traceback \(most recent call last\): \(RANK (?P<rank>\d+)\)", TaskNamed),
    signature(r"PytorchStreamReader failed (?P<why>[^\n]{0,160})", CheckpointUnreadable),
    signature(
        r"\[enforce fail at inline_container\.cc:\d+\] ?\. ?(?P<why>file (?:not found|in archive is not)[^\n]{0,80}|invalid header[^\n]{0,80})",
        CheckpointUnreadable,
    ),
    signature(
        r"unexpected EOF, expected \d+ more bytes\. The file might be corrupted",
        CheckpointUnreadable,
        why="it ends early",
    ),
    signature(
        r"storage has wrong (?:byte )?size: expected -?\d+ got -?\d+",
        CheckpointUnreadable,
        why="a tensor has the wrong size",
    ),
    signature(r"invalid header or archive is corrupted", CheckpointUnreadable, why="archive is corrupted"),
    signature(r"Invalid magic number; corrupt file\?", CheckpointUnreadable, why="not a checkpoint file"),
    signature(
        r"is a zip archive \(did you mean to use torch\.jit\.load\(\)\?\)|RuntimeError: Invalid protocol version: \d",
        CheckpointUnreadable,
        why="this torch does not know its format",
    ),
    signature(r"file in archive is not in a subdirectory", CheckpointUnreadable, why="not a checkpoint archive"),
    signature(r"Weights only load failed", CheckpointUnreadable, why="it holds objects that weights_only refuses"),
    # torch.distributed.checkpoint: the reader found no .metadata in the folder
    signature(
        r"^\s*assert metadata is not None\s*$|AssertionError: metadata is None",
        CheckpointUnreadable,
        why="the checkpoint folder has no metadata",
    ),
    signature(
        r"UnpicklingError: (?P<why>invalid load key[^\n]{0,40}|pickle data was truncated|unpickling stack underflow)",
        CheckpointUnreadable,
    ),
    signature(r"Error\(s\) in loading state_dict for (?P<detail>[\w.]+)", CheckpointMismatch),
    signature(r"(?P<detail>size mismatch for [\w.\-]+): copying a param with shape", CheckpointMismatch),
    signature(r"(?P<detail>Missing key\(s\) in state_dict: [^\n]{0,100})", CheckpointMismatch),
    signature(r"(?P<detail>Unexpected key\(s\) in state_dict: [^\n]{0,100})", CheckpointMismatch),
    signature(r"While copying the parameter named (?P<detail>\S+), whose dimensions", CheckpointMismatch),
    signature(
        r"(?P<detail>loaded state dict contains a parameter group that doesn't match the size of optimizer's group)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>loaded state dict has a different number of parameter groups)", CheckpointMismatch),
    signature(r"Missing key in checkpoint state_dict: (?P<detail>\S+)", CheckpointMismatch),
    signature(r"KeyError: MetadataIndex\(fqn='(?P<detail>[^'\n]{1,200})'", CheckpointMismatch),
    signature(r"(?P<detail>Size mismatch between saved [^\n]{0,80} and current[^\n]{0,80})", CheckpointMismatch),
    signature(r"(?P<detail>mismatch sizes torch\.Size\([^)\n]{0,60}\) vs torch\.Size[^\n]{0,60})", CheckpointMismatch),
    signature(
        r"Could not find (?:FQN|shard at '[^'\n]{0,60}' for FQN): '(?P<detail>[^'\n]{1,200})'", CheckpointMismatch
    ),
    signature(
        r"Attempting to deserialize object on \w+ device (?P<expected>\d+) but torch\.\w+\.device_count\(\) is (?P<seen>\d+)",
        WorldSizeConflict,
        what="devices of a checkpoint and of this host",
    ),
    signature(
        r"Error: (?P<why>Expected PROTO opcode at the start of pickle archive|Unexpected end of pickler archive|No files found in zip archive"
        r"|File is an unsupported archive format from the preview release|Failed to initialize zip archive: )",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<detail>FSDP assumes \S{1,200} is in the state_dict but the state_dict only has"
        r"|No `FlatParameter` in `state_dict` for this FSDP instance but it has parameters"
        r"|Local shard size = \d+ and the tensor in the state_dict is \d+|Expects 0 or 1 shard per rank but got \d+ shards on rank \d+"
        r"|is not in the (?:optimizer|output) state\. The FSDPParamInfo has the param keys|Tensor optimizer state does not have same shape as its parameter"
        r"|Differing optimizer state (?:names for the unflattened parameters|types for state)"
        r"|must have the keys \"state\" ?to be a valid optimizer state dict"
        r"|The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>The option indicates that model state_dict is required to save,? or load,? but (?:model|optim) state_dict is empty)",
        CheckpointMismatch,
    ),
    signature(r"(?P<what>A CPU backend must be enabled for async save)", UnsupportedCombination),
)

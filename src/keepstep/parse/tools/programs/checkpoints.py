# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that programs cannot read, or that belong to another model, in messages of no one library."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable, SlowStorage
from keepstep.parse.scan.signature import signature

WEIGHTS = lazy_pattern(
    r"ckpt|checkpoint|snapshot|pytorch_model|global_step|mp_rank_|optim_states|weights|resume|\.metadata$"
    r"|\.(?:pt|pth|pyth|ptl|tar|safetensors|keras|h5|hdf5|msgpack|npz)$|model\.\w+$|(?:^|/)iter_\d+",
    re.I,
)
_DATA = lazy_pattern(r"dataset|/data/|train\.\w+$|val\.\w+$|annotations|\.py$|\.json$|\.ya?ml$|\.txt$|\.log$", re.I)


def _absent(match: re.Match[str]) -> CheckpointUnreadable | None:
    """A missing file, where its name is that of a checkpoint."""
    path = match["path"]
    named = WEIGHTS.search(path)
    if not named or (_DATA.search(path) and not re.search(r"ckpt|checkpoint", path, re.I)):
        return None
    return CheckpointUnreadable(path=path, why="it does not exist")


_ERROR = r"(?:FileNotFoundError|ValueError|AssertionError|RuntimeError|OSError|IOError|NotFoundError|Exception)"

SIGNATURES = (
    # unreadable: JAX
    signature(
        r"(?:FileNotFoundError|ValueError|StepNotFoundError): (?P<why>No (?:valid )?checkpoints? found (?:in|at|under)|Specified `step=None`, but no checkpoints were found)(?: (?P<path>\S{1,300}))?",
        CheckpointUnreadable,
    ),
    signature(
        r"Invalid checkpoint path: (?P<path>\S{1,300}?)\.?(?:\s|$)", CheckpointUnreadable, why="not a checkpoint"
    ),
    # absent files by their names
    signature(r"[Nn]o such file or directory: b?['\"](?P<path>[^'\"\n]{1,400})['\"]", _absent),
    signature(
        rf"{_ERROR}: [^\n]{{0,60}}[Cc]heckpoint[^\n]{{0,300}}?(?:not found|does not exist|doesn't exist|cannot be found|could not be found|is missing)",
        CheckpointUnreadable,
        why="it does not exist",
    ),
    signature(
        r"Error: (?P<why>(?:\[deepspeed\] )?(?:[Ff]ailed|[Uu]nable) to (?:resume|load|restore)[^\n]{0,30} (?:from )?(?:the )?checkpoints?)(?: (?:at|from))? (?P<path>\S{1,300})",
        CheckpointUnreadable,
    ),
    signature(
        r"Error: (?P<why>Can't find a valid checkpoint at|No valid checkpoint found in(?: output directory)?)(?: \(?(?P<path>\S{1,300}?)\)?)?(?:$|\s)",
        CheckpointUnreadable,
    ),
    # of another model: torch
    signature(
        r"KeyError: ['\"](?P<detail>(?:module\.|model\.|_orig_mod\.)?[\w.]+\.(?:weight|bias|running_mean|running_var|num_batches_tracked))['\"]",
        CheckpointMismatch,
    ),
    # of another model: JAX
    signature(
        r"(?P<detail>Missing keys? in checkpoint|(?:Parameter|Variable|Key) \S{1,80} not found in checkpoint)(?![^\n]{0,30}(?:skip|ignor|init))",
        CheckpointMismatch,
    ),
    signature(
        r"Error: (?P<detail>[^\n]{0,40}[Cc]heckpoint[^\n]{0,80}\d+ (?:layers|shards|ranks|files|devices|partitions|GPUs)[^\n]{0,40}\b(?:but|while|not)\b[^\n]{0,60}\d+)",
        CheckpointMismatch,
    ),
    # of another model
    signature(
        r"Error: (?P<detail>(?=([^\n]{0,200}?(?=[Cc.])(?:[Cc]heckpoint|ckpt|\.npz|\.pth?|\.h5|\.safetensors|\.msgpack)\b))\2(?=([^\n]{0,160}?\b(?:shape|size|key|name|architecture)s?\b))\3"
        r"[^\n]{0,80}(?:do(?:es)? not match|mismatch|\bwants?\b|\bexpect\w*|\bdiffers?\b|not in the model|incompatible)[^\n]{0,60})",
        CheckpointMismatch,
    ),
    # slow
    signature(
        r"(?P<detail>[Cc]heckpoint(?:ing)? (?:save|saving|write|upload)[^\n]{0,60}timed out[^\n]{0,60})", SlowStorage
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that programs cannot read, or that belong to another model, in messages of no one library."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.training import CheckpointUnreadable
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


SIGNATURES = (
    # absent files by their names
    signature(r"[Nn]o such file or directory: b?['\"](?P<path>[^'\"\n]{1,400})['\"]", _absent),
)

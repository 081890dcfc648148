# SPDX-License-Identifier: Apache-2.0
"""Keras: files of weights that are missing, or belong to another model."""

from __future__ import annotations

import re

from keepstep.model.facts.training import CheckpointUnreadable
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.programs.checkpoints import WEIGHTS


def _unopened(match: re.Match[str]) -> CheckpointUnreadable | None:
    """An HDF5 file that does not open, where its name is that of a checkpoint."""
    path = match["path"]
    return CheckpointUnreadable(path=path, why=match["why"]) if path and WEIGHTS.search(path) else None


SIGNATURES = (
    signature(
        r"Unable to (?:synchronously )?open (?:file|object) \((?P<why>[^\n]{0,60}?)[,:][^\n]{0,40}name = '(?P<path>[^'\n]{1,300})'",
        _unopened,
    ),
)

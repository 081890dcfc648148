# SPDX-License-Identifier: Apache-2.0
"""Keras: files of weights that are missing, or belong to another model."""

from __future__ import annotations

import re

from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.programs.checkpoints import WEIGHTS


def _unopened(match: re.Match[str]) -> CheckpointUnreadable | None:
    """An HDF5 file that does not open, where its name is that of a checkpoint."""
    path = match["path"]
    return CheckpointUnreadable(path=path, why=match["why"]) if path and WEIGHTS.search(path) else None


_DIMENSIONS = r"[\[(][^\])\n]{0,80}[\])]"


SIGNATURES = (
    signature(
        r"File not found: filepath=(?P<path>\S+?)\.? Please ensure the file is an accessible",
        CheckpointUnreadable,
        why="it does not exist",
    ),
    signature(
        r"Unable to (?:synchronously )?open (?:file|object) \((?P<why>[^\n]{0,60}?)[,:][^\n]{0,40}name = '(?P<path>[^'\n]{1,300})'",
        _unopened,
    ),
    signature(
        r"No (?:model|file or directory) (?:config )?found (?:in the file )?at (?P<path>\S+(?:h5|keras|hdf5|SavedModel)\S*)",
        CheckpointUnreadable,
        why="it has no model",
    ),
    signature(r"No file or directory found at (?P<path>\S+)", CheckpointUnreadable, why="it does not exist"),
    signature(r"(?P<detail>Layer count mismatch when loading weights from file[^\n]{0,80})", CheckpointMismatch),
    signature(
        r"(?P<detail>[Yy]ou are trying to load a weight file containing \d+ (?:saved )?layers into a model with \d+ layers)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Weight count mismatch for (?:layer|top-level)[^\n]{0,120})", CheckpointMismatch),
    signature(
        r"(?P<detail>Layer #\d+ \(named [^\n]{0,120}expects \d+ weight\(s\), but the saved weights have)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Layer #\d+ \(named [^\n]{0,160}but the saved weight has shape)", CheckpointMismatch),
    signature(r"(?P<detail>Shape mismatch in (?:layer #|model for top-level weight)[^\n]{0,120})", CheckpointMismatch),
    signature(r"(?P<detail>A total of \d+ objects could not be loaded)", CheckpointMismatch),
    signature(
        r"(?P<detail>Layer '[^'\n]{0,100}' expected \d+ (?:variables|input\(s\)|weights), but received \d+ (?:variables|saved)[^\n]{0,60})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>The shape of the target variable and the shape of the target value in `variable\.assign\(value\)` must match)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>You called `set_weights\(weights\)` on layer [^\n]{0,160})", CheckpointMismatch),
    signature(
        r"(?P<detail>Layer (?:\S{1,80} )?weight shape \([^)\n]{0,60}\) (?:is )?not compatible with provided weight shape[^\n]{0,60})",
        CheckpointMismatch,
    ),
    signature(
        r"Layer #\d+ \(named [^\n]{1,120}\)[^\n]{0,200}? expects \d+ weight(?:s|\(s\)), but the saved weights have \d+ element",
        CheckpointMismatch,
        detail="a layer has a different number of weights",
    ),
    signature(
        rf"(?P<detail>(?:Layer \S{{1,120}} weight|Optimizer weight|Optimizer variable \S{{1,200}} has) shape {_DIMENSIONS} (?:is )?not compatible with "
        rf"provided weight shape {_DIMENSIONS})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Layer '\S{1,200}' was never built and thus it doesn't have any variables\. However the weights file lists \d+)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>on optimizer \S{1,80} with a weight list of length \d+, but the optimizer was expecting \d+ weights)",
        CheckpointMismatch,
    ),
)

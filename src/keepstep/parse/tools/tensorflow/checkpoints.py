# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's checkpoints: files it cannot write, find or read, and tensors that do not fit the model."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.sync import SharedStateRace
from keepstep.model.facts.training import CheckpointUnreadable
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.programs.checkpoints import WEIGHTS


def _refused(match: re.Match[str]) -> CheckpointUnreadable | None:
    """A bucket that denies an object whose name is that of a checkpoint."""
    path = match["path"]
    if not WEIGHTS.search(path):
        return None
    why = "it does not exist" if match["code"] == "404" else "access is denied"
    return CheckpointUnreadable(path=f"gs://{path}", why=why)


_OF_CHECKPOINTS = (
    r"(?:\.ckpt|ckpt-|[/\\]checkpoint\b|tempstate|variables_temp|_temp[/\\_]|saved_model|\.h5\b|\.keras\b)"
)


def _moved(match: re.Match[str]) -> Fact:
    return SharedStateRace(what="a checkpoint file could not be moved into place", path=match["path"].strip())


SIGNATURES = (
    signature(
        r"HTTP response code (?P<code>40[34])\b[^\n]{0,2000}when (?:reading|resuming upload|uploading|initiating an upload to|renaming|deleting|retrieving)[^\n]{0,30}?gs://(?P<path>\S{1,400})",
        _refused,
    ),
    signature(
        r"(?P<path>[^\s:;']{1,300}_temp(?:_[0-9a-f]{6,})?/part-\d{5}-of-\d{5}[^\s;']{0,60})(?:;? No such file or directory)?",
        lambda match: CheckpointUnreadable(path=match["path"], why="a part that another host wrote is missing"),
    ),
    signature(
        r"(?P<path>[^\s;'\"]{1,300}(?:\.data-\d{5}-of-\d{5}|\.index|ckpt-\d+(?:\.meta)?|/saved_model\.pb(?:txt)?))[;:] "
        r"(?:No such file or directory|(?P<why>Stale file handle|Permission denied|Input/output error))",
        lambda match: CheckpointUnreadable(path=match["path"], why=match["why"] or "it does not exist"),
    ),
    # tf.train.Checkpoint.restore
    signature(
        rf"Error: +Failed to rename: (?=[^\n]{{0,300}}{_OF_CHECKPOINTS})[^\n]{{0,600}}? to: (?P<path>[^\n;]{{1,300}}?)(?: : |; |$)",
        _moved,
    ),
)

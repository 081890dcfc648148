# SPDX-License-Identifier: Apache-2.0
"""Files of checkpoints that TensorFlow could not write, move or make a folder for.

What it says of checkpoints that cannot be read is in ``programs/checkpoints``, a full disk in ``system/disk``.
"""

from __future__ import annotations

import re

from keepstep.core.facts.base import Fact
from keepstep.core.facts.sync import SharedStateRace
from keepstep.core.facts.training import CheckpointUnreadable
from keepstep.parse.scan.signature import signature

_OF_CHECKPOINTS = (
    r"(?:\.ckpt|ckpt-|[/\\]checkpoint\b|tempstate|variables_temp|_temp[/\\_]|saved_model|\.h5\b|\.keras\b)"
)


def _moved(match: re.Match[str]) -> Fact:
    return SharedStateRace(
        what="a file of a checkpoint that could not be moved to its place", path=match["path"].strip()
    )


SIGNATURES = (
    signature(
        r"Error: Parent directory of (?P<path>\S{1,300}) doesn't exist, can't save",
        CheckpointUnreadable,
        why="its folder is not there",
    ),
    signature(
        r"Error: +Failed to create a (?:new )?directory: (?P<path>[^\n;]{1,300})",
        CheckpointUnreadable,
        why="its folder could not be made",
    ),
    signature(
        rf"(?:PermissionDenied|FailedPrecondition|NotFound|Unknown)Error: +(?!\s)(?=[^\n;]{{0,300}}{_OF_CHECKPOINTS})(?P<path>[^\n;]{{1,420}}); "
        r"(?P<why>Permission denied|Read-only file system|Is a directory|Not a directory|Operation not permitted)",
        CheckpointUnreadable,
    ),
    signature(
        rf"Error: +Failed to rename: (?=[^\n]{{0,300}}{_OF_CHECKPOINTS})[^\n]{{0,600}}? to: (?P<path>[^\n;]{{1,300}}?)(?: : |; |$)",
        _moved,
    ),
)

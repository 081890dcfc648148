# SPDX-License-Identifier: Apache-2.0
"""NumPy: arrays whose shapes do not fit, and archives that lack an array."""

from __future__ import annotations

from keepstep.model.facts.data import ShapeMismatch
from keepstep.model.facts.training import CheckpointMismatch
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"operands could not be broadcast together with (?:remapped )?shapes (?:\[original->remapped\]: )?"
        r"(?P<left>\([^)\n]*\)(?:->\([^)\n]*\))?) (?P<right>\([^)\n]*\)(?:->\([^)\n]*\))?)",
        ShapeMismatch,
    ),
    signature(
        r"could not broadcast input array from shape (?P<left>\([^)]*\)) into shape (?P<right>\([^)]*\))", ShapeMismatch
    ),
    signature(
        r"all (?:the )?input array(?:s must have (?:the )?same|(?: dimensions)?(?: except for the concatenation axis)? must match)[^\n]{0,100}",
        ShapeMismatch,
        op="concatenation",
    ),
    signature(r"The requested array has an inhomogeneous shape", ShapeMismatch, op="collation"),
    signature(r"KeyError: ['\"](?P<detail>[^'\"\n]{1,120}) is not a file in the archive", CheckpointMismatch),
)

# SPDX-License-Identifier: Apache-2.0
"""Mesh TensorFlow: a mesh, a layout or a batch that does not fit the devices.

What its TPU topology says is in ``tpu/runtime``.
"""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import BatchNotDivisible
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.training import CheckpointMismatch
from keepstep.parse.scan.signature import signature

_MESH = "devices of the mesh"

SIGNATURES = (
    signature(
        r"Argument not a list with same length as devices|devices must be a list of length len\(xs\)"
        r"|logical size and physical size must match - got|mesh spec multiplies to the wrong size"
        r"|logical_to_physical must be a permutation on range",
        WorldSizeConflict,
        what=_MESH,
    ),
    signature(
        r"product of spec must be num_processors(?: spec=(?P<seen>[^\n]{1,60}?) num_processors=(?P<expected>\d+))?",
        WorldSizeConflict,
        what=_MESH,
    ),
    signature(r"Tensor dimension size not divisible by mesh dimension size", BatchNotDivisible),
    signature(
        r"(?P<what>Tensor dimension maps to multiple mesh dimensions|Two Tensor Dimensions may not map to the same Mesh Dimension"
        r"|can't (?:concat|split|stack|unstack) along split axis|dimension \S{1,120} is not declared as splittable)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<detail>Number of variables in ckpt and current model \(minus `new_layers`\) must be equal)",
        CheckpointMismatch,
    ),
    signature(
        r"length of devices \((?P<seen>\d+)\) must be equal to total size of the mesh of shape (?P<expected>[^\n]{1,40})",
        WorldSizeConflict,
        what="devices",
    ),
)

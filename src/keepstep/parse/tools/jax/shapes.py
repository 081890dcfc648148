# SPDX-License-Identifier: Apache-2.0
"""JAX and Flax: operands whose shapes or types do not fit, arrays that cannot be divided among devices."""

from __future__ import annotations

from keepstep.model.facts.data import BatchNotDivisible, DtypeMismatch, ShapeMismatch
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"(?:Incompatible shapes for broadcasting|[Gg]ot incompatible shapes for broadcasting): (?P<left>[^\n]{1,120})",
        ShapeMismatch,
        op="broadcast",
    ),
    signature(
        r"dot_general requires contracting dimensions to have the same shape, got (?P<left>\([^)]*\)) and (?P<right>\([^)]*\))",
        ShapeMismatch,
        op="dot",
    ),
    signature(
        r"TypeError: \w+ got incompatible shapes for broadcasting: (?P<left>\([^)]*\)), (?P<right>\([^)]*\))",
        ShapeMismatch,
    ),
    signature(
        r"TypeError: (?P<op>\w+) (?:requires|operands? must have|cases must have|expects)[^\n]{0,80}(?:equal|same) shapes?[^\n]{0,80}",
        ShapeMismatch,
    ),
    signature(r"vmap got inconsistent sizes for array axes to be mapped", ShapeMismatch, op="vmap"),
    signature(
        r"(?:size of its )?dimension \d+ should be divisible by (?P<parts>\d+), but it is equal to (?P<batch>\d+)",
        BatchNotDivisible,
    ),
    signature(
        r"One of [^\n]{1,200}?should (?:be divisible by|evenly divide)(?:[^\n\d]{0,40}(?P<parts>\d+))?[^\n]{0,60}",
        BatchNotDivisible,
    ),
    signature(r"per-dimension tiling factors: \[[\d, ]{1,60}\] should evenly divide the shape", BatchNotDivisible),
    signature(
        r"implies that array axis \d+ is partitioned (?P<parts>\d+) times, but the dimension size is (?P<batch>\d+)",
        BatchNotDivisible,
    ),
    signature(r"has to be divisible by the size of the named axis", BatchNotDivisible),
    signature(
        r"(?:body_fun output and input|(?:true_fun|false_fun|branch \d+)(?: and (?:true_fun|false_fun|branch \d+))? outputs?|"
        r"cond branches|branches) must have (?:identical|equal|the same)(?: output)? types",
        DtypeMismatch,
    ),
    signature(
        r"TypeError: (?:lax\.)?(?P<op>\w+) requires arguments to have the same dtypes, got (?P<types>[^\n]{1,80})",
        lambda match: DtypeMismatch(left=match["types"]),
    ),
    signature(
        r"(?:scan|while_loop|cond)[^\n]{0,80}(?:carry|branch)[^\n]{0,80}(?:must have (?:equal|the same|identical) types|must be equal types|differ)",
        DtypeMismatch,
    ),
    signature(
        r"all_to_all requires the size of the mapped axis axis_name to equal x\.shape\[split_axis\], but they are (?P<left>\d+) and (?P<right>\d+)",
        ShapeMismatch,
    ),
    signature(
        r"Incorrect shapes\. Got shape (?P<left>\([^)\n]{0,60}\)) logits and (?P<right>\([^)\n]{0,60}\)) targets",
        ShapeMismatch,
    ),
    signature(
        r"Error: (?:(?P<op>q, k|k, v|q, k, v) (?:batch dims|depths|lengths|num_heads) must match|Inconsistent batch(?:-| axis )sizes: )",
        ShapeMismatch,
    ),
    signature(r"Input dtypes (?P<left>[^\n]{1,120}?) have no available implicit dtype promotion path", DtypeMismatch),
)

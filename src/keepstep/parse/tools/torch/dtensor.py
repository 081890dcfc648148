# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DeviceMesh, DTensor and pipelines: meshes that do not fit the world, operators without a strategy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import ShapeMismatch
from keepstep.parse.scan.block import block

_SIZE = re.compile(r"torch\.Size\((\[[\d, ]*\])\)")


def _stage_backward(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """The output of a stage and the gradient its successor sent: if the shapes differ, the pipeline is built wrong."""
    sizes = {}
    for line in islice(lines, 4):
        what = line.strip().partition(":")[0]
        if what in ("Stage output", "Output gradient"):
            sizes[what] = _SIZE.findall(line)
    output, gradient = sizes.get("Stage output"), sizes.get("Output gradient")
    if output and gradient and output != gradient:
        yield ShapeMismatch(left=output[0], right=gradient[0], op="the backward pass of a pipeline stage")


BLOCKS = (block(r"Failed to run stage backward:", _stage_backward),)

# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow's kernels say about operands that do not fit: queues, gathers, stacks, convolutions, scatters.

There are hundreds of such errors. The frequent ones are here by their messages; the others are known by their status
(an invalid argument) together with what they mention (shapes, dimensions).
"""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.whole_numbers import whole
from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import EmptyBatch, ShapeMismatch
from keepstep.parse.scan.signature import signature

_HEALTHY = lazy_pattern(r"does not indicate an error|You must feed a value for placeholder")


def _supposed(match: re.Match[str]) -> Fact | None:
    return None if _HEALTHY.search(match.string) else ShapeMismatch(op=match["op"].strip(" .,:"), supposed=True)


def _ensured_shape(match: re.Match[str]) -> Fact:
    """TensorFlow's EnsureShape; a batch that only has too few rows is the last one of the data."""
    got, wanted = (match[name].split(",") for name in ("left", "right"))
    if (
        len(got) == len(wanted) > 0
        and got[1:] == wanted[1:]
        and (rows := whole(got[0])) is not None
        and rows < (whole(wanted[0]) or 0)
    ):
        return EmptyBatch(what="a tensor of a fixed shape")
    return ShapeMismatch(left=f"[{match['left']}]", right=f"[{match['right']}]", op="ensure_shape")


SIGNATURES = (
    signature(
        r"(?:InvalidArgumentError: |(?<![A-Za-z])Invalid argument: |\) INVALID_ARGUMENT: )(?!\s)"
        r"(?=[^\n]{0,240}\b(?:must|should|[Ee]xpected|[Mm]ismatch|incompatible|[Ii]ncompatible|does not match|don't match|doesn't match|"
        r"do not match|but got|not equal|different)\b)"
        r"(?P<op>(?:[^\n]{0,200}?)\b(?:[Ss]hapes?|[Dd]imensions?|\d-[Dd]imensional|[Rr]anks?|ndims)\b[^\n]{0,60})",
        _supposed,
    ),
    signature(
        r"Shape of tensor \S{1,200} \[(?P<left>[\d,]{1,80})\] is not compatible with expected shape \[(?P<right>[\d,?]{1,80})\]",
        _ensured_shape,
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""Shapes that NumPy and JAX cannot reshape: a batch over devices, devices into a mesh, plain mistakes.

``shard`` of flax and its many copies reshape ``(devices, -1, ...)``; a mesh is made by reshaping the list
of devices. So the numbers, and the source line above the message, show what was to be split.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.whole_numbers import whole
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import BatchNotDivisible, ShapeMismatch
from keepstep.model.facts.training import CheckpointMismatch
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

NEXT_LINES = 12
"""From the line of source to the message: notebooks print some of its neighbours."""

_REFUSED = lazy_pattern(
    r"cannot reshape array of (?:size (?P<size>\d+)|shape \([^)\n]{0,80}\) \(size (?P<size2>\d+)\)) into shape [(\[](?P<shape>[^)\]\n]{0,80})[)\]]"
)
_OF_DATA = lazy_pattern(r"fromfile|frombuffer|fromstring|memmap|loadtxt|\.read\(|\bopen\(")


def _refusal(match: re.Match[str]) -> Fact | None:
    """What the numbers alone show: ``(8, -1, 77)`` of a size that 77 divides, but not 8 times 77."""
    refused = _REFUSED.search(match.string)
    if refused is None or _OF_DATA.search(match.string):
        return None
    size = int(refused["size"] or refused["size2"])
    shape = [part.strip() for part in refused["shape"].split(",") if part.strip()]
    if len(shape) >= 2 and shape[1] in ("newaxis", "-1") and all(whole(n) is not None for n in (shape[0], *shape[2:])):
        parts, rest = int(shape[0]), math.prod(int(n) for n in shape[2:])
        if parts > 1 and rest and size % rest == 0 and (size // rest) % parts:
            return BatchNotDivisible(batch=str(size // rest), parts=str(parts))
    return ShapeMismatch(left=str(size), right=f"({', '.join(shape)})", op="reshape")


def _follows(lines: Iterator[str]) -> re.Match[str] | None:
    for _, line in zip(range(NEXT_LINES), lines, strict=False):
        refused = _REFUSED.search(line)
        if refused is not None:
            return refused
    return None


def _mesh(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    refused = _follows(lines)
    if refused is None:
        return
    seen, expected = refused["size"] or refused["size2"], f"({refused['shape']})"
    if match["rest"] and "axis_names" in match["rest"]:
        yield CheckpointMismatch(detail=f"it was saved on devices of shape {expected}, but there are {seen}")
    yield WorldSizeConflict(seen=seen, expected=expected, what="devices of the mesh")


def _batch(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    refused = _follows(lines)
    if refused is not None:
        yield BatchNotDivisible(batch=refused["size"] or refused["size2"], parts=refused["shape"].split(",")[0].strip())


BLOCKS = (
    block(
        r"(?:jax\.(?:local_)?devices\([^)\n]{0,20}\)|global_devices|device_array)\)?\.reshape\((?P<rest>[^\n]{0,120})",
        _mesh,
    ),
    block(
        r"reshape\([^\n]{0,40}(?:local_device_count|device_count\(\)|num_devices|n_devices|num_local_devices)", _batch
    ),
)


def _mesh_above(match: re.Match[str]) -> Fact | None:
    """The same with the line of source just above, as tracebacks print it."""
    return next(_mesh(match, iter(match.string.split("\n"))), None)


def _batch_above(match: re.Match[str]) -> Fact | None:
    return next(_batch(match, iter(match.string.split("\n"))), None)


SIGNATURES = (
    signature(
        r"(?:jax\.(?:local_)?devices\([^)\n]{0,20}\)|global_devices|device_array)\)?\.reshape\((?P<rest>[^\n]{0,120})\n *\w*Error: cannot reshape array of",
        _mesh_above,
    ),
    signature(
        r"reshape\([^\n]{0,40}(?:local_device_count|device_count\(\)|num_devices|n_devices|num_local_devices)[^\n]{0,120}\n *\w*Error: cannot reshape array of",
        _batch_above,
    ),
    signature(r"cannot reshape array of (?:size|shape)[^\n]{0,120}into shape", _refusal),
)

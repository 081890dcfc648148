# SPDX-License-Identifier: Apache-2.0
"""torch_xla: its spawn, its mesh service (XRT) and its PJRT client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import VersionConflict
from keepstep.model.facts.network import RendezvousTimeout
from keepstep.model.facts.platform import TpuInitFailed
from keepstep.model.facts.sync import CollectiveTimeout
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

_AT_START = lazy_pattern(r"init|mesh|start|setup", re.I)


def _rendezvous(match: re.Match[str]) -> Fact:
    """Ranks meet under a name: at the start a rendezvous, later a barrier."""
    where = match["where"]
    return RendezvousTimeout(where=where) if _AT_START.search(where) else CollectiveTimeout(op=f"rendezvous {where}")


def _as_many_as_devices(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """One process is started per device of the host: none, where no device was found."""
    for line in islice(lines, LINES_TO_AN_ERROR):
        if line.lstrip().startswith("ValueError: max_workers must be greater than 0"):
            yield TpuInitFailed(what="no device was found on this host to start a process for")
            return


LINES_TO_AN_ERROR = 10

BLOCKS = (block(r'File "[^"]{0,300}torch_xla/\S{1,60}\.py", line \d+, in run_multiprocess', _as_many_as_devices),)

SIGNATURES = (
    signature(
        r"Failed to meet rendezvous '(?P<where>[^']{1,80})': (?!Socket closed|Connection reset|failed to connect)",
        _rendezvous,
    ),
    signature(
        r"(?P<what>module 'torch_xla(?:\.[\w.]+)?' has no attribute '\w+'|cannot import name '\w+' from 'torch_xla[\w.]*')",
        lambda match: VersionConflict(component="torch_xla"),
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""MaxText: its parallelism settings and its Grain input do not fit the processes."""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import UnevenShards
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Number of devices per slice (?P<seen>\d+) does not match the product of the \w{2,10} parallelism (?P<expected>\d+)"
        r"|Unspecified value unable to be determined with the given \w{2,10} parallelism values"
        r"|Found unspecified values \(-1\) for more than one +\w{2,10} parallelism axis",
        WorldSizeConflict,
        what="devices and the mesh",
    ),
    signature(
        r"The number of stored checkpoint files \((?P<expected>\d+)\) is incompatible with the number of JAX processes \((?P<seen>\d+)\)"
        r"|(?P<expected_>\d+) processes found in Grain checkpoint directory",
        lambda match: WorldSizeConflict(
            expected=match["expected"] or match["expected_"],
            seen=match["seen"],
            what="processes and the checkpoint's processes",
        ),
    ),
    signature(
        r"(?P<detail>No instances assigned to shard \d+/\d+|grain_worker_count \(\d+\) exceeds the number of [^\n]{1,60}? files per host)",
        UnevenShards,
    ),
)

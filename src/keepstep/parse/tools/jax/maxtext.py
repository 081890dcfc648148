# SPDX-License-Identifier: Apache-2.0
"""MaxText: its parallelism settings and its Grain input do not fit the processes."""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"The number of stored checkpoint files \((?P<expected>\d+)\) is incompatible with the number of JAX processes \((?P<seen>\d+)\)"
        r"|(?P<expected_>\d+) processes found in Grain checkpoint directory",
        lambda match: WorldSizeConflict(
            expected=match["expected"] or match["expected_"],
            seen=match["seen"],
            what="processes and the checkpoint's processes",
        ),
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""Native extensions that a run builds as it starts, or finds unbuilt: nvcc, gcc, ninja, apex, bitsandbytes."""

from __future__ import annotations

from keepstep.model.facts.environment import CudaMismatch
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Error building extension '(?P<extension>[\w.\-]+)'",
        lambda match: CudaMismatch(what=f"the extension {match['extension']!r} could not be built"),
    ),
)

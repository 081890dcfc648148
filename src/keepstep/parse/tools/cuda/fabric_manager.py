# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's fabric manager, which sets up the NVSwitches of HGX and DGX machines: its journal and its log."""

from __future__ import annotations

from keepstep.model.facts.environment import CudaMismatch
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"fabric manager NVIDIA GPU driver interface version (?P<here>[\d.]+) (?:don't|doesn't|does not) match with driver version (?P<there>\d[\d.]{0,20}\d)",
        lambda m: CudaMismatch(what=f"the fabric manager {m['here']} does not fit the driver {m['there']}"),
    ),
)

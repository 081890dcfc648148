# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's fabric manager, which sets up the NVSwitches of HGX and DGX machines: its journal and its log."""

from __future__ import annotations

from keepstep.model.facts.environment import CudaMismatch
from keepstep.model.facts.platform import PeerAccessFault
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"fabric manager NVIDIA GPU driver interface version (?P<here>[\d.]+) (?:don't|doesn't|does not) match with driver version (?P<there>\d[\d.]{0,20}\d)",
        lambda m: CudaMismatch(what=f"the fabric manager {m['here']} does not fit the driver {m['there']}"),
    ),
    signature(
        r"(?:nv-fabricmanager\[\d+\]: |\[(?:ERROR|FATAL|CRITICAL)\] \[tid \d+\] |nvidia-fabricmanager\S{0,20}: )(?P<what>(?:detected NVSwitch fatal error"
        r"|[^\n]{0,80}NVSwitches don't match with any supported system topology|No NVSwitches detected, aborting fabric manager)[^\n]{0,80})",
        PeerAccessFault,
    ),
)

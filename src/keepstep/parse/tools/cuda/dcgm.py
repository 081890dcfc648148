# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's DCGM: what its health watches and diagnostics report about a GPU, an NVLink or an NVSwitch."""

from __future__ import annotations

from keepstep.model.facts.platform import DeviceFault, PeerAccessFault
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"(?P<what>Detected \d+ volatile double-bit ECC error|GPU \d+ had uncorrectable memory errors and row remapping failed"
        r"|GPU \d+ had memory errors and row remappings are pending|GPU(?: \d+)? had an uncontained error"
        r"|Pending page retirements together with a DBE were detected on GPU \d+|[Aa] pending retired page has been detected in GPU \d+"
        r"|[Aa] corrupt InfoROM has been detected in GPU \d+)",
        DeviceFault,
    ),
    signature(
        r"(?P<what>GPU \d+'s NvLink link \d+ is currently down|N[Vv]Switch \d+'s NvLink \d+ is down|Detected fatal errors on NvSwitch \d+"
        r"|GPU \d+ was unsuccessfully written to by GPU \d+ in a peer-to-peer test)",
        PeerAccessFault,
    ),
)

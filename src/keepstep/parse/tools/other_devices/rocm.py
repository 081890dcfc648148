# SPDX-License-Identifier: Apache-2.0
"""AMD's ROCm: the HSA runtime, HIP errors by name, rocBLAS and MIOpen, and the amdgpu driver in the kernel log."""

from __future__ import annotations

from keepstep.model.facts.platform import DeviceFault
from keepstep.parse.scan.signature import signature

_RUNTIME = (
    signature(
        r"Memory access fault by GPU node-(?P<device>\d+)[^\n]{0,80}? on address",
        lambda m: DeviceFault(
            what="a kernel accessed memory that it must not", device=f"GPU node {m['device']}", hardware=False
        ),
    ),
    signature(
        r"HW Exception by GPU node-(?P<device>\d+)[^\n]{0,80}? reason ?: ?(?P<what>[^\n]{1,60})",
        lambda m: DeviceFault(what=f"hardware exception: {m['what'].strip()}", device=f"GPU node {m['device']}"),
    ),
)

_DRIVER = (
    # the runtime's own log (AMD_LOG_LEVEL=1)
    signature(
        r"amdgpu[^\n]{0,80}\bring (?P<device>\S{1,40}) timeout, (?:but soft recovered|signaled seq)",
        lambda m: None if "soft recovered" in m.group(0) else DeviceFault(what=f"ring {m['device']} timed out"),
    ),
)

SIGNATURES = _RUNTIME + _DRIVER

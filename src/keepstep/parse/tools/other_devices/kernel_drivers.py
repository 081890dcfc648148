# SPDX-License-Identifier: Apache-2.0
"""Kernel drivers of accelerators other than NVIDIA's, as dmesg shows them: habanalabs (Gaudi), amdgpu, i915, xe.

Such lines begin with the driver and its device:
``habanalabs 0000:1a:00.0:``, ``amdgpu 0000:0a:00.0: amdgpu:``, ``xe 0000:03:00.0: [drm]``.
"""

from __future__ import annotations

from keepstep.model.facts.platform import DeviceFault
from keepstep.parse.scan.signature import signature

_INTEL = (
    signature(
        r"(?P<what>GPU HANG: ecode [\da-fx:]{3,40})|(?:xe|i915) [\da-f:.]{7,16}: (?:\[drm\] )?[^\n]{0,40}?(?P<how>Timedout job: seqno=\d+"
        r"|Engine reset: engine_class=\w+)",
        lambda m: DeviceFault(what=m["what"] or m["how"], hardware=False),
    ),
)

SIGNATURES = _INTEL

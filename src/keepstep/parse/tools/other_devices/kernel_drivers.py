# SPDX-License-Identifier: Apache-2.0
"""Kernel drivers of accelerators other than NVIDIA's, as dmesg shows them: habanalabs (Gaudi), amdgpu, i915, xe.

Such lines begin with the driver and its device:
``habanalabs 0000:1a:00.0:``, ``amdgpu 0000:0a:00.0: amdgpu:``, ``xe 0000:03:00.0: [drm]``.
"""

from __future__ import annotations

from keepstep.model.facts.platform import DeviceFault
from keepstep.parse.scan.signature import signature

_DEVICE = r"(?:(?P<device>[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d|hl\d+|accel\S{1,20}): )?"

_GAUDI = (
    signature(
        rf"habanalabs {_DEVICE}[^\n]{{0,60}}?(?P<what>Device (?:\S{{1,30}} )?is NOT usable|Failed to communicate with Device CPU"
        r"|[Ff]ailed to initialize (?:the H/W|CPU H/W queues|ASIC)|[Dd]evice heartbeat failed|Device CPU packet timeout|PCI link is broken"
        r"|Failed to (?:hard.?)?reset[^\n]{0,40}|[Ff]ailed to (?:load|init)[^\n]{0,20}(?:[Ff]irmware|F/W|boot fit)[^\n]{0,40}"
        r"|Timeout in (?:Boot|Linux|boot)[^\n]{0,30}|[Uu]ncorrectable ECC[^\n]{0,40}|DERR[^\n]{0,40})",
        DeviceFault,
    ),
    signature(
        rf"habanalabs {_DEVICE}[^\n]{{0,40}}?(?P<what>Command submission \d+ has timed out)",
        DeviceFault,
        hardware=False,
    ),
)

_AMD = (
    signature(
        r"amdgpu (?P<device>[\da-f:.]{7,16}): (?:amdgpu: )?(?P<what>Unable to change power state from \w{2,7} to \w{2,7}, device inaccessible"
        r"|[Rr]efused to change power state[^\n]{0,40}|[Dd]evice lost from bus|Fatal error during GPU init|GPU [Rr]ecovery [Ff]ailed[^\n]{0,20}"
        r"|ASIC reset failed[^\n]{0,40}|GPU reset end with ret = -\d+|PCI error: (?:detected|slot reset|disconnect)[^\n]{0,40}"
        r"|probe with driver amdgpu failed with error -\d+|PSP (?:create ring|load \w+) failed[^\n]{0,20})",
        DeviceFault,
    ),
    signature(
        r"(?:amdgpu (?P<device>[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d)|\[amdgpu\])[^\n]{0,40}(?P<what>Timeout waiting for (?:VM flush ACK|sem acquire in VM flush)"
        r"|hw_init of IP block <\w{1,30}> failed -\d+|SMU: I'm not done with your previous command)",
        DeviceFault,
    ),
)

_INTEL = (
    signature(
        r"(?:xe|i915) (?P<device>[\da-f:.]{7,16}): (?:\[drm\] )?(?:\*ERROR\* )?[^\n]{0,40}?(?P<what>has declared device \S{1,30} as wedged"
        r"|declaring it wedged|Failed to reset chip|GPU recovery (?:failed|timed out)[^\n]{0,40}|Unable to change power state from \w{2,7} to \w{2,7},"
        r" device inaccessible)",
        DeviceFault,
    ),
    signature(
        r"(?P<what>GPU HANG: ecode [\da-fx:]{3,40})|(?:xe|i915) [\da-f:.]{7,16}: (?:\[drm\] )?[^\n]{0,40}?(?P<how>Timedout job: seqno=\d+"
        r"|Engine reset: engine_class=\w+)",
        lambda m: DeviceFault(what=m["what"] or m["how"], hardware=False),
    ),
)

SIGNATURES = (*_GAUDI, *_AMD, *_INTEL)

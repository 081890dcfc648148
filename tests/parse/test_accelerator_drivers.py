# SPDX-License-Identifier: Apache-2.0
"""What the kernel drivers of accelerators other than NVIDIA's say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.platform import DeviceFault
from keepstep.parse.tools.other_devices import kernel_drivers as accelerator_drivers
from tests.parse.reading import reader

read = reader(accelerator_drivers)


@pytest.mark.parametrize(
    ("text", "device", "hardware"),
    [
        ("[   72.99] habanalabs hl2: Failed to communicate with Device CPU (CPU-CP timeout)", "hl2", True),
        ("[   72.99] habanalabs hl2: failed to initialize the H/W", "hl2", True),
        ("[   73.02] habanalabs 0000:34:00.0: Failed to initialize hl6. Device is NOT usable !", "0000:34:00.0", True),
        (
            "habanalabs 0000:19:00.0: Failed to initialize accel0. Device 0000:19:00.0 is NOT usable!",
            "0000:19:00.0",
            True,
        ),
        ("habanalabs 0000:b3:00.0: Device heartbeat failed! PCI link is broken", "0000:b3:00.0", True),
        ("habanalabs hl0: Command submission 12 has timed out!", "hl0", False),
        (
            "amdgpu 0000:0a:00.0: Unable to change power state from D3hot to D0, device inaccessible",
            "0000:0a:00.0",
            True,
        ),
        ("amdgpu 0000:03:00.0: amdgpu: device lost from bus!", "0000:03:00.0", True),
        ("amdgpu 0000:0a:00.0: amdgpu: Timeout waiting for VM flush ACK!", "0000:0a:00.0", True),
        ("[drm:gmc_v11_0_flush_gpu_tlb [amdgpu]] *ERROR* Timeout waiting for sem acquire in VM flush!", None, True),
        ("amdgpu 0000:83:00.0: amdgpu: GPU reset end with ret = -110", "0000:83:00.0", True),
        (
            "xe 0000:03:00.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:03:00.0 as wedged.",
            "0000:03:00.0",
            True,
        ),
        ("i915 0000:29:00.0: [drm] GPU HANG: ecode 12:10:85def5ff, in python3 [1234]", None, False),
    ],
)
def test_a_lost_accelerator_is_read(text: str, device: str | None, hardware: bool) -> None:
    (fact,) = read(text)
    assert isinstance(fact, DeviceFault)
    assert (fact.device, fact.hardware) == (device, hardware)


@pytest.mark.parametrize(
    "text",
    [
        "[   43.05] habanalabs hl1: Successfully loaded firmware to device",
        "amdgpu 0000:0a:00.0: amdgpu: PSP is resuming...",
        "amdgpu 0000:0a:00.0: amdgpu: GPU reset end with ret = 0",
        "pcieport 0000:08:00.0: Unable to change power state from D3hot to D0, device inaccessible",
        "xe 0000:03:00.0: [drm] Using GuC firmware from xe/bmg_guc_70.bin version 70.44.1",
    ],
)
def test_a_sound_device_is_none(text: str) -> None:
    assert read(text) == []

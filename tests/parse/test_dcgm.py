# SPDX-License-Identifier: Apache-2.0
"""What DCGM's health watches say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.platform import DeviceFault, PeerAccessFault
from keepstep.parse.tools.cuda import dcgm
from tests.parse.reading import reader

read = reader(dcgm)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Detected 2 volatile double-bit ECC error(s) in GPU 3. Drain the GPU and reset it", DeviceFault),
        ("GPU 5 had uncorrectable memory errors and row remapping failed. Run a field diagnostic", DeviceFault),
        ("GPU 5 had memory errors and row remappings are pending", DeviceFault),
        ("GPU had an uncontained error (XID 95)", DeviceFault),
        ("NVSwitch 2's NvLink 7 is down.", PeerAccessFault),
        ("GPU 3's NvLink link 4 is currently down. Check DCGM and system logs for errors.", PeerAccessFault),
        ("Detected fatal errors on NvSwitch 2 link 7", PeerAccessFault),
    ],
)
def test_a_sick_gpu_is_read(text: str, kind: type[Fact]) -> None:
    assert [type(fact) for fact in read(text)] == [kind]


def test_a_sound_one_is_none() -> None:
    assert read("GPU 3: NvLink: all links are up") == []
    assert read("Detected 8 GPUs") == []
    assert read("Detected nonfatal errors on NvSwitch 2 link 7") == []

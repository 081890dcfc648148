# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's fabric manager says."""

from __future__ import annotations

from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.platform import PeerAccessFault
from keepstep.parse.tools.cuda import fabric_manager
from tests.parse.reading import reader

read = reader(fabric_manager)


def test_a_version_that_does_not_fit_the_driver_is_read() -> None:
    (fact,) = read(
        "nv-fabricmanager[10]: fabric manager NVIDIA GPU driver interface version 550.127.05 don't match with driver version 550.120. Please"
    )
    assert fact == CudaMismatch(what="the fabric manager 550.127.05 does not fit the driver 550.120")


def test_a_fatal_error_of_a_switch_is_read() -> None:
    (fact,) = read(
        "[Nov 16 2025 10:00:00] [ERROR] [tid 4242] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:88:00.0 port 30"
    )
    assert isinstance(fact, PeerAccessFault)


def test_an_error_that_is_not_fatal_is_none() -> None:
    assert (
        read(
            "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0"
        )
        == []
    )


def test_a_machine_without_switches_is_none() -> None:
    assert (
        read(
            "nv-fabricmanager[4177]: request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do"
        )
        == []
    )
    assert (
        read(
            "nv-fabricmanager[1120]: Successfully configured all the available NVSwitches to route GPU NVLink traffic."
        )
        == []
    )

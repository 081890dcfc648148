# SPDX-License-Identifier: Apache-2.0
"""What the NVIDIA driver writes into the kernel log."""

from __future__ import annotations

import pytest

from keepstep.core.facts.platform import DeviceFault, PeerAccessFault
from keepstep.parse.tools.cuda import xid as table

WORDINGS = [
    ("Detected XID 79 for GPU 3", DeviceFault, {"xid": 79, "hardware": True}),
    ("Detected XID 13 for GPU 3", DeviceFault, {"xid": 13, "hardware": False}),
    (
        "nvidia-uvm: uvm encountered global fatal error 0x60, requiring os reboot to recover.",
        DeviceFault,
        {"hardware": True},
    ),
    ("NVRM: fallen off the bus and is not responding to commands.", DeviceFault, {"hardware": True}),
    ("NVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x62:0xffff:2423)", DeviceFault, {"hardware": True}),
    (
        "[12345.678] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
        DeviceFault,
        {"xid": 79, "hardware": True, "device": "PCI:0000:3b:00"},
    ),
    (
        "NVRM: Xid (PCI:0000:02:00): 31, pid=1, Ch 00000010, intr 10000000. MMU Fault",
        DeviceFault,
        {"xid": 31, "hardware": False},
    ),
    (
        "NVRM: Xid (PCI:0000:02:00): 48, pid=1, DBE (double bit error) ECC Error",
        DeviceFault,
        {"xid": 48, "hardware": True},
    ),
    (
        "NVRM: Xid (PCI:0000:02:00): 74, pid=1, NVLink: fatal error detected on link 6",
        PeerAccessFault,
        {"fatal": True},
    ),
    (
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 22013, Fatal, Link 30 Minion Link DLREQ interrupt",
        PeerAccessFault,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.104.05",
        "nvidia 0000:3b:00.0: enabling device",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []

# SPDX-License-Identifier: Apache-2.0
"""What the Linux kernel logs."""

from __future__ import annotations

import pytest

from keepstep.core.facts.platform import MachineFault, NicFault, PeerAccessFault
from keepstep.core.facts.process import FatalSignal
from keepstep.core.facts.resource import OomKilled
from keepstep.parse.tools.system import kernel as table

WORDINGS = [
    ("infiniband efa_0: Wait for completion (polling) timeout", NicFault, {}),
    ("bnxt_en 0000:27:00.0 ens41np0: TX timeout detected, starting reset task!", NicFault, {"device": "ens41np0"}),
    (
        "DMAR: [DMA Write] Request device [02:00.0] fault addr f8139000 [fault reason 05] PTE Write access is not set",
        PeerAccessFault,
        {"what": "the IOMMU blocked accesses of PCI device 02:00.0"},
    ),
    (
        "nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0041 address=0xf4e0c0000 flags=0x0030]",
        PeerAccessFault,
        {},
    ),
    ("bond0: (slave ens1f0): link status definitely down, disabling slave", NicFault, {"device": "ens1f0"}),
    (
        "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
        MachineFault,
        {"what": "uncorrected hardware error (MCE)"},
    ),
    (
        "[  874.457119] Memory cgroup out of memory: Killed process 5776 (python) total-vm:2379800kB",
        OomKilled,
        {"pid": 5776, "process": "python", "by": "the kernel (memory cgroup)"},
    ),
    (
        "Out of memory: Kill process 12345 (python3) score 907 or sacrifice child",
        OomKilled,
        {"pid": 12345, "process": "python3", "by": "the kernel"},
    ),
    (
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/u,task=python,pid=57,uid=0",
        OomKilled,
        {"pid": 57, "by": "the kernel"},
    ),
    (
        "python[4242]: segfault at 88 ip 00007f1a0e81ac00 sp 00007ffd12 error 4 in libtorch_cuda.so[7f1a0e000000+1000]",
        FatalSignal,
        {"signal": "SIGSEGV", "pid": 4242, "library": "libtorch_cuda.so"},
    ),
    (
        "traps: python[12] trap invalid opcode ip:7f22 sp:7ffd error:0 in libfoo.so[7f00+10]",
        FatalSignal,
        {"signal": "SIGILL", "library": "libfoo.so"},
    ),
    ("mlx5_core 0000:5e:00.0 eth2: Link down", NicFault, {"device": "eth2"}),
    ("NETDEV WATCHDOG: eth0 (ixgbe): transmit queue 3 timed out", NicFault, {"device": "eth0"}),
    ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", MachineFault, {}),
    ("Kernel panic - not syncing: Fatal exception", MachineFault, {"what": "kernel panic: Fatal exception"}),
    ("pcieport 0000:00:03.0: AER: Uncorrected (Fatal) error received: 0000:00:03.0", PeerAccessFault, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
        "pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0",
        "mlx5_core 0000:5e:00.0 eth2: Link up",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "DMAR: [DMA Read NO_PASID] Request device [00:02.0] fault addr 0xcf000000 [fault reason 0x06] PTE Read access",
        "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010090",
        "mlx5_core 0000:3b:00.0: Port module event: module 0, Cable plugged",
    ],
)
def test_words_of_healthy_machines_give_nothing(text, read):
    assert read(table, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable error, Bus stuck (I2C or data shorted)",
        "mlx4_core 0000:04:00.0: Internal error detected:",
        "mlx4_core 0000:04:00.0: device is going to be reset",
        "ERROR: ibv_poll_cq: mlx4_0: local work queue catastrophic error",
        "ena 0000:00:05.0 eth0: Keep alive watchdog timeout.",
    ],
)
def test_a_card_that_failed_by_itself_is_read(text, read):
    assert any(isinstance(fact, NicFault) for fact in read(table, text))


def test_a_cable_that_was_plugged_in_says_nothing(read):
    assert read(table, "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged") == []

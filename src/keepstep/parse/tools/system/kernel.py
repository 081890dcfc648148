# SPDX-License-Identifier: Apache-2.0
"""The Linux kernel's log (dmesg, journal, syslog) and systemd-oomd: kills, crashes, faults of the machine."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import MachineFault, NicFault, PeerAccessFault
from keepstep.model.facts.process import FatalSignal
from keepstep.model.facts.resource import OomKilled
from keepstep.parse.scan.signature import signature

_TRAPS = {
    "invalid opcode": "SIGILL",
    "divide error": "SIGFPE",
    "int3": "SIGTRAP",
    "general protection": "SIGSEGV",
    "general protection fault": "SIGSEGV",
    "stack segment": "SIGBUS",
}


def _killed(match: re.Match[str]) -> Fact:
    by = "the kernel (memory cgroup)" if match["group"] else "the kernel"
    return OomKilled(by=by, pid=int(match["pid"]), process=match["process"])


def _trap(match: re.Match[str]) -> Fact | None:
    """Desktop programs (GLib, browsers) give up with a breakpoint; no training does."""
    if match["trap"] == "int3" and not re.match(r"python|pt_|ray|train", match["process"]):
        return None
    return FatalSignal(signal=_TRAPS.get(match["trap"], "SIGSEGV"), pid=int(match["pid"]), library=match["library"])


SIGNATURES = (
    signature(
        r"(?P<group>[Mm]emory cgroup )?[Oo]ut of memory(?: \([^)\n]{1,40}\))?: Kill(?:ed)? process (?P<pid>\d+),? \(?(?P<process>[^)\n,]{1,40})",
        _killed,
    ),
    signature(
        r"oom-kill:constraint=(?P<by>\w+)[^\n]{0,1000}?task=(?P<process>[^,\n]{1,40}),pid=(?P<pid>\d+)",
        lambda m: OomKilled(
            by="the kernel (memory cgroup)" if "MEMCG" in m["by"] else "the kernel",
            pid=int(m["pid"]),
            process=m["process"],
        ),
    ),
    # crashes of a process, reported by the kernel
    signature(
        r"traps: (?P<process>[^\n\[]{1,40})\[(?P<pid>\d+)\] (?:trap )?(?P<trap>invalid opcode|divide error|int3|general protection(?: fault)?"
        r"|stack segment) ip:[\da-f]+ sp:[\da-f]+ error:\d+(?: in (?P<library>[^\[\s]+)\[)?",
        _trap,
    ),
    # the machine
    signature(
        r"\[Hardware Error\]: CPU \d+: Machine Check(?: Exception)?: \d+ Bank \d+: (?P<status>[\da-f]{16})",
        lambda m: MachineFault(what="uncorrected hardware error (MCE)") if int(m["status"][0], 16) & 2 else None,
    ),
    signature(
        r"Kernel panic - not syncing(?:: (?P<what>[^\n]{1,80}))?",
        lambda m: MachineFault(what=f"kernel panic: {m['what']}" if m["what"] else "kernel panic"),
    ),
    signature(
        r"(?:MCE|Memory failure): 0x[\da-f]+: [^\n]{0,60}(?:Killing (?P<what>\S+)|recovery action for [^\n]{0,60}: (?:Failed|Ignored))",
        lambda m: MachineFault(what="a memory page failed (hardware memory error)"),
    ),
    signature(
        r"watchdog: BUG: soft lockup - CPU#\d+ stuck for (?P<what>\d+s)",
        lambda m: MachineFault(what=f"a CPU was stuck for {m['what']}"),
    ),
    # the IOMMU in the way of devices that talk to each other; bus 00 holds no adapters
    signature(
        r"DMAR: ?\[DMA (?:Write|Read)[^\]\n]{0,20}\] Request device \[(?:\d{4}:)?(?!00:)(?P<device>[\da-f:.]+)\][^\n]{0,40}fault addr",
        lambda m: PeerAccessFault(what=f"the IOMMU blocked accesses of PCI device {m['device']}"),
    ),
    signature(
        r"(?P<driver>nvidia|amdgpu) (?P<device>[\da-f:.]+): (?P<what>BAR \d+: (?:can't assign|no space for)[^\n]{0,40}"
        r"|PCIe Bus Error: severity=Uncorrected[^\n]{0,40}|can't change power state[^\n]{0,60})",
        lambda m: PeerAccessFault(what=f"PCI device {m['device']}: {m['what'].strip()}"),
    ),
    # network cards
    signature(
        r"(?P<bond>\w+): \(slave (?P<device>\w+)\): link status (?:definitely )?down|link status definitely down for interface (?P<name>\w+)",
        lambda m: NicFault(what="link down", device=m["device"] or m["name"]),
    ),
    signature(
        r"mlx[45]_core [\da-f:.]+ ?:?[^\n]{0,30}(?P<what>Internal error detected|device is going to be reset)"
        r"|(?P<device>mlx\d_\d+): (?P<local>local work queue catastrophic error|local catastrophic error)",
        lambda m: NicFault(what=(m["what"] or m["local"]).lower(), device=m["device"]),
    ),
    signature(
        r"IBV?_EVENT_(?P<what>PORT_ERR|DEVICE_FATAL)|Got async event : (?P<event>device fatal[^\n]{0,40})",
        lambda m: NicFault(what=(m["what"] or m["event"]).replace("_", " ").lower()),
    ),
    # disks
    signature(
        r"(?:blk_update_request: (?:critical (?:medium|target) )?|Buffer )I/O error,? (?:on )?dev(?:ice)? (?P<what>\w+)",
        lambda m: MachineFault(what=f"I/O errors on disk {m['what']}"),
    ),
    signature(
        r"nvme (?P<what>nvme\d+): (?:controller is down|I/O \d+ QID \d+ timeout, (?:disable|reset) controller)",
        lambda m: MachineFault(what=f"disk {m['what']} does not answer"),
    ),
)

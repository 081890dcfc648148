# SPDX-License-Identifier: Apache-2.0
"""Xid reports of the NVIDIA driver in the kernel log, and the driver's other messages about a lost GPU.

NVIDIA's Xid catalogue says which Xids mean the device and which the program.
"""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import DeviceFault, PeerAccessFault
from keepstep.parse.scan.signature import signature

_MEANINGS = {
    8: "a kernel ran too long",
    13: "graphics engine exception",
    31: "GPU memory page fault",
    32: "invalid or corrupted push buffer",
    38: "driver firmware error",
    43: "GPU stopped processing for this program",
    44: "graphics engine fault during context switch",
    45: "pre-emptive clean-up after an earlier error",
    46: "GPU stopped processing",
    48: "double-bit ECC error",
    56: "display engine error",
    57: "error in programming the video memory",
    58: "unstable video memory interface",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    63: "ECC page retirement or row remapping",
    64: "ECC page retirement or row remapping failed",
    68: "video processor exception",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained ECC error",
    95: "uncontained ECC error",
    109: "context switch time-out",
    110: "security fault",
    119: "GPU system processor RPC time-out",
    120: "GPU system processor error",
    121: "C2C link error",
    122: "SPI read failure",
    123: "SPI write failure",
    136: "link training failed",
    137: "NVLink fault of a remote peer",
    140: "unrecovered ECC error",
    143: "GPU initialisation failed",
    144: "NVLink SAW error",
    145: "NVLink RLW error",
    146: "NVLink TLW error",
    147: "NVLink TREX error",
    148: "NVLink NVLPW error",
    149: "NVLink NETIR error",
    150: "NVLink MSE error",
    151: "key rotation error",
    154: "GPU recovery action changed",
    155: "NVLink software-defined error",
    156: "resource retirement event",
    157: "resource retirement failed",
    158: "GPU fatal time-out",
    160: "channel retirement event",
    161: "channel retirement failed",
    171: "DRAM error",
    172: "SRAM error",
}
_OF_A_PROGRAM = frozenset({8, 13, 31, 32, 43, 44, 45, 68, 69, 109})
_OF_THE_LINK = frozenset({74, 136, 137, 144, 145, 146, 147, 148, 149, 150, 155})


def _xid(match: re.Match[str]) -> Fact:
    number = int(match["xid"])
    meaning = _MEANINGS.get(number, "GPU error")
    if number in _OF_THE_LINK:
        return PeerAccessFault(what=f"Xid {number}: {meaning}")
    pid = re.compile(r", pid='?(\d{1,9})\b").match(match.string, match.end())
    return DeviceFault(
        what=f"Xid {number}: {meaning}",
        xid=number,
        device=match["device"],
        hardware=number not in _OF_A_PROGRAM,
        pid=int(pid[1]) if pid else None,
    )


SIGNATURES = (
    signature(r"NVRM: (?:GPU at [^\n]{1,60} )?Xid \((?P<device>[^)\n]{1,40})\): (?P<xid>\d+)\b", _xid),
    signature(r"\bXid[ :=#]{1,3}(?:\((?P<device>(?:PCI:)?[\da-fA-F:.]+)\):? ?)?(?:error )?(?P<xid>\d{1,3})\b", _xid),
    # DCGM's health watch
    signature(r"Detected XID (?P<xid>\d{1,3}) for GPU (?P<device>\d+)", _xid),
)

# SPDX-License-Identifier: Apache-2.0
"""NCCL: no transport between two devices, or a machine whose topology it cannot read."""

from __future__ import annotations

from keepstep.model.facts.environment import InternalFault, UnsupportedCombination
from keepstep.model.facts.platform import PeerAccessFault
from keepstep.parse.scan.signature import signature

_WARN = r"(?:NCCL WARN |^\s*)"


SIGNATURES = (
    signature(
        _WARN
        + r"(?P<what>No transport found !|Error ?: Could not find transport to connect next group|(?:\[\d+\] Error|Rank \d+ has) no transport for \w+ peer \d+"
        r"|MNNVL is not supported on this system|P2P IPC handle is not supported)",
        PeerAccessFault,
    ),
    signature(
        _WARN + r"(?P<what>Error ?: ring \d+ does not (?:loop back to start|contain rank \d+)"
        r"|Failed to determine (?:intra(?: proc| node)?|local) ranks (?:rank|hostHash)[^\n]{0,40}|Internal error ?: tree already has [^\n]{0,30}"
        r"|Error ?: could not find CPU close to GPU \w+|No path computed to go from \S{1,20} to \S{1,20}|Could not find (?:node of type|rev link for) [^\n]{0,40}"
        r"|Could not find intermediate GPU between|P2p schedule creation has bugs|Proxy append (?:mismatch|out of bounds?|on running operation)"
        r"|Could not find any local path from gpu \d+ to net|ncclTopo(?:RankToIndex|DevToRank) could not find rank|Add (?:PCI Link|C2c) error ?: could not find"
        r"|Error ?: (?:too many XML (?:sub)?nodes|XML parser is limited to))",
        InternalFault,
    ),
    # the machine does not show its PCI tree (WSL, some virtual machines and containers); INFO says the same of a NIC
    signature(
        _WARN + r"Could not find real path of (?P<what>/sys/class/pci_bus/\S{1,80})",
        lambda m: UnsupportedCombination(what=f"NCCL on a machine without {m['what']}"),
    ),
)

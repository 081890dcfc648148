# SPDX-License-Identifier: Apache-2.0
"""NCCL: no transport between two devices, or a machine whose topology it cannot read."""

from __future__ import annotations

from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.parse.scan.signature import signature

_WARN = r"(?:NCCL WARN |^\s*)"


SIGNATURES = (
    # the machine does not show its PCI tree (WSL, some virtual machines and containers); INFO says the same of a NIC
    signature(
        _WARN + r"Could not find real path of (?P<what>/sys/class/pci_bus/\S{1,80})",
        lambda m: UnsupportedCombination(what=f"NCCL on a machine without {m['what']}"),
    ),
)

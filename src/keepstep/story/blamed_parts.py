# SPDX-License-Identifier: Apache-2.0
"""The host, device and files that a finding is about, so the failures of several runs can be compared. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import DeviceFault
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.model.finding import Finding

_OF_A_GPU = (Cause.RESOURCE_GPU_OOM, Cause.HARDWARE_GPU_FAULT_XID_ECC, Cause.HARDWARE_NVLINK_PCIE_P2P)
_INDEX = lazy_pattern(r"^(?:gpu|cuda|device)?[ :]?(\d{1,3})$", re.I)
_PCI = lazy_pattern(r"([0-9a-f]{2,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.\d)?", re.I)


@dataclass(frozen=True)
class Culprits:
    """``gpus``: names of one GPU; two findings that share one are about the same GPU if the host is the same too."""

    host: str | None = None
    gpus: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def culprits(finding: Finding, host: str | None) -> Culprits:
    """``host``: where the run was, if it was on one host only."""
    nodes = {each for e in finding.evidence for each in _nodes(e)}
    files = {path: None for e in finding.evidence if (path := getattr(e.fact, "path", None))}
    return Culprits(
        host=nodes.pop() if len(nodes) == 1 else host if not nodes else None, gpus=_gpus(finding), files=tuple(files)
    )


def _nodes(each: Evidence[Fact]) -> Iterable[str]:
    if each.rank is not None and each.rank.node:
        yield each.rank.node
    elif node := getattr(each.fact, "node", None):
        yield node


def _gpus(finding: Finding) -> tuple[str, ...]:
    """By its bus address or number; else by its rank, which has the same GPU in every run of the same shape."""
    if finding.cause not in _OF_A_GPU:
        return ()
    names: dict[str, None] = {}
    for each in finding.evidence:
        device = each.fact.device if isinstance(each.fact, DeviceFault | DeviceMemoryExhausted) else None
        index, bus = _INDEX.match(device or ""), _PCI.search(device or "")
        if bus is not None:
            names[f"GPU {bus[1].lower()}"] = None
        elif index is not None and (int(index[1]) or not any(finding.ranks)):
            names[f"GPU {int(index[1])}"] = None  # a rank that sees one GPU only calls it 0
    if len(finding.ranks) == 1:
        names[f"the GPU of rank {finding.ranks[0]}"] = None
    return tuple(names)

# SPDX-License-Identifier: Apache-2.0
"""Another transport in place of NCCL, which the guard puts there. Only on request: it works, but it is slower. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from keepstep.guard.transport import COLLECTIVES
from keepstep.model.cause import Cause
from keepstep.model.finding import Confidence, Safety
from keepstep.model.report import Report
from keepstep.supervise.decide.remedy import Remedy

OF_TRANSPORT = (
    Cause.NETWORK_RDMA_IB,
    Cause.NETWORK_WRONG_INTERFACE,
    Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    Cause.NETWORK_TIMEOUT_SLOW,
    Cause.HARDWARE_NVLINK_PCIE_P2P,
    Cause.HARDWARE_NIC_FAULT,
)
COST = "it costs speed, because every tensor then goes through host memory and TCP"
RING = f"let TensorFlow use its ring over gRPC instead of NCCL; {COST}"
GLOO = f"let torch use gloo instead of NCCL; {COST} (about 0.1 s for 100 MB between two ranks of one machine)"


def other_transport(report: Report, frameworks: frozenset[str], environment: Mapping[str, str]) -> tuple[Remedy, ...]:
    """If NCCL failed because of the network or a link: what could do its work. The guard must be on.

    JAX has nothing in its place. What makes NCCL itself go another way is tried before (``remedy.offered``).
    """
    root = report.root
    if root is None or root.cause not in OF_TRANSPORT or root.confidence is Confidence.HYPOTHESIS:
        return ()
    if environment.get("KEEPSTEP", "on") == "off" or not any("NCCL" in each.quote for each in root.evidence):
        return ()
    if frameworks == {"tensorflow"}:
        return (_instead("ring", RING),)
    return (_instead("gloo", GLOO),) if frameworks == {"torch"} else ()


def _instead(name: str, does: str) -> Remedy:
    return Remedy(
        name=f"{name} instead of NCCL",
        does=does,
        safety=Safety.NEEDS_OWNER,
        variables=((COLLECTIVES, name),),
        command="keepstep run --remedy all -- COMMAND",
    )

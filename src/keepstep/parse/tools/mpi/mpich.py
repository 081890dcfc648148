# SPDX-License-Identifier: Apache-2.0
"""MPICH and its kin (Intel MPI, Cray MPICH, MVAPICH): error stacks, aborts, Hydra's launcher."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import LibraryMissing
from keepstep.model.facts.network import ConnectFailed, PeerLost, RdmaTrouble, Why
from keepstep.model.facts.process import ExceptionRaised, NativeAbort, ProcessExited
from keepstep.parse.scan.signature import signature


def _ofi(match: re.Match[str]) -> Fact:
    """``OFI poll failed (ofi_events.h:124:...:Transport endpoint is not connected)``."""
    why = match["why"]
    if re.search(r"not connected|reset by peer|Connection (?:aborted|closed)|VNI_NOT_FOUND", why):
        return PeerLost(how=f"libfabric: {why.strip()}")
    if re.search(r"refused|No route|unreachable", why):
        return ConnectFailed(why=Why.REFUSED if "refused" in why else Why.UNREACHABLE)
    return RdmaTrouble(what=f"libfabric {match['what'].strip()}: {why.strip()}")


SIGNATURES = (
    signature(
        r"Abort\((?P<code>\d+)\) (?:on node \d+ )?\(rank (?P<rank>\d+) in comm",
        lambda m: ProcessExited(reporter="MPI", rank=int(m["rank"]), code=1),
    ),
    signature(
        r"\bOFI (?P<what>[\w/() ]{2,60}?) failed \([\w./\-]{1,60}:\d+:\w{1,60}:(?P<why>[A-Z][^)\n]{2,60})\)", _ofi
    ),
    signature(
        r"(?P<what>GTL library) is not linked", lambda m: LibraryMissing(name="Cray's GTL library (GPU transport)")
    ),
    signature(
        r"The (?P<call>MPI_\w{2,40})\(\) function was called (?P<when>before MPI_INIT|after MPI_FINALIZE) was invoked",
        lambda m: ExceptionRaised(type="MPI error", message=f"{m['call']} was called {m['when']}"),
    ),
    signature(
        r"Assertion failed in file (?P<where>src/[\w./\-]{3,120}) at line \d+: (?P<what>[^\n]{1,120})",
        lambda m: NativeAbort(what=f"assertion of MPICH: {m['what'].strip()}", where=m["where"]),
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""MPICH and its kin (Intel MPI, Cray MPICH, MVAPICH): error stacks, aborts, Hydra's launcher."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid
from keepstep.model.facts.environment import LibraryMissing, UnsupportedCombination
from keepstep.model.facts.network import ConnectFailed, PeerLost, RdmaTrouble, Why
from keepstep.model.facts.process import ExceptionRaised, NativeAbort, ProcessExited
from keepstep.model.facts.sync import CollectiveMismatch
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
        r"MPIDI_OFI_mpi_init_hook\(\d+\)\.*: *$|MPIDI_OFI_mpi_init_hook\(\d+\)\.*: +\(unknown\)",
        RdmaTrouble,
        what="libfabric could not be set up (OFI init)",
    ),
    signature(r"(?P<what>PtlNIInit failed|cxil_map: write error)", RdmaTrouble),
    signature(
        r"message sizes do not match across processes in the collective routine: Received (?P<left>\d+) but expected (?P<right>\d+)",
        CollectiveMismatch,
        what="message sizes of a collective",
    ),
    signature(r"Communication error with rank (?P<peer_rank>\d+)", PeerLost, how="a connection between ranks broke"),
    signature(r"system msg for (?:write_line|read_line) failure ?: (?P<how>[A-Z][a-z ]{5,60})", PeerLost),
    # Hydra cannot start the program, or a server of its own
    signature(
        r"HYDU?_(?:create_process|spawn) \([^)\n]{1,200}\): execvp error on file (?P<name>[^\n(]{1,200}?) \((?:No such file or directory"
        r"|Permission denied|Exec format error)\)",
        LibraryMissing,
    ),
    signature(
        r"(?P<what>GTL library) is not linked", lambda m: LibraryMissing(name="Cray's GTL library (GPU transport)")
    ),
    # Intel's hydra: the proxy of another node that did not start, or did not call back
    signature(
        r"[Uu]nable to run (?:bstrap_proxy|proxy) (?:\(pid \d+, |on (?P<peer>[\w.\-]{1,80}) \(pid \d+, )",
        ConnectFailed,
        why=Why.FAILED,
    ),
    signature(r"(?P<what>BLCR kernel module not present)", UnsupportedCombination),
    signature(
        r"(?P<detail>PMI2?_Init returned \d+|PMI2_Init failed to intialize|PMI2_Init was intialized but negative values)",
        ClusterSpecInvalid,
    ),
    signature(
        r"The (?P<call>MPI_\w{2,40})\(\) function was called (?P<when>before MPI_INIT|after MPI_FINALIZE) was invoked",
        lambda m: ExceptionRaised(type="MPI error", message=f"{m['call']} was called {m['when']}"),
    ),
    signature(
        r"Assertion failed in file (?P<where>src/[\w./\-]{3,120}) at line \d+: (?P<what>[^\n]{1,120})",
        lambda m: NativeAbort(what=f"assertion of MPICH: {m['what'].strip()}", where=m["where"]),
    ),
    signature(
        r"(?P<detail>(?:mpirun|mpiexec|mpiexec\.hydra)(?: was)?:? [^\n]{0,40}(?:unrecognized argument|unknown option|unrecognized option)[^\n]{0,60})",
        ClusterSpecInvalid,
    ),
)

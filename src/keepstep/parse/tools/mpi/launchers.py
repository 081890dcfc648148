# SPDX-License-Identifier: Apache-2.0
"""Open MPI, PRRTE, MPICH and Intel MPI: processes and daemons that ended, crash reports, unusable addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import LibraryMissing, VersionConflict
from keepstep.model.facts.network import AddressMisled, ConnectFailed, Why
from keepstep.model.facts.process import FatalSignal, Frame, ProcessExited, TerminationRequested
from keepstep.model.facts.resource import SharedMemoryExhausted
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}


def _noticed(match: re.Match[str]) -> Fact:
    return ProcessExited(
        reporter="mpirun",
        rank=int(match["rank"]),
        node=match["node"],
        signal=_SIGNALS.get(int(match["signal"]), f"signal {match['signal']}"),
        pid=int(match["pid"]) or None,
        first=True,
    )


def _named(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """``Process name: [[31877,1],3]`` and the ``Exit code`` line after it."""
    found = re.search(r"Exit code: +(\d+)", match["rest"])
    for _, line in zip(range(4), lines if found is None else (), strict=False):
        found = found or re.search(r"Exit code: +(\d+)", line)
    code = int(found[1]) if found else None
    yield ProcessExited(reporter="mpirun", rank=int(match["rank"]), code=code, first=True)


_FRAME = lazy_pattern(
    r"\[ ?\d+\] (?P<library>[^\s(\[]+)(?:\((?P<function>[^)+\[]*)?(?:\+0x[\da-f]+)?\))?(?:\[0x[\da-f]+\])?"
)
_SIGNAL_LINE = lazy_pattern(r"Signal: [A-Za-z ]+\((?P<number>\d+)\)")


def _report(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """Open MPI's crash report: ``*** Process received signal ***`` ... ``*** End of error message ***``."""
    number: int | None = None
    frames: list[Frame] = []
    for _, line in zip(range(120), lines, strict=False):
        if "End of error message" in line:
            break
        signal = _SIGNAL_LINE.search(line)
        if signal:
            number = int(signal["number"])
            continue
        frame = _FRAME.search(line)
        if frame and ("/" in frame["library"] or ".so" in frame["library"]):
            frames.append(
                Frame(
                    function=frame["function"] or "", library=frame["library"].rpartition("/")[2], file=frame["library"]
                )
            )
    if number is not None:
        top = next((f.library for f in frames if f.library and not re.match(r"lib(?:c|pthread)[.\-]", f.library)), None)
        yield FatalSignal(
            signal=_SIGNALS.get(number, f"signal {number}"),
            pid=int(match["pid"]) if match["pid"] else None,
            library=top,
            frames=tuple(frames),
        )


def _bad_termination(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """MPICH and Intel MPI: ``BAD TERMINATION`` with rank or PID, node and exit code."""
    code: int | None = None
    rank: int | None = None
    pid: int | None = None
    node: str | None = None
    signal: str | None = None
    for _, line in zip(range(14), lines, strict=False):
        if found := re.search(r"EXIT CODE: +(\d+)", line):
            code = int(found[1])
        if found := re.search(r"RANK (\d+) PID (\d+) RUNNING AT (\S+)", line):
            rank, pid, node = int(found[1]), int(found[2]), found[3]
        elif found := re.search(r"PID (\d+) RUNNING AT (\S+)", line):
            pid, node = int(found[1]), found[2]
        if found := re.search(
            r"KILLED BY SIGNAL: +(\d+)|terminated with the exit string: [\w ]+\(signal (\d+)\)", line
        ):
            signal = _SIGNALS.get(int(found[1] or found[2]))
            break
    if code is not None and signal is None:
        signal = _SIGNALS.get(code) if code in (4, 6, 7, 8, 9, 11, 15) else _SIGNALS.get(code - 128)
    if code is not None or signal is not None:
        yield ProcessExited(
            reporter="mpiexec", rank=rank, pid=pid, node=node, code=None if signal else code, signal=signal, first=True
        )


def _dialled(match: re.Match[str]) -> Fact:
    """``connect() to A failed: ...``: the processes know each other, so the address is one that was offered."""
    reason = match["why"].lower()
    if "refused" in reason:
        return ConnectFailed(why=Why.REFUSED, peer=match["peer"])
    return AddressMisled(address=match["peer"], how=f"connecting to it failed: {reason.strip()}")


def _host_pair(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """A help text of Open MPI on a connection that failed, with the hosts in the lines below."""
    peer: str | None = None
    address: str | None = None
    for _, line in zip(range(14), lines, strict=False):
        if found := re.search(r"(?:Remote host|Peer host|target node|Receiving host): +(\S+)", line):
            peer = found[1]
        if found := re.search(r"connect\(\) to ([\w.:]+) ?(?:port \d+ )?failed", line):
            address = found[1]
        if found := re.search(r"Error: +(No route to host|Network is unreachable|Connection timed out)", line):
            yield AddressMisled(address=address, how=f"connecting to it failed: {found[1].lower()}")
            return
        if re.match(r"-{20,}", line):
            break
    yield ConnectFailed(why=Why.FAILED, peer=peer)


def _versions(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    here: str | None = None
    there: str | None = None
    for _, line in zip(range(24), lines, strict=False):
        if found := re.search(r"Local Open MPI version: +(\S+)", line):
            here = found[1]
        if found := re.search(r"Peer Open MPI version: +(\S+)", line):
            there = found[1]
            break
    yield VersionConflict(component="Open MPI", here=here, there=there)


SIGNATURES = (
    signature(
        r"(?:mpi(?:run|exec)(?:\.\w+)?|prte?run|orterun) noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node "
        r"(?P<node>\S+) exited on signal (?P<signal>\d+)",
        _noticed,
    ),
    signature(
        r"mpi(?:run|exec) has exited due to process rank (?P<rank>\d+) with PID (?P<pid>\d+) on(?: node (?P<node>\S+))?",
        lambda m: ProcessExited(reporter="mpirun", rank=int(m["rank"]), node=m["node"], first=True),
    ),
    signature(
        r"mpi(?:run|exec): (?:Forwarding signal (?P<signal>\d+) to job|killing job\.\.\.|abort is already in progress)",
        lambda m: TerminationRequested(
            signal=_SIGNALS.get(int(m["signal"])) if m["signal"] else "SIGINT",
            by=None,
            reason="mpirun was told to end the job",
        ),
    ),
    # Connections between processes
    signature(
        r"btl_tcp_endpoint\.c:\d+:[^\n]{0,80}connect\(\) to (?P<peer>[\w.:%]+?)(?: port \d+)? failed: (?P<why>[A-Z][^(\n]{3,60})",
        _dialled,
    ),
    signature(
        r"HYDU_sock_connect[^\n]{0,60}unable to connect from \S+ to \"?(?P<peer>[\w.\-]+)\"? \((?P<why>[^)\n]{3,40})",
        lambda m: ConnectFailed(why=Why.REFUSED if "refused" in m["why"] else Why.FAILED, peer=m["peer"]),
    ),
    # How many processes where
    signature(
        r"MPItrampoline: (?:ERROR: The environment variable (?P<name>MPITRAMPOLINE_LIB) is not set|Could not dlopen library \"(?P<file>[^\"\n]{1,200})\")",
        lambda match: LibraryMissing(name=match["name"] or match["file"]),
    ),
)


def _no_room(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """A system call for the shared-memory file failed: only some of its reasons are a lack of space."""
    for _, line in zip(range(8), lines, strict=False):
        if re.search(r"Error: +(?:No space left on device|Cannot allocate memory)", line):
            yield SharedMemoryExhausted()
            return


BLOCKS = (
    block(r"A system call failed during shared memory initialization", _no_room),
    block(
        r"A process or daemon was unable to complete a TCP connection|[OP]RTE is unable to establish a communication "
        r"connection|Open MPI failed to TCP connect to a peer",
        _host_pair,
    ),
    block(r"Open MPI detected a mismatch in versions between two processes", _versions),
    block(r"Process name: \[(?:\[\d+,\d+\]|[\w.\-]{1,120}@\d+),(?P<rank>\d+)\](?P<rest>[^\n]{0,40})", _named),
    block(r"(?:\[[\w.\-]+:(?P<pid>\d+)\] )?\*\*\* Process received signal \*\*\*", _report),
    block(r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", _bad_termination),
)

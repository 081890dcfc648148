# SPDX-License-Identifier: Apache-2.0
"""Open MPI, PRRTE, MPICH and Intel MPI: processes and daemons that ended, crash reports, unusable addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.model.facts.environment import LibraryMissing, UnsupportedCombination, VersionConflict
from keepstep.model.facts.network import AddressMisled, ConnectFailed, InterfaceMissing, PeerLost, Why
from keepstep.model.facts.process import FatalSignal, Frame, ProcessExited, TaskNamed, TerminationRequested
from keepstep.model.facts.resource import SharedMemoryExhausted
from keepstep.model.facts.sync import CollectiveMismatch
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import by_hand, signature

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
        r"MPI_ABORT was invoked on rank (?P<rank>\d+)[^\n]{0,80}(?: with errorcode (?P<code>-?\d+))?",
        ProcessExited,
        reporter="MPI_Abort",
        first=True,
    ),
    signature(
        r"application called MPI_Abort\([^,\n]{1,40}, (?P<code>-?\d+)\) - process (?P<rank>\d+)",
        ProcessExited,
        reporter="MPI_Abort",
        first=True,
    ),
    signature(r"Process (?P<rank>\d+) exit with status code (?P<code>\d+)", ProcessExited, reporter="horovodrun"),
    signature(
        r"PRTE (?:has lost|lost) communication with a remote daemon|ORTE has lost communication with a remote daemon",
        TerminationRequested,
        by="mpirun",
        reason="a launcher daemon on another node went away",
    ),
    signature(
        r"[OP]RR?TE (?:has )?lost communication with a remote daemon",
        PeerLost,
        how="a launcher daemon on another node went away",
    ),
    signature(
        r"(?:ORTE|PRTE|prterun|prte|mpirun|mpiexec) was unable to reliably start one or more daemons",
        ConnectFailed,
        why=Why.FAILED,
        final=True,
    ),
    signature(
        r"An (?:ORTE|PRTE) daemon has unexpectedly failed after launch", ConnectFailed, why=Why.FAILED, final=False
    ),
    # sshd of the other node hangs up: too many sessions start at once, or it does not accept this host
    signature(
        r"(?:ssh|kex)_exchange_identification: (?:read: )?Connection (?:closed|reset) by (?:remote host|peer)",
        ConnectFailed,
        why=Why.FAILED,
    ),
    signature(
        r"Received disconnect from (?P<peer>[\w.:\-]{2,80}) port \d+:\d+: Too many authentication failures",
        ConnectFailed,
        why=Why.FAILED,
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
        r"btl_tcp_endpoint[^\n]{0,120}received unexpected process identifier",
        AddressMisled,
        how="another process answered there (the same address on several hosts)",
    ),
    signature(
        r"btl: tcp: Match incoming connection from \S{1,40} (?P<address>[\w.:]{1,45}) with locally known IP [\w.:]{1,45} failed",
        AddressMisled,
        how="it connected from an address that is not listed",
    ),
    signature(r"btl:tcp: host (?P<peer>\S{1,120}), process \S{1,40} UNREACHABLE", ConnectFailed, why=Why.UNREACHABLE),
    signature(
        r"mca_btl_tcp_frag_(?:recv|send)[^\n]{0,40}(?:readv|writev) failed: (?P<how>[A-Z][a-z ]{5,40})", PeerLost
    ),
    signature(
        r"mca_oob_tcp_msg_(?:recv|send)[^\n]{0,60}(?:readv|writev|write|read) failed: (?P<how>[A-Z][a-z ]{5,40})",
        PeerLost,
    ),
    signature(
        r"mpi(?:run|exec) has detected an attempt to run as root",
        ClusterSpecInvalid,
        detail="mpirun was started as root without --allow-run-as-root",
    ),
    signature(r"PML add procs failed|--> Returned \"Unreachable\" \(-12\)", ConnectFailed, why=Why.FAILED),
    signature(r"An MPI communication peer process has unexpectedly disconnected", PeerLost, how="it disconnected"),
    signature(
        r"MPI_INIT has failed because at least one MPI process is unreachable|At least one pair of MPI processes are unable to reach each other",
        ConnectFailed,
        why=Why.FAILED,
    ),
    signature(
        r"None of the TCP networks specified to be included for out-of-band|No network interfaces were found for out-of-band communications",
        InterfaceMissing,
    ),
    signature(
        r"HYDU_sock_connect[^\n]{0,60}unable to connect from \S+ to \"?(?P<peer>[\w.\-]+)\"? \((?P<why>[^)\n]{3,40})",
        lambda m: ConnectFailed(why=Why.REFUSED if "refused" in m["why"] else Why.FAILED, peer=m["peer"]),
    ),
    signature(
        r"(?:@(?P<peer>[\w.\-]+): )?Permission denied \((?:publickey|password|keyboard|gssapi|hostbased)|Host key verification failed",
        ConnectFailed,
        why=Why.FAILED,
    ),
    # Builds and hosts that do not fit
    signature(
        r"received different version from \[\[[^\n]{0,40}: (?P<there>\S+) instead of (?P<here>\S+)",
        VersionConflict,
        component="Open MPI",
    ),
    # messages laid out differently by another version: the daemons of two nodes, or PMIx, cannot unpack them
    signature(
        r"ORTE_ERROR_LOG: (?:Data unpack (?:would read past end of buffer|failed|had inadequate space)|Pack data mismatch|Unpack data pass end of buffer"
        r"|Unknown data type) in file (?:\S*/)?(?:grpcomm|plm|odls|ess|routed|rml|oob|util|regx|orted)\w*"
        r"|FORCE-TERMINATE AT (?:Data unpack|Pack data mismatch|Unpack data)",
        VersionConflict,
        component="Open MPI or the hwloc it was built with",
        certain=False,
    ),
    signature(
        r"PMIX ERROR: (?:UNPACK-PAST-END|UNPACK-INADEQUATE-SPACE|UNPACK-FAILURE|PACK-MISMATCH|UNKNOWN-DATA-TYPE|PMIX_ERR_UNPACK\w*) in file ",
        VersionConflict,
        component="the PMIx of mpirun and of the program",
        certain=False,
    ),
    # a daemon that does not know what the mpirun of another version asks of it
    signature(
        r"Error: unknown option \"--?(?:hnp-topo-sig|hnp-uri|tree-spawn|parent-uri|prtemca|pmixmca|singleton-died-pipe|report-uri)\""
        r"|Type '(?:orted|prted) --help' for usage",
        VersionConflict,
        component="Open MPI",
    ),
    signature(
        r"at least one node in the allocation was detected to have a different architecture",
        VersionConflict,
        component="CPU architecture",
    ),
    signature(
        r"(?:bash|sh|zsh|csh|tcsh): (?:line \d+: )?(?:\S*/)?(?P<name>orted|prted|hydra_pmi_proxy|pmi_proxy):? ?"
        r"(?:command not found|not found|No such file or directory)",
        LibraryMissing,
        anchors=by_hand(
            "the name alone is part of common words (reported, started)", "orted: ", "prted: ", "pmi_proxy: "
        ),
    ),
    signature(
        r"(?:bash|sh|zsh|env)[:’'‘\"]? ?(?:line \d+: )?[‘'’\"]?(?P<name>horovodrun|mpirun|mpiexec)[‘'’\"]?:? ?(?:command not found|not found"
        r"|No such file or directory)",
        LibraryMissing,
    ),
    signature(
        r"(?:bash|sh|zsh|env|nohup|nice|srun|orted)[:’'‘\"]? ?(?:line \d+: |failed to run command )?[‘'’\"]?(?P<name>/\S{1,200}/(?:python[\d.]{0,5}|torchrun|deepspeed"
        r"|accelerate|ray|conda))[‘'’\"]?:? (?:No such file or directory|not found)",
        LibraryMissing,
        anchors=by_hand(
            "the words of its end are on many lines",
            "python: No such",
            "python2: No such",
            "python3: No such",
            "/torchrun: No such",
            "/deepspeed: No such",
            "/accelerate: No such",
            "/ray: No such",
            "python: not found",
            "python3: not found",
            "/torchrun: not found",
            "/conda: No such",
            "’: No such file",
            "': No such file",
        ),
    ),
    signature(r"MCA parameter \"plm_rsh_agent\" was set to a path that could not be found", LibraryMissing, name="ssh"),
    signature(
        r"(?:mpi(?:run|exec)|prterun|orterun|prun) was unable to (?:launch the specified application as it could not (?:access|find an executable)|find the "
        r"specified executable file(?:, and therefore did not launch the job\. This error was first reported for process rank (?P<rank>\d+))?)",
        LibraryMissing,
        name="the program that mpirun was to start",
    ),
    signature(r"^(?P<rank>\d+); it may have occurred for other processes", TaskNamed),
    signature(
        r"OPAL ERROR: Unreachable in file (?:\S*/)?(?:pmix|ext)\w*_client\.c", ConnectFailed, why=Why.FAILED, final=True
    ),
    signature(
        r"OPAL ERROR: (?!Unreachable)[\w ]{3,40} in file (?:\S*/)?(?:pmix|ext)\w*_client\.c",
        VersionConflict,
        component="the PMIx of mpirun and of the program",
    ),
    signature(
        r"The application appears to have been direct launched using \"srun\",? but OMPI was not built",
        UnsupportedCombination,
        what="Open MPI without Slurm's PMI support, started by srun",
    ),
    # How many processes where
    signature(
        r"There are no allocated resources for the application|All nodes which are allocated for this job are already "
        r"filled|Your job has requested a conflicting number of processes|Your job has requested more processes than the ppr",
        WorldSizeConflict,
        what="processes and MPI slots",
    ),
    signature(
        r"(?P<detail>Some of the requested hosts are not included in the current allocation)", ClusterSpecInvalid
    ),
    signature(
        r"MPI_ERR_RANK: invalid rank|Invalid rank has value \d+ but must be nonnegative and less than \d+",
        WorldSizeConflict,
        what="ranks",
    ),
    signature(
        r"(?P<what>MPI_ERR_TRUNCATE: message truncated)|Message truncated; (?P<left>\d+) bytes received but buffer size is (?P<right>\d+)",
        CollectiveMismatch,
    ),
    signature(r"mpirun failed with exit code (?P<code>-?\d+)", ProcessExited, reporter="mpirun"),
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

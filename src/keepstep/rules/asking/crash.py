# SPDX-License-Identifier: Apache-2.0
"""Native crashes: everything the evidence says about each of them, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field

from keepstep.model.facts import (
    AddressMap,
    CollectiveProgress,
    CoreDump,
    ErrorSaid,
    ExceptionRaised,
    Fact,
    FatalSignal,
    Frame,
    InterfaceUsed,
    MemberPlaced,
    NativeAbort,
    NodeSeen,
    PhaseSeen,
    ProcessExited,
    StackDump,
    StacksAtLimit,
    StepSeen,
    StreamEnded,
    TracebackCut,
    VersionSeen,
    WorldSeen,
)
from keepstep.rules.api import Evidence, EvidenceSet, lazy_pattern
from keepstep.signals.stacks import Whose, innermost_user, is_handler, whose

_CRASHES = ("SIGSEGV", "SIGFPE", "SIGABRT", "SIGSYS", "SIGTRAP")
_EXITS = {-11: "SIGSEGV", 139: "SIGSEGV", -8: "SIGFPE", 136: "SIGFPE"}
_PLAIN = (
    NativeAbort, FatalSignal, StackDump, CoreDump, ProcessExited, ExceptionRaised, TracebackCut, ErrorSaid, StreamEnded,
    StepSeen, PhaseSeen, WorldSeen, VersionSeen, InterfaceUsed, AddressMap, CollectiveProgress, NodeSeen, MemberPlaced,
)  # fmt: skip
"""Facts next to an abort that do not explain it."""
_OF_GROUPS = lazy_pattern(
    r"ncclCommWatchdog|ProcessGroup(?:NCCL|Gloo)::\w*(?:[Ww]atchdog|[Hh]eartbeat)|PollForError|CoordinationServiceAgent|TCPStore"
)
_EVALUATES = lazy_pattern(r"^_?PyEval_EvalFrame")
_SIGNAL_ARRIVES = lazy_pattern(r"^(?:__restore_rt|__kernel_rt_sigreturn|<signal handler called>)")
_WAITS_IN_KERNEL = lazy_pattern(
    r"^(?:__)?(?:libc_)?(?:futex_abstimed_wait_common\w*|futex_wait\w*|epoll_p?wait\d*|p?poll|p?select\w*|clock_nanosleep\w*"
    r"|nanosleep|recv(?:from|msg|mmsg)?|accept4?|wait4|waitpid|waitid|pause)(?:@@?[\w.]+)?$"
)
_THREAD_BEGINS = lazy_pattern(r"^(?:start_thread|__?clone3?|execute_native_thread_routine)")


@dataclass
class Crash:
    """Everything known about one process's crash."""

    rank: int | None
    evidence: list[Evidence[Fact]] = field(default_factory=list)
    signal: str | None = None
    frames: tuple[Frame, ...] = ()
    extensions: tuple[str, ...] = ()
    library: str | None = None
    what: str | None = None
    where: str | None = None
    told_by: tuple[str, ...] = ()
    """Where the frames come from: two sources if native frames (of a core) and Python lines (of a log) were joined."""

    def add(self, frames: tuple[Frame, ...], source: str) -> None:
        """Another report of the same crash."""
        known = self.frames
        self.frames, joined = _joined(known, frames)
        if joined:
            self.told_by = tuple(dict.fromkeys((*self.told_by, source)))
        elif self.frames is not known:
            self.told_by = (source,)

    @property
    def name(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else "a process"

    @property
    def how(self) -> str:
        return {"SIGSEGV": "a segmentation fault", "SIGFPE": "an arithmetic fault", "SIGABRT": "an abort"}.get(
            self.signal or "", self.signal or "an abort"
        )

    @property
    def is_quiet_abort(self) -> bool:
        """As os.abort() ends a process: a library that gives up prints why."""
        return self.signal == "SIGABRT" and self.what is None

    @property
    def native_frame(self) -> Frame | None:
        """The innermost native frame that does more than report the crash."""
        return next((f for f in self.frames if f.is_native and not is_handler(f)), None)

    @property
    def sent_while_waiting(self) -> Frame | None:
        """Where it waited in the kernel when the signal came: a call there fails, but never raises one of a fault."""
        if self.signal not in ("SIGSEGV", "SIGFPE"):
            return None
        came = next((n for n, f in enumerate(self.frames) if f.is_native and _SIGNAL_ARRIVES.match(f.function)), None)
        below = self.frames[came + 1 : came + 2] if came is not None else ()
        return next((f for f in below if f.is_native and _WAITS_IN_KERNEL.match(f.function)), None)

    @property
    def user_line(self) -> Frame | None:
        return innermost_user(self.frames)


def crashes(seen: EvidenceSet) -> list[Crash]:
    """The crashes of the run, each once, in order. Aborts that only repeat another failure are left out."""
    return [each for each in seen.once(_ended_by_signals) if each.sent_while_waiting is None]


def struck_from_outside(seen: EvidenceSet) -> list[Crash]:
    """What looks like a crash and is none: a signal that another process sent to one that waited."""
    return [each for each in seen.once(_ended_by_signals) if each.sent_while_waiting is not None]


def _ended_by_signals(seen: EvidenceSet) -> list[Crash]:
    found: dict[object, Crash] = {}

    def crash_of(evidence: Evidence[Fact], pid: int | None) -> Crash:
        rank = evidence.who if evidence.who is not None else _rank_of_pid(seen, pid)
        key: object = (
            ("rank", rank)
            if rank is not None
            else ("pid", pid)
            if pid
            else ("in", evidence.origin.source, evidence.origin.stream)
        )
        crash = found.setdefault(key, Crash(rank))
        crash.evidence.append(evidence)
        return crash

    echoes = {e.origin.writer for e in seen.all(NativeAbort) if tells_of_another(e.fact.what) or _explained(seen, e)}
    for abort in seen.all(NativeAbort):
        if echoes_another(abort.fact) or _explained(seen, abort):
            continue
        crash = crash_of(abort, None)
        crash.what, crash.where = crash.what or abort.fact.what, crash.where or abort.fact.where
        crash.add(crash.frames or abort.fact.frames, abort.origin.source)
    for crashed in seen.all(FatalSignal):
        fact = crashed.fact
        if fact.signal not in _CRASHES or (
            fact.signal == "SIGABRT" and (crashed.origin.writer in echoes or _of_a_group(fact.frames))
        ):
            continue
        crash = crash_of(crashed, fact.pid)
        crash.signal = fact.signal if crash.signal in (None, "SIGABRT") else crash.signal
        crash.add(fact.frames, crashed.origin.source)
        crash.extensions = crash.extensions or fact.extensions
        crash.library = crash.library or fact.library
    # its own watchdog had given up: what it died of while its running threads were printed began nothing
    over = {e.who for e in seen.all(StacksAtLimit) if e.who is not None and not seen.survived(e)}
    for ended in seen.all(ProcessExited):
        if ended.who in over:
            continue
        signal = ended.fact.signal or _EXITS.get(ended.fact.code or 0)
        if signal in ("SIGSEGV", "SIGFPE") and not _was_sent(seen, ended, signal):
            crash = crash_of(ended, ended.fact.pid)
            crash.signal = crash.signal or signal
    return _merged([c for c in found.values() if c.signal != "SIGABRT" or c.frames or c.what])


def _was_sent(seen: EvidenceSet, ended: Evidence[ProcessExited], signal: str) -> bool:
    """Whether the core file of this process says that another process sent the signal."""
    return any(
        core.fact.sent_by is not None
        and core.fact.signal == signal
        and (core.fact.pid == ended.fact.pid if ended.fact.pid and core.fact.pid else core.who == ended.who)
        for core in seen.all(CoreDump)
    )


def _merged(found: list[Crash]) -> list[Crash]:
    """A report without a rank next to crashes that have one is about one of those."""
    named = [c for c in found if c.rank is not None]
    nameless = [c for c in found if c.rank is None]
    telling = [c for c in nameless if c.frames]
    if len(named) == 1 and nameless and (not telling or (len(telling) == 1 and telling[0].signal == named[0].signal)):
        for crash in nameless:
            named[0].evidence += crash.evidence
            named[0].library = named[0].library or crash.library
            named[0].extensions = named[0].extensions or crash.extensions
            for source in crash.told_by[:1]:
                named[0].add(crash.frames, source)
        return named
    if not named and len(nameless) > 1 and sum(bool(c.frames) for c in nameless) <= 1:
        first = max(nameless, key=lambda c: (bool(c.frames), bool(c.library), bool(c.what)))
        for crash in nameless:
            if crash is not first:
                first.evidence += crash.evidence
                first.signal = first.signal or crash.signal
                first.what = first.what or crash.what
        return [first]
    return found


def _joined(one: tuple[Frame, ...], other: tuple[Frame, ...]) -> tuple[tuple[Frame, ...], bool]:
    """The more informative stack; native frames of one and Python lines of the other are joined."""
    best, rest = (one, other) if _tells(one) >= _tells(other) else (other, one)
    if not best or not rest or any(f.is_native for f in best) or not all(f.is_native for f in rest):
        return best, False
    evaluates = next((n for n, f in enumerate(rest) if _EVALUATES.match(f.function)), None)
    if evaluates is not None:
        return rest[:evaluates] + best, True
    # The native frames do not reach Python: they belong to another thread, or were cut off.
    if any(_THREAD_BEGINS.match(f.function) for f in rest):
        return rest, False
    telling = any(whose(f) not in (Whose.SYSTEM, Whose.PYTHON) and not is_handler(f) for f in rest)
    return (rest + best, True) if telling else (best, False)


def _tells(frames: tuple[Frame, ...]) -> tuple[bool, bool, int]:
    """How informative a stack is: Python and native frames, then their number."""
    return (any(not f.is_native for f in frames), any(f.is_native for f in frames), len(frames))


def _of_a_group(frames: tuple[Frame, ...]) -> bool:
    return any(_OF_GROUPS.search(f.function) for f in frames[:40])


def _explained(seen: EvidenceSet, evidence: Evidence[Fact]) -> bool:
    """Whether the message of a crash states something that another rule reports."""
    return any(
        not isinstance(e.fact, _PLAIN)
        and getattr(e.fact, "fatal", True) is not False
        and getattr(e.fact, "final", True) is not False
        for e in seen.near(evidence, Fact, before=0, after=2)
    )


def _rank_of_pid(seen: EvidenceSet, pid: int | None) -> int | None:
    named = (e for kind in (ProcessExited, CoreDump, StackDump) for e in seen.all(kind) if e.who is not None)
    return next((e.who for e in named if pid is not None and getattr(e.fact, "pid", None) == pid), None)


# --- Whether a process that aborted did so for its own reasons, or because of another rank, the device or memory.

_CONSEQUENCE = lazy_pattern(
    r"DistBackendError|DistNetworkError|DistStoreError|[Ww]atchdog|NCCL|nccl|RCCL|gloo::"
    r"|[Cc]onnection (?:closed|reset|refused|aborted)"
    r"|[Ss]ocket (?:closed|[Tt]ime)|Broken pipe|[Cc]oordination [Ss]ervice|[Hh]eartbeat|distributed service"
    r"|Terminating process because"
    r"|UNAVAILABLE|DEADLINE_EXCEEDED|[Bb]arrier timed out|ProcessGroup|[Rr]endezvous|tensorpipe|[Pp]eer"
    r"|CUDA (?:error|driver)|CUDA_ERROR"
    r"|cudaError|cuDNN|CUDNN|cublas|CUBLAS|HIP error|hipError|[Oo]ut of memory|OUT_OF_MEMORY|RESOURCE_EXHAUSTED"
    r"|bad_alloc|TCPStore"
    r"|shut(?:ting)? ?down|MPI_|Horovod|horovod|[Ii]nterrupted|SIGTERM|timed out|[Tt]imeout|TPU|libtpu|No space left"
    r"|interpreter shutdown"
)
"""Other rules report these."""
_OF_A_COMPILER = lazy_pattern(r"^Check failed: !?[\w.>()\[\]-]{3,80}(?:has_value\(\)|empty\(\)|is\w{2,30}\(\)) *$")
"""A condition inside a compiler: it depends on the program, not on other ranks."""


def tells_of_another(what: str) -> bool:
    """Whether the message is about another rank, the device or memory."""
    return bool(_CONSEQUENCE.search(what))


def echoes_another(abort: NativeAbort) -> bool:
    """Whether it aborted because of another rank, the device or memory, by its message or its place in the code."""
    if tells_of_another(abort.what):
        return True
    return tells_of_another(abort.where or "") and not _OF_A_COMPILER.search(abort.what)

# SPDX-License-Identifier: Apache-2.0
"""Native crashes: what is known of each, put together, and whose code it struck."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from keepstep.core import wording
from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import WorldSeen
from keepstep.core.facts.environment import VersionSeen
from keepstep.core.facts.network import AddressMap, InterfaceUsed, PeerLost, RdmaTrouble
from keepstep.core.facts.process import (
    CoreDump,
    ErrorSaid,
    ExceptionRaised,
    FatalSignal,
    Frame,
    NativeAbort,
    ProcessExited,
    StackDump,
    TracebackCut,
)
from keepstep.core.facts.sync import CollectiveProgress, CollectiveTimeout
from keepstep.core.facts.training import PhaseSeen, StepSeen, StreamEnded
from keepstep.core.finding import Confidence, Standing
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.core.stacks import Whose, base_name, innermost_user, is_handler, package_of, place, whose
from keepstep.rules.questions.extensions import calls_natively, own_extensions
from keepstep.rules.questions.given_up import echoes_another, tells_of_another

FALLOUT = (
    Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
    Cause.NETWORK_TIMEOUT_SLOW,
    Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    Cause.WORKER_PARAMETER_SERVER_LOST,
    Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH,
    Cause.UNKNOWN_NOT_ESTABLISHED,
)
"""What the other ranks see of a rank that crashed."""

_STRUCK = ("SIGSEGV", "SIGFPE", "SIGABRT", "SIGSYS", "SIGTRAP")
_EXITS = {-11: "SIGSEGV", 139: "SIGSEGV", -8: "SIGFPE", 136: "SIGFPE"}
_PLAIN = (
    NativeAbort,
    FatalSignal,
    StackDump,
    CoreDump,
    ProcessExited,
    ExceptionRaised,
    TracebackCut,
    ErrorSaid,
    StreamEnded,
    StepSeen,
    PhaseSeen,
    WorldSeen,
    VersionSeen,
    InterfaceUsed,
    AddressMap,
    CollectiveProgress,
)
"""Facts beside an abort that do not explain it."""
MOST_NAMED = 2
"""With more unknown extensions than these, to name any would be to guess."""

_OF_GROUPS = lazy_pattern(
    r"ncclCommWatchdog|ProcessGroup(?:NCCL|Gloo)::\w*(?:[Ww]atchdog|[Hh]eartbeat)|PollForError|CoordinationServiceAgent|TCPStore"
)
_NAMES_FRAMEWORK = lazy_pattern(r"^(?:c10|torch|at|xla|tsl|tensorflow|jax|jaxlib|dnnl|onnx\w*|caffe2)::")
_PATH_OF_FRAMEWORK = lazy_pattern(r"(?:^|/)(?:tensorflow|xla|tsl|jaxlib|torch|c10|aten|horovod|stream_executor|mlir)/")
_CTYPES = lazy_pattern(r"(?:^|/)(?:ctypes/(?:__init__|util)|cffi/\w+)\.py$")
_CALLS_OUT = lazy_pattern(
    r"^(?:ffi_call|_call_function_pointer|_ctypes_callproc|PyCFuncPtr_call|cdata_call|b_callable\w*)"
)
_EVALUATES = lazy_pattern(r"^_?PyEval_EvalFrame")
_THREAD_BEGINS = lazy_pattern(r"^(?:start_thread|__?clone3?|execute_native_thread_routine)")
_LOADING = lazy_pattern(r"<frozen importlib\._bootstrap|importlib/_bootstrap")


@dataclass
class Crash:
    """All that is known of one process's crash."""

    rank: int | None
    evidence: list[Evidence[Fact]] = field(default_factory=list)
    signal: str | None = None
    frames: tuple[Frame, ...] = ()
    extensions: tuple[str, ...] = ()
    library: str | None = None
    what: str | None = None
    where: str | None = None
    told_by: tuple[str, ...] = ()
    """Where the frames are from; two, where native frames (of a core) and Python lines (of a log) were put together."""

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
    def native_frame(self) -> Frame | None:
        """The innermost native frame that does not only report the crash."""
        return next((f for f in self.frames if f.is_native and not is_handler(f)), None)

    @property
    def user_line(self) -> Frame | None:
        return innermost_user(self.frames)


@dataclass(frozen=True)
class Blame:
    """Whose code was struck, as far as the frames tell."""

    owner: Whose
    at: str
    confidence: Confidence
    loading: bool = False
    said: bool = False
    """``at`` is what the process itself said when it gave up."""


def crashes(seen: EvidenceSet) -> list[Crash]:
    """The crashes of the run, each once, in order. Aborts that only echo another failure are left out."""
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

    echoes = {_stream(e) for e in seen.all(NativeAbort) if tells_of_another(e.fact.what) or _explained(seen, e)}
    for abort in seen.all(NativeAbort):
        if echoes_another(abort.fact) or _explained(seen, abort):
            continue
        crash = crash_of(abort, None)
        crash.what, crash.where = crash.what or abort.fact.what, crash.where or abort.fact.where
        crash.add(crash.frames or abort.fact.frames, abort.origin.source)
    for struck in seen.all(FatalSignal):
        fact = struck.fact
        if fact.signal not in _STRUCK or (
            fact.signal == "SIGABRT" and (_stream(struck) in echoes or _of_a_group(fact.frames))
        ):
            continue
        crash = crash_of(struck, fact.pid)
        crash.signal = fact.signal if crash.signal in (None, "SIGABRT") else crash.signal
        crash.add(fact.frames, struck.origin.source)
        crash.extensions = crash.extensions or fact.extensions
        crash.library = crash.library or fact.library
    for ended in seen.all(ProcessExited):
        signal = ended.fact.signal or _EXITS.get(ended.fact.code or 0)
        if signal in ("SIGSEGV", "SIGFPE") and not _was_sent(seen, ended, signal):
            crash = crash_of(ended, ended.fact.pid)
            crash.signal = crash.signal or signal
    return _merged([c for c in found.values() if c.signal != "SIGABRT" or c.frames or c.what])


def _was_sent(seen: EvidenceSet, ended: Evidence[ProcessExited], signal: str) -> bool:
    """Whether the core of this process says that another process sent the signal."""
    return any(
        core.fact.sent_by is not None
        and core.fact.signal == signal
        and (core.fact.pid == ended.fact.pid if ended.fact.pid and core.fact.pid else core.who == ended.who)
        for core in seen.all(CoreDump)
    )


def _merged(found: list[Crash]) -> list[Crash]:
    """A report without a rank beside crashes that have one is about one of those."""
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


def blame(crash: Crash) -> Blame:
    """Whose code was struck: by native frames, then Python frames, then the library's name, then nothing."""
    return (
        _by_native(crash)
        or _by_python(crash)
        or _by_words(crash)
        or _by_library(crash)
        or Blame(Whose.FRAMEWORK, "", Confidence.HYPOTHESIS)
    )


def standing_of(seen: EvidenceSet, crash: Crash, blamed: Blame) -> Standing | None:
    """A crash in the wake of an exception or a lost peer of the same process is only its end."""
    first = min((seen.position.get(id(e), 0) for e in crash.evidence), default=0)
    streams = {_stream(e) for e in crash.evidence}
    for kind in (ExceptionRaised, CollectiveTimeout, PeerLost):
        for earlier in seen.all(kind):
            same = _stream(earlier) in streams and (earlier.who == crash.rank or crash.rank is None)
            if same and seen.position[id(earlier)] < first and not getattr(earlier.fact, "logged", False):
                return Standing.SYMPTOM
    if crash.frames or crash.library or blamed.confidence is not Confidence.HYPOTHESIS:
        return None
    gave_up = bool(crash.what) or crash.signal == "SIGABRT"
    others: tuple[Evidence[Fact], ...] = (*seen.all(CollectiveTimeout), *seen.all(RdmaTrouble))
    if gave_up and others:
        return Standing.SYMPTOM
    return None if crash.what else Standing.EXCEPTION


def grouped(found: list[tuple[Crash, Blame]]) -> Iterator[tuple[list[Crash], Blame]]:
    """Crashes in the same place, as one."""
    groups: dict[tuple[str, str], list[tuple[Crash, Blame]]] = {}
    for crash, blamed in found:
        groups.setdefault((blamed.at, crash.how), []).append((crash, blamed))
    for group in groups.values():
        yield [crash for crash, _ in group], group[0][1]


def names(group: list[Crash]) -> str:
    known = [c.rank for c in group if c.rank is not None]
    return wording.ranks(known) if known else "a process"


def were_ended(group: list[Crash]) -> str:
    known = {c.rank for c in group if c.rank is not None}
    return f"{names(group)} {'were' if len(known) > 1 else 'was'} ended"


def called_from(crash: Crash, at: str) -> str:
    line = crash.user_line
    return f", called from {place(line)}" if line is not None and place(line) not in at else ""


def innermost(crash: Crash, at: str) -> str:
    frame = crash.native_frame
    known = frame is not None and place(frame) not in at and frame.function not in ("???", "??", "")
    said = f"; the innermost native frame is {place(frame)}" if known and frame is not None else ""
    joined = f"; native and Python frames are of {' and '.join(crash.told_by)}" if len(crash.told_by) > 1 else ""
    return said + joined


def _by_native(crash: Crash) -> Blame | None:
    through_ctypes = False
    for frame in crash.frames:
        if not frame.is_native:
            break
        if is_handler(frame):
            continue
        if _CALLS_OUT.match(frame.function) or base_name(frame.library).startswith(("_ctypes.", "_cffi_backend")):
            through_ctypes = True
            continue
        owner = whose(frame)
        if owner is Whose.USER:
            return Blame(
                Whose.USER, place(frame), Confidence.SUPPORTED if crash.signal == "SIGABRT" else Confidence.ESTABLISHED
            )
        if owner in (Whose.FRAMEWORK, Whose.LIBRARY) and not through_ctypes:
            inside = package_of(frame) or base_name(frame.library)
            return Blame(
                owner,
                f"{place(frame)}" if inside in place(frame) else f"{place(frame)} of {inside}",
                Confidence.SUPPORTED,
            )
    if not through_ctypes:
        return None
    unknown = Blame(Whose.USER, "a call through ctypes or cffi", Confidence.HYPOTHESIS)
    return _by_ctypes(crash, Confidence.ESTABLISHED) or unknown


def _by_ctypes(crash: Crash, confidence: Confidence) -> Blame | None:
    """A call through ctypes belongs to the first Python line that is not ctypes itself."""
    caller = next((f for f in crash.frames if not f.is_native and not _CTYPES.search(f.file or "")), None)
    if caller is None:
        return None
    if whose(caller) is Whose.USER:
        return Blame(Whose.USER, f"a ctypes call at {place(caller)}", confidence)
    return Blame(whose(caller), f"a ctypes call at {place(caller)}", Confidence.SUPPORTED)


def _by_python(crash: Crash) -> Blame | None:
    python = [f for f in crash.frames if not f.is_native]
    if not python:
        return None
    if _CTYPES.search(python[0].file or ""):
        return _by_ctypes(crash, Confidence.SUPPORTED)
    if _LOADING.search(python[0].file or ""):
        return Blame(Whose.FRAMEWORK, "an extension module that was being loaded", Confidence.HYPOTHESIS, loading=True)
    telling = next((f for f in python if whose(f) is not Whose.PYTHON), python[0])
    owner = whose(telling)
    if owner in (Whose.FRAMEWORK, Whose.LIBRARY):
        inside = package_of(telling)
        # native frames that are known and led to no package, or a line of Python's own library: then the package only called Python
        sure = telling is python[0] and crash.native_frame is None
        return Blame(
            owner,
            f"{place(telling)}{f' of {inside}' if inside else ''}",
            Confidence.SUPPORTED if sure else Confidence.HYPOTHESIS,
        )
    own = own_extensions(crash.extensions)
    if 1 <= len(own) <= MOST_NAMED:
        loaded = f"perhaps of {' or '.join(own)}"
        return Blame(Whose.USER, f"native code at {place(telling)}, {loaded}", Confidence.HYPOTHESIS)
    by_library = _by_library(crash)
    if by_library is not None and by_library.confidence is not Confidence.HYPOTHESIS:
        return by_library
    own_call = owner is Whose.USER and telling is python[0] and not calls_natively(crash.extensions)
    return Blame(Whose.USER if own_call else Whose.FRAMEWORK, f"native code at {place(telling)}", Confidence.HYPOTHESIS)


def _by_words(crash: Crash) -> Blame | None:
    if crash.what is None:
        return None
    sure = _NAMES_FRAMEWORK.match(crash.what) or _PATH_OF_FRAMEWORK.search(crash.where or "")
    where = f" ({crash.where})" if crash.where and crash.where != "std::terminate" else ""
    at = wording.shorten(crash.what, 90) + where
    return Blame(Whose.FRAMEWORK, at, Confidence.SUPPORTED if sure else Confidence.HYPOTHESIS, said=True)


def _by_library(crash: Crash) -> Blame | None:
    if not crash.library:
        return None
    owner = whose(Frame(function="", file=crash.library, library=base_name(crash.library)))
    if owner is Whose.USER and "/" in crash.library:
        return Blame(Whose.USER, crash.library, Confidence.SUPPORTED)
    sure = owner is Whose.FRAMEWORK
    return Blame(Whose.FRAMEWORK, crash.library, Confidence.SUPPORTED if sure else Confidence.HYPOTHESIS)


def _joined(one: tuple[Frame, ...], other: tuple[Frame, ...]) -> tuple[tuple[Frame, ...], bool]:
    """The stack that says more; native frames of one and Python lines of the other are put together."""
    best, rest = (one, other) if _tells(one) >= _tells(other) else (other, one)
    if not best or not rest or any(f.is_native for f in best) or not all(f.is_native for f in rest):
        return best, False
    evaluates = next((n for n, f in enumerate(rest) if _EVALUATES.match(f.function)), None)
    if evaluates is not None:
        return rest[:evaluates] + best, True
    # The native frames do not reach Python: another thread than the Python lines are of, or they were cut.
    if any(_THREAD_BEGINS.match(f.function) for f in rest):
        return rest, False
    telling = any(whose(f) not in (Whose.SYSTEM, Whose.PYTHON) and not is_handler(f) for f in rest)
    return (rest + best, True) if telling else (best, False)


def _tells(frames: tuple[Frame, ...]) -> tuple[bool, bool, int]:
    """How much a stack says: Python and native frames, then their number."""
    return (any(not f.is_native for f in frames), any(f.is_native for f in frames), len(frames))


def _of_a_group(frames: tuple[Frame, ...]) -> bool:
    return any(_OF_GROUPS.search(f.function) for f in frames[:40])


def _explained(seen: EvidenceSet, evidence: Evidence[Fact]) -> bool:
    """Whether the words of a crash state something that another rule speaks of."""
    return any(
        not isinstance(e.fact, _PLAIN)
        and getattr(e.fact, "fatal", True) is not False
        and getattr(e.fact, "final", True) is not False
        for e in seen.near(evidence, Fact, before=0, after=2)
    )


def _stream(evidence: Evidence[Fact]) -> tuple[str, str]:
    return (evidence.origin.source, evidence.origin.stream)


def _rank_of_pid(seen: EvidenceSet, pid: int | None) -> int | None:
    named = (e for kind in (ProcessExited, CoreDump, StackDump) for e in seen.all(kind) if e.who is not None)
    return next((e.who for e in named if pid is not None and getattr(e.fact, "pid", None) == pid), None)

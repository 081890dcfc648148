# SPDX-License-Identifier: Apache-2.0
"""Whose code a native crash happened in, and how the rules word it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from keepstep.base import wording
from keepstep.model.facts import CollectiveTimeout, ExceptionRaised, Fact, Frame, PeerLost, RdmaTrouble
from keepstep.rules.api import Confidence, Evidence, EvidenceSet, Standing, lazy_pattern
from keepstep.rules.asking.crash import Crash
from keepstep.rules.asking.extension_modules import calls_natively, own_extensions
from keepstep.signals.stacks import Whose, base_name, is_handler, package_of, place, whose
from keepstep.signals.waits import waits_in

MOST_NAMED = 2
"""With more unknown extensions than this, naming any of them would be a guess."""
OWN_ABORT = "os.abort()"


_NAMES_FRAMEWORK = lazy_pattern(r"^(?:c10|torch|at|xla|tsl|tensorflow|jax|jaxlib|dnnl|onnx\w*|caffe2)::")
_PATH_OF_FRAMEWORK = lazy_pattern(r"(?:^|/)(?:tensorflow|xla|tsl|jaxlib|torch|c10|aten|horovod|stream_executor|mlir)/")
_CTYPES = lazy_pattern(r"(?:^|/)(?:ctypes/(?:__init__|util)|cffi/\w+)\.py$")
_CALLS_OUT = lazy_pattern(
    r"^(?:ffi_call|_call_function_pointer|_ctypes_callproc|PyCFuncPtr_call|cdata_call|b_callable\w*)"
)
_LOADING = lazy_pattern(r"<frozen importlib\._bootstrap|importlib/_bootstrap")


@dataclass(frozen=True)
class Blame:
    """Whose code crashed, as far as the frames show."""

    owner: Whose
    at: str
    confidence: Confidence
    loading: bool = False
    said: bool = False
    """``at`` is what the process itself printed when it aborted."""


def blame(crash: Crash) -> Blame:
    """Whose code crashed: by native frames, then Python frames, then the message, then the library's name."""
    return (
        _by_native(crash)
        or _by_python(crash)
        or _by_words(crash)
        or _by_library(crash)
        or Blame(Whose.FRAMEWORK, "", Confidence.HYPOTHESIS)
    )


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
    """A call through ctypes belongs to the first Python line outside ctypes."""
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
        # not sure if the known native frames led to no package, or if a line of Python's own library is further in:
        # then the package only called Python. A rank that waits is more likely hit by a signal from outside
        waits = crash.signal != "SIGABRT" and waits_in(python) is not None
        sure = telling is python[0] and crash.native_frame is None and not waits
        return Blame(
            owner,
            f"{place(telling)}{f' of {inside}' if inside else ''}",
            Confidence.SUPPORTED if sure else Confidence.HYPOTHESIS,
        )
    own = own_extensions(crash.extensions)
    if 1 <= len(own) <= MOST_NAMED:
        loaded = f"perhaps in {' or '.join(own)}"
        return Blame(Whose.USER, f"native code at {place(telling)}, {loaded}", Confidence.HYPOTHESIS)
    by_library = _by_library(crash)
    if by_library is not None and by_library.confidence is not Confidence.HYPOTHESIS:
        return by_library
    own_line = owner is Whose.USER and telling is python[0]
    if own_line and crash.native_frame is not None and crash.native_frame.function.startswith("os_abort"):
        return Blame(Whose.USER, f"{OWN_ABORT} at {place(telling)}", Confidence.ESTABLISHED)
    if own_line and crash.is_quiet_abort and crash.native_frame is None:
        return Blame(Whose.USER, place(telling), Confidence.HYPOTHESIS)
    own_call = own_line and not calls_natively(crash.extensions)
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


def standing_of(seen: EvidenceSet, crash: Crash, blamed: Blame) -> Standing | None:
    """A crash that follows an exception or a lost peer of the same process is only a symptom."""
    first = min((seen.position.get(id(e), 0) for e in crash.evidence), default=0)
    streams = {e.origin.writer for e in crash.evidence}
    for kind in (ExceptionRaised, CollectiveTimeout, PeerLost):
        for earlier in seen.all(kind):
            same = earlier.origin.writer in streams and (earlier.who == crash.rank or crash.rank is None)
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
    """Crashes in the same place, grouped."""
    groups: dict[tuple[str, str], list[tuple[Crash, Blame]]] = {}
    for crash, blamed in found:
        groups.setdefault((blamed.at, crash.how), []).append((crash, blamed))
    for group in groups.values():
        yield [crash for crash, _ in group], group[0][1]


def names(group: list[Crash]) -> str:
    known = [c.rank for c in group if c.rank is not None]
    return wording.ranks(known) if known else "a process"


def called_from(crash: Crash, at: str) -> str:
    line = crash.user_line
    return f", called from {place(line)}" if line is not None and place(line) not in at else ""


def innermost(crash: Crash, at: str) -> str:
    frame = crash.native_frame
    known = frame is not None and place(frame) not in at and frame.function not in ("???", "??", "")
    said = f"; the innermost native frame is {place(frame)}" if known and frame is not None else ""
    joined = f"; native and Python frames come from {' and '.join(crash.told_by)}" if len(crash.told_by) > 1 else ""
    return said + joined

# SPDX-License-Identifier: Apache-2.0
"""Core files: signal, rank and place from the notes; stacks by pystack, else by gdb. Never copied or loaded whole."""

from __future__ import annotations

import mmap
import os
import platform
from pathlib import Path

from keepstep.base.safe_files import open_regular
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import CoreDump, FatalSignal, Frame
from keepstep.model.identity import Rank
from keepstep.parse.formats import elf_core
from keepstep.parse.formats.elf_core import Core, NotACore
from keepstep.parse.scan.lines.rank_variables import member
from keepstep.parse.scan.lines.writer import identify
from keepstep.signals.stacks import Whose, base_name, is_handler, whose
from keepstep.sources.stacks import gdb, process_stacks
from keepstep.sources.stacks.process_stacks import Stacks

LIMIT_S = 60.0
MOST_THREADS = 40
CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP")


def is_core(path: Path) -> bool:
    """Whether a file is an ELF core, by its header."""
    try:
        with open_regular(path) as file:
            return elf_core.looks_like_core(file.read(20))
    except OSError:
        return False


def pid_of_core(path: Path) -> int | None:
    """Which process left it."""
    try:
        return _notes(path).pid
    except (OSError, NotACore):
        return None


def read_core(
    path: Path, name: str, rank: Rank | None, *, same: tuple[int, int] | None = None
) -> tuple[list[Evidence[Fact]], list[Coverage]]:
    """What a core shows. Notes are always read; stacks if the program and a reader for them are here."""
    what = f"core {name}"
    try:
        at = path.stat().st_mtime
        core = _notes(path, same)
    except OSError as error:
        return [], [Coverage(what=what, state=CoverageState.UNAVAILABLE, why=error.strerror or "it cannot be read")]
    except NotACore as error:
        return [], [Coverage(what=what, state=CoverageState.UNAVAILABLE, why=str(error))]
    who = _rank(core) or rank or _rank_of_name(name)
    found, coverage = _stacks(path, core, what)
    origin = Origin(source=name)
    struck = found.main
    frames = struck.frames if struck is not None else _place(core)
    dump = CoreDump(
        path=name,
        signal=core.signal_name,
        pid=core.pid,
        executable=core.executable,
        machine=core.machine,
        address=core.address,
        readable=bool(found.threads),
        sent_by=core.sent_by,
    )
    items: list[Evidence[Fact]] = [Evidence(fact=dump, origin=origin, rank=who, at=at, quote=_words(core))]
    if dump.signal in CRASHES and dump.sent_by is None:
        signal = FatalSignal(signal=dump.signal, pid=core.pid, library=_library(frames), frames=frames)
        items.append(Evidence(fact=signal, origin=origin, rank=who, at=at, quote=_words(core)))
    told = Stacks(threads=tuple(t for t in found.threads if t.current or any(not f.is_native for f in t.frames)))
    items.extend(process_stacks.as_evidence(told, name, who, at)[:MOST_THREADS])
    return items, coverage


def _notes(path: Path, same: tuple[int, int] | None = None) -> Core:
    with open_regular(path, same=same) as file:
        if not os.fstat(file.fileno()).st_size:
            raise NotACore("it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return elf_core.read(data)


def _stacks(path: Path, core: Core, what: str) -> tuple[Stacks, list[Coverage]]:
    """The stacks, and one line that says what was read and what is missing."""

    def line(state: CoverageState, why: str = "", part: str = "") -> list[Coverage]:
        cut = "it is cut off (a size limit or a full disk)" if core.truncated else ""
        if cut and core.signal_name is None:  # the missing part may be the one that would say why
            state = CoverageState.PARTLY
        return [Coverage(what=part + what, state=state, why="; ".join(each for each in (cut, why) if each))]

    if core.machine != _this_machine():
        why = f"it comes from a {core.machine} machine, and this one is {_this_machine()}: notes read, no stacks"
        return Stacks(), line(CoverageState.UNAVAILABLE, why)
    executable = Path(core.executable) if core.executable else None
    if executable is None or not executable.is_file():
        program = core.executable or core.program or "its program"
        return Stacks(), line(CoverageState.UNAVAILABLE, f"{program} is not on this machine: notes read, no stacks")
    found = process_stacks.core_stacks(path, executable, pid=core.pid, thread=core.thread, limit=LIMIT_S)
    if found.threads:
        missing = _missing(core)
        why = f"{missing} of its libraries are not on this machine" if missing else ""
        return found, line(CoverageState.CHECKED, why)
    native = gdb.core_frames(path, executable, core)
    if native is not None and native.threads:
        why = f"{found.why_not}; native frames come from gdb, without Python lines"
        return native, line(CoverageState.UNAVAILABLE, why, "Python lines of ")
    also = "" if native is not None else "; gdb is not installed either"
    return Stacks(), line(CoverageState.UNAVAILABLE, f"{found.why_not}{also}: notes read, no stacks")


def _rank(core: Core) -> Rank | None:
    """From the core's own environment, which is more reliable than a file's name."""
    who = member(core.environment, (core.arguments or "").split())
    return Rank(index=who.rank, local=who.local, role=who.role) if who is not None else None


def _rank_of_name(name: str) -> Rank | None:
    named = identify(name)
    return Rank(index=named.rank, role=named.role) if named.rank is not None else None


def _place(core: Core) -> tuple[Frame, ...]:
    """Without stacks: the library that the program counter was in."""
    path = core.file_at(core.counter) if core.counter is not None else None
    return (Frame(function="???", file=path, library=base_name(path)),) if path else ()


def _library(frames: tuple[Frame, ...]) -> str | None:
    """The innermost library that means something."""
    ours = [f for f in frames if f.is_native and not is_handler(f)]
    telling = (f for f in ours if whose(f) not in (Whose.SYSTEM, Whose.PYTHON))
    return next((f.library for f in telling), ours[0].library if ours else None)


def _missing(core: Core) -> int:
    paths = {
        m.path
        for m in core.files
        if ".so" in m.path and m.path.startswith("/") and not m.path.startswith(("/dev/", "/memfd"))
    }
    return sum(1 for path in list(paths)[:5000] if not Path(path).exists())


def _words(core: Core) -> str:
    program = " ".join((core.arguments or core.program or "a process").split()[:2])
    told = core.signal_name or "no signal (it was dumped on demand)"
    where = f" at address {core.address:#x}" if core.address is not None else ""
    by = core.sent_by
    sender = "" if by is None else f", sent by pid {by}" if by else ", sent by a process outside its container"
    return f"{program} (pid {core.pid}) was ended by {told}{where}{sender}"


def _this_machine() -> str:
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine())

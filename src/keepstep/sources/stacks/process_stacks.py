# SPDX-License-Identifier: Apache-2.0
"""Stacks of live processes and of cores: Python and native frames, by pystack.

Each look runs in its own child process with a time limit. A plain look does not stop the process; a native one stops it
for a fraction of a second.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepstep.base import foreign_json
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import Frame, StackDump
from keepstep.model.identity import Rank
from keepstep.signals.stacks import base_name, innermost_user, place
from keepstep.signals.waits import waits_in
from keepstep.sources.stacks.pystack_servers import PystackServers

_CHILD = Path(__file__).with_name("pystack_child.py")
LIVE_LIMIT_S = 15.0
STOPPED_S = 4.0
"""The longest a look may stop a live process, on a crowded host: ranks that miss heartbeats for longer are killed."""
AT_ONCE = 8
NO_PYSTACK = "pystack is not installed (pip install pystack)"
MOST_OUTPUT = 64 << 20


_ready: PystackServers | None = None
_plain = False


def leave_out_native() -> None:
    """From now on, looks of this process take Python frames only: native ones take seconds on a busy host."""
    global _plain
    _plain = True


def keep_ready(count: int) -> None:
    """From now on, keep this many children ready for looks at live processes: each look then takes milliseconds."""
    global _ready
    if _ready is None and have_pystack():
        _ready = PystackServers([sys.executable, "-I", str(_CHILD), "serve"], count)


@dataclass(frozen=True, slots=True)
class Stacks:
    """The threads of one process, or why they could not be read."""

    threads: tuple[StackDump, ...] = ()
    why_not: str = ""
    native: bool = False

    @property
    def main(self) -> StackDump | None:
        return next((t for t in self.threads if t.current), None)


def have_pystack() -> bool:
    """Whether pystack is installed here."""
    return importlib.util.find_spec("pystack") is not None


def stacks_of(pid: int, native: bool = True, rank: Rank | None = None) -> list[Evidence[Fact]]:
    """The stacks of all threads of a live process; the main thread is the ``current`` one."""
    return as_evidence(look(pid, native=native), f"pid {pid}", rank, at=time.time())


def look(
    pid: int,
    *,
    native: bool,
    stop: bool = True,
    every: bool = False,
    limit: float = LIVE_LIMIT_S,
    stopped_s: float = LIVE_LIMIT_S,
) -> Stacks:
    """One look. A native look that fails falls back to a plain one; ``every``: also threads without Python."""
    if not have_pystack():
        return Stacks(why_not=NO_PYSTACK)
    if _plain and native:
        native = stop = False
    how = ("all" if every else "native") if native and stop else "plain" if stop else "noblock"
    found = _run(["remote", str(pid), str(stopped_s), how], limit, current=pid, pid=pid, living=True)
    if how in ("all", "native") and not found.threads:
        plain = _run(["remote", str(pid), "0", "noblock"], limit, current=pid, pid=pid, living=True)
        return plain if plain.threads else found
    return found


def look_at_all(
    pids: Iterable[int],
    *,
    native: bool,
    stop: bool = True,
    limit: float = LIVE_LIMIT_S,
    stopped_s: float = LIVE_LIMIT_S,
) -> dict[int, Stacks]:
    """Looks at several processes at the same time."""
    wanted = list(pids)
    if not wanted:
        return {}
    with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(wanted))) as pool:
        found = pool.map(lambda pid: look(pid, native=native, stop=stop, limit=limit, stopped_s=stopped_s), wanted)
        return dict(zip(wanted, found, strict=True))


def core_stacks(core: Path, executable: Path, *, pid: int | None, thread: int | None, limit: float) -> Stacks:
    """The stacks in a core; ``thread`` is the one that crashed."""
    if not have_pystack():
        return Stacks(why_not=NO_PYSTACK)
    for how in ("native", "all", "plain"):
        # Unwinding every thread of a TensorFlow core takes seconds; needed only if a thread without Python crashed.
        found = _run(["core", str(core), str(executable), how], limit, current=thread, pid=pid, living=False)
        if found.main is not None or (found.threads and how == "plain"):
            break
    return found


def as_evidence(stacks: Stacks, source: str, rank: Rank | None, at: float | None = None) -> list[Evidence[Fact]]:
    """The threads as evidence, the crashed or main one first."""
    ordered = sorted(stacks.threads, key=lambda thread: not thread.current)
    return [
        Evidence(fact=thread, origin=Origin(source=source), rank=rank, at=at, quote=summary(thread))
        for thread in ordered
    ]


def summary(thread: StackDump) -> str:
    """One line on a stack: the innermost frames that mean something."""
    frames = thread.frames
    user = innermost_user(frames)
    wait = waits_in(frames)
    parts = []
    if wait is not None:
        parts.append(wait.name)
    elif frames:
        parts.append(place(frames[0]))
    if user is not None:
        parts.append(place(user))
    return " called from ".join(dict.fromkeys(parts))[:300]


def coverage_of(found: dict[int, Stacks]) -> list[Coverage]:
    """Which stacks were seen, and which not."""
    seen = [pid for pid, stacks in found.items() if stacks.threads]
    lines = []
    if seen:
        lines.append(
            Coverage(
                what=f"stacks of {len(seen)} live process{'es' if len(seen) > 1 else ''}", state=CoverageState.CHECKED
            )
        )
    failed: dict[str, list[int]] = {}
    for pid, stacks in found.items():
        if not stacks.threads:
            failed.setdefault(stacks.why_not or "no threads were found", []).append(pid)
    for why, pids in failed.items():
        names = ", ".join(str(p) for p in pids[:8]) + (", ..." if len(pids) > 8 else "")
        lines.append(Coverage(what=f"stacks of pid {names}", state=CoverageState.UNAVAILABLE, why=why))
    return lines


def _run(arguments: list[str], limit: float, *, current: int | None, pid: int | None, living: bool) -> Stacks:
    if arguments[0] == "remote" and _ready is not None:
        answer = _ready.ask(arguments, limit)
        if answer is not None:
            return _read(answer, arguments, current, pid, living, "pystack's answer could not be read")
        if arguments[-1] != "noblock":
            return Stacks(why_not="pystack did not finish in time")
    # The child comes from this installation; -I keeps the current folder and PYTHON* variables out of it.
    command = [sys.executable, "-I", str(_CHILD), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return Stacks(why_not=f"pystack did not finish within {limit:.0f} s")
    except OSError as error:
        return Stacks(why_not=f"pystack could not be started: {error.strerror}")
    ended = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
    return _read(done.stdout, arguments, current, pid, living, f"pystack ended with {ended}")


def _read(
    answer: bytes, arguments: list[str], current: int | None, pid: int | None, living: bool, otherwise: str
) -> Stacks:
    try:
        document = foreign_json.loads(answer[:MOST_OUTPUT] or b"null")
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return Stacks(why_not=otherwise)
    if "threads" not in document:
        return Stacks(why_not=_plain_words(str(document.get("why", ""))))
    try:
        threads = tuple(_dump(each, current, pid, living) for each in document["threads"])
    except (AttributeError, KeyError, TypeError):  # it read foreign memory
        return Stacks(why_not=otherwise)
    return Stacks(threads=threads, native=arguments[-1] in ("all", "native"))


def _dump(each: dict[str, Any], current: int | None, pid: int | None, living: bool) -> StackDump:
    frames = tuple(_frame(*values) for values in each["frames"])
    tid = each.get("tid")
    name = each.get("name")
    return StackDump(
        frames=frames,
        thread=f"{tid} ({name})" if name else str(tid),
        pid=pid,
        holds_gil=bool(each.get("gil")),
        current=tid == current,
        living=living,
    )


def _frame(function: str, file: str | None, line: int | None, library: str | None) -> Frame:
    if not isinstance(function, str) or not isinstance(file, str | None) or not isinstance(line, int | None):
        raise TypeError("no frame")
    if library is None:
        return Frame(function=function, file=file or None, line=line or None)
    return Frame(function=function, file=library, library=base_name(library))


def _plain_words(why: str) -> str:
    if "Operation not permitted" in why or "PermissionError" in why:
        return "not permitted to trace it (needs the same user or CAP_SYS_PTRACE; check kernel.yama.ptrace_scope)"
    if "No such process" in why or "ProcessNotFound" in why:
        return "the process ended"
    if "InvalidPythonProcess" in why:
        return "no Python interpreter was found in it"
    return "pystack: " + (why.split(": ", 1)[-1].strip() or "failed without a message")[:200]

# SPDX-License-Identifier: Apache-2.0
"""Speaks while the ranks of a job find each other: "2 of 3 ranks arrived after 20 s; rank 2 is missing".

Frameworks wait for each other silently, for minutes. A rank that enters its framework's rendezvous leaves a small
file in a folder of this host's memory and removes it when it ends. All ranks of the user on this host see these
files, and the guard's own thread compares them. Where the framework holds Python's lock while it waits (TensorFlow),
a small process compares them instead (arriving_child.py). Ranks on other hosts are not visible, and the message says
so.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keepstep.base.proc_stat import read_stat
from keepstep.base.safe_files import open_regular, private_folder, write_whole
from keepstep.guard import own_rank
from keepstep.guard.own_rank import ALONE
from keepstep.signals.arrivals import Arrival, Meeting, meeting

if TYPE_CHECKING:
    from keepstep.guard.protocols import Arrives

SPEAK_S = (20.0, 60.0, 180.0, 600.0, 1800.0)
"""After waiting this long, a rank speaks."""
PATIENT_S = 180.0
"""While enough processes of the same program are still starting, no rank is called missing before this."""
IDLE_S, IDLE_CPU_S = 10.0, 0.05
"""Unless they have hardly used the processor for this long: a process that is starting up is busy."""
KNOCK_S = 1.0
MOST_FILES, MOST_BYTES = 2048, 8192
LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]", "0.0.0.0", "ip6-localhost")

Note = Callable[[dict[str, Any], str], None]


class Waiting:
    """The wait of one rank, and what it says about it. ``look`` is called about once per second."""

    def __init__(self, mine: Arrival, say: Callable[[str], None], note: Note, began: float | None = None) -> None:
        self.mine = mine
        self._say, self._note = say, note
        self._began = time.monotonic() if began is None else began
        self._told = 0
        self._due = self._contradicted = False
        self._worked: dict[int, tuple[float, float]] = {}
        """For processes that may still be starting: processor time when last seen busy, and when that was."""

    def look(self) -> None:
        waited = time.monotonic() - self._began
        if self._told < len(SPEAK_S) and waited >= SPEAK_S[self._told]:
            self._told += 1
            self._due = True
        found = meeting(self.mine, list(_living()))
        if found.contradicts and not self._contradicted:
            self._contradicted = True
            self._tell(found, waited)
        elif self._due and found.missing and not self._contradicted:
            starting = sum(map(self._works, _starting(self.mine)))
            if starting < len(found.missing) or waited >= PATIENT_S:
                self._due = False
                self._tell(found, waited, _answers(self.mine.at), starting)

    def _works(self, pid: int) -> bool:
        """Whether a process that may still be starting has done anything lately."""
        now = time.monotonic()
        seen = read_stat(pid)
        used_s, ready = (seen.cpu_s, seen.state in "RD") if seen is not None else (0.0, False)
        before_s, at = self._worked.get(pid, (0.0, now))
        if pid not in self._worked or ready or used_s - before_s > IDLE_CPU_S:
            self._worked[pid] = (used_s, now)
            return True
        return now - at < IDLE_S

    def _tell(self, found: Meeting, waited: float, answers: bool | None = None, starting: int = 0) -> None:
        words = found.words(waited, answers=answers, starting=starting)
        self._note(found.fields(waited, answers=answers, starting=starting), words)
        if found.speaks or found.twice:
            self._say(words)


@contextlib.contextmanager
def rendezvous(
    session: Arrives,
    framework: str,
    size: int | None,
    index: int | None,
    at: str | None,
    *,
    here: bool = False,
    holds_lock: bool = False,
) -> Iterator[None]:
    """Around the framework's own wait. No failure in here reaches it. ``holds_lock``: no Python thread runs then."""
    child: subprocess.Popen[bytes] | None = None
    entered: list[Waiting] = []
    with session.part("start-up words"):
        if size and size > 1 and at and not session.is_off("start-up words"):
            child = _enter(session, entered, Arrival(
                pid=os.getpid(), framework=framework, size=size, index=index, at=_same_name(at), program=_program(),
                session=os.getsid(0), here=here or _is_loopback(at),
            ), holds_lock)  # fmt: skip
    well = False
    try:
        yield
        well = True
    finally:
        with session.part("start-up words"):
            session.waiting = None
            if child is not None:
                child.terminate()
                child.wait()
            if entered and well:
                _announce(replace(entered[0].mine, done=True))
            elif entered:
                _withdraw()


def _look(session: Arrives) -> None:
    """From the guard's thread: which other ranks have arrived."""
    waiting = session.waiting
    if waiting is not None:
        waiting.look()


def _enter(session: Arrives, entered: list[Waiting], mine: Arrival, holds_lock: bool) -> subprocess.Popen[bytes] | None:
    if session.who.rank is None and mine.index is not None:
        session.who.rank, session.who.world = mine.index, mine.size
    if session.who.job == ALONE:
        session.who.job = f"{mine.framework} at {mine.at}"
    session.framework = session.framework or mine.framework
    session.open()
    _announce(mine)
    waiting = Waiting(mine, session.say, lambda fields, words: session.note("RanksArriving", fields, words))
    entered.append(waiting)
    waiting.look()  # a second process with the same rank often fails at once, and then says nothing more
    if _withdraw not in session.at_close:
        session.at_close.append(_withdraw)
        session.pulse.every(1.0, "start-up words", lambda: _look(session))
    if not holds_lock:
        session.waiting = waiting
        return None
    session.flush()
    return _begin_child(mine, session.notes_path)


def _begin_child(mine: Arrival, notes: Path | None) -> subprocess.Popen[bytes]:
    from keepstep.guard.companion import NOT_FOR_IT, package_path

    env = {name: value for name, value in os.environ.items() if name not in NOT_FOR_IT}
    return subprocess.Popen(
        [sys.executable, "-m", "keepstep.guard.agree.arrivals_child", json.dumps(asdict(mine)), str(notes or "")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**env, "KEEPSTEP": "off", "PYTHONPATH": package_path(env)},
        cwd="/",
        start_new_session=True,
    )


# --- the files


def _folder() -> Path:
    """This user's folder on this host, in memory where possible; no other user may write to it."""
    base = Path("/dev/shm")
    folder = (base if os.access(base, os.W_OK) else Path(tempfile.gettempdir())) / f"keepstep-arriving-{os.getuid()}"
    private_folder(folder)
    return folder


def _announce(mine: Arrival) -> None:
    path = _folder() / f"{mine.pid}-{own_rank.started()}.json"
    write_whole(path, json.dumps(asdict(mine)).encode())


def _withdraw() -> None:
    with contextlib.suppress(OSError):
        (_folder() / f"{os.getpid()}-{own_rank.started()}.json").unlink(missing_ok=True)


def _living() -> Iterator[Arrival]:
    """All living processes that announced themselves; files of dead ones are removed."""
    for path in list(_folder().glob("*.json"))[:MOST_FILES]:
        with contextlib.suppress(OSError, ValueError, TypeError):
            pid, _, started = path.stem.partition("-")
            if own_rank.started(int(pid)) != int(started):
                path.unlink(missing_ok=True)
                continue
            with open_regular(path, follow=False) as stream:
                yield Arrival(**json.loads(stream.read(MOST_BYTES)))


def _starting(mine: Arrival) -> list[int]:
    """Processes of the same program on this host that have not announced themselves: they may still be importing."""
    known = {each.pid for each in _living()}
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) in known:
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = Path(f"/proc/{name}/cmdline").read_bytes().decode(errors="replace").split("\0")
            if _program(words, Path(f"/proc/{name}/cwd").readlink()) == mine.program:
                seen = read_stat(name)
                if seen is not None and (seen.parent not in known or not _is_fork(name, seen.parent)):
                    found.append(int(name))
    return found


def _is_fork(pid: str, parent: int) -> bool:
    """Whether a rank's child is a copy of it (a loader's worker) and not another rank (Lightning starts those)."""
    return Path(f"/proc/{pid}/environ").read_bytes() == Path(f"/proc/{parent}/environ").read_bytes()


def _program(words: list[str] | None = None, cwd: Path | None = None) -> str:
    """What a command line runs: its script or module, and where."""
    words = list(sys.orig_argv) if words is None else words
    if not words or "python" not in os.path.basename(words[0]):
        return ""
    place = next((n for n, word in enumerate(words) if n and (word == "-m" or not word.startswith("-"))), len(words))
    what = " ".join(words[place : place + (2 if words[place : place + 1] == ["-m"] else 1)])
    return f"{os.path.basename(what)} in {cwd or os.getcwd()}" if what else ""


# --- the place


def _is_loopback(at: str) -> bool:
    return at.rpartition(":")[0].lower() in LOOPBACK


def _same_name(at: str) -> str:
    """The same address, with all names of this host written as one."""
    host, colon, port = at.rpartition(":")
    return f"127.0.0.1:{port}" if colon and (host.lower() in LOOPBACK or host == socket.gethostname()) else at


def _answers(at: str) -> bool | None:
    """Whether a process listens there; None where it is not an address."""
    host, _, port = at.rpartition(":")
    if not port.isdecimal() or "/" in host:
        return None
    if host in LOOPBACK:
        return _listens(int(port))
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
    except OSError:
        return False
    return True


def _listens(port: int) -> bool | None:
    """On this host, according to the kernel: no connection is opened."""
    tables = [path for path in ("/proc/net/tcp", "/proc/net/tcp6") if os.path.exists(path)]
    for table in tables:
        with open(table) as stream:
            next(stream, None)
            for line in stream:
                words = line.split()
                if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                    return True
    return False if tables else None

# SPDX-License-Identifier: Apache-2.0
"""Ends everything that a run started when the supervisor is gone, for whatever reason.

Run as a script of its own (``reaper.py TOKEN``) with a pipe from the supervisor as standard input. On it, the
supervisor names the sessions that it starts (``+PID``) and says ``bye`` when it ends in good order. If the pipe closes
without a ``bye``, every process of those sessions, every process that carries the token in its environment, and all
their descendants are killed. Then black boxes move from shared memory into the run folder (``keep FOLDER``), and what
was made there for spares is removed (``remove FOLDER``). The three ways overlap on purpose: a loader's worker may have
lost its parent, a daemon its session, and a program that rewrites its title its environment. One that has lost all
three is found if the run has a control group (``group FOLDER``). On several nodes, the ranks have a lease: when
it is over they are killed, also if our agent is frozen. The agent keeps its end in memory that both share (``lease in
DESCRIPTOR``), so this process sleeps until then however often the lease is renewed. Standard library only.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

if __name__ == "__main__":  # isolated (-I): only its own place tells where keepstep is
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from keepstep.base.proc_stat import TICKS, ProcStat, all_processes, family, read_stat, with_descendants

VARIABLE = "KEEPSTEP_RUN"
PATIENCE_S = 20.0
PAUSE_S, LOOK_AGAIN_S = 0.02, 0.5
"""Between looks at what is left: where the kernel does not say when a process has ended, and at most where it does."""
EARLIER_S = 10.0
"""A process that was started this long before the first one of a run does not belong to it."""
URGENT = -10
"""Its priority while it waits and kills, if that is allowed: no rank may outlive its lease by more than a moment, else
two attempts could run at once. It takes none of the training's time: it sleeps until ranks must die. The search for
what else a run has started, which reads all of /proc, has ordinary priority.
"""
OVER_S = 1.0
"""Between looks for another lease, once one is over."""


def carriers(token: str, pids: Iterable[int]) -> set[int]:
    """Those that were started with the token in their environment."""
    mark = f"{VARIABLE}={token}".encode()
    return {pid for pid in pids if carries(mark, pid)}


def carries(mark: bytes, pid: int) -> bool:
    with contextlib.suppress(OSError):
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def in_group(group: Path | None) -> set[int]:
    """Every process of a control group, and of those below it."""
    found: set[int] = set()
    if group is not None:
        for where, _, _ in os.walk(group):
            with contextlib.suppress(OSError, ValueError):
                found |= {int(pid) for pid in Path(where, "cgroup.procs").read_text().split()}
    return found


def remove_group(group: Path) -> None:
    """Remove an empty control group and those below it. One with processes stays: the kernel sees to that."""
    for where, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(where)


class ProcessSearch:
    """For every living process of a run, as often as needed. A process that was no member does not become one."""

    def __init__(
        self, token: str, sessions: Mapping[int, int], *, group: Path | None = None, spare: Iterable[int] = ()
    ) -> None:
        self._mark = f"{VARIABLE}={token}".encode()
        self._sessions, self._group = sessions, group
        self._own = {os.getpid(), *spare}
        self._strangers: dict[int, int] = {}
        first = min(sessions.values(), default=None)
        self._since = first - int(EARLIER_S * TICKS) if first is not None else 0

    def children(self) -> set[int]:
        """Those that were started, and what descends from them: found at once, whatever else runs on the host."""
        roots = [
            pid for pid, began in self._sessions.items() if (seen := read_stat(pid)) is None or seen.started == began
        ]
        return self._living(family(listed := with_descendants(set(roots) - self._own), roots), listed)

    def members(self) -> set[int]:
        """By session (leader and its start time), token, control group and descent."""
        grouped = in_group(self._group)
        listed = all_processes()
        roots = ({pid for pid, entry in listed.items() if self._carries(pid, entry)} | grouped) - self._own
        for pid, entry in listed.items():
            started = self._sessions.get(entry.session)
            if started is None:
                continue
            leader = listed.get(entry.session)
            if leader is None or leader.started == started:
                roots.add(pid)
        return self._living(family(listed, roots), listed)

    def _carries(self, pid: int, entry: ProcStat) -> bool:
        if entry.started < self._since or self._strangers.get(pid) == entry.started:
            return False
        if carries(self._mark, pid):
            return True
        self._strangers[pid] = entry.started
        return False

    def _living(self, found: set[int], listed: Mapping[int, ProcStat]) -> set[int]:
        return {pid for pid in found - self._own if listed[pid].lives}


def kill_all(
    token: str,
    sessions: Mapping[int, int],
    *,
    group: Path | None = None,
    spare: Iterable[int] = (),
    patience_s: float = PATIENCE_S,
    unless: Callable[[], bool] = lambda: False,
) -> bool:
    """SIGKILL until none is left; False if some would not end. ``unless``: what is found may be meant to live again."""
    search = ProcessSearch(token, sessions, group=group, spare=spare)
    end = time.monotonic() + patience_s
    _kill(found := search.children())
    with _ordinary():
        while True:
            if found:
                _await(found, LOOK_AGAIN_S)
            if not (found := search.members()) or unless():
                return True
            _kill(found)
            if time.monotonic() > end:
                return False


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def _ordinary() -> Iterator[None]:
    """With the priority that this program was started with."""
    if _given is None:
        yield
        return
    os.setpriority(os.PRIO_PROCESS, 0, _given)
    try:
        yield
    finally:
        _hurry()


def _hurry() -> None:
    global _given
    with contextlib.suppress(OSError):
        _given = os.getpriority(os.PRIO_PROCESS, 0) if _given is None else _given
        os.setpriority(os.PRIO_PROCESS, 0, URGENT)


_given: int | None = None
"""The priority of this program when it was started; None where this is a module of another one."""


def _await(pids: Iterable[int], most_s: float) -> None:
    """Wait until all of them have ended, or for ``most_s``."""
    poll, handles = select.poll(), set()
    try:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                handles.add(handle := os.pidfd_open(pid))
                poll.register(handle, select.POLLIN)
        until = time.monotonic() + most_s
        while handles and (left := until - time.monotonic()) > 0:
            for handle, _ in poll.poll(left * 1000):
                poll.unregister(handle)
                handles.discard(handle)
                os.close(handle)
    except (OSError, AttributeError):
        time.sleep(PAUSE_S)
    finally:
        for handle in handles:
            os.close(handle)


def tidy(kept: Iterable[str], removed: Iterable[str]) -> None:
    """What the supervisor itself would have done at its end."""
    with contextlib.suppress(Exception):  # our own files may be gone by now; the folders must go all the same
        from keepstep.signals.box_files import keep

        for folder in kept:
            for link in Path(folder).glob("*.box"):
                with contextlib.suppress(OSError):
                    keep(link)
    for folder in removed:
        shutil.rmtree(folder, ignore_errors=True)


class _Orders:
    """What the supervisor writes to us, line by line, and how long its ranks may run."""

    def __init__(self) -> None:
        self._rest = b""
        self._until = LeaseEnd(None)
        self._over = 0
        """The end of a lease that was seen to be over."""

    def lines(self) -> Iterator[str | None]:
        """Each line; None whenever a lease is over. It ends with the supervisor."""
        while True:
            until = self._until.read()
            left = None if not until else OVER_S if until == self._over else max(0.0, (until - clock()) / 1e9)
            if not select.select([0], [], [], left)[0]:
                until = self._until.read()
                if until and until != self._over and until <= clock():
                    self._over = until
                    yield None
                continue
            data = os.read(0, 65536)
            if not data:
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            yield from (line.decode("utf-8", "surrogateescape") for line in lines)

    def are_renewed(self) -> bool:
        """Whether the lease that was over is another one, or none, by now: ranks that were started since may live."""
        return self._until.read() != self._over

    def lease(self, words: str) -> None:
        """``in DESCRIPTOR``, or ``on``: it is to be looked at again; or its end, where nothing can be shared."""
        with contextlib.suppress(ValueError, OSError):
            if words.startswith("in "):
                self._until = LeaseEnd(int(words[3:]))
            elif words != "on":
                self._until.write(int(words))


class LeaseEnd:
    """When a lease ends, by :func:`clock`; 0: there is none. Shared if there is a descriptor of a file in memory."""

    def __init__(self, handle: int | None) -> None:
        self._memory = mmap.mmap(-1 if handle is None else handle, mmap.PAGESIZE)
        self._number = memoryview(self._memory).cast("q")

    def read(self) -> int:
        return self._number[0]

    def write(self, until: int) -> None:
        self._number[0] = until


def clock() -> int:
    """Nanoseconds that nobody can set and that go on while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns()


def main() -> int:
    token, agent = sys.argv[1], os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    _hurry()
    sessions: dict[int, int] = {}
    folders: dict[str, list[str]] = {"keep": [], "remove": [], "group": []}
    orders = _Orders()
    for line in orders.lines():
        group = Path(folders["group"][-1]) if folders["group"] else None
        if line is None:
            # The agent itself is in the group while it starts a rank.
            kill_all(token, sessions, group=group, spare=[agent], unless=orders.are_renewed)
            continue
        word, _, rest = line.strip().partition(" ")
        if word == "bye":
            return 0
        if word == "lease":
            orders.lease(rest)
        elif word in folders:
            folders[word].append(rest)
        elif word.startswith("+") and word[1:].isdecimal():
            entry = read_stat(int(word[1:]))
            if entry is not None:
                sessions[int(word[1:])] = entry.started
    group = Path(folders["group"][-1]) if folders["group"] else None
    gone = kill_all(token, sessions, group=group)
    if group is not None:
        remove_group(group)
    tidy(folders["keep"], folders["remove"])
    return 0 if gone else 1


if __name__ == "__main__":
    del sys.path[0]  # what else lies beside keepstep must not hide the standard library
    sys.exit(main())

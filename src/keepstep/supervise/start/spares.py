# SPDX-License-Identifier: Apache-2.0
"""Warm spares, the supervisor's side: processes that have already imported the framework and wait to become a rank.

pool = Pool(start=..., say=print)
env |= pool.variables                        # every rank of every attempt: its guard then writes down how it imported
pool.tick(launches, pids, training=True)     # now and then (a second is often enough) while the ranks train
process = pool.take(launch, out, err)        # at the next attempt; None: start this rank as usual
pool.close()                                 # at the end, and on the way out of anything
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import write_whole
from keepstep.base.wording import size
from keepstep.guard import spare
from keepstep.guard.import_record import VARIABLE, digest_of
from keepstep.guard.python_command import FRAME, split_command
from keepstep.signals.box_files import MEMORY
from keepstep.sources.host import capacity
from keepstep.supervise.start.priority import no_longer_behind

PROGRAM = "from keepstep.guard.spare import main; main()"
AMPLE = 0.15
"""The share of memory that must stay free after all spares of the run are there."""
SHORT = 0.05
"""Below this share of free memory, the spares are given up."""
LONGEST_IMPORT_S = 600.0
ALL_THERE_S = 10.0
"""After this long, no further rank will need a spare (an evaluator may import no framework)."""
MOST_ORDER = 128 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All that starts one rank: the same for a cold start (Popen) and a warm one."""

    rank: int
    command: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment, not only what is added."""
    cwd: Path
    limits: tuple[tuple[str, int], ...] = ()
    """Soft limits by name (``("RLIMIT_CORE", -1)``), set in the new process."""
    reads: bool = False
    """It is the only process: our standard input is for it."""


Start = Callable[[Launch, int, int, tuple[int, ...]], "subprocess.Popen[bytes]"]
"""``start(launch, out, err, pass_fds)``: the launcher's own function, which starts a process as ranks are started.

Own session, limits, standard input; output to the file descriptors ``out`` and ``err``; ``pass_fds`` stay open in it.
"""


@dataclass
class _Spare:
    """One process that imports, or waits."""

    launch: Launch
    process: subprocess.Popen[bytes]
    connection: socket.socket
    record: dict[str, Any]
    began: float = field(default_factory=time.monotonic)
    ready: bool = False
    resident_kb: int = 0
    cpu_s: float = 0.0


class SparePool:
    """All spares of one run. No method raises for what a spare does: the answer is then a cold start."""

    def __init__(self, *, start: Start, say: Callable[[str], None], on: bool = True) -> None:
        """``start``: the launcher's; ``say``: prints a line (the cost, why there are no spares)."""
        self._start, self._say, self._on = start, say, on
        self._spares: dict[int, _Spare] = {}
        self._records: dict[int, dict[str, Any]] = {}
        self._given: list[socket.socket] = []
        """Kept open: a spare that still imports has not read its order yet."""
        self._told: set[str] = set()
        self._wanted = 0
        self._newest = 0.0
        """When the last spare became ready."""
        self._cost_told = False
        self._folder: Path | None = None
        if on:
            with contextlib.suppress(OSError):
                _remove_old()
                place = MEMORY if MEMORY.is_dir() else None
                self._folder = Path(tempfile.mkdtemp(prefix=f"keepstep-warm-{os.getpid()}-", dir=place))

    @property
    def variables(self) -> dict[str, str]:
        """What every rank gets; its guard then writes down how it imported."""
        return {VARIABLE: str(self._folder)} if self._folder is not None else {}

    def tick(self, launches: Mapping[int, Launch], pids: Mapping[int, int], training: bool) -> None:
        """Start the next spare when it is time: ``training`` is whether every rank has done a few steps.

        One at a time, at most one per rank, and only while memory is ample. Takes a millisecond or two.
        """
        if self._folder is None:
            return
        try:
            self._wanted = len(launches)
            self._hear()
            if self._folder is None or self._memory_is_short():
                return
            if not training or any(not each.ready for each in self._spares.values()):
                return
            for rank, launch in launches.items():
                if rank not in self._spares and self._fit(launch, pids.get(rank)):
                    self._begin(launch)
                    return
            if self._spares and (len(self._spares) == self._wanted or time.monotonic() - self._newest > ALL_THERE_S):
                self._tell_cost()
        except (OSError, ValueError, KeyError) as error:
            self._give_up(f"{type(error).__name__}: {error}")

    def take(self, launch: Launch, out: int, err: int) -> subprocess.Popen[bytes] | None:
        """Let this rank's spare become it: with this environment, command and folder, and output to these descriptors.

        None if there is no fitting spare. What is returned is the spare's own process: wait for it as for any rank.
        """
        found = self._spares.pop(launch.rank, None)
        if found is None:
            return None
        why = self._differs(found, launch)
        if why is None:
            order = {"env": dict(launch.env), "argv": found.record["argv"], "executable": found.record["executable"]}
            order |= {"cwd": str(launch.cwd), "limits": [list(each) for each in launch.limits]}
            if _give(found.connection, order, (out, err)):
                self._given.append(found.connection)
                if not found.ready:  # it has stepped back while it imports, and on a crowded host might never finish
                    no_longer_behind(found.process.pid)
                return found.process
            why = "it is gone"
        self._say_once(f"rank {launch.rank} starts cold: its warm spare is not used, because {why}")
        _end(found)
        return None

    def pids(self) -> tuple[int, ...]:
        """The waiting spares (for the status line, the metrics, and those that end what is left)."""
        return tuple(each.process.pid for each in self._spares.values())

    def close(self) -> None:
        """End all spares that wait and remove what was written down for them."""
        self._drop()
        while self._given:
            self._given.pop().close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    # --- one spare

    def _fit(self, launch: Launch, pid: int | None) -> bool:
        """Whether we know how this rank imports, and a spare could do the same."""
        record = self._records.get(launch.rank)
        if record is None and pid is not None and self._folder is not None:
            with contextlib.suppress(OSError, ValueError):
                text = (self._folder / f"rank{launch.rank}-{pid}.json").read_text()
                record = json.loads(text)
                if not record["settled"]:
                    return False
                record["digests"] = {path: digest_of(path) for path, _, _ in record["own_files"]}
        if record is None:
            return False
        why = _unfit(record, launch)
        if why is not None:
            self._give_up(why)
            return False
        self._records[launch.rank] = record
        return True

    def _begin(self, launch: Launch) -> None:
        """Start the spare of a rank."""
        assert self._folder is not None
        record = self._records[launch.rank]
        needed = self._wanted - len(self._spares)
        total, free = capacity.room()
        if free - record["resident_kb"] * 1024 * max(needed, 1) < total * AMPLE:
            self._give_up(f"{size(free)} of memory is free, and one takes up to {size(record['resident_kb'] * 1024)}")
            return
        options = split_command(record["argv"])
        assert options is not None
        path = self._folder / f"record{launch.rank}.json"
        write_whole(path, json.dumps({key: value for key, value in record.items() if key != "digests"}).encode())
        ours, theirs = socket.socketpair()
        with theirs, tempfile.TemporaryFile(dir=self._folder) as out:
            command = (record["executable"], *options[0], "-c", PROGRAM, str(theirs.fileno()), str(path))
            env = {**launch.env, "KEEPSTEP": "off"}
            started = replace(launch, command=command, env=env)
            process = self._start(started, out.fileno(), out.fileno(), (theirs.fileno(),))
        ours.setblocking(False)
        self._spares[launch.rank] = _Spare(launch, process, ours, record)

    def _hear(self) -> None:
        """What spares have said since: that they are ready, or that they cannot be."""
        for rank, each in list(self._spares.items()):
            if each.ready:
                if each.process.poll() is not None:
                    _end(self._spares.pop(rank))
                continue
            try:
                message = _message(each.connection)
            except BlockingIOError:
                message = None
                if time.monotonic() - each.began < LONGEST_IMPORT_S and each.process.poll() is None:
                    continue
            if message is None or not message["ready"]:
                _end(self._spares.pop(rank))
                self._give_up(message["why"] if message else "one could not import the framework")
                return
            each.ready, each.resident_kb, each.cpu_s = True, message["resident_kb"], message["cpu_s"]
            self._newest = time.monotonic()

    def _tell_cost(self) -> None:
        """Said once per run."""
        if self._cost_told:
            return
        self._cost_told = True
        found = list(self._spares.values())
        memory = sum(each.resident_kb for each in found) * 1024
        names = " and ".join(
            sorted(
                {name for each in found for name in each.record["frameworks"] if name in ("torch", "tensorflow", "jax")}
            )
        )
        each = f", {size(memory / len(found))} each" if len(found) > 1 else ""
        self._say_once(
            f"{len(found)} warm {'spare waits' if len(found) == 1 else 'spares wait'} with {names} imported: "
            f"{size(memory)} of memory{each}, "
            f"{sum(each.cpu_s for each in found):.1f} s of processor time"
        )

    def _differs(self, found: _Spare, launch: Launch) -> str | None:
        """How this spare differs from a cold start; None if it does not."""
        if found.process.poll() is not None:
            return "it has ended"
        if launch.command != found.launch.command:
            return "the command is another one"
        old, new = spare.lasting(found.launch.env), spare.lasting(launch.env)
        if old != new:
            names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
            return f"{', '.join(names[:4])} changed"
        changed = [
            path for path, digest in found.record["digests"].items() if digest is None or digest_of(path) != digest
        ]
        return f"{Path(changed[0]).name} was changed" if changed else None

    # --- giving up

    def _memory_is_short(self) -> bool:
        if not self._spares:
            return False
        total, free = capacity.room()
        if free > total * SHORT:
            return False
        self._give_up(f"only {size(free)} of memory is free")
        return True

    def _give_up(self, why: str) -> None:
        """No spares from now on in this run."""
        self._say_once(f"no warm spares: {why}")
        self.close()

    def _drop(self) -> None:
        for each in self._spares.values():
            _end(each)
        self._spares.clear()

    def _say_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._say(text)


def _unfit(record: dict[str, Any], launch: Launch) -> str | None:
    """Why no spare can do what this rank did; None if one can."""
    if split_command(record["argv"]) is None:
        return "the command is not a Python script with its arguments"
    if list(launch.command[1:]) != record["argv"][1:]:
        return "Python is started by another program"
    if record["strangers"]:
        return f"the script loads {record['strangers'][0]} (compiled) before the framework"
    if any(about["affinity"] != record["affinity"] for about in record["frameworks"].values()):
        return "the script chooses its cores before it imports the framework"
    if not any(name in record["frameworks"] for name in ("torch", "tensorflow", "jax")):
        return "no framework was seen"
    return None


def _give(connection: socket.socket, order: dict[str, Any], outs: tuple[int, int]) -> bool:
    """Send the order; a spare that still imports reads it when it is done."""
    data = json.dumps(order).encode()
    if len(data) > MOST_ORDER:
        return False
    try:
        connection.settimeout(1.0)
        socket.send_fds(connection, [FRAME.pack(len(data))], list(outs))
        connection.sendall(data)
    except OSError:
        return False
    return True


def _message(connection: socket.socket) -> dict[str, Any] | None:
    """One message of a spare; None when it is gone. Raises ``BlockingIOError`` when there is none yet."""
    head = connection.recv(FRAME.size)
    if len(head) < FRAME.size:
        return None
    connection.settimeout(1.0)
    try:
        found = json.loads(connection.recv(FRAME.unpack(head)[0]))
    except (OSError, ValueError):
        return None
    finally:
        connection.setblocking(False)
    return found if isinstance(found, dict) else None


def _end(found: _Spare) -> None:
    found.connection.close()
    with contextlib.suppress(OSError):
        found.process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        found.process.wait(timeout=5)


def _remove_old() -> None:
    """Remove what supervisors that were killed have left behind."""
    for path in MEMORY.glob("keepstep-warm-*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if path.lstat().st_uid == os.getuid() and not Path(f"/proc/{int(path.name.split('-')[2])}").exists():
                shutil.rmtree(path, ignore_errors=True)

# SPDX-License-Identifier: Apache-2.0
"""One run of a guest in one way: a folder of its own, its own launcher, its end; nothing of it stays afterwards."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.sources.host.ports import free_ports
from keepstep_lab import sweeper
from keepstep_lab.guests.guest import PORTS, PROGRAMS, Guest, Way, with_ports
from keepstep_lab.launch import ending_on_sigterm, swept

INHERITED = ("LANG", "PYTHONPATH", "KEEPSTEP_CACHE_DIR", "XDG_CACHE_HOME")
PAUSE_S = 0.1
LEAVING_S = 10.0
"""How long helpers of a program (a companion, a loader's worker) may take to leave after it."""


@dataclass
class Visit:
    """A guest in one way, in a folder that is removed in the end."""

    guest: Guest
    way: Way
    token: str
    work: Path
    ports: list[int]
    env: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    status: int | None = None
    """Negative: the signal. None: it had to be killed."""
    seconds: float = 0.0
    left_running: list[str] = field(default_factory=list)
    """What still ran after the program and its launcher had ended."""

    @property
    def app(self) -> Path:
        """The folder of the program, where its user types the command."""
        return self.work / "app"

    @property
    def notes(self) -> Path:
        """Where a fault records that it struck."""
        return self.work / "notes"

    @property
    def terminal(self) -> Path:
        return self.work / "terminal.log"

    def printed(self) -> str:
        return self.terminal.read_text(errors="replace") if self.terminal.exists() else ""

    def losses(self) -> list[str]:
        """All losses that were printed; ranks print side by side, so their order means nothing."""
        return sorted(match.group().rstrip() for match in re.finditer(self.guest.losses, self.printed()))

    def files(self) -> set[str]:
        """What lies beside the program, its own files and keepstep's folder left out; numbers in names vary from run to
        run."""
        found = set()
        for path in self.app.rglob("*"):
            inside = path.relative_to(self.app)
            if path.is_dir() or inside.parts[0] in (".keepstep", *self.guest.files) or "__pycache__" in inside.parts:
                continue
            if self._is_record(inside):
                continue
            found.add(re.sub(r"[0-9a-f]{8,}|\d+", "#", str(inside)))
        return found

    def _is_record(self, inside: Path) -> bool:
        """Whether it is the record of a checkpoint that is there still: in the checkpoint's folder, or beside that."""
        if inside.name.startswith(".keepstep-ledger."):
            return True
        before, _, after = inside.as_posix().rpartition(".keepstep/ledger/")
        return bool(after) and (self.app / before / after.partition("/")[0]).is_dir()

    def guard_folders(self) -> list[Path]:
        """Where guards wrote: one per job, or one per attempt under `keepstep run`."""
        found = {path.parent for path in (self.app / ".keepstep").rglob("*.box")} | {
            path.parent for path in (self.app / ".keepstep").rglob("*.notes.jsonl")
        }
        return sorted(found)

    def run_folder(self) -> Path | None:
        """The folder of `keepstep run`."""
        found = sorted((self.app / ".keepstep" / "runs").glob("*/manifest.json"))
        return found[-1].parent if found else None


@contextlib.contextmanager
def prepared(guest: Guest, way: Way) -> Iterator[Visit]:
    """A visit that can be started. However this ends, its processes and its folder are gone afterwards."""
    token = os.urandom(6).hex()
    work = Path(tempfile.mkdtemp(prefix="ks-guest-"))  # short: sockets are made below it
    with swept(token, work), ending_on_sigterm():
        ports = free_ports(len(PORTS))
        visit = Visit(guest, way, token, work, ports, _environment(guest, way, token, work, ports))
        for folder in (visit.app, visit.notes, work / "t", work / "home"):
            folder.mkdir()
        for name in guest.files:
            shutil.copy(PROGRAMS / name, visit.app / name)
        yield visit


def carry_out(visit: Visit, beside: Callable[[Visit], bool] | None = None, limit: float | None = None) -> None:
    """Start it and wait for its end.

    ``beside`` is called all the while; when it returns True the program is ended as by a user.
    """
    words = [with_ports(word, visit.ports) for word in visit.guest.words(visit.way)]
    if words[0] == "keepstep":
        words[:1] = [sys.executable, "-m", "keepstep"]
    began = time.monotonic()
    with visit.terminal.open("ab") as out:
        visit.process = subprocess.Popen(
            words,
            cwd=visit.app,
            env=visit.env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    asked_to_end = False
    end = began + (limit or visit.guest.limit)
    while visit.process.poll() is None and time.monotonic() < end:
        if beside is not None and beside(visit):
            asked_to_end = True
            break
        time.sleep(PAUSE_S)
    visit.seconds = time.monotonic() - began
    if visit.process.poll() is None:
        _end(visit.process)
    else:
        visit.status = visit.process.returncode
    if not asked_to_end and visit.status is not None:
        visit.left_running = _who_stays(visit.token)


def _end(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does it: the whole group, then harder."""
    for number, patience in ((signal.SIGINT, 20.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            return


def _who_stays(token: str) -> list[str]:
    """The commands of what has not left in time."""
    end = time.monotonic() + LEAVING_S
    while (found := sweeper.carriers(token)) and time.monotonic() < end:
        time.sleep(PAUSE_S)
    commands = []
    for pid in found:
        with contextlib.suppress(OSError):
            commands.append(
                Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:120]
            )
    return [command for command in commands if command]


def _environment(guest: Guest, way: Way, token: str, work: Path, ports: list[int]) -> dict[str, str]:
    env = {key: os.environ[key] for key in INHERITED if key in os.environ}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env |= {
        "HOME": str(work / "home"),
        "TMPDIR": str(work / "t"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    env |= {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "1", "JAX_PLATFORMS": "cpu", sweeper.VARIABLE: token}
    if way is Way.GUARD:
        env["KEEPSTEP"] = "on"
    return env | {name: with_ports(value, ports) for name, value in guest.env.items()}

# SPDX-License-Identifier: Apache-2.0
"""The folder of a job's guards: one per run, even where each rank is started separately.

A process first looks for the folder of processes it certainly belongs to: its launcher's other children with the same
variables, its own parent, or a living process with the same cluster in its variables. Otherwise it makes one. Once
the ranks have met, rank 0 says where it writes, and the others move there. On other hosts, where they cannot see its
folder, they use its name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepstep.base.proc_stat import read_stat
from keepstep.base.safe_files import make_private, open_private, open_regular, write_whole
from keepstep.guard.exchange import Exchange
from keepstep.guard.own_rank import ALONE, Identity, started

CARD = ".job"
TURN_S = 0.5
TOGETHER_S = 60.0
"""Separately started processes of one job start within this time."""
MOST_FOLDERS = 50
LAUNCHERS = tuple(
    "slurmstepd orted prted prterun mpirun mpiexec hydra_pmi_proxy pt_elastic torchrun accelerate deepspeed".split()
)
_BOX = re.compile(r"(?:rank(\d+)|unranked)-(\d+)-(\d+)\.box")


@dataclass(frozen=True)
class BoxFile:
    """A box in a folder, by its name."""

    path: Path
    rank: int | None
    pid: int
    attempt: int


def claim(who: Identity, env: Mapping[str, str] = os.environ) -> Path:
    """Make the folder that this process writes to."""
    given = env.get("KEEPSTEP_DIR")
    if given:
        folder = Path(given).absolute()
        make_private(folder)
        return folder
    root = Path.cwd() / ".keepstep" / "guard"
    make_private(root)
    with _turn(root):
        folder = _of_own_job(root, who) or _fresh(root)
        if not (folder / CARD).exists():
            _write(folder / CARD, {"host": _host(), "job": who.job, "launch": _launch()})
        # the next process must see that we use it before our box is there
        os.close(open_private(folder / f".{file_name(who)}.box", os.O_WRONLY))
    return folder


def file_name(who: Identity) -> str:
    """The name of this process's files."""
    name = f"rank{who.rank}" if who.rank is not None else "unranked"
    return f"{name}-{os.getpid()}-{who.attempt}"


def _of_own_job(root: Path, who: Identity) -> Path | None:
    """The newest folder on this host with our launcher's other children, our parent, or a process of our cluster."""
    ours = _launch()
    newest = sorted(
        (path for path in root.iterdir() if path.is_dir() and not path.is_symlink()), key=_made, reverse=True
    )
    for folder in newest[:MOST_FOLDERS]:
        card = read_card(folder)
        if card is None or card.get("host") != _host():
            continue
        members = _members(folder)
        twins = [
            each for each in members if who.rank is not None and (each.rank, each.attempt) == (who.rank, who.attempt)
        ]
        if any(who.job == ALONE or not _just_began(each) for each in twins):
            continue  # an earlier run's; one of our cluster that has just started was given the same rank by mistake
        if who.rank is None and not _is_forked_worker():
            continue
        same = card.get("job") == who.job
        siblings = ours is not None and card.get("launch") == ours and same
        under = any(each.pid == os.getppid() for each in members)
        known = who.job != ALONE and same and any(_lives(each) for each in members)
        if siblings or under or known:
            return folder
    return None


def _fresh(root: Path) -> Path:
    script = os.path.basename(sys.argv[0] if sys.argv else "")
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", script.removesuffix(".py")).strip("-.")[:40] or "python"
    name = f"{label}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"
    for more in ("", *(f"-{number}" for number in range(2, 100))):
        with contextlib.suppress(FileExistsError):
            make_private(root / f"{name}{more}", exist_ok=False)
            break
    return root / f"{name}{more}"


def _launch() -> list[int] | None:
    """The process that started this rank and its siblings; None where that is a user's shell, which starts anything."""
    parent = os.getppid()
    with contextlib.suppress(OSError):
        program = os.path.basename(os.readlink(f"/proc/{parent}/exe"))
        name = Path(f"/proc/{parent}/comm").read_text().strip()
        if program.startswith("python") or program in LAUNCHERS or name in LAUNCHERS:
            return [parent, started(parent) or 0]
    return None


def _is_forked_worker() -> bool:
    """Whether multiprocessing started this: its siblings then belong to one program."""
    multiprocessing = sys.modules.get("multiprocessing")
    return multiprocessing is not None and multiprocessing.parent_process() is not None


def _members(folder: Path) -> list[BoxFile]:
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            match = _BOX.fullmatch(name.removeprefix("."))
            if match:
                rank, pid, attempt = match.groups()
                found.append(BoxFile(folder / name, int(rank) if rank else None, int(pid), int(attempt)))
    return found


def _lives(each: BoxFile) -> bool:
    """Whether its process still lives: a later one with the same id started after the box was made."""
    found = read_stat(each.pid)
    began = found.began() if found is not None and found.lives else None
    with contextlib.suppress(OSError):
        return began is not None and began <= each.path.lstat().st_mtime + 2.0
    return False


def _just_began(each: BoxFile) -> bool:
    with contextlib.suppress(OSError):
        return _lives(each) and time.time() - each.path.lstat().st_mtime < TOGETHER_S
    return False


def _made(folder: Path) -> float:
    with contextlib.suppress(OSError):
        return (folder / CARD).stat().st_mtime
    return 0.0


def read_card(folder: Path) -> dict[str, Any] | None:
    """What a folder says about its job."""
    with contextlib.suppress(OSError, ValueError):
        with open_regular(folder / CARD) as stream:
            found = json.loads(stream.read(4096))
        return found if isinstance(found, dict) else None
    return None


def _write(path: Path, card: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(card).encode())


@contextlib.contextmanager
def _turn(root: Path) -> Iterator[None]:
    """One process at a time looks for its folder; where locks do not work, all at once."""
    handle = open_private(root / ".turn", os.O_RDWR)
    try:
        until, pause = time.monotonic() + TURN_S, threading.Event()
        while time.monotonic() < until:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                pause.wait(0.01)
        yield
    finally:
        os.close(handle)


class CommonFolder:
    """Where rank 0 writes, published through the exchange. ``where`` is called until it has an answer."""

    def __init__(self, exchange: Exchange, who: Identity, folder: Path, *, moves: bool) -> None:
        self._exchange, self._who, self._folder, self._moves = exchange, who, folder, moves
        self._key = f"keepstep/{who.attempt}/folder"
        self.run: str | None = None
        """What all ranks of this run, and no others, have in common."""

    def tell(self) -> None:
        """Rank 0 says where it writes."""
        self.run = os.urandom(8).hex()
        if self._moves:
            _write(self._folder / CARD, {**(read_card(self._folder) or {}), "run": self.run})
        self._exchange.put(self._key, json.dumps({"folder": str(self._folder), "run": self.run}))

    def where(self) -> Path | None:
        """The folder in which this rank must write; None until rank 0 has said so."""
        text = self._exchange.get(self._key)
        if text is None:
            return None
        said = json.loads(text)
        self.run = str(said["run"])
        if not self._moves:
            return self._folder
        told = Path(said["folder"])
        if (read_card(told) or {}).get("run") == self.run and os.access(told, os.W_OK):
            return told
        own = self._folder.parent / told.name
        make_private(own)
        if not (own / CARD).exists():
            _write(own / CARD, {**(read_card(self._folder) or {}), "run": self.run})
        return own


def move(old: Path, new: Path) -> None:
    """Move a file or link to another folder: by renaming where possible, else as a copy, or a link to a box in use."""
    try:
        os.rename(old, new)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        if old.is_symlink():
            new.symlink_to(os.readlink(old))
            old.unlink()
        elif old.suffix == ".box":
            new.symlink_to(old)  # its process writes to it
        else:
            with open_regular(old, follow=False) as stream:
                write_whole(new, stream.read())
            old.unlink()


def leave(folder: Path) -> None:
    """Remove a folder that is no longer used; one with files stays."""
    with contextlib.suppress(OSError):
        names = set(os.listdir(folder))
        if names <= {CARD}:
            (folder / CARD).unlink(missing_ok=True)
            folder.rmdir()


def _host() -> str:
    return socket.gethostname()[:120]

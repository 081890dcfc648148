# SPDX-License-Identifier: Apache-2.0
"""The run folder: one per run, with a folder for each attempt and a manifest that describes them.

    .keepstep/runs/20261115T080000Z-train/
      manifest.json                what was run, by whom, how it went so far (rewritten as a whole at every change)
      report.json                  the report that the run ended with
      attempt-0/rank0.log ...      output of each rank
      attempt-0/guard/             black boxes and notes of the guards
      attempt-0/arrivals.json      when the output of ranks arrived
      attempt-0/start.jsonl        what ranks were started with
      attempt-0/exits.jsonl        how each rank ended
      attempt-0/stacks.jsonl       where ranks were when they stopped, or when another one failed
      attempt-0/cores/             links to core files
      attempt-0/metrics.jsonl      memory, disk and GPUs over time
      attempt-0/history/           what every rank and host showed, second by second, then coarser
      attempt-0/report.json        what was found

A full disk stops the writing, never the run: every method returns whether it could write, and none raises.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.proc_stat import TICKS, read_stat
from keepstep.base.redact import redact
from keepstep.base.safe_files import make_private, open_regular, overwrite, write_whole
from keepstep.errors import FULL
from keepstep.model.codec import build
from keepstep.model.identity import MOST_RANKS
from keepstep.store.reserved_space import Reserve

SCHEMA = "keepstep.run/1"
MANIFEST = "manifest.json"
DEFAULT = Path(".keepstep") / "runs"
KEPT_BYTES = 10 << 30
KEPT_S = 30 * 86400.0
KEPT_LEAST = 5
"""The newest runs are never pruned."""
LARGEST_MANIFEST = 16 << 20
LATEST = 1e11
"""The range of plausible times, in seconds since the epoch."""
MOST_EXPLAINED = 4
"""How many attempts of a very long run are explained besides the first."""


@dataclass
class AttemptSaid:
    """One attempt in the manifest."""

    number: int
    began: float
    ended: float | None = None
    status: int | None = None
    happened: str | None = None
    cause: str | None = None
    title: str | None = None
    told: float | None = None
    """When the cause was first reported."""
    decision: str | None = None
    steps: int | None = None
    step_s: float | None = None
    """How long a step usually took."""
    resumed: bool | None = None
    """Whether it went on from a checkpoint, as far as the guards saw."""
    unsaved_s: float | None = None
    """How long it had trained since its last checkpoint when it ended."""
    remedies: list[str] = field(default_factory=list)
    """Those that were in force."""


@dataclass
class RunManifest:
    """What a run records about itself."""

    name: str
    command: list[str]
    cwd: str
    began: float
    ranks: int
    roles: list[str] = field(default_factory=list)
    host: str = ""
    user: str = ""
    pid: int = 0
    started: float = 0.0
    """When the supervisor's process started, by the kernel: distinguishes a later process with the same pid."""
    version: str = ""
    state: str = "running"
    """``running``, ``finished``, ``failed`` or ``stopped`` (by the user or a scheduler)."""
    ended: float | None = None
    status: int | None = None
    goodput: float | None = None
    """The share of its ranks' time that was training."""
    attempts: list[AttemptSaid] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    moved_from: str = ""
    """Where its folder was until that could not be written any more."""
    jobs: list[str] = field(default_factory=list)
    """What Slurm calls the job that it was part of: its number, and its name within an array."""


class RunFolder:
    """The folder of one run, for its supervisor."""

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.full = False
        """Whether a write failed, which leaves gaps in the recording."""
        self.trouble = "the disk is full"
        """Why, in words."""
        self.reserve = Reserve(path)
        self.device = path.stat().st_dev if path.is_dir() else None
        """The disk that it was made on."""

    def attempt(self, number: int) -> Path:
        """The folder of an attempt, made."""
        folder = self.path / f"attempt-{number}"
        meeting = self.exchange(number)
        for path in (folder, folder / "guard", meeting.parent, meeting):
            with self.writing():
                make_private(path)
        return folder

    def exchange(self, number: int) -> Path:
        """Where the guards of an attempt meet; removed with it."""
        return self.path / "exchange" / f"attempt-{number}"

    def save(self) -> bool:
        """Write the manifest, whole or not at all; if the disk is full, into the space it already has."""
        text = json.dumps({"schema": SCHEMA, **asdict(self.manifest)}, indent=1) + "\n"
        if self.write(self.path / MANIFEST, text):
            return True
        with contextlib.suppress(OSError):
            overwrite(self.path / MANIFEST, text.encode("utf-8", "replace"))
            return True
        return False

    def write(self, path: Path, text: str) -> bool:
        """Write a file, whole or not at all."""
        with self.writing():
            self.reserve.used_for(lambda: write_whole(path, text.encode("utf-8", "replace")))
            return True
        return False

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Whatever happens to the disk, the run continues."""
        try:
            yield
        except OSError as error:
            self.full = True
            if error.errno not in FULL:
                self.trouble = f"the run folder cannot be written ({error.strerror})"


def create(root: Path, command: list[str], *, name: str | None, ranks: int, version: str) -> RunFolder:
    """A new folder under ``root``. Raises ``OSError`` if it cannot be made."""
    began = time.time()
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", name or _label(command)).strip("-.")[:40] or "run"
    stamp = datetime.fromtimestamp(began, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    make_private(root)
    keep_out_of_git(root)
    for again in range(1000):
        path = root / (f"{stamp}-{label}" + (f"-{again + 1}" if again else ""))
        with contextlib.suppress(FileExistsError):
            make_private(path, exist_ok=False)
            break
    manifest = RunManifest(
        name=path.name,
        command=[redact(word) for word in command],
        cwd=os.getcwd(),
        began=began,
        ranks=ranks,
        host=socket.gethostname(),
        user=str(os.getuid()),
        pid=os.getpid(),
        started=_started(os.getpid()) or 0.0,
        version=version,
        jobs=_slurm_jobs(os.environ),
    )
    return RunFolder(path, manifest)


def _slurm_jobs(env: Mapping[str, str]) -> list[str]:
    array, task = env.get("SLURM_ARRAY_JOB_ID", ""), env.get("SLURM_ARRAY_TASK_ID", "")
    found = (env.get("SLURM_JOB_ID", ""), f"{array}_{task}" if array and task else "")
    return [each[:40] for each in found if each]


def _label(command: list[str]) -> str:
    """The script's name, else the program's."""
    for word in command:
        if word.endswith(".py"):
            return Path(word).stem
    for before, word in itertools.pairwise(command):
        if before == "-m":
            return word
    return Path(command[0]).name if command else "run"


def keep_out_of_git(root: Path) -> None:
    """Keep runs out of version control."""
    if root.parent.name == ".keepstep":
        with contextlib.suppress(OSError):
            path = root.parent / ".gitignore"
            if not os.path.lexists(path):
                write_whole(path, b"*\n")


@dataclass(frozen=True)
class Listed:
    """A run that was found."""

    path: Path
    manifest: RunManifest

    @property
    def state(self) -> str:
        """As the manifest says; ``killed`` if it says running but no process runs it."""
        said = self.manifest
        if said.state == "running" and said.host == socket.gethostname():
            started = _started(said.pid)
            if started is None or abs(started - said.started) > 1.0:
                return "killed"
        return said.state

    @property
    def size_bytes(self) -> int:
        return sum(info.st_size for info in _stats(self.path))


def runs(root: Path = DEFAULT) -> list[Listed]:
    """All runs under ``root``, the newest last; folders without a readable manifest are skipped."""
    found = []
    with contextlib.suppress(OSError):
        for path in sorted(root.iterdir()):
            manifest = read_manifest(path) if not path.is_symlink() else None
            if manifest is not None:
                found.append(Listed(path, manifest))
    return sorted(found, key=lambda run: run.manifest.began)


def unreadable(root: Path = DEFAULT) -> list[tuple[Path, str]]:
    """What :func:`runs` had to leave out, and why. A place that is not there holds no runs, which is fine."""
    try:
        listed = sorted(root.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        return [(root, error.strerror or str(error))]
    return [(path, why) for path in listed if not path.is_symlink() and (why := manifest_problem(path)) is not None]


def read_manifest(folder: Path) -> RunManifest | None:
    """What a run records about itself; None if it cannot be read."""
    try:
        return _read(folder)
    except (OSError, ValueError):
        return None


def manifest_problem(folder: Path) -> str | None:
    """Why a folder's manifest cannot be read, if it has one."""
    try:
        _read(folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror if _may_be_folder(folder) else None
    except ValueError as error:
        return f"damaged: {error}"
    return None


def _may_be_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except PermissionError:
        return True


def _read(folder: Path) -> RunManifest | None:
    """None if the manifest belongs to something else. Raises ``OSError`` and ``ValueError``."""
    with open_regular(folder / MANIFEST, follow=False) as stream:
        data = stream.read(LARGEST_MANIFEST)
    if SCHEMA.encode() not in data[:200]:
        return None
    found = foreign_json.loads(data)
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return None
    try:
        manifest: RunManifest = build(RunManifest, found)
    except (TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None
    numbers = [each.number for each in manifest.attempts]
    if numbers != sorted(set(numbers)) or min(numbers, default=0) < 0:
        raise ValueError("its attempts are not numbered consecutively")
    for at in (manifest.began, manifest.ended, *(at for each in manifest.attempts for at in (each.began, each.ended))):
        if at is not None and not 0 <= at < LATEST:
            raise ValueError(f"{at} is not a time")
    if not 0 <= manifest.ranks <= MOST_RANKS or not 0 <= manifest.pid < 1 << 31:
        raise ValueError("a number in it is out of range")
    return manifest


def attempt_to_explain(path: Path) -> Path:
    """For `keepstep why`: a run folder's last attempt; any other path as it is."""
    manifest = read_manifest(path)
    if manifest is None:
        return path
    folders = [_attempt_folder(path, each) for each in reversed(manifest.attempts)]
    return next((folder for folder in folders if folder is not None), path)


def attempts_to_explain(path: Path) -> dict[int, Path]:
    """For `keepstep why`: a run's attempts that left a folder, by number: the first, and the last few."""
    manifest = read_manifest(path)
    if manifest is None:
        return {}
    there = {each.number: folder for each in manifest.attempts if (folder := _attempt_folder(path, each)) is not None}
    return dict([*list(there.items())[:1], *list(there.items())[1:][-MOST_EXPLAINED:]])


def _attempt_folder(path: Path, said: AttemptSaid) -> Path | None:
    """Its folder, if it left one. The manifest may be a stranger's: neither it nor a link may lead out of the run."""
    if not isinstance(said.number, int):
        return None
    folder = path / f"attempt-{said.number}"
    return folder if folder.is_dir() and not folder.is_symlink() else None


def find(name: str, listed: Sequence[Listed]) -> Path | None:
    """A run by its name, by a unique part of its name, or as ``last``."""
    if name == "last" and listed:
        return listed[-1].path
    fits = [run.path for run in listed if name == run.path.name] or [
        run.path for run in listed if name in run.path.name
    ]
    return fits[0] if len(fits) == 1 else None


def last_of_guards() -> Path | None:
    """The newest folder that guards without `keepstep run` have filled here."""
    found = {path.parent for path in (DEFAULT.parent / "guard").glob("*/*.box")}
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def old_runs(
    root: Path = DEFAULT,
    *,
    most_bytes: int = KEPT_BYTES,
    most_s: float = KEPT_S,
    least: int = KEPT_LEAST,
    now: float | None = None,
) -> list[Listed]:
    """Runs that ended long ago, and the oldest while all take too much space; never live or new ones."""
    now = time.time() if now is None else now
    found: list[Listed] = []
    listed = runs(root)
    total = sum(run.size_bytes for run in listed)
    for run in listed[: max(0, len(listed) - least)]:
        old = now - (run.manifest.ended or run.manifest.began) > most_s
        if run.state != "running" and (old or total > most_bytes):
            total -= run.size_bytes
            found.append(run)
    return found


def remove(run: Listed) -> str | None:
    """Remove a run. Returns why it is still there."""
    why: list[str] = []

    def failed(function: object, path: str, info: tuple[object, BaseException, object]) -> None:
        why.append(getattr(info[1], "strerror", None) or str(info[1]))

    with contextlib.suppress(RecursionError):
        shutil.rmtree(run.path, onerror=failed)
    return (why or ["it is too deep"])[0] if os.path.lexists(run.path) else None


def prune(root: Path = DEFAULT, **limits: Any) -> list[Path]:
    """Remove the runs that :func:`old_runs` names, as far as they can be. Returns those."""
    return [run.path for run in old_runs(root, **limits) if remove(run) is None]


def _stats(folder: Path) -> Iterator[os.stat_result]:
    ahead = [str(folder)]
    while ahead:
        with contextlib.suppress(OSError), os.scandir(ahead.pop()) as listed:
            for entry in listed:
                if entry.is_dir(follow_symlinks=False):
                    ahead.append(entry.path)
                else:
                    yield entry.stat(follow_symlinks=False)


def _started(pid: int) -> float | None:
    """When a process started, in seconds since the host booted; None if there is no such process."""
    found = read_stat(pid)
    return found.started / TICKS if found is not None and found.lives else None

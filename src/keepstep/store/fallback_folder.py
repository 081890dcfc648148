# SPDX-License-Identifier: Apache-2.0
"""Another place for a run folder that cannot be written any more: read-only, removed, or on a full disk.

What is kept there says where it would have been, so `keepstep why` and `keepstep runs` find it from the old place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from keepstep.base.safe_files import make_private, open_private, private_folder
from keepstep.errors import FULL
from keepstep.model.facts.nodes import RunFolderLost
from keepstep.store import failed_hosts, run_folders
from keepstep.store.reserved_space import Reserve

NEEDED = 1 << 20
"""Bytes that must fit for a place to count as usable: the evidence of one attempt of a small run."""
GONE = (errno.ENOENT, errno.ENOTDIR)
NOT_OF_THE_FOLDER = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_PROBE = ".probe"


@dataclass(frozen=True, slots=True)
class Moved:
    """A run folder that goes on elsewhere."""

    old: Path
    new: Path
    error: str
    """What the system says about the old one."""
    full: bool
    gone: bool

    @property
    def fact(self) -> RunFolderLost:
        """As evidence."""
        host, old, new = socket.gethostname(), str(self.old), str(self.new)
        return RunFolderLost(host=host, path=old, error=self.error, full=self.full, gone=self.gone, instead=new)

    @property
    def words(self) -> str:
        """For the terminal."""
        if self.gone:
            where = "it is made again" if self.new == self.old else f"the recording goes on in {self.new}"
            return f"the run folder {self.old} was removed: {where}; what was in it before is lost"
        what = "has no room left" if self.full else f"cannot be written ({self.error})"
        return f"the run folder {self.old} {what}: the recording goes on in {self.new}"


FindRoom = Callable[[], Moved | None]


def places() -> list[Path]:
    """Where run folders go that lost their place, the best first."""
    found = []
    with contextlib.suppress(RuntimeError):  # a user without a home
        found.append(failed_hosts.where().with_name("runs"))
    return [*found, Path(tempfile.gettempdir()) / f"keepstep-{os.getuid()}" / "runs"]


def move(run: run_folders.RunFolder, attempt: int, *, though_full: bool = True) -> Moved | None:
    """Give a run another place if nothing can be written into the folder of this attempt any more.

    None: all is well, or no place is better. ``though_full``: also because of a full disk.
    """
    error = _tried(run.path / f"attempt-{attempt}")
    if error is None or error.errno in NOT_OF_THE_FOLDER or (error.errno in FULL and not though_full):
        return None
    old, gone = run.path, error.errno in GONE
    roots = [*([old.parent] if gone and _is_same_disk(run) else []), *places()]
    for root in roots:
        if (new := _made(root, old.name, attempt)) is not None:
            run.manifest.moved_from = run.manifest.moved_from or str(old.absolute())
            run.reserve.close()
            run.path, run.reserve, run.full = new, Reserve(new), False
            run.save()
            return Moved(old, new, error.strerror or str(error), error.errno in FULL, gone)
    return None


def all_runs(root: Path = run_folders.DEFAULT) -> list[run_folders.Listed]:
    """Those under ``root``, and those that lost their place there, the newest last."""
    moved = _moved(root)
    lost = {each.path.name for each in moved}
    found = [each for each in run_folders.runs(root) if each.path.name not in lost]
    return sorted([*found, *moved], key=lambda run: run.manifest.began)


def _moved(root: Path) -> list[run_folders.Listed]:
    """The runs that would be under ``root`` if they had not lost their place."""
    here = root.absolute()
    found = [each for place in places() if _is_own(place) for each in run_folders.runs(place)]
    found = [each for each in found if each.manifest.moved_from]
    return [each for each in found if Path(each.manifest.moved_from).parent == here]


def _is_own(place: Path) -> bool:
    """Whether this user made it. Another one may have taken its name among the temporary files."""
    with contextlib.suppress(OSError):
        infos = [each.lstat() for each in (place.parent, place)]
        return all(stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() for info in infos)
    return False


def of(path: Path) -> Path | None:
    """Where a run folder went, if it lost its place."""
    was = str(path.absolute())
    return next((each.path for each in _moved(path.parent) if each.manifest.moved_from == was), None)


def _tried(folder: Path) -> OSError | None:
    """Why nothing can be written there; None if it can."""
    try:
        with _probed(folder / _PROBE) as handle:
            os.posix_fallocate(handle, 0, NEEDED)
    except OSError as error:
        return error
    return None


@contextlib.contextmanager
def _probed(path: Path) -> Iterator[int]:
    handle = open_private(path, os.O_WRONLY)
    try:
        yield handle
    finally:
        os.close(handle)
        path.unlink(missing_ok=True)


def _is_same_disk(run: run_folders.RunFolder) -> bool:
    """Whether the place of a folder that is gone is still on the disk that it was on: else a mount is missing."""
    above = next((each for each in run.path.absolute().parents if each.is_dir()), None)
    return above is not None and run.device is not None and above.stat().st_dev == run.device


def _made(root: Path, name: str, attempt: int) -> Path | None:
    folder = root / name / f"attempt-{attempt}"
    try:
        make_private(root.parent.parent)
        for each in (root.parent, root, root / name, folder, folder / "guard"):
            private_folder(each)
        run_folders.keep_out_of_git(root)
        return None if _tried(folder) is not None else root / name
    except OSError:
        return None

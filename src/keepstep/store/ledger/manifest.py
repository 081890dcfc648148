# SPDX-License-Identifier: Apache-2.0
"""The record of one save: which files, their sums, the step, the world, and what wrote them.

It is written whole, after the files are on the disk, so its presence is the commit mark. It lies where no script that
lists its checkpoints finds it: inside a checkpoint that is a folder, otherwise beside the folder that holds the file.
So it goes with a folder that is copied, moved or deleted, or with the folder above.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from keepstep.base import foreign_json
from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.safe_files import make_private, open_regular, write_whole
from keepstep.store.ledger.checkpoint_files import FOLDER, INSIDE, OURS, TF_PARTS
from keepstep.store.ledger.file_sums import CRC, PARITIES, FileSums

VERSION = 1
MOST_BYTES = 64 << 20
BEGUN, ENDED = ".begun", ".ended"
FOLDER_KIND = "folder"
"""Of the record that ends the save of a folder whose other files have records of their own."""
MOST_RECORDS = 100
"""In one folder, before those of deleted files are removed."""
_ODD = re.compile(r"[^A-Za-z0-9._=+-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one rank saved at once. ``files``: names relative to ``folder``."""

    folder: str
    """Where the files were when they were recorded."""
    files: Mapping[str, FileSums]
    kind: str
    """The format: "torch", "safetensors", "orbax"."""
    writer: str
    """What wrote it: "torch 2.13.0"."""
    step: int
    rank: int
    world: int
    number: int
    """Of this save among those of its kind in this process: the same on all ranks that save together."""
    together: bool
    """All ranks wrote parts of it."""
    made: float
    suspect: str = ""
    """Why the numbers that were saved may be wrong; empty where nothing says so."""
    attempt: int = 0
    """Of the run: numbers begin again with each."""

    def is_of_one_save_with(self, other: Manifest) -> bool:
        """Whether both are parts of one save by all ranks."""
        return (self.number, self.world, self.attempt) == (other.number, other.world, other.attempt)


def write(path: Path, manifest: Manifest) -> Path:
    """Record a save. The files must be on the disk by now; the record is when it was given to ``sync``. Raises
    ``OSError``."""
    target = _place(path) / _name(path, f"{_own_name(path, manifest.rank)}.json")
    make_private(target.parent)
    write_whole(target, json.dumps(_document(manifest)).encode() + b"\n")
    with contextlib.suppress(OSError):
        if path.is_dir():
            os.unlink(path / _part(path, manifest.rank))
        elif not _is_inside(path):
            _prune(target.parent, path.parent)
    return target


def suspect(path: Path, manifest: Manifest, why: str) -> None:
    """The numbers that were saved may be wrong: say so in the record, if it is still there. Raises ``OSError``."""
    for place in _places(path):
        target = place / _name(path, f"{_own_name(path, manifest.rank)}.json")
        if (found := _read(target)) is not None and found.made == manifest.made and not found.suspect:
            write_whole(target, json.dumps(_document(replace(found, suspect=why))).encode() + b"\n")


def _prune(records: Path, container: Path) -> None:
    """Where many records are kept, remove those of files that are gone: the script keeps only its newest."""
    there = list(records.glob("*.json"))
    if len(there) <= MOST_RECORDS:
        return
    is_there = _look_in(container)
    for each in there:
        if (made := _read(each)) is not None and not is_there(made):
            each.unlink(missing_ok=True)


def _look_in(container: Path) -> Callable[[Manifest], bool]:
    """Whether a file of a save is there still, perhaps under another name."""
    infos: dict[str, os.stat_result] = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(container) as entries:
        infos = {entry.name: entry.stat() for entry in entries}
    same = {(info.st_ino, info.st_mtime_ns) for info in infos.values()}
    return lambda made: any(name in infos or (one.inode, one.modified_ns) in same for name, one in made.files.items())


def forget_deleted(path: Path, manifest: Manifest) -> None:
    """Remove the record, and the folders for it, where the script has deleted what it saved. Never raises."""
    with contextlib.suppress(OSError):
        if _is_inside(path) or _look_in(path.parent)(manifest):
            return
        forget(path)
        for place in _places(path):
            with contextlib.suppress(OSError):  # other records are in it
                for folder in (place, place.parent, place.parent.parent):
                    os.rmdir(folder)


def begin(path: Path, rank: int = 0) -> None:
    """A save begins: if it does not come to its end, that is known later. For files, and for folders that are there.
    Makes no folder but keepstep's own: a save into a folder that is missing may be meant to fail."""
    place = _place(path)
    if place not in (path, path.parent) and place.parents[2].is_dir():
        make_private(place)
    write_whole(place / _mark(path, rank), b"")


def end(path: Path, rank: int = 0) -> None:
    """The save has come to its end. That a file has no record yet is kept under its inode: scripts save under one name
    and rename over the checkpoint before, whose record is not about what is there then. Never raises."""
    for place in _places(path):
        with contextlib.suppress(OSError):
            mark = place / _mark(path, rank)
            if path.is_file():
                os.replace(mark, place / _name(path, f"{path.stat().st_ino}{ENDED}"))
            else:
                mark.unlink(missing_ok=True)


def part_ended(path: Path, made: Manifest) -> None:
    """This rank's part of a folder has come to its end, and its record is yet to be written. Never raises."""
    with contextlib.suppress(OSError):
        write_whole(path / _part(path, made.rank), json.dumps(_document(made)).encode() + b"\n")


def has_part(path: Path, rank: int, of: Manifest) -> bool:
    """Whether that rank came to the end of its part of this save, and its process ended before it could record it."""
    found = _read(path / _part(path, rank))
    return found is not None and found.is_of_one_save_with(of)


def _part(path: Path, rank: int) -> str:
    return _name(path, f"{_own_name(path, rank)}{ENDED}")


def awaits_record(path: Path) -> bool:
    """Whether the file was saved, and the process ended before it could record that."""
    inode = path.stat().st_ino
    return any((place / _name(path, f"{inode}{ENDED}")).exists() for place in _places(path))


def awaits_no_more(path: Path, inode: int) -> None:
    """What was saved at ``path`` is recorded, or never will be. Never raises."""
    for place in _places(path):
        with contextlib.suppress(OSError):
            os.unlink(place / _name(path, f"{inode}{ENDED}"))


def _mark(path: Path, rank: int = 0) -> str:
    return _name(path, f"{f'rank-{rank}' if path.is_dir() else path.name}{BEGUN}")


def was_begun(path: Path) -> bool:
    """Whether a save of this file, or of one in this folder, was begun and did not come to its end."""
    if path.is_dir():
        return any(each.name.startswith(INSIDE) and each.name.endswith(BEGUN) for each in path.iterdir())
    return any((place / _mark(path)).exists() for place in _places(path))


def forget(path: Path) -> None:
    """Remove the record of what was at ``path`` before. Never raises."""
    name = _name(path, f"{_own_name(path)}.json")
    for place in _places(path):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(place, name))


def manifests(path: Path) -> list[Manifest]:
    """What is recorded about the checkpoint at ``path``; where nothing is under its name, all about its neighbours."""
    places = {place: _name(path, "") for place in _places(path)}
    if not path.is_dir():
        places[path.parent] = INSIDE  # a folder that was renamed has its records in it still
        for place, begins in places.items():
            if (own := _read(place / f"{begins}{_plain(_own_name(path))}.json")) is not None:
                return [own]
    known = [each for place, begins in places.items() for each in _all_in(place, begins)]
    if path.is_dir() and not FOLDER.search(path.name):  # files of it that were saved one by one, before it had a record
        beside = [each for place in _places_of_files_in(path) for each in _all_in(place, "")]
        known += [each for each in beside if any((path / name).exists() for name in each.files)]
    return known


def _all_in(folder: Path, begins: str) -> tuple[Manifest, ...]:
    try:
        return _read_all(folder, begins, folder.stat().st_mtime_ns)
    except OSError:
        return ()


@functools.lru_cache(maxsize=16)
def _read_all(folder: Path, begins: str, changed_ns: int) -> tuple[Manifest, ...]:
    """Kept as long as the folder does not change: a program may load thousands of files that have no record."""
    files = sorted(each for each in folder.iterdir() if each.suffix == ".json" and each.name.startswith(begins))
    return tuple(made for each in files if (made := _read(each)) is not None)


def _place(path: Path) -> Path:
    """The folder for new records about the checkpoint at ``path``."""
    *_, beside = places = _places(path)
    if len(places) == 1:
        return beside
    inside = places[0]
    if inside.parent.parent.is_dir() or not os.access(beside.parents[2], os.W_OK):
        return inside  # keepstep writes there anyway, or cannot write elsewhere
    return beside


def _places(path: Path) -> tuple[Path, ...]:
    """The folders in which records about the checkpoint at ``path`` can be."""
    return (path,) if path.is_dir() else _places_of_files_in(path.parent)


@functools.lru_cache(maxsize=64)
def _places_of_files_in(container: Path) -> tuple[Path, ...]:
    if FOLDER.search(container.name):
        return (container,)
    below = Path(OURS, "ledger")
    return (container / below / "here", container.parent / below / (container.name or "root"))


def _is_inside(path: Path) -> bool:
    """Whether the checkpoint is a folder, or a file of one."""
    return path.is_dir() or bool(FOLDER.search(path.parent.name))


def _name(path: Path, name: str) -> str:
    return (INSIDE if _is_inside(path) else "") + _plain(name)


def _plain(name: str) -> str:
    return _ODD.sub("_", name)[:200]


def _own_name(path: Path, rank: int = 0) -> str:
    return f"rank-{rank}" if path.is_dir() else TF_PARTS.sub("", path.name)


def sync(record: Path) -> None:
    """Onto the disk, where the file system can do that. Never raises."""
    for each in (record, record.parent):
        with contextlib.suppress(OSError):
            handle = os.open(each, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _document(manifest: Manifest) -> dict[str, object]:
    return {
        "keepstep_ledger": VERSION,
        "folder": manifest.folder,
        "kind": manifest.kind,
        "writer": manifest.writer,
        "step": manifest.step,
        "rank": manifest.rank,
        "world": manifest.world,
        "number": manifest.number,
        "together": manifest.together,
        "made": manifest.made,
        "attempt": manifest.attempt,
        "suspect": manifest.suspect,
        "files": {
            name: [one.size, one.modified_ns, one.device, one.inode, list(one.blocks), one.by, one.places]
            for name, one in manifest.files.items()
        },
    }


def _read(path: Path) -> Manifest | None:
    """None for what is no record of ours, or was written by another user than the checkpoint's folder."""
    try:
        with open_regular(path, follow=False) as stream:
            if os.fstat(stream.fileno()).st_uid not in (os.geteuid(), 0, path.parent.stat().st_uid):
                return None
            found = foreign_json.loads(stream.read(MOST_BYTES))
        if found["keepstep_ledger"] != VERSION:
            return None
        if any(len(about) > 5 and about[5] not in (CRC, PARITIES) for about in found["files"].values()):
            return None
        files = {
            str(name): FileSums(
                size=int(size),
                modified_ns=int(modified),
                device=int(device),
                inode=int(inode),
                blocks=tuple(int(each) for each in blocks),
                by=str(by[0]) if by else CRC,
                places=str(by[1]) if len(by) > 1 else "",
            )
            for name, (size, modified, device, inode, blocks, *by) in found["files"].items()
        }
        return Manifest(
            folder=str(found["folder"]),
            files=files,
            kind=str(found["kind"]),
            writer=str(found["writer"]),
            step=int(found["step"]),
            rank=int(found["rank"]),
            world=int(found["world"]),
            number=int(found["number"]),
            together=bool(found["together"]),
            made=float(found["made"]),
            attempt=int(found.get("attempt", 0)),
            suspect=str(found.get("suspect") or ""),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None

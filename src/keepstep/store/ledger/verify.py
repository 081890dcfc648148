# SPDX-License-Identifier: Apache-2.0
"""Whether a checkpoint is what was saved: each file is compared with its record, and the records with each other."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.own_line import say_on_own_line
from keepstep.base.redact import redact
from keepstep.base.safe_files import open_regular
from keepstep.errors import UserError
from keepstep.store.ledger.checkpoint_files import NO_STATE, TF_PARTS, checkpoints_in, on_disk, parts_of
from keepstep.store.ledger.file_sums import BLOCK, FileSums, sums_of, threads_here
from keepstep.store.ledger.format_check import (
    is_known,
    is_zipped,
    missing_shard,
    shows_all,
    shows_its_end,
    wrong_with,
    wrong_with_file,
)
from keepstep.store.ledger.manifest import FOLDER_KIND, Manifest, awaits_record, has_part, manifests, was_begun
from keepstep.store.ledger.states import State

MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """About one checkpoint. ``why`` is empty where the state says it all."""

    path: Path
    state: State
    why: str = ""
    step: int | None = None
    writer: str | None = None
    files: int = 0
    """Compared byte for byte..."""
    unrecorded: int = 0
    """... and those that no record names."""

    @property
    def words(self) -> str:
        return self.why or self.state.words


def verify(
    path: Path,
    *,
    recorded_only: bool = False,
    share: tuple[int, int] = (0, 1),
    progress: Callable[[int], None] = lambda size: None,
) -> Verdict:
    """Look at the checkpoint at ``path``: a file, a folder, or TensorFlow's prefix. Reads all of it; changes nothing.

    ``recorded_only``: do not read what has no record. A framework is about to read it, and sees by itself what its
    format shows. ``share``: of ranks that look at it together, each reads the files whose turn it is: (rank, world).
    """
    whole = Path(os.path.realpath(path))  # records lie beside the files, wherever links to them are
    try:
        verdict = replace(_verify(whole, recorded_only, share, progress), path=path)
    except OSError as error:
        return Verdict(path=path, state=State.UNREADABLE, why=error.strerror or str(error))
    doubtful = (State.CHANGED, State.UNRECORDED, *((State.VERIFIED, State.PARTIAL) if path.is_dir() else ()))
    if verdict.state in doubtful and was_begun(whole) and not _has_come_to_its_end(whole):
        return replace(verdict, state=State.INCOMPLETE, why="a save to it was begun and never finished")
    return verdict


def _verify(path: Path, recorded_only: bool, share: tuple[int, int], progress: Callable[[int], None]) -> Verdict:
    files = parts_of(path)
    own, below = _about(path, files), _of_subfolders(path, files)
    known = [*own, *(each for of_one in below.values() for each in of_one)]
    if not known:
        return _without_record(path, files, look=not recorded_only)
    for folder, of_one in {path: own, **below}.items():
        if of_one and (missing := _missing_part(folder, of_one)) is not None:
            where = "" if folder == path else f"{folder.relative_to(path)}: "
            return _verdict(path, State.INCOMPLETE, known, why=where + missing)
    base = path if path.is_dir() else path.parent
    recorded = {
        (folder / name).relative_to(base).as_posix(): (one, each)
        for folder, of_one in {base: own, **below}.items()
        for each in sorted(of_one, key=lambda made: made.made)
        for name, one in each.files.items()
    }
    bad: list[str] = []
    changed: list[str] = []
    compared = 0
    unrecorded: list[Path] = []
    rank, world = share
    for file in files[rank::world]:
        name = file.relative_to(base).as_posix()
        record = recorded.get(name) or _same_file(file, recorded)
        if record is not None and file.stat().st_mtime_ns != record[0].modified_ns and awaits_record(file):
            record = None  # it is about the file that was there before
        if record is not None:
            compared += 1
            wrong, certain = _compare(file, record[0], progress, imports=not recorded_only)
        else:
            unrecorded.append(file)
            wrong, certain = None if recorded_only else wrong_with_file(file), True
        if wrong is not None:
            (bad if certain else changed).append(wrong if file == path else f"{name}: {wrong}")
    if bad or changed:
        state = State.DAMAGED if bad else State.CHANGED
        return _verdict(path, state, known, why=_listed(bad or changed), files=compared)
    if not compared and world == 1:
        return _without_record(path, files, look=not recorded_only)
    if path.is_dir() and not recorded_only:
        if (wrong := missing_shard(files)) is not None:
            return _verdict(path, State.INCOMPLETE, known, why=wrong, files=compared)
        if (
            lacks := _of_other_saves({name: of_one for name, (_, of_one) in recorded.items()}, below)
            or _lacks(path, own)
        ) is not None:
            return _verdict(path, State.PARTIAL, known, why=lacks, files=compared)
    why = next((each.suspect for each in known if each.suspect), "")
    state = State.SUSPECT if why else State.VERIFIED
    if not why and any(each.suffix not in NO_STATE for each in unrecorded):
        state = State.UNRECORDED
        count = f"{len(unrecorded)} of its {compared + len(unrecorded)} files"
        why = f"{count} have no record: only their format was checked"
    return _verdict(path, state, known, why=why, files=compared, unrecorded=len(unrecorded))


def latest_good(folder: str | os.PathLike[str]) -> Path | None:
    """The newest checkpoint in a folder that is not known to be bad; None if there is none.

    What was recorded when it was saved must be what was saved, byte for byte. Files without a record must be whole as
    far as their format shows, and so must a file that was written again after it was recorded, by the sums of its own
    archive. Reads the newest, and older ones only until a good one is found. One line on standard error says which
    newer ones were passed over, and why.
    """
    if (place := on_disk(os.fspath(folder))) is None:
        raise UserError(f"{folder} is in an object store, which cannot be verified", hint="copy it to a disk first")
    if not Path(place).is_dir():
        return None  # nothing was saved yet
    passed: list[Verdict] = []
    for each in reversed(in_order(Path(place))):
        verdict = verify(each)
        if verdict.state.is_good or (verdict.state is State.CHANGED and shows_all(each)):
            _say_passed(place, passed, verdict)
            return each
        passed.append(verdict)
    _say_passed(place, passed, None)
    return None


def _say_passed(folder: str, passed: Sequence[Verdict], taken: Verdict | None) -> None:
    """What a script that starts from an older checkpoint, or from none at all, should not learn too late."""
    if not passed and (taken is None or taken.state.is_good):
        return
    why = _listed([f"{each.path.name} {each.state.said} ({each.words})" for each in passed], "checkpoints")
    if taken is None:
        words = f"latest_good finds no good checkpoint in {folder}: {why}"
        if any(each.state is State.CHANGED for each in passed):
            words += "; where you saved a changed one without the guard, load it by its path"
    elif taken.state.is_good:
        words = f"latest_good takes {taken.path.name} in {folder}, because {why}"
    else:
        words = f"latest_good takes {taken.path}, written again after it was recorded, since its own sums are right"
        words += f"; {why}" * bool(passed)
    say_on_own_line(redact(f"keepstep: {words}"))


def in_order(folder: Path) -> list[Path]:
    """The checkpoints that lie in a folder, the oldest first: a copy has the times of its copying, but its records tell
    when each was saved."""

    def made(path: Path) -> float:
        whole = Path(os.path.realpath(path))
        files = parts_of(whole)
        known = [*_about(whole, files), *(each for of_one in _of_subfolders(whole, files).values() for each in of_one)]
        recorded = max((each.made for each in known), default=0.0)
        return recorded or max(each.stat().st_mtime for each in files or (whole,))  # a save was killed before any file

    return sorted(checkpoints_in(folder), key=made)


def _about(path: Path, files: tuple[Path, ...]) -> list[Manifest]:
    """What is recorded about it..."""
    known = manifests(path)
    if path.is_dir():
        return known
    return [each for each in known if _is_about(each, files, TF_PARTS.sub("", path.name))]


def _of_subfolders(path: Path, files: tuple[Path, ...]) -> dict[Path, list[Manifest]]:
    """... and about each folder in it that has records of its own: trainers save a model's shards into one."""
    if not path.is_dir():
        return {}
    folders = {up for each in files for up in each.parents if up.is_relative_to(path) and up != path}
    return {each: known for each in sorted(folders) if (known := manifests(each))}


def _is_about(manifest: Manifest, files: tuple[Path, ...], stem: str) -> bool:
    """By name; or it is the same file under another name. A file system gives inodes out again, so the time counts."""
    if any(TF_PARTS.sub("", Path(name).name) == stem for name in manifest.files):
        return True
    known = {(each.device, each.inode, each.modified_ns) for each in manifest.files.values()}
    return any((info.st_dev, info.st_ino, info.st_mtime_ns) in known for info in (each.stat() for each in files))


def _without_record(path: Path, files: tuple[Path, ...], *, look: bool) -> Verdict:
    wrong = wrong_with(path) if look else None
    if wrong is not None:
        return Verdict(path=path, state=State.DAMAGED if files else State.INCOMPLETE, why=wrong, unrecorded=len(files))
    why = "nothing was recorded when it was saved, and its format is not known" if look and not is_known(path) else ""
    return Verdict(path=path, state=State.UNRECORDED, why=why, unrecorded=len(files))


def _missing_part(path: Path, known: list[Manifest]) -> str | None:
    """A recorded file that is gone, a rank whose part is not recorded, or parts of different saves."""
    if path.is_dir():
        newest = max(known, key=lambda each: each.made)
        together = {each.rank: each for each in known if each.together}
        if newest.together:
            first = together.get(0, newest)
            gone = [rank for rank in range(first.world) if rank not in together and not has_part(path, rank, first)]
            if gone:
                return f"rank {gone[0]} of {first.world} did not finish its part of it"
            other = next((each for each in together.values() if not _fits(first, each)), None)
            if other is not None:
                if other.world != first.world:
                    both = f"was saved by {first.world} ranks, rank {other.rank}'s by {other.world}"
                else:
                    fields = {"step": "step", "number": "save", "attempt": "attempt"}
                    of = next(each for each in fields if getattr(first, each) != getattr(other, each))
                    one, two = (f"of {fields[of]} {getattr(each, of)}" for each in (first, other))
                    both = f"is {one}, rank {other.rank}'s {two}"
                return f"it is a mixture: rank 0's part {both}"
            known = [together[rank] for rank in range(first.world) if rank in together]
        for each in known:
            for name in each.files:
                if not (path / name).exists():
                    return f"{name} is missing"
    elif not path.is_file():
        for each in known:
            for name in each.files:
                if not (path.parent / name).exists():
                    return f"{name} is missing"
    return None


def _fits(first: Manifest, other: Manifest) -> bool:
    """What a larger world left behind is no part of it."""
    return other.rank >= first.world or other.is_of_one_save_with(first)


def _of_other_saves(known: Mapping[str, Manifest], below: Mapping[Path, list[Manifest]]) -> str | None:
    """A trainer's folder is recorded last. A file of the same rank with a later record is of a save without an end, one
    of an earlier step was left behind, or put there."""
    whole = {each.rank: each for each in known.values() if each.kind == FOLDER_KIND}
    for name, each in known.items():
        if each.rank not in whole:
            continue
        if each.made > whole[each.rank].made:
            return f"{name} was saved again later, and the rest was not"
        if (each.step, each.attempt) != (whole[each.rank].step, whole[each.rank].attempt):
            return f"{name} is of step {each.step}, and the rest of step {whole[each.rank].step}"
    steps = {max(each.step for each in of_one): folder.name for folder, of_one in below.items()}
    if len(steps) > 1:
        (one, of_one), (two, of_two), *_ = steps.items()
        return f"{of_one} is of step {one}, and {of_two} of step {two}"
    return None


def _lacks(path: Path, known: list[Manifest]) -> str | None:
    """Where a script saves several files into one folder, a kill between two of them shows only beside the one before:
    the kind of file that is missing, of each rank if there were as many ranks."""

    def kinds(of: list[Manifest]) -> dict[tuple[str, int], str]:
        return {(re.sub(r"\d+", "#", name), each.rank if same_world else 0): name for each in of for name in each.files}

    number = re.fullmatch(r"(.*?)(\d{1,18})", path.name)
    if number is None:
        return None
    older = {
        int(found[2]): each
        for each in path.parent.iterdir()
        if (found := re.fullmatch(r"(.*?)(\d{1,18})", each.name))
        and found[1] == number[1]
        and int(found[2]) < int(number[2])
        and each.is_dir()
    }
    if not older:
        return None
    before = older[max(older)]
    for folder in _of_subfolders(before, parts_of(before)):
        if not (path / folder.relative_to(before)).exists():
            return f"it has no {folder.relative_to(before)}, and {before.name} has one"
    if not all(len(each.files) == 1 for each in known):
        return None  # it was saved as a whole, and its names may be drawn by lot
    there = manifests(before)
    same_world = {each.world for each in known} == {each.world for each in there}
    own = kinds(known)
    missing = [name for kind, name in kinds(there).items() if kind not in own]
    missing = [name for name in missing if not (path / name).exists()]
    return f"it has no {missing[0]}, and {before.name} has one" if missing else None


def _same_file(file: Path, recorded: Mapping[str, tuple[FileSums, Manifest]]) -> tuple[FileSums, Manifest] | None:
    """The record of a file that was renamed after the save: its inode tells."""
    info = file.stat()
    for one, manifest in recorded.values():
        if (one.device, one.inode, one.modified_ns) == (info.st_dev, info.st_ino, info.st_mtime_ns):
            return one, manifest
    return None


def _compare(file: Path, one: FileSums, progress: Callable[[int], None], *, imports: bool) -> tuple[str | None, bool]:
    """What is wrong with a file, and whether that is certain: a later save without the guard is no damage."""
    info = file.stat()
    untouched = info.st_mtime_ns == one.modified_ns
    if info.st_size != one.size:
        certain = (
            untouched or (info.st_size < one.size and not shows_its_end(file)) or wrong_with_file(file) is not None
        )
        return f"it has {info.st_size:,} bytes, and {one.size:,} were saved", certain
    with open_regular(file) as stream:
        now = sums_of(stream.fileno(), threads=threads_here(), by=one.by, imports=imports)
    progress(one.size)
    if now.blocks == one.blocks:
        return None, True
    place = next(number for number, (was, is_) in enumerate(zip(one.blocks, now.blocks, strict=True)) if was != is_)
    start, end = place * BLOCK, min((place + 1) * BLOCK, one.size)
    wrong = f"at least one byte from {start:,} to {end:,} differs"
    if untouched or wrong_with_file(file) is not None:
        return wrong, True
    if not shows_all(file) and one.differs_in_few_places(now):
        return f"{wrong}, and nearly all the rest is what was saved, so no later save wrote it", True
    return wrong, False


def _has_come_to_its_end(path: Path) -> bool:
    """Whether a save that was begun is over all the same: the archive has its end, and its sums are right. A later save
    without the guard leaves it so."""
    return path.is_file() and is_zipped(path) and wrong_with_file(path) is None


def _verdict(
    path: Path, state: State, known: list[Manifest], *, why: str = "", files: int = 0, unrecorded: int = 0
) -> Verdict:
    newest = max(known, key=lambda each: each.made)
    return Verdict(
        path=path, state=state, why=why, step=newest.step, writer=newest.writer, files=files, unrecorded=unrecorded
    )


def _listed(wrong: list[str], what: str = "files") -> str:
    more = f", and {len(wrong) - MOST_NAMED} more {what}" if len(wrong) > MOST_NAMED else ""
    return "; ".join(wrong[:MOST_NAMED]) + more

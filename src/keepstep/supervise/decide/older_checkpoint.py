# SPDX-License-Identifier: Apache-2.0
"""The checkpoint before a damaged one: found by the numbers in names, tested, and made the newest by moving the other.

Nothing is deleted or rewritten: the damaged one moves to a folder beside its own, and can be moved back. Only
TensorFlow's list of checkpoints and DeepSpeed's ``latest`` (small texts) are changed, and a copy goes aside too.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.safe_files import make_private, open_to_share
from keepstep.store.ledger.checkpoint_files import FOLDER, TF_PARTS
from keepstep.store.ledger.verify import verify

NUMBER = re.compile(r"\d+")
LISTED = "checkpoint"
LATEST = "latest"
"""DeepSpeed's: the name of the newest checkpoint, and nothing else."""
MOST_UP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """What would be moved, to which folder, and what the script then finds as the newest."""

    damaged: tuple[Path, ...]
    place: Path
    instead: str
    """The name of the older one."""


def older_than(path: Path) -> Older | None:
    """The intact checkpoint before the damaged one at ``path``; None if there is none, or it is unclear which it is.

    ``path`` may be a file, a folder, TensorFlow's prefix of several files, or something inside a checkpoint's folder.
    """
    stem = TF_PARTS.sub("", path.name)
    parts = _parts(path.parent, stem)
    if parts and any(part.name != stem for part in parts):
        return _before(path.parent, stem, parts)
    if not path.exists():
        return None
    if NUMBER.search(path.name) and (found := _before(path.parent, path.name, (path,))) is not None:
        return found
    for place in list(path.parents)[:MOST_UP]:
        if FOLDER.search(place.name):
            return _before(place.parent, place.name, (place,)) if not Path.cwd().is_relative_to(place) else None
    return None


def _before(folder: Path, name: str, parts: tuple[Path, ...]) -> Older | None:
    """By the one number of the name in which siblings differ."""
    names = {TF_PARTS.sub("", each.name) for each in folder.iterdir()}
    ladders = []
    for number in NUMBER.finditer(name):
        alike = re.compile(re.escape(name[: number.start()]) + r"(\d+)" + re.escape(name[number.end() :]))
        values = {each: int(found[1]) for each in names if each != name and (found := alike.fullmatch(each))}
        if values:
            ladders.append((int(number[0]), values))
    if len(ladders) != 1:
        return None
    own, values = ladders[0]
    if max(values.values()) > own:
        return None  # it is not the newest: the script chose it for a reason of its own
    damaged = parts
    for each in sorted(values, key=lambda one: -values[one]):
        if (state := verify(folder / each).state).is_good:
            return Older(damaged=damaged, place=_aside(folder), instead=each)
        if state.is_bad:
            damaged += _parts(folder, each)  # the script would resume from it next
    return None


def _parts(folder: Path, stem: str) -> tuple[Path, ...]:
    """The files of one checkpoint: itself, or those that TensorFlow writes under its prefix."""
    if (folder / stem).exists():
        return (folder / stem,)
    with contextlib.suppress(OSError):
        return tuple(
            sorted(each for each in folder.iterdir() if each.name != stem and TF_PARTS.sub("", each.name) == stem)
        )
    return ()


def _aside(folder: Path) -> Path:
    """Beside the folder, not in it: a script that lists its checkpoints must not find it."""
    if folder.resolve() == Path.cwd().resolve():
        return folder / ".keepstep" / "aside"
    return folder.with_name(f"{folder.name}.aside")


def set_aside(older: Older) -> str:
    """Move the damaged checkpoint away, and name the older one in TensorFlow's list, if any. Raises ``OSError``."""
    make_private(older.place)
    folder = older.damaged[0].parent
    for path in older.damaged:
        target = older.place / path.name
        number = 1
        while target.exists():
            target = older.place / f"{path.name}.{number}"
            number += 1
        os.replace(path, target)
    stems = {TF_PARTS.sub("", each.name) for each in older.damaged}
    for listed in (folder / LISTED, folder / LATEST):
        if not listed.is_file() or listed.stat().st_size >= 1 << 20:
            continue
        text = fresh_text = listed.read_text()
        for stem in stems:
            if listed.name == LISTED:
                fresh_text = _without(fresh_text, stem, older.instead)
            elif text.strip() == stem:
                fresh_text = older.instead
        if fresh_text != text:
            shutil.copy2(listed, older.place / listed.name)
            fresh = listed.with_name(f".{listed.name}.{os.getpid()}")
            with open_to_share(fresh) as stream:
                stream.write(fresh_text.encode())
            shutil.copymode(listed, fresh)
            os.replace(fresh, listed)
    return f"moved {older.damaged[0].name} to {older.place}; the newest checkpoint is now {older.instead}"


def _without(text: str, stem: str, instead: str) -> str:
    """TensorFlow's list of checkpoints with the older one as the newest and without the damaged one."""
    lines = []
    for line in text.splitlines():
        if not re.search(rf'[/"]{re.escape(stem)}"', line):
            lines.append(line)
        elif line.startswith("model_checkpoint_path"):
            lines.append(re.sub(rf'{re.escape(stem)}"', f'{instead}"', line))
    return "\n".join(lines) + "\n"

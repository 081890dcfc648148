# SPDX-License-Identifier: Apache-2.0
"""Which files are one checkpoint: a file, a folder, or the files that TensorFlow writes under one prefix."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = re.compile(
    r"^(?:\d+|(?:\w*[-_.])?(?:ckpt|checkpoint|(?:global_?)?step|epoch|iter(?:ation)?)[-_.=]?\d+)$", re.IGNORECASE
)
"""Names of folders that are one checkpoint each: ``checkpoint-200``, ``global_step40``, ``1200``."""
TF_PARTS = re.compile(r"\.(?:index|data-\d{5}-of-\d{5}|meta)$")
SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".keras", ".h5", ".npz", ".distcp", ".msgpack")
NO_STATE = (".py", ".md")
"""Code and notes that trainers add to a folder: no run resumes from what they say."""
INSIDE = ".keepstep-ledger."
"""How our files in a checkpoint that is a folder begin. No folder there: Orbax takes each for a part of its own."""
OURS = ".keepstep"
MOST_FILES = 100_000


def parts_of(path: Path) -> tuple[Path, ...]:
    """The files of the checkpoint at ``path``, which may be a prefix. Empty if there is nothing."""
    if path.is_dir():
        return tuple(_inside(path))
    if path.is_file():
        return (path,)
    stem = TF_PARTS.sub("", path.name)
    with contextlib.suppress(OSError):
        return tuple(sorted(each for each in path.parent.iterdir() if _is_part(each.name, stem)))
    return ()


def _is_part(name: str, stem: str) -> bool:
    return name != stem and TF_PARTS.sub("", name) == stem


def _inside(folder: Path) -> Iterator[Path]:
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each != OURS)
        for name in sorted(names):
            each = Path(place) / name
            if not name.startswith(INSIDE) and each.is_file():
                yield each
                count += 1
                if count >= MOST_FILES:
                    return


def on_disk(text: str) -> str | None:
    """The path in a file system; None in an object store. A ``Path`` of ``gs://bucket`` has one stroke left."""
    store, _, rest = text.partition(":/")
    if not rest or len(store) < 2 or not store.isalnum():
        return text
    return f"/{rest.lstrip('/')}" if store == "file" else None


def is_one_checkpoint(folder: Path) -> bool:
    """Whether a folder is one checkpoint, not a place with several: by its format, what is in it, its name, our
    ledger."""
    inside = list(folder.iterdir())
    own_name = bool(FOLDER.search(folder.name)) and not folder.name.isdecimal()
    if sum(map(_is_of_a_series, inside)) > own_name:  # checkpoint-30 may hold one global_step30, as a part of it
        return False
    marks = (".metadata", "_CHECKPOINT_METADATA", "saved_model.pb", "model.safetensors.index.json")
    if any((folder / name).exists() for name in marks):
        return True
    return bool(FOLDER.search(folder.name)) or any(each.name.startswith(INSIDE) for each in inside)


def _is_of_a_series(path: Path) -> bool:
    """``step_200.pt``, ``checkpoint-200/``. Numbers alone may be those of ranks."""
    named = bool(FOLDER.search(path.stem)) and not path.stem.isdecimal()
    return named and not path.name.startswith(".") and (path.suffix in SUFFIXES or path.is_dir())


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints that lie in a folder: files, prefixes and folders, the oldest first."""
    found: dict[Path, int] = {}
    for each in sorted(folder.iterdir()):
        if each.name.startswith("."):
            continue
        with contextlib.suppress(FileNotFoundError):  # the training deletes its oldest meanwhile
            if each.is_dir():
                if is_one_checkpoint(each):
                    found[each] = _newest(parts_of(each))
            elif TF_PARTS.search(each.name):
                prefix = each.with_name(TF_PARTS.sub("", each.name))
                found[prefix] = max(found.get(prefix, 0), each.stat().st_mtime_ns)
            elif each.name.endswith(SUFFIXES):
                found[each] = each.stat().st_mtime_ns
    return sorted(found, key=lambda one: (found[one], one.name))


def _newest(files: tuple[Path, ...]) -> int:
    return max((each.stat().st_mtime_ns for each in files), default=0)

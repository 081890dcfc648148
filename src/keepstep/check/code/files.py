# SPDX-License-Identifier: Apache-2.0
"""Which files a program consists of: those asked for, and, of a script, the neighbours that it imports."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from keepstep.parse.settings.packages import lists_packages
from keepstep.parse.settings.recognise import SUFFIXES as SUFFIXES_OF_SETTINGS
from keepstep.sources.files.inside_given import is_inside

LARGEST = 2 << 20
STDIN = "<stdin>"
MOST_FILES = 50_000
LINK = "a link out of the folder; --follow reads it"
SUFFIXES = (".py", ".ipynb")
SETTINGS = "(settings)"
"""The module of all files that are no program: so they are judged together."""
_TEST = re.compile(r"test_.*\.py|.*_test\.py|conftest\.py")
"""Tests do on purpose what programs must not. They are read only if they are named."""
_TESTS = frozenset({"test", "tests"})
"""Folders whose settings are read only if they are named, for the same reason."""
_NOT_OURS = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist", ".venv", ".git"})


@dataclass(frozen=True)
class ProgramFile:
    """A file to be read. ``module`` is its dotted name below what was asked for, or ``SETTINGS``."""

    path: Path
    shown: str
    module: str
    is_package: bool = False
    named: bool = False
    """The user gave its own path, not that of its folder."""
    asked: bool = True
    """Findings in it are wanted; else it only explains what others call."""
    given: bytes | None = None
    """Its content, if that comes from standard input."""


@dataclass
class FoundPrograms:
    """The files, and what is not read, with the reason."""

    files: list[ProgramFile] = field(default_factory=list)
    settings: list[ProgramFile] = field(default_factory=list)
    """Files beside them that may decide how they are started."""
    left_out: list[tuple[str, str]] = field(default_factory=list)

    @property
    def every(self) -> list[ProgramFile]:
        return [*self.files, *self.settings]


def find(paths: Iterable[Path], exclude: tuple[str, ...] = (), *, follow: bool = False) -> FoundPrograms:
    """All files below the paths, less the excluded names. ``follow``: also what links lead to outside the paths."""
    found, known = FoundPrograms(), set[str]()
    paths = list(paths)
    roots = [os.path.realpath(path) for path in paths]
    for path in paths:
        path = Path(os.path.abspath(path))
        if path.is_dir():
            outside = _outside(path)
            for each in _walk(path, found, frozenset(exclude)):
                real = os.path.realpath(each)
                if follow or is_inside(real, roots):
                    _add(found, known, each, real, outside)
                elif not _is_settings(each.name):
                    found.left_out.append((_shown_link(each), LINK))
        elif path.exists():
            _add(found, known, path, os.path.realpath(path), _outside(path.parent), named=True)
        else:
            found.left_out.append((str(path), "there is no such file or folder"))
            continue
        for each in _packages_above(path):
            _add(found, known, each, os.path.realpath(each), "")
        if len(found.files) >= MOST_FILES:
            found.left_out.append((str(path), f"more than {MOST_FILES:,} files; the rest was not read"))
            break
    return found


def _is_settings(name: str) -> bool:
    return name.endswith(SUFFIXES_OF_SETTINGS) or lists_packages(name)


def _packages_above(path: Path) -> Iterator[Path]:
    """The lists of packages beside what was asked for and in the folders above, up to the top of its repository."""
    below = path
    for folder in path.parents[:4]:
        if (below / ".git").exists():
            return
        try:
            names = sorted(each.name for each in folder.iterdir() if lists_packages(each.name))
        except OSError:
            return
        yield from (folder / name for name in names if (folder / name).is_file())
        below = folder


def given_program(data: bytes, name: str | None) -> FoundPrograms:
    """A program that was given by its text: at the place of its name, if it has one, so its imports are found."""
    path = Path(os.path.abspath(name or "stdin.py"))
    found = FoundPrograms()
    _add(found, set(), path, os.path.realpath(path), _outside(path.parent), named=True)
    into = found.files or found.settings
    into[0] = replace(into[0], shown=_shown(path) if name else STDIN, given=data)
    return found


def neighbour(module: str, near: ProgramFile, *, follow: bool = False) -> ProgramFile | None:
    """The file of a module that a script imports from its own folder, or from one above; no link that leads out."""
    folder = near.path.parent
    for _ in range(4):
        target = folder.joinpath(*module.split("."))
        for path, is_package in ((target.with_suffix(".py"), False), (target / "__init__.py", True)):
            if path.is_file() and (follow or is_inside(os.path.realpath(path), [os.path.realpath(folder)])):
                return ProgramFile(path, _shown(path), module, is_package, asked=False)
        folder = folder.parent
    return None


def _walk(root: Path, found: FoundPrograms, exclude: frozenset[str]) -> Iterator[Path]:
    left_out = _NOT_OURS | exclude

    def refused(error: OSError) -> None:
        found.left_out.append((str(error.filename), error.strerror or "cannot be read"))

    for folder, folders, names in os.walk(root, onerror=refused):
        folders[:] = sorted(each for each in folders if each not in left_out and not each.startswith("."))
        is_test = not _TESTS.isdisjoint(os.path.relpath(folder, root).split(os.sep))
        for name in sorted(names):
            if name in exclude or name[:2] == ".#" or _TEST.fullmatch(name):
                continue
            if name.endswith(SUFFIXES) or (_is_settings(name) and not is_test):
                yield Path(folder, name)


def _add(found: FoundPrograms, known: set[str], path: Path, real: str, root: str, *, named: bool = False) -> None:
    into = found.settings if _is_settings(path.name) else found.files
    if real in known or len(into) >= MOST_FILES:
        return
    known.add(real)
    if into is found.settings:
        into.append(ProgramFile(path, _shown(path, real), SETTINGS, named=named))
        return
    parts = os.path.splitext(str(path)[len(root) :])[0].strip(os.sep).split(os.sep)
    is_package = parts[-1:] == ["__init__"]
    module = ".".join(parts[:-1] if is_package else parts) or "__init__"
    into.append(ProgramFile(path, _shown(path, real), module, is_package, named))


def _outside(root: Path) -> str:
    """The folder from which modules are named: a package is imported by its own name."""
    while (root / "__init__.py").is_file() and root.parent != root:
        root = root.parent
    return str(root)


def _shown_link(path: Path) -> str:
    """Where it is, not where it leads."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _shown(path: Path, real: str | None = None) -> str:
    here = os.path.join(os.getcwd(), "")
    real = real if real is not None else os.path.realpath(path)
    return real.removeprefix(here) if real.startswith(here) else str(path)

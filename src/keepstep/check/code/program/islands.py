# SPDX-License-Identifier: Apache-2.0
"""The files of a project that may concern each other, by what they import: each island is judged on its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple


class Imports(NamedTuple):
    """A file's own module, and the modules and names that it imports."""

    module: str
    names: tuple[str, ...]


def islands(files: Mapping[str, Imports]) -> list[list[str]]:
    """The files in groups, each in the given order: no file of one can mean anything in another.

    A name that may mean several modules joins them all, so a group alone is read as it is within the whole.
    """
    modules = _Modules(files)
    group = {path: path for path in files}

    def first(path: str) -> str:
        while group[path] != path:
            group[path] = path = group[group[path]]
        return path

    for path, (module, names) in files.items():
        for name in (module, *names):
            for other in modules.meant_by(name, module):
                group[first(other)] = first(path)
    found: dict[str, list[str]] = defaultdict(list)
    for path in files:
        found[first(path)].append(path)
    return list(found.values())


class _Modules:
    """Which files a name may mean."""

    def __init__(self, files: Mapping[str, Imports]) -> None:
        self._named: dict[str, list[str]] = defaultdict(list)
        self._below: dict[str, list[str]] = defaultdict(list)
        """Those in a package, of which the package itself may be imported."""
        self._endings: dict[str, list[str]] = defaultdict(list)
        for path, (module, _) in files.items():
            parts = module.split(".")
            self._named[module].append(path)
            for end in range(1, len(parts)):
                self._below[".".join(parts[:end])].append(path)
            for start in range(len(parts) - 1):
                self._endings[".".join(parts[start:])].append(path)
        self._known: dict[tuple[str, str], list[str]] = {}

    def meant_by(self, name: str, importer: str) -> list[str]:
        """The files of the modules that a name, or the beginning of one, means to an importer."""
        folder = importer.rpartition(".")[0]
        if (name, folder) not in self._known:
            self._known[name, folder] = list(dict.fromkeys(self._find(name, folder)))
        return self._known[name, folder]

    def _find(self, name: str, folder: str) -> Iterator[str]:
        folders = [f"{each}." for each in _with_those_above(folder)] + [""]
        whole = True
        while name:
            for above in folders:
                yield from self._named.get(above + name, ())
                yield from self._below.get(above + name, ()) if whole else ()
            if "." in name:
                yield from self._endings.get(name, ())
            name, whole = name.rpartition(".")[0], False


def _with_those_above(folder: str) -> Iterable[str]:
    while folder:
        yield folder
        folder = folder.rpartition(".")[0]

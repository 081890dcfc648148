# SPDX-License-Identifier: Apache-2.0
"""What is needed of a file once its findings are known: so a project that did not change is not read again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from keepstep.check.code.files import SETTINGS, ProgramFile
from keepstep.check.code.program.islands import Imports
from keepstep.check.code.read_program import left_out_cells
from keepstep.parse.code.read import switched_off
from keepstep.parse.code.unit import Unit
from keepstep.parse.settings.recognise import SUFFIXES

_COMMENT = re.compile(rb"#\s*keepstep:\s*ignore")
_ENDING = re.compile(rf"(?:{'|'.join(map(re.escape, SUFFIXES))})(?![\w(])")
_END_OF_NAME = re.compile(r"(?<![\w.-])[\w.-]+\Z")


class Summary(NamedTuple):
    """One file."""

    digest: str
    """Of all that decides what the file says."""
    module: str
    names: tuple[str, ...]
    """The modules and names that it imports."""
    ignored: dict[int, tuple[str, ...]]
    """By line, the rules that are switched off there; none named: all."""
    comments: tuple[int, ...]
    """The lines of these that have a comment of their own."""
    lines: int
    left_out: str
    """The cells of a notebook that are not read."""
    files: tuple[str, ...]
    """The names of files in its text that may be settings."""
    of_tpu: bool
    """It uses TensorFlow on TPUs: whether that is TensorFlow 1, any file of the project may show (COD018)."""


def summary_of(unit: Unit, file: ProgramFile, digest: str) -> Summary:
    return Summary(
        digest,
        unit.module,
        tuple(sorted(set(unit.imports.values()))),
        unit.ignored,
        _own_comments(unit.source, unit.ignored),
        unit.functions[0].end,
        left_out_cells(unit.source) if file.path.suffix == ".ipynb" else "",
        tuple(sorted(_files_in(unit.source.decode("utf-8", "replace")))),
        b".tpu." in unit.source and _is_tensorflow(unit.imports.values()),
    )


def summary_of_settings(source: bytes, digest: str) -> Summary:
    ignored = switched_off(source.decode("utf-8", "replace"))
    return Summary(digest, SETTINGS, (), ignored, _own_comments(source, ignored), source.count(b"\n"), "", (), False)


def imports_of(files: Mapping[str, Summary]) -> dict[str, Imports]:
    """By file: its module and what it imports. Whoever names a file of settings imports all of them, and so does a
    program of TensorFlow: lists of packages and launch scripts say which Keras it gets."""
    names = {word for path, file in files.items() if file.module == SETTINGS for word in _files_in(path)}
    tensorflow = tuple(file.module for file in files.values() if _is_tensorflow(file.names))
    found = {}
    for path, file in files.items():
        more = (SETTINGS,) if _needs_settings(file, names) else ()
        found[path] = Imports(file.module, (*file.names, *more, *(tensorflow if file.of_tpu else ())))
    return found


def _is_tensorflow(names: Iterable[str]) -> bool:
    return any(name.partition(".")[0] == "tensorflow" for name in names)


def _needs_settings(file: Summary, names: set[str]) -> bool:
    packages = {each.partition(".")[0] for each in file.names}
    return not names.isdisjoint(file.files) or not packages.isdisjoint(("tensorflow", "keras", "tf_keras"))


def _own_comments(source: bytes, ignored: Mapping[int, tuple[str, ...]]) -> tuple[int, ...]:
    lines = source.split(b"\n") if ignored else []
    return tuple(line for line in ignored if _COMMENT.search(lines[line - 1]))


def _files_in(text: str) -> set[str]:
    """The names of such files in a text, without their folders; of a name with a space, what follows it."""
    return {
        _END_OF_NAME.findall(text[max(0, found.start() - 255) : found.end()])[0] for found in _ENDING.finditer(text)
    }


def digest_of(file: ProgramFile, data: bytes) -> str:
    """Of the content and of the file's name in the project, which decides what its imports mean."""
    name = file.path.name if file.module == SETTINGS else file.path.suffix
    return hashlib.sha256(f"{file.module} {file.is_package} {name}\n".encode() + data).hexdigest()

# SPDX-License-Identifier: Apache-2.0
"""Makes the changes that findings propose: whole files or none, and only those that are still as they were judged."""

from __future__ import annotations

import ast
import codecs
import difflib
import io
import os
import stat
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from keepstep.base.safe_files import replace_whole
from keepstep.check.code.files import ProgramFile
from keepstep.check.code.read_program import NotRead, bytes_of
from keepstep.check.code.summary import digest_of
from keepstep.model.finding import Edit, Finding, Safety


@dataclass(frozen=True, kw_only=True)
class FixesMade:
    """What was changed, or would be."""

    made: tuple[Finding, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    """Files that were left as they are, and why."""
    shown: str = ""
    """The changes as `diff -u` writes them."""


def edit_of(finding: Finding, *, unsafe: bool) -> Edit | None:
    """The change that may be made: one that is safe, or, if the user wants these too, one that changes results."""
    kinds = (Safety.SAFE, Safety.CHANGES_RESULTS) if unsafe else (Safety.SAFE,)
    return next((fix.edit for fix in finding.fixes if fix.edit is not None and fix.safety in kinds), None)


def apply_fixes(
    findings: Iterable[Finding],
    programs: Mapping[str, ProgramFile],
    digests: Mapping[str, str],
    *,
    unsafe: bool = False,
    write: bool = True,
) -> FixesMade:
    """Change the files, or only say how."""
    by_file: dict[str, list[tuple[Finding, Edit]]] = {}
    for finding in findings:
        edit = edit_of(finding, unsafe=unsafe)
        if edit is not None:
            by_file.setdefault(edit.source, []).append((finding, edit))
    made: list[Finding] = []
    refused: list[tuple[str, str]] = []
    shown = ""
    for source, wanted in sorted(by_file.items()):
        file = programs.get(source)
        try:
            if file is None or not file.asked:
                raise _Refused("it is not among the files that were given")
            before = bytes_of(file.path)
            if digest_of(file, before) != digests.get(source):
                raise _Refused("it changed while it was checked")
            after, done = _changed(before, wanted)
            if write and done:
                _write(file.path, before, after)
        except (_Refused, NotRead) as error:
            refused.append((source, str(error)))
        except OSError as error:
            refused.append((source, error.strerror or "it cannot be written"))
        else:
            made += done
            shown += _difference(source, before, after)
    return FixesMade(made=tuple(made), refused=tuple(refused), shown=shown)


class _Refused(Exception):
    """Why a file is not changed."""


def _changed(data: bytes, wanted: list[tuple[Finding, Edit]]) -> tuple[bytes, list[Finding]]:
    """The new content in the same encoding with the same ends of lines, and what is done in it.

    Of changes at one place only the first is made: a second run makes the others, if they are still wanted.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    text = data[len(mark) :].decode("utf-8" if mark else encoding)
    lines = text.splitlines(keepends=True) if _ends_as_python_says(text) else []
    done: list[Finding] = []
    taken: set[int] = set()
    for finding, edit in sorted(wanted, key=lambda each: (-each[1].line, -each[1].column)):
        if not 0 < edit.line <= len(lines):
            raise _Refused("its lines end in an unusual way")
        if edit.line in taken:
            continue
        taken.add(edit.line)
        line = lines[edit.line - 1]
        new = edit.text.replace("\n", _end_of(line) or _end_of(lines[0]) or "\n")
        lines[edit.line - 1] = line[: edit.column - 1] + new + line[edit.end - 1 :]
        done.append(finding)
    after = "".join(lines)
    try:
        ast.parse(after)
        return mark + after.encode("utf-8" if mark else encoding), done[::-1]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _Refused(f"it would be no Python any more: {error}") from error


def _ends_as_python_says(text: str) -> bool:
    """Whether lines end only where Python's parser ends them, too."""
    return len(text.splitlines()) == len(text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n"))


def _end_of(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _write(path: Path, before: bytes, after: bytes) -> None:
    """In one go, with the same rights; what is a link, is written by others or has just changed is left alone."""
    real = Path(os.path.realpath(path))
    info = real.stat()
    if info.st_nlink > 1:
        raise _Refused("it has several names (hard links)")
    if bytes_of(real) != before:
        raise _Refused("it changed while it was checked")
    replace_whole(real, after, stat.S_IMODE(info.st_mode))


def _difference(source: str, before: bytes, after: bytes) -> str:
    old, new = (_shown_text(each) for each in (before, after))
    return "".join(difflib.unified_diff(old, new, source, source))


def _shown_text(data: bytes) -> list[str]:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    lines = data.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [f"{line}\n" for line in (lines[:-1] if lines[-1] == "" else lines)]

# SPDX-License-Identifier: Apache-2.0
"""The text of a program's file, also of a notebook, and what it says. Runs in a process that may be killed."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import warnings
from collections.abc import Sequence
from pathlib import Path

from keepstep.base.safe_files import open_regular
from keepstep.check.code.files import LARGEST, SETTINGS, ProgramFile
from keepstep.parse.code.read import read_program
from keepstep.parse.code.unit import Unit

LARGEST_DATA = 1 << 20
"""JSON or YAML that is larger is data, unless the user names it."""
CELL, NO_PYTHON = "# keepstep: cell ", ": no Python"
_MAGIC = re.compile(r"^([ \t]*)(?:[%!?].*|[\w.]{1,200}\?{1,2}[ \t]*)$")
_FROM_SHELL = re.compile(r"^([ \t]*[\w, \t]{1,200}=[ \t]*)[!%][^=].*$")


class NotRead(Exception):
    """A file that cannot be read, with the reason in words."""


def bytes_of(path: Path, largest: int = LARGEST) -> bytes:
    """The file's bytes, bounded."""
    try:
        with open_regular(path) as file:
            data = file.read(largest + 1)
    except OSError as error:
        raise NotRead(error.strerror or "cannot be read") from error
    if len(data) > largest:
        raise NotRead(f"larger than {largest >> 20} MiB")
    return data


def content_of(file: ProgramFile) -> bytes:
    """What the file holds, or what was given in its place."""
    if file.given is None:
        return bytes_of(file.path, LARGEST_DATA if file.module == SETTINGS and not file.named else LARGEST)
    if len(file.given) > LARGEST:
        raise NotRead(f"larger than {LARGEST >> 20} MiB")
    return file.given


def text_of(data: bytes, path: Path) -> str:
    """Its text as Python reads it; of a notebook, that of the code cells."""
    try:
        if path.suffix == ".ipynb":
            return _cells(data)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise NotRead(f"no text that Python reads: {error}") from error


def read(data: bytes, path: Path, module: str, is_package: bool) -> Unit:
    """What the file says."""
    text = text_of(data, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read_program(text, module, is_package=is_package)
    except SyntaxError as error:
        raise NotRead(f"no Python of this version: line {error.lineno}: {error.msg}") from error
    except (RecursionError, MemoryError) as error:
        raise NotRead("nested too deeply") from error
    except ValueError as error:
        raise NotRead(f"no Python: {error}") from error


def _cells(data: bytes) -> str:
    """The code cells of a notebook, one after the other. A cell that is no Python is left out, and said."""
    try:
        cells = json.loads(data.decode("utf-8"))["cells"]
        sources = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotRead(f"no notebook: {type(error).__name__}") from error
    return "".join(_cell(number, source) for number, source in enumerate(sources, 1))


def _cell(number: int, source: str) -> str:
    """A line with its number, and its code; magics and shell lines do nothing here."""
    lines = [] if source.lstrip().startswith("%%") else [_MAGIC.sub(r"\1pass", each) for each in source.split("\n")]
    text = "\n".join(_FROM_SHELL.sub(r"\1None", each) for each in lines)
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        return f"{CELL}{number}{NO_PYTHON}{f', line {line}' if line else ''}\n"
    return f"{CELL}{number}\n{text}\n"


def left_out_cells(text: bytes) -> str:
    """Which cells of a notebook were left out, in words; none: nothing."""
    lines = [
        each.decode() for each in text.split(b"\n") if each.startswith(CELL.encode()) and NO_PYTHON.encode() in each
    ]
    return "; ".join(f"cell {each.removeprefix(CELL).replace(NO_PYTHON, ' is no Python')}" for each in lines)


def cell_of(lines: Sequence[str], line: int) -> tuple[str, int] | None:
    """The cell of a notebook in which a line of its text stands, and the line in the cell."""
    for above in range(line - 1, 0, -1):
        if lines[above - 1].startswith(CELL):
            return lines[above - 1].removeprefix(CELL), line - above
    return None

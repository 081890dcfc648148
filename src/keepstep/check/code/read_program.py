# SPDX-License-Identifier: Apache-2.0
"""The text of a program's file, also of a notebook, and what it says. Runs in a process that may be killed."""

from __future__ import annotations

import io
import json
import tokenize
import warnings
from pathlib import Path

from keepstep.base.safe_files import open_regular
from keepstep.check.code.files import LARGEST
from keepstep.parse.code.read import read_program
from keepstep.parse.code.unit import Unit

DEEPEST = 2000


class NotRead(Exception):
    """A file that cannot be read, with the reason in words."""


def bytes_of(path: Path) -> bytes:
    """The file's bytes, bounded."""
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise NotRead(error.strerror or "cannot be read") from error
    if len(data) > LARGEST:
        raise NotRead(f"larger than {LARGEST >> 20} MiB")
    return data


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
    """The code cells of a notebook, one after the other; magics and shell lines are left out."""
    try:
        cells = json.loads(data.decode("utf-8"))["cells"]
        sources = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotRead(f"no notebook: {type(error).__name__}") from error
    lines: list[str] = []
    for number, source in enumerate(sources, 1):
        lines.append(f"# cell {number}")
        is_magic = source.lstrip().startswith("%%")
        for line in source.split("\n"):
            left_out = is_magic or line.lstrip().startswith(("%", "!", "?"))
            lines.append(
                f"{line[: len(line) - len(line.lstrip())]}pass"
                if left_out and not is_magic
                else ""
                if is_magic
                else line
            )
    return "\n".join(lines) + "\n"

# SPDX-License-Identifier: Apache-2.0
"""Run one Python file of rules from bytes that were already read: what was checked is what runs.

Compiled files beside it (``__pycache__``) are never used: they may hold something else.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType


class Failed(Exception):
    """The file raised an exception. ``where`` is its line, such as ``:7``, or empty."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(why)
        self.where = where


class _FromBytes(importlib.abc.SourceLoader):
    def __init__(self, path: str, data: bytes) -> None:
        self._path, self._data = path, data

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: bytes | str) -> bytes:
        if path != self._path:
            raise OSError("only the source is used")
        return self._data


def run(path: Path, data: bytes) -> ModuleType:
    """The module. Raises ``Failed``."""
    folder = hashlib.sha256(str(path.parent).encode(errors="surrogateescape")).hexdigest()[:8]
    name = f"keepstep_own_rules_{folder}_{path.stem}"
    spec = importlib.util.spec_from_loader(name, _FromBytes(str(path), data), origin=str(path))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their own module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise Failed(_line_of(error, path), f"{type(error).__name__}: {error}") from error
    return module


def _line_of(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f":{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f":{lines[-1]}" if lines else ""

# SPDX-License-Identifier: Apache-2.0
"""A framework for tests that use it in their own process, loaded when the first of them runs.

Loaded while tests are collected, it would be in every worker of pytest, and each fork of a test
would copy 1 GB of pages.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest


class _Lazy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("_", "pytest")):  # pytest looks at everything in a test's module
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


def lazy_framework(name: str) -> Any:
    """The module. conftest.py puts the tests of files that use this behind all others."""
    need_framework(name)
    return _Lazy(name)


def need_framework(name: str) -> None:
    """Skip the test, or all of the file, where it is not installed."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"not installed: {name}", allow_module_level=True)

# SPDX-License-Identifier: Apache-2.0
"""Which framework a script trains with: by what it and the files beside it import."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

from keepstep.cluster.launch_line import LaunchLine

JAX = frozenset(("jax", "flax", "optax", "equinox", "haiku", "maxtext", "objax", "neural_tangents"))
TORCH = frozenset(("torch", "lightning", "pytorch_lightning", "accelerate", "transformers", "timm"))
TENSORFLOW = frozenset(("tensorflow", "tf_keras"))
MOST_FILES = 200


def framework_of(line: LaunchLine) -> str:
    """`jax` loads data with any of the others, so it goes first; `torch` where nothing is recognised."""
    path = Path(line.script) if line.script else Path(*line.module.split(".")).with_suffix(".py")
    if not path.is_file():
        path = path.with_suffix("") / "__main__.py"
    text, imported = _imported(path)
    if imported & JAX:
        return "jax"
    if imported & TORCH:
        return "torch"
    if imported & TENSORFLOW:
        return "tensorflow"
    return _behind_keras(text) if "keras" in imported else "torch"


def _behind_keras(text: str) -> str:
    """The backend that the script or the environment names."""
    named = re.search(r"""KERAS_BACKEND["']\]?\s*[,=]\s*["'](\w+)""", text)
    backend = named[1] if named else os.environ.get("KERAS_BACKEND", "tensorflow")
    return backend if backend in ("jax", "torch", "tensorflow") else "tensorflow"


def _imported(script: Path) -> tuple[str, set[str]]:
    """The text of the script, and the names of all packages that it or files beside it import."""
    found: set[str] = set()
    waiting, known, first = [script], {script}, ""
    while waiting and len(known) < MOST_FILES:
        try:
            text = waiting.pop().read_text(encoding="utf-8", errors="replace")
            tree = ast.parse(text)
        except (OSError, SyntaxError, ValueError):
            continue
        first = first or text
        for name in _names(tree):
            found.add(name.partition(".")[0])
            beside = script.parent.joinpath(*name.split("."))
            for each in (beside.with_suffix(".py"), beside / "__init__.py"):
                if each not in known and each.is_file():
                    known.add(each)
                    waiting.append(each)
    return first, found


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (each.name for each in node.names)

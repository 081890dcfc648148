# SPDX-License-Identifier: Apache-2.0
"""What a file imports, under which names, and when."""

from __future__ import annotations

import ast

from keepstep.parse.code.scope import State
from keepstep.parse.code.syntax import statements


def imported_at_once(tree: ast.Module, module: str, is_package: bool) -> tuple[tuple[str, int], ...]:
    """The names that are imported when the file is, with the lines."""
    parts = module.split(".") if is_package else module.split(".")[:-1]
    found = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            found += [(each.name, node.lineno) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = _imported_from(node, parts)
            found += [(f"{start}.{each.name}" if start else each.name, node.lineno) for each in node.names]
    return tuple(found)


def find_imports(tree: ast.Module, state: State, module: str, is_package: bool) -> None:
    parts = module.split(".") if is_package else module.split(".")[:-1]
    for node in statements(tree.body):
        if isinstance(node, ast.Import):
            for each in node.names:
                state.imports[each.asname or each.name.partition(".")[0]] = (
                    each.name if each.asname else each.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            start = _imported_from(node, parts)
            for each in node.names:
                state.imports[each.asname or each.name] = f"{start}.{each.name}" if start else each.name


def _imported_from(node: ast.ImportFrom, parts: list[str]) -> str:
    """The module that names are imported from; ``parts`` are those of the importer's package."""
    base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
    return ".".join(each for each in (base, node.module or "") if each)

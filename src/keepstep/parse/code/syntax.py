# SPDX-License-Identifier: Apache-2.0
"""Python's syntax tree: the statements and definitions of a block, and a few shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard

_BODIES: dict[type[ast.stmt], tuple[str, ...]] = {
    ast.FunctionDef: ("body",),
    ast.AsyncFunctionDef: ("body",),
    ast.ClassDef: ("body",),
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.AsyncFor: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.With: ("body",),
    ast.AsyncWith: ("body",),
    ast.Try: ("body", "handlers", "orelse", "finalbody"),
    ast.Match: ("cases",),
}


def fits(target: ast.expr, value: ast.Tuple) -> bool:
    """Whether each element goes to a variable of its own."""
    return (
        isinstance(target, ast.Tuple)
        and len(target.elts) == len(value.elts)
        and not any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
    )


def definitions(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The functions and classes of a block, also those under a condition, but not those in others."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
            continue
        for part in _BODIES.get(type(node), ()):
            for each in getattr(node, part):
                yield from definitions(each.body if part in ("handlers", "cases") else [each])


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a block, also those within others."""
    for node in body:
        yield node
        for part in _BODIES.get(type(node), ()):
            inner = getattr(node, part)
            if part in ("handlers", "cases"):
                for each in inner:
                    yield from statements(each.body)
            else:
                yield from statements(inner)


def is_of_self(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"

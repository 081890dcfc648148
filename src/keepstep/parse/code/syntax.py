# SPDX-License-Identifier: Apache-2.0
"""Python's syntax tree: the statements and definitions of a block, and a few shapes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
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
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PARTS = ("handlers", "cases")
"""Parts that have blocks of their own."""


def fits(target: ast.expr, value: ast.Tuple) -> bool:
    """Whether each element goes to a variable of its own."""
    return (
        isinstance(target, ast.Tuple)
        and len(target.elts) == len(value.elts)
        and not any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
    )


def definitions(body: Sequence[ast.stmt]) -> list[Definition]:
    """The functions and classes of a block, also those under a condition, but not those in others."""
    found: list[Definition] = []
    for node in body:
        if isinstance(node, _DEFINITIONS):
            found.append(node)
            continue
        for part in _BODIES.get(type(node), ()):
            for each in getattr(node, part):
                found += definitions(each.body if part in _PARTS else [each])
    return found


def statements(body: Sequence[ast.stmt], found: list[ast.stmt] | None = None) -> list[ast.stmt]:
    """All statements of a block, also those within others."""
    found = [] if found is None else found
    for node in body:
        found.append(node)
        for part in _BODIES.get(type(node), ()):
            inner = getattr(node, part)
            if part in _PARTS:
                for each in inner:
                    statements(each.body, found)
            else:
                statements(inner, found)
    return found


def expressions_in(node: ast.AST) -> list[ast.expr]:
    """The expressions right below a node, less constants: they make nothing differ."""
    found = []
    for name in node._fields:
        field = getattr(node, name, None)
        if field.__class__ is list:
            found += [each for each in field if isinstance(each, ast.expr) and each.__class__ is not ast.Constant]
        elif isinstance(field, ast.expr) and field.__class__ is not ast.Constant:
            found.append(field)
    return found


def is_of_self(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"

# SPDX-License-Identifier: Apache-2.0
"""Where a variable that a call was given is read again, before it is assigned anew."""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence

from keepstep.parse.code.syntax import statements

Again = tuple[tuple[str, int], ...]
"""Variables with the lines on which they are read next."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_FORS = (ast.For, ast.AsyncFor)
_LOOPS = (*_FORS, ast.While)
_WITHS = (ast.With, ast.AsyncWith)
_VARIABLES = (ast.Name, ast.Attribute)
_CHANGED = (ast.Store, ast.Del)
_HOLD = (
    ast.stmt,
    ast.expr,
    ast.keyword,
    ast.comprehension,
    ast.withitem,
    ast.excepthandler,
    ast.match_case,
    ast.pattern,
)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_NO_CONTENT = frozenset(
    ["apply_fn", "tx", "shape", "dtype", "ndim", "sharding", "is_deleted", "delete", "aval", "__class__"]
)
"""Attributes that do not ask what is in an array."""
_ONLY_SHAPES = frozenset(["eval_shape", "lower", "make_jaxpr", "isinstance", "type", "id", "del"])
"""Calls that do not ask either."""
_WRITTEN = -1


def read_again(tree: ast.Module, foreign: Container[str]) -> dict[tuple[int, int], Again]:
    """By the place of a call in a file: the variables it is given that are read again.

    ``foreign`` are names that hold modules and what was imported of them.
    """
    flow = _Flow(foreign)
    flow.block(tree.body, [])
    for node in statements(tree.body):
        if isinstance(node, _FUNCTIONS) and not isinstance(node, ast.ClassDef):
            flow.block(node.body, [])
    return flow.found


class _Flow:
    """Goes through statements. ``after`` is what is done when a block has ended, the nearest first."""

    def __init__(self, foreign: Container[str]) -> None:
        self.foreign = foreign
        self.found: dict[tuple[int, int], Again] = {}
        self.names: dict[int, set[str]] = {}
        self.written: dict[int, set[str]] = {}

    def block(self, body: list[ast.stmt], after: list[list[ast.AST]]) -> None:
        for index, node in enumerate(body):
            if isinstance(node, _FUNCTIONS):
                continue
            rest: list[ast.AST] = list(body[index + 1 :])
            self._calls(node, [rest, *after])
            self._parts(node, [rest, *after])

    def _parts(self, node: ast.stmt, after: list[list[ast.AST]]) -> None:
        if isinstance(node, _LOOPS):
            again: list[ast.AST] = [node.test] if isinstance(node, ast.While) else [node.target]
            self.block(node.body, [[*again, *node.body], *after])
            self.block(node.orelse, after)
        elif isinstance(node, ast.If):
            self.block(node.body, _without_conditions(after))
            self.block(node.orelse, _without_conditions(after))
        elif isinstance(node, _WITHS):
            self.block(node.body, after)
        elif isinstance(node, ast.Try):
            self.block(node.body, [list(node.orelse), list(node.finalbody), *after])
            self.block(node.finalbody, after)

    def _calls(self, node: ast.stmt, after: list[list[ast.AST]]) -> None:
        calls = _calls_of(node)
        written = self._written(node) if calls else set()
        for call in calls:
            names = {name for each in _given(call) if (name := _variable(each))} - written
            ours = sorted(name for name in names if name.partition(".")[0] not in self.foreign)
            reads = [(name, line) for name in ours if (line := self._next_read(after, name))]
            if reads:
                self.found[call.lineno, call.col_offset] = tuple(reads)

    def _next_read(self, after: list[list[ast.AST]], name: str) -> int:
        """The line of the next read, or 0."""
        for block in after:
            found, goes_on = self._access(block, name)
            if found or not goes_on:
                return max(found, 0)
        return 0

    def _access(self, block: Sequence[ast.AST], name: str) -> tuple[int, bool]:
        """The line on which a block reads the variable first, or that it writes it; and whether it goes on after it."""
        root = name.partition(".")[0]
        for node in block:
            if isinstance(node, _FUNCTIONS):
                continue
            if root in self._names(node):
                found, goes_on = self._in_statement(node, name, root)
                if found or not goes_on:
                    return found, goes_on
            if isinstance(node, _LEAVES):
                return 0, False
        return 0, True

    def _in_statement(self, node: ast.AST, name: str, root: str) -> tuple[int, bool]:
        line = next((line for each in _own(node) if (line := _reads(each, name))), 0)
        if line:
            return line, False
        written = self._written(node)
        return (_WRITTEN, False) if name in written or root in written else self._inside(node, name)

    def _inside(self, node: ast.AST, name: str) -> tuple[int, bool]:
        """The same for the blocks of a statement."""
        if isinstance(node, ast.If):
            sides = [self._access(node.body, name), self._access(node.orelse, name)]
            reads = [line for line, _ in sides if line > 0]
            if reads:
                return reads[0], False
            # written on one side: whether it still holds what it did is not known
            return (_WRITTEN, False) if any(line for line, _ in sides) else (0, any(goes for _, goes in sides))
        if isinstance(node, _LOOPS):
            line, _ = self._access([*node.body, *node.orelse], name)
            return line, not line
        if isinstance(node, _WITHS):
            return self._access(node.body, name)
        if isinstance(node, ast.Try):
            return self._access([*node.body, *node.orelse, *node.finalbody], name)
        return (0, False) if isinstance(node, ast.Match) else (0, True)

    def _names(self, node: ast.AST) -> set[str]:
        """All names in a statement."""
        if id(node) not in self.names:
            self.names[id(node)] = {each.id for each in _below(node) if isinstance(each, ast.Name)}
        return self.names[id(node)]

    def _written(self, node: ast.AST) -> set[str]:
        """The variables that a statement, or the head of a loop, assigns."""
        if id(node) not in self.written:
            self.written[id(node)] = _written(node)
        return self.written[id(node)]


def _without_conditions(after: list[list[ast.AST]]) -> list[list[ast.AST]]:
    """What follows a condition in any case: another one may well be its opposite."""
    return [[each if not isinstance(each, ast.If) else each.test for each in block] for block in after]


def _calls_of(node: ast.stmt) -> list[ast.Call]:
    """The calls of a statement itself, not those of the statements in it."""
    return [inner for each in _own(node) for inner in _below(each, _FUNCTIONS) if isinstance(inner, ast.Call)]


def _own(node: ast.AST) -> list[ast.AST]:
    """The parts of a statement that are no statements."""
    if isinstance(node, _WITHS):
        return [item.context_expr for item in node.items]
    if isinstance(node, (ast.If, ast.While)):
        return [node.test]
    if isinstance(node, _FORS):
        return [node.iter]
    return [] if isinstance(node, (ast.Try, ast.Match)) else [node]


def _below(node: ast.AST, without: tuple[type[ast.AST], ...] = ()) -> list[ast.AST]:
    """A node and all nodes in it that can hold a name, less those of some kinds and what is in these."""
    found = [] if isinstance(node, without) else [node]
    for each in found:  # it grows on the way
        for name in each._fields if not isinstance(each, ast.Name) else ():
            field = getattr(each, name, None)
            if field.__class__ is list:
                found += [inner for inner in field if isinstance(inner, _HOLD) and not isinstance(inner, without)]
            elif isinstance(field, _HOLD) and not isinstance(field, without):
                found.append(field)
    return found


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]


def _variable(node: ast.AST) -> str:
    """``state``, ``self.state``; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _variable(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _written(node: ast.AST) -> set[str]:
    inner = [each for part in _own(node) for each in _below(part, _FUNCTIONS)]
    found = {_variable(each) for each in inner if isinstance(each, _VARIABLES) and isinstance(each.ctx, _CHANGED)}
    if isinstance(node, _FORS):
        found |= _written(node.target)
    if isinstance(node, _WITHS):
        found.update(*(_written(item.optional_vars) for item in node.items if item.optional_vars is not None))
    return found


def _reads(node: ast.AST, name: str) -> int:
    """The line on which an expression asks what is in the variable, or 0."""
    if isinstance(node, _FUNCTIONS):
        return 0
    if isinstance(node, ast.Call) and _last(node.func) in _ONLY_SHAPES:
        return 0
    if isinstance(node, ast.Attribute) and node.attr in _NO_CONTENT:
        return 0
    if isinstance(node, _VARIABLES) and isinstance(node.ctx, ast.Load) and _variable(node) == name:
        return node.lineno
    return next((line for child in ast.iter_child_nodes(node) if (line := _reads(child, name))), 0)


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""

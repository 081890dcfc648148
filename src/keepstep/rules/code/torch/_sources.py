# SPDX-License-Identifier: Apache-2.0
"""The functions of a program as Python's syntax tree, for rules that follow a variable from line to line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from keepstep.rules.api import CodeCall, EvidenceSet, Value
from keepstep.rules.code._asking import Call

Function = ast.FunctionDef | ast.AsyncFunctionDef
Block = list[ast.stmt]
_BLOCKS = ("body", "orelse", "finalbody")


class Sources:
    """The texts of the files, and the trees of those that a rule asks for."""

    def __init__(self, seen: EvidenceSet) -> None:
        self._texts: dict[str, bytes] = {each.path: each.text for each in seen.later.get(CodeCall, ())}
        self._flows: dict[str, list[Flow]] = {}

    def text(self, path: str) -> bytes:
        """The text of a file."""
        return self._texts.get(path, b"")

    def flow(self, call: Call) -> Flow | None:
        """The innermost function, or the file itself, that a call stands in; None: it is not to be had."""
        path, line = call.origin.source, call.origin.line or 0
        if path not in self._flows:
            self._flows[path] = [Flow(node) for node in _functions(self.text(path))]
        around = [each for each in self._flows[path] if each.first <= line <= each.last]
        return max(around, key=lambda each: each.first, default=None)


def _functions(text: bytes) -> Iterator[Function | ast.Module]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, Function))


class Flow:
    """What a function does in the order of its lines. Functions within it are not looked into."""

    def __init__(self, node: Function | ast.Module) -> None:
        self.node = node
        self.first, self.last = 0, 1 << 60
        if not isinstance(node, ast.Module):
            self.first, self.last = node.lineno, node.end_lineno or node.lineno

    @cached_property
    def _placed(self) -> list[tuple[ast.stmt, tuple[Block, ...]]]:
        """All statements in order, with the blocks that they stand in."""
        return list(_walk(self.node.body, ()))

    def _blocks_at(self, line: int) -> tuple[Block, ...]:
        around = [blocks for stmt, blocks in self._placed if stmt.lineno <= line <= (stmt.end_lineno or stmt.lineno)]
        return max(around, key=len, default=())

    def given(self, name: str, line: int) -> ast.expr | None:
        """What a variable was given last before a line, if that surely happened and is plain to see."""
        before = [(stmt, blocks) for stmt, blocks in self._placed if stmt.lineno < line and name in _set_by(stmt)]
        if not before:
            return None
        stmt, blocks = before[-1]
        at = self._blocks_at(line)
        is_sure = len(blocks) <= len(at) and all(one is other for one, other in zip(blocks, at, strict=False))
        plain = isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and _text(stmt.targets[0]) == name
        return stmt.value if is_sure and plain and isinstance(stmt, ast.Assign) else None

    def assignments(self, line: int) -> Iterator[tuple[str, ast.expr]]:
        """The plain assignments before a line, in order: the variable, and what it is given."""
        for stmt, _ in self._placed:
            if stmt.lineno < line and isinstance(stmt, ast.Assign | ast.AnnAssign) and stmt.value is not None:
                targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
                yield from ((_text(target), stmt.value) for target in targets if _text(target))

    def origin(self, value: ast.expr, line: int, hops: int = 3) -> ast.expr:
        """The expression that a variable stands for, through plain assignments; anything else is itself."""
        while hops and isinstance(value, ast.Name | ast.Attribute):
            found = self.given(_text(value), line)
            if found is None:
                return value
            value, line, hops = found, found.lineno, hops - 1
        return value

    def call_at(self, call: Call) -> ast.Call | None:
        """The call itself."""
        line = call.origin.line or 0
        near = [stmt for stmt, _ in self._placed if stmt.lineno <= line <= (stmt.end_lineno or stmt.lineno)]
        for node in (each for stmt in near for each in ast.walk(stmt) if isinstance(each, ast.Call)):
            if (node.func.end_lineno, node.func.end_col_offset) == (line, call.fact.order - line * 1000):
                return node
        return None

    def argument_at(self, call: Call, given: Value) -> ast.expr | None:
        """The expression of an argument of a call."""
        node = self.call_at(call)
        arguments = [*node.args, *(each.value for each in node.keywords)] if node is not None else []
        return next((each for each in arguments if ast.unparse(each) == given.text), None)


def _walk(body: Block, around: tuple[Block, ...]) -> Iterator[tuple[ast.stmt, tuple[Block, ...]]]:
    here = (*around, body)
    for stmt in body:
        yield stmt, here
        if isinstance(stmt, Function | ast.ClassDef):
            continue
        for name in _BLOCKS:
            yield from _walk(getattr(stmt, name, []), here)
        for part in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
            yield from _walk(part.body, here)


def _set_by(stmt: ast.stmt) -> set[str]:
    """The variables that a statement sets, less those that statements in it set."""
    targets: list[ast.expr] = []
    if isinstance(stmt, ast.Assign):
        targets = stmt.targets
    elif isinstance(stmt, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
        targets = [stmt.target]
    elif isinstance(stmt, ast.With | ast.AsyncWith):
        targets = [each.optional_vars for each in stmt.items if each.optional_vars is not None]
    return {
        _text(node) for target in targets for node in ast.walk(target) if isinstance(node, ast.Name | ast.Attribute)
    }


def _text(node: ast.expr) -> str:
    """A name, or a name with attributes; anything else has none."""
    if isinstance(node, ast.Attribute):
        inner = _text(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return node.id if isinstance(node, ast.Name) else ""


def sources(seen: EvidenceSet) -> Sources:
    """The sources of the project, put in order once."""
    return seen.once(Sources)

# SPDX-License-Identifier: Apache-2.0
"""Which statements of the running program computed a loss that is lost, read from its frames and its source.

What is still finite in the frame stays as it is: only statements whose results are not finite would have to run again.
So no batch is drawn again and no model is made again. Nothing is run here.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

DEEPEST = 15
"""Frames, from the backward pass outwards: a trainer's, or the user's own."""
MOST_LINES = 20_000
LEVELS = 3
MOST_PARTS = 200
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOOPS = (ast.For, ast.While, ast.AsyncFor)

IsBad = Callable[[Any], bool | None]
"""Whether a tensor is not finite; None for what is no tensor."""


class Statements(NamedTuple):
    """What to run, and the names it finds there."""

    code: CodeType
    names: dict[str, Any]


class _Placed(NamedTuple):
    statement: ast.stmt
    around: tuple[ast.stmt, ...]
    """From the function inwards."""


def statements(frame: FrameType | None, skipped: Sequence[str], is_bad: IsBad) -> Statements | None:
    """Those of the innermost frame that holds any. ``skipped``: the beginnings of paths that are not looked at."""
    for _ in range(DEEPEST):
        while frame is not None and frame.f_code.co_filename.startswith(tuple(skipped)):
            frame = frame.f_back
        if frame is None:
            return None
        found = _of_frame(frame, is_bad)
        if found is not None:
            return found
        frame = frame.f_back
    return None


def _of_frame(frame: FrameType, is_bad: IsBad) -> Statements | None:
    placed = _placed(frame)
    if not placed or not _covers(placed[-1].statement, frame.f_lineno):
        return None
    here = placed.pop()
    loop = next((each for each in reversed(here.around) if isinstance(each, _LOOPS)), None)
    names = {**frame.f_globals, **frame.f_locals}
    unnamed = _unnamed(here.statement)
    needed = {name for name in _read(here.statement) if holds_bad(_value(names, name), is_bad)}
    chosen = [_Placed(ast.copy_location(ast.Expr(each), each), here.around) for each in unnamed]
    assigned = False
    for each in reversed(placed):
        if (loop is not None and loop not in each.around) or not needed & _assigned(each.statement):
            continue
        assigned = True
        chosen.insert(0, each)
        for name in sorted(_read(each.statement)):
            value = _value(names, name)
            if value is _MISSING and name in frame.f_code.co_varnames:  # deleted meanwhile; a caller may still hold it
                value = names[name] = _of_callers(frame, name)
            if holds_bad(value, is_bad):
                needed.add(name)
    if not assigned and not unnamed:
        return None
    tree = ast.Module([_within(each) for each in chosen], [])
    try:
        code = compile(ast.fix_missing_locations(tree), frame.f_code.co_filename, "exec")
    except SyntaxError:  # `yield` or `await`
        return None
    return Statements(code, names)


def _placed(frame: FrameType) -> list[_Placed]:
    """The statements of the function that runs there, up to the one that runs."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if not 0 < len(lines) <= MOST_LINES:
        return []
    try:
        tree: ast.AST = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return []
    if frame.f_code.co_name != "<module>":
        inside = [
            each
            for each in ast.walk(tree)
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            and each.name == frame.f_code.co_name
            and _covers(each, frame.f_lineno)
        ]
        if not inside:
            return []
        tree = inside[-1]
    return list(_up_to(tree, frame.f_lineno, ()))


def _up_to(node: ast.AST, line: int, around: tuple[ast.stmt, ...]) -> Iterator[_Placed]:
    """The statements before the line, and the one there. A block that is over is one statement."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, (*_SCOPES, ast.expr)):
            continue
        if not isinstance(each, ast.stmt):  # the handlers of a `try`, the cases of a `match`
            yield from _up_to(each, line, around)
        elif hasattr(each, "body") and _covers(each, line):
            yield from _up_to(each, line, (*around, each))
        elif each.lineno <= line:
            yield _Placed(each, around)


def _covers(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def _unnamed(statement: ast.stmt) -> list[ast.expr]:
    """What the backward pass is given directly: `criterion(model(x), y).backward()`."""
    for each in ast.walk(statement):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "backward":
            return [
                part for part in (each.func.value, *each.args) if any(isinstance(n, ast.Call) for n in ast.walk(part))
            ]
    return []


def _read(statement: ast.stmt) -> set[str]:
    """Plain names and `self.loss` alike."""
    return _names(statement, ast.Load)


def _assigned(statement: ast.stmt) -> set[str]:
    return _names(statement, ast.Store)


def _names(node: ast.AST, use: type[ast.expr_context]) -> set[str]:
    found = [
        each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, use)
    ]
    return {name for each in found if (name := _dotted(each)) is not None}


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before is not None else None
    return node.id if isinstance(node, ast.Name) else None


_MISSING = object()


def _value(names: dict[str, Any], dotted: str) -> Any:
    """What a name stands for. Of objects only what lies in them is read: a property would run."""
    first, *more = dotted.split(".")
    value = names.get(first, _MISSING)
    for each in more:
        value = getattr(value, "__dict__", {}).get(each, _MISSING)
    return value


def _of_callers(frame: FrameType, name: str) -> Any:
    for _ in range(DEEPEST):
        if frame.f_back is None:
            break
        frame = frame.f_back
        if name in frame.f_locals:
            return frame.f_locals[name]
    return _MISSING


def holds_bad(value: Any, is_bad: IsBad, levels: int = LEVELS) -> bool:
    """Whether a tensor in there is not finite: in lists, dictionaries and plain objects, not in whole models."""
    known = is_bad(value)
    if known is not None or levels == 0:
        return bool(known)
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, tuple | list):
        parts = list(value)
    elif type(value).__module__ == "builtins" or isinstance(value, type) or hasattr(value, "parameters"):
        return False
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    return any(holds_bad(each, is_bad, levels - 1) for each in parts[:MOST_PARTS])


class _NotTaken(ast.NodeTransformer):
    """The program came past these: a statement of its own has no loop and no function to leave."""

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    visit_Continue = visit_Break = visit_Return  # type: ignore[assignment]

    def _whole(self, node: ast.AST) -> ast.AST:
        return node

    visit_For = visit_While = visit_FunctionDef = _whole


def _within(placed: _Placed) -> ast.stmt:
    """The statement under the `with` statements that it stands under: autocast changes what it computes."""
    statement: ast.stmt = _NotTaken().visit(placed.statement)
    for each in reversed(placed.around):
        if isinstance(each, ast.With):
            statement = ast.copy_location(ast.With(each.items, [statement]), each)
    return statement

# SPDX-License-Identifier: Apache-2.0
"""Whether an exception that is propagating will end the thread, judged by its frames and their source.

A `finally` or a `with` that runs because of an exception passes it on when it is done, and so does an `except` that
ends in `raise`. If nothing further out catches it, the thread is leaving, however long that block takes. If the
source is not available, or some `except` further out may catch it, nothing is said. An `except` that raises another
exception is followed with that one's type: TensorFlow asks each operation for an attribute that way when it traces.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from types import FrameType
from typing import Any

LARGEST_SOURCE = 2 << 20
PASS_ON = (
    "contextlib.py",
    "multiprocessing/process.py",
    "torch/multiprocessing/spawn.py",
    "<frozen runpy>",
    "/runpy.py",
    "<frozen importlib",
)
"""Their own `except` blocks do not revive a training."""
SWALLOWS = re.compile(r"(?i)suppress|raises|ignor|retr|attempt|catch|swallow|toler")
"""Names of context managers that may swallow an exception."""
EXITS = ("exit", "_exit", "quit", "abort")


Kind = type[BaseException]


class WillExit(Enum):
    YES = "yes"
    NO = "no"
    """It is being handled."""
    UNKNOWN = "unknown"


def is_leaving(frame: FrameType, error: BaseException) -> WillExit:
    """``frame``: the innermost one of the thread; ``error``: the exception that it is handling or passing on."""
    lines: dict[FrameType, int] = {}
    trace = error.__traceback__
    while trace is not None:
        lines[trace.tb_frame] = trace.tb_lineno
        trace = trace.tb_next
    at: FrameType | None = frame
    while at is not None and at not in lines:
        at = at.f_back
    if at is None:
        return WillExit.UNKNOWN
    how, kinds = _in_the_block(at, lines[at], type(error))
    if how is not WillExit.YES:
        return how
    further: FrameType | None = at.f_back
    while further is not None:
        if not any(name in further.f_code.co_filename for name in PASS_ON) and not _is_start_of_child(further):
            tree = _tree(further.f_code.co_filename)
            passed = None if tree is None else _let_through(further, _guarding(tree, further.f_lineno), kinds)
            if passed is None:
                return WillExit.UNKNOWN
            kinds = passed
        further = further.f_back
    return WillExit.YES


def _is_start_of_child(frame: FrameType) -> bool:
    """Whether it is the line with which multiprocessing starts a child: it has no source, and catches nothing."""
    return frame.f_code.co_filename == "<string>" and "--multiprocessing-fork" in sys.orig_argv


def _in_the_block(frame: FrameType, raised: int, kind: Kind) -> tuple[WillExit, set[Kind]]:
    """In the last frame the exception came through: which block is it in now, what encloses that block, and which
    exceptions may come out of it?"""
    tree = _tree(frame.f_code.co_filename)
    if tree is None:
        return WillExit.UNKNOWN, set()
    now = frame.f_lineno
    inner: ast.stmt | None = None
    how, kinds = WillExit.UNKNOWN, {kind}
    for each in _around(tree, raised):
        if isinstance(each, ast.Try):
            if _spans(each.finalbody, now):
                inner, how, kinds = each, WillExit.YES, {kind}
            for handler in each.handlers:
                if _spans(handler.body, now):
                    passed = _raised_by(frame, handler, kind) if _ends(handler.body) else set()
                    inner, how = each, WillExit.NO if passed == set() else WillExit.YES
                    if passed is None:
                        return WillExit.UNKNOWN, set()
                    kinds = passed
        elif isinstance(each, (ast.With, ast.AsyncWith)) and each.lineno <= now < each.body[0].lineno:
            inner, how, kinds = each, WillExit.YES, {kind}
    if inner is None or how is not WillExit.YES:
        return how, set()
    outer = [each for each in _guarding(tree, inner.lineno) if each is not inner]
    passed = _let_through(frame, outer, kinds)
    return (WillExit.UNKNOWN, set()) if passed is None else (WillExit.YES, passed)


def _around(tree: ast.Module, line: int) -> Iterator[ast.stmt]:
    """Statements that enclose a line, the innermost last."""
    found = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.stmt) and each.lineno <= line <= (each.end_lineno or each.lineno)
    ]
    yield from sorted(found, key=lambda each: (each.lineno, -(each.end_lineno or 0)))


Guarding = ast.Try | ast.With | ast.AsyncWith


def _guarding(tree: ast.Module, line: int) -> list[Guarding]:
    """Those in whose guarded part the line is."""
    return [
        each
        for each in _around(tree, line)
        if isinstance(each, (ast.Try, ast.With, ast.AsyncWith)) and _spans(each.body, line)
    ]


def _let_through(frame: FrameType, guarding: Sequence[Guarding], kinds: set[Kind]) -> set[Kind] | None:
    """What these exceptions have become behind the blocks; None where one of them may be caught."""
    function = frame.f_code.co_firstlineno
    for each in reversed(guarding):
        if each.lineno < function:
            continue  # around the definition of the function, not around this call
        if not isinstance(each, ast.Try):
            if any(SWALLOWS.search(ast.unparse(item.context_expr)) for item in each.items):
                return None
            continue
        passed = set[Kind]()
        for kind in kinds:
            handler = next((one for one in each.handlers if _matches(frame, one.type, kind)), None)
            if handler is None:
                passed.add(kind)
                continue
            raised = _raised_by(frame, handler, kind) if _ends(handler.body) else None
            if raised is None:
                return None
            passed |= raised
        kinds = passed
    return kinds


def _raised_by(frame: FrameType, handler: ast.ExceptHandler, kind: Kind) -> set[Kind] | None:
    """The exceptions that an `except` block raises when it has caught this one; None where one is not known."""
    ends = not any(isinstance(each, ast.Raise) for each in ast.walk(handler))
    found: set[Kind] = {SystemExit} if ends else set()
    for each in ast.walk(handler):
        if not isinstance(each, ast.Raise):
            continue
        if each.exc is None or (isinstance(each.exc, ast.Name) and each.exc.id == handler.name):
            found.add(kind)
            continue
        made = each.exc.func if isinstance(each.exc, ast.Call) else each.exc
        known = _look_up(frame, made)
        if not (isinstance(known, type) and issubclass(known, BaseException)):
            return None
        found.add(known)
    return found


def _matches(frame: FrameType, name: ast.expr | None, kind: Kind) -> bool:
    """Whether an ``except`` takes this exception; where its name cannot be looked up, it may."""
    if name is None:
        return True
    if isinstance(name, ast.Tuple):
        return any(_matches(frame, each, kind) for each in name.elts)
    found = _look_up(frame, name)
    return issubclass(kind, found) if isinstance(found, type) else True


def _look_up(frame: FrameType, name: ast.expr) -> Any:
    if isinstance(name, ast.Name):
        for scope in (frame.f_locals, frame.f_globals, frame.f_builtins):
            if name.id in scope:
                return scope[name.id]
    elif isinstance(name, ast.Attribute):
        owner = _look_up(frame, name.value)
        return vars(owner).get(name.attr) if hasattr(owner, "__dict__") else None
    return None


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Whether a block always ends in ``raise``, or in the end of the process."""
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _ends(last.body) and _ends(last.orelse)
    if isinstance(last, (ast.With, ast.AsyncWith)):
        return _ends(last.body)
    if isinstance(last, ast.Try):
        return _ends(last.body) and all(_ends(each.body) for each in last.handlers)
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        called = last.value.func
        return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) in EXITS
    return isinstance(last, ast.Raise)


def _spans(body: Sequence[ast.stmt], line: int) -> bool:
    return bool(body) and body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


@functools.lru_cache(maxsize=32)
def _tree(file: str) -> ast.Module | None:
    source = "".join(linecache.getlines(file))
    if not source or len(source) > LARGEST_SOURCE:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None

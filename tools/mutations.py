# SPDX-License-Identifier: Apache-2.0
"""Small faults put into the heart of keepstep, one at a time: does a test notice? `make mutants`.

python -m tools.mutations                          every module of mutations.toml
python -m tools.mutations keepstep.story.clocks     only what begins with this name
python -m tools.mutations MODULE --tests PATH ...  another module, with the tests that should notice

A mutant is a module with one comparison, boundary, `and`, `not`, sign, number or result changed. Nothing is written to
disk: the module's tests are collected once, and for each mutant a forked process takes over the changed code and runs
them until the first one fails. Where none fails, the mutant survived: a test is missing, or the change means nothing.
mutmut and cosmic-ray run the whole suite first and try everything; this takes a sample, the same for the same seed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_suffix(".toml")
OTHER: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.FloorDiv: (ast.Mult,),
    ast.Div: (ast.Mult,),
    ast.LShift: (ast.RShift,),
}
SLOWER = 6.0
"""A mutant that takes this many times as long as the module itself hangs, and a hang is noticed."""
LEAST_S = 40.0


@dataclass(frozen=True)
class Change:
    """One way to make a module wrong."""

    line: int
    what: str
    make: Callable[[], None]
    """Changes the tree that it was found in."""


def changes(tree: ast.Module) -> Iterator[Change]:
    """All changes of a module, in a stable order."""
    ignored = {id(below) for node in ast.walk(tree) for part in _not_run(node) for below in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) not in ignored and hasattr(node, "lineno"):
            for what, make in _changes_of(node):
                yield Change(node.lineno, what, make)


def _not_run(node: ast.AST) -> Iterator[ast.AST]:
    """Annotations and decorators, which no test can notice, and defaults of fields: a class in use keeps its own."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield from node.decorator_list
    if isinstance(node, ast.ClassDef):
        yield from (part for part in node.body if isinstance(part, ast.AnnAssign))
    for name in ("annotation", "returns"):
        part = getattr(node, name, None)
        if isinstance(part, ast.AST):
            yield part


def _changes_of(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    if isinstance(node, ast.Compare):
        for place, before in enumerate(node.ops):
            for kind in OTHER.get(type(before), ()):
                yield _named(before, kind), lambda place=place, kind=kind: node.ops.__setitem__(place, kind())  # type: ignore[misc]
    elif isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign):
        for kind in OTHER.get(type(node.op), ()):
            yield _named(node.op, kind), lambda kind=kind: setattr(node, "op", kind())  # type: ignore[misc]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not removed", lambda: setattr(node, "op", ast.UAdd()) or setattr(node, "operand", _truth(node.operand))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        for value in _other_values(node.value):
            yield f"{node.value} -> {value}", lambda value=value: setattr(node, "value", value)  # type: ignore[misc]
    elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield "return None", lambda: setattr(node, "value", ast.Constant(None))
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and isinstance(
        node.test, ast.Call | ast.Name | ast.Attribute
    ):
        yield f"not {ast.unparse(node.test)}", lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))


def _truth(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("bool", ast.Load()), [node], [])


def _other_values(value: bool | int | float) -> tuple[bool | int | float, ...]:
    if isinstance(value, bool):
        return (not value,)
    return (value + 1, value * 10) if abs(value) > 1 else (value + 1,)


def _named(before: ast.AST, after: type[ast.AST]) -> str:
    return f"{type(before).__name__} -> {after.__name__}"


def mutant(source: str, number: int) -> tuple[CodeType | None, Change]:
    """The code with the change of that number made, and the change. No code: it cannot be compiled."""
    tree = ast.parse(source)
    change = list(changes(tree))[number]
    change.make()
    with contextlib.suppress(SyntaxError, ValueError):
        return compile(ast.fix_missing_locations(tree), "<mutant>", "exec"), change
    return None, change


def take_over(module: ModuleType, code: CodeType) -> None:
    """Give the functions and values of a module that is in use already what they have in the changed code."""
    changed: dict[str, Any] = dict(vars(module))
    before = dict(vars(module))
    exec(code, changed)
    for name, value in before.items():
        if name.startswith("__") or getattr(value, "__module__", module.__name__) != module.__name__:
            continue
        if isinstance(value, type):
            for part, method in list(vars(value).items()):
                _swap(method, vars(changed[name]).get(part))
        elif not _swap(value, changed[name]):
            for user in list(sys.modules.values()):
                if getattr(user, name, None) is value:
                    setattr(user, name, changed[name])


def _swap(function: Any, other: Any) -> bool:
    """Whether both are functions, of which the first is now like the other."""
    if hasattr(function, "cache_clear"):
        function.cache_clear()
    for wrapped in ("fget", "func", "__func__", "__wrapped__"):
        function, other = getattr(function, wrapped, function), getattr(other, wrapped, other)
    if not isinstance(function, FunctionType) or not isinstance(other, FunctionType):
        return False
    with contextlib.suppress(ValueError):  # one that was made with another closure
        function.__code__ = other.__code__
    function.__defaults__, function.__kwdefaults__ = other.__defaults__, other.__kwdefaults__
    return True


class Mutants:
    """A plugin of pytest that tries the mutants of one module in place of running the tests once."""

    def __init__(self, module: str, sample: int, seed: int) -> None:
        self.module, self.sample, self.seed = module, sample, seed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        module = importlib.import_module(self.module)
        source = Path(str(module.__file__)).read_text()
        number = len(list(changes(ast.parse(source))))
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all
        began = time.monotonic()
        if session.testsfailed or not self._passes(session, module, None, 600.0):
            raise SystemExit(f"{self.module}: its tests fail as it is")
        limit_s = max(LEAST_S, SLOWER * (time.monotonic() - began))
        tried = killed = 0
        for each in sorted(random.Random(f"{self.seed} {self.module}").sample(range(number), min(self.sample, number))):
            code, change = mutant(source, each)
            if code is None:
                continue
            tried += 1
            if self._passes(session, module, code, limit_s):
                print(f"survived: {self.module}:{change.line}: {change.what}", flush=True)
            else:
                killed += 1
        print(f"| `{self.module}` | {number} | {tried} | {killed} | {tried - killed} |", flush=True)
        return True

    def _passes(self, session: pytest.Session, module: ModuleType, code: CodeType | None, limit_s: float) -> bool:
        """Whether all tests pass with this code in place of the module's own, in a process of its own."""
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, 1)
                os.dup2(nothing, 2)
                if code is not None:
                    take_over(module, code)
                for item, after in zip_longest(session.items, session.items[1:]):
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                    if session.testsfailed:
                        os._exit(1)
                os._exit(0)
            finally:
                os._exit(2)
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status) == 0
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description="Change the code a little, and see whether a test notices.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="only modules whose names begin with this")
    parser.add_argument("--tests", nargs="+", default=(), help="what should notice, for modules outside the table")
    parser.add_argument("--sample", type=int, default=25, help="mutants of each module (default: 25)")
    parser.add_argument("--seed", type=int, default=14, help="which ones (default: 14)")
    parser.add_argument("--jobs", type=int, default=1, help="modules at once (default: 1)")
    asked = parser.parse_args()
    os.chdir(ROOT)
    table: dict[str, list[str]] = {
        module: tests for rows in tomllib.loads(TABLE.read_text()).values() for module, tests in rows.items()
    }
    if asked.tests:
        table = {module: list(asked.tests) for module in asked.modules}
    elif asked.modules:
        table = {name: tests for name, tests in table.items() if name.startswith(tuple(asked.modules))}
    if len(table) == 1:
        ((module, tests),) = table.items()
        options = ["-s", "-p", "no:cacheprovider", "-p", "no:terminal", "-m", "not long and not slow"]
        return int(pytest.main([*options, *tests], plugins=[Mutants(module, asked.sample, asked.seed)]))
    given = ["--sample", str(asked.sample), "--seed", str(asked.seed)]
    commands = [[sys.executable, "-m", "tools.mutations", name, *given, "--tests", *table[name]] for name in table]
    with ThreadPoolExecutor(asked.jobs) as pool:
        return max(pool.map(subprocess.call, commands), default=0)


if __name__ == "__main__":
    sys.exit(main())

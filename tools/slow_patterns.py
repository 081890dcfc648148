# SPDX-License-Identifier: Apache-2.0
"""Which of keepstep's patterns a hostile line can make slow: every one of them is run on texts made to do just that.

    python -m tools.slow_patterns              all of them, some minutes
    python -m tools.slow_patterns --like xid   only those whose place or text holds this

Patterns come from the tables (signatures, blocks, progress), from every ``lazy_pattern`` that a module made, and from
calls of ``re`` found in the source. Times are those of the processor, so that a busy machine changes little.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import multiprocessing
import pkgutil
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import keepstep
from keepstep.core.lazy_pattern import LazyPattern
from keepstep.parse.knowledge import tables
from tools.attack_strings import QUICK, THOROUGH, Effort, attacks

SIZE = 8 << 10
PROBE = 2 << 10
PROMISING_S = 0.001
"""On the small text. What takes less there is within the limit on the large one, unless it grows with the cube."""
LIMIT_S = 0.05
"""On the large one: what a whole line of 64 kB may take."""
TIMES = 3
HANGS_S = 10.0
"""Of one pattern's own time: it is ended, and counts as slow."""
NOT_READ = ("keepstep.lab",)
"""Jobs and faults of the lab read only what they wrote themselves."""
_ASKED = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}


@dataclass(frozen=True)
class Asked:
    """A pattern, where it stands, and whether it is tried at the beginning of a text only."""

    where: str
    pattern: str | bytes
    flags: int = 0
    at_begin: bool = False


@dataclass(frozen=True)
class Measured:
    """How long a pattern took at worst, and on what; ``seconds`` is infinite where it was ended."""

    asked: Asked
    seconds: float
    text: str

    @property
    def slow(self) -> bool:
        return self.seconds > LIMIT_S


def every_pattern() -> list[Asked]:
    """All patterns of the package, each once."""
    modules = list(_modules())
    found: dict[tuple[str | bytes, int], Asked] = {}
    for asked in [*of_tables(), *_in_source(modules), *_lazy(modules)]:
        key = (asked.pattern, asked.flags)
        if key not in found or (found[key].at_begin and not asked.at_begin):
            found[key] = asked
    return sorted(found.values(), key=lambda asked: (asked.where, str(asked.pattern)))


def _modules() -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(keepstep.__path__, "keepstep."):
        if info.name == "keepstep.__main__" or info.name.startswith(NOT_READ):
            continue
        try:
            yield importlib.import_module(info.name)
        except ImportError as error:  # an adapter of a framework that is not here
            print(f"not looked at: {info.name} ({error})", file=sys.stderr)


def of_tables() -> list[Asked]:
    """Those of signatures, blocks and progress, as they are compiled."""
    signatures, blocks, progress = tables()
    return [Asked("tables", each.expression) for each in (*signatures, *(one.begin for one in blocks), *progress)]


def _lazy(modules: Iterable[ModuleType]) -> Iterator[Asked]:
    names: dict[int, tuple[str, bool]] = {}
    for module in modules:
        source = Path(module.__file__ or "").read_text()
        for name, value in vars(module).items():
            if isinstance(value, LazyPattern):
                uses = set(re.findall(rf"\b{name}\.(\w+)\(", source))
                names[id(value)] = (f"{module.__name__}.{name}", bool(uses) and uses <= {"match", "fullmatch"})
    for thing in gc.get_objects():
        if isinstance(thing, LazyPattern):
            where, at_begin = names.get(id(thing), ("in a table of patterns", False))
            yield Asked(where, thing.pattern, thing._flags, at_begin)


def _in_source(modules: Iterable[ModuleType]) -> Iterator[Asked]:
    """Calls of ``re`` with a pattern that can be told without running the function around it."""
    for module in modules:
        for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.func.attr in _ASKED):
                continue
            pattern = _value(node.args[0], module)
            if isinstance(pattern, str | bytes):
                yield Asked(f"{module.__name__}:{node.lineno}", pattern, _flags(node, module), node.func.attr in ("match", "fullmatch"))


def _flags(call: ast.Call, module: ModuleType) -> int:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "compile":
        given += call.args[1:2]
    return int(_value(given[0], module) or 0) if given else 0


def _value(node: ast.expr, module: ModuleType) -> Any:
    try:
        return eval(compile(ast.Expression(node), "pattern", "eval"), vars(module))
    except Exception:  # made of what only the running function knows
        return None


def measure(asked: Asked, effort: Effort = THOROUGH) -> Measured:
    """The worst of all attacks that a short text announces."""
    pattern = re.compile(asked.pattern, asked.flags)
    worst, on = 0.0, ""
    promising = {n for n, text in enumerate(attacks(asked.pattern, asked.flags, PROBE, effort)) if _time(pattern, asked, text) > PROMISING_S}
    for n, text in enumerate(attacks(asked.pattern, asked.flags, SIZE, effort) if promising else ()):
        if n not in promising:
            continue
        took = _time(pattern, asked, text)
        if took > LIMIT_S:
            took = min(took, *(_time(pattern, asked, text) for _ in range(TIMES - 1)))
        if took > worst:
            worst, on = took, text
        if worst > LIMIT_S:
            break
    return Measured(asked, worst, on)


def _time(pattern: re.Pattern[Any], asked: Asked, text: str) -> float:
    subject = text.encode() if isinstance(asked.pattern, bytes) else text
    began = time.thread_time()
    if asked.at_begin:
        pattern.match(subject)
    else:
        pattern.search(subject)
    return time.thread_time() - began


def measure_all(every: list[Asked], effort: Effort = THOROUGH) -> Iterator[Measured]:
    """One after the other in a process of its own, which is ended where a pattern does not come to an end."""
    context = multiprocessing.get_context("fork")
    todo = list(every)
    while todo:
        here, there = context.Pipe(duplex=False)
        child = context.Process(target=_work, args=(todo, there, effort), daemon=True)
        child.start()
        there.close()
        done = 0
        try:
            while done < len(todo):
                if not here.poll(HANGS_S * 20):
                    break
                yield here.recv()
                done += 1
        except EOFError:
            pass
        child.kill()
        child.join()
        if done < len(todo):
            yield Measured(todo[done], float("inf"), "")
        todo = todo[done + 1 :]


def _work(todo: list[Asked], out: Connection, effort: Effort) -> None:
    for asked in todo:
        signal.setitimer(signal.ITIMER_PROF, HANGS_S)
        out.send(measure(asked, effort))
    out.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Find patterns that a hostile line makes slow.")
    parser.add_argument("--like", default="", help="only patterns whose place or text holds this")
    parser.add_argument("--quick", action="store_true", help="try fewer attacks, as the tests do")
    parser.add_argument("--over", type=float, default=LIMIT_S * 1000, metavar="MS", help="show what takes longer than this (default: 50)")
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="only every Nth pattern, from the Ith on")
    asked = parser.parse_args()
    index, shards = map(int, asked.shard.split("/"))
    every = [each for each in every_pattern() if asked.like in each.where or asked.like in str(each.pattern)][index::shards]
    results = []
    for number, measured in enumerate(measure_all(every, QUICK if asked.quick else THOROUGH), 1):
        results.append(measured)
        if sys.stderr.isatty():
            print(f"\r{number}/{len(every)}", end="", file=sys.stderr)
        if measured.seconds * 1000 > asked.over:
            print(f"{measured.seconds * 1000:8.1f} ms  {measured.asked.where}\n    {measured.asked.pattern!r}\n    on {measured.text[:100]!r} ... ({len(measured.text)} characters)")
    slow = sum(measured.slow for measured in results)
    print(f"{len(results)} patterns on {SIZE >> 10} kB: {slow} slower than {LIMIT_S * 1000:.0f} ms")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())

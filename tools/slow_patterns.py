# SPDX-License-Identifier: Apache-2.0
"""Which of keepstep's patterns a hostile line can make slow: every one of them is run on texts made to do just that.

    python -m tools.slow_patterns              all of them, some minutes
    python -m tools.slow_patterns --like xid   only those whose place or text holds this
    python -m tools.slow_patterns --quick --remember tests/parse/measured_patterns.txt
                                               `make test` measures only what is not in that file

Patterns come from the tables (signatures, blocks, progress), from every pattern that a module keeps, and from
calls of ``re`` found in the source. Each is asked as its module asks it (``search``, ``fullmatch``, ...). A pattern
that looks only
at so many characters (``lazy_pattern(..., most=2000)``) gets no longer texts than that.
Times are those of the processor, so a busy machine changes little, and the best of several where one was too long.
Where a search
of known cost takes longer than it did on the machine on which the limit was set, they are scaled down by as much.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import importlib
import pkgutil
import re
import signal
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import keepstep
from keepstep.base.lazy_pattern import LazyPattern
from keepstep.parse.scan.tables import tables
from keepstep.rules.last_resort.table import table as of_last_resort
from keepstep.signals.waits import read_waits
from tools.attack_strings import QUICK, THOROUGH, Effort, attacks

SIZE = 8 << 10
PROBE = 2 << 10
PROMISING_S = 0.001
"""On the small text. What takes less there is within the limit on the large one, unless it grows with the cube."""
LIMIT_S = 0.05
"""On the large one: what a whole line of 64 kB may take."""
TIMES = 4
KNOWN_S = 0.0115
"""What the known search takes on the machine where the limit was set: a core of an Arm Neoverse N1, Python 3.11."""
_KNOWN = re.compile(r"a[^\n]{0,400}?b")
_KNOWN_TEXT = "a" * (2 << 10)
HANGS_S = 1.0
"""A search that takes so long is ended, and counts as slow."""
_ASKED = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}


_ALL = frozenset({"findall", "finditer", "sub", "subn", "split"})
"""What goes on after the first match."""


@dataclass(frozen=True)
class Asked:
    """A pattern, where it stands, and how it is asked: by which methods, and about how many characters at most."""

    where: str
    pattern: str | bytes
    flags: int = 0
    uses: frozenset[str] = frozenset({"search"})
    most: int = SIZE

    @property
    def slowest_uses(self) -> frozenset[str]:
        """Those that take at least as long as the others."""
        if self.uses & _ALL:
            return self.uses & {"fullmatch"} | {"finditer"}
        return self.uses - {"match"} if "search" in self.uses else self.uses

    @property
    def digest(self) -> str:
        """Another one for any change of what is measured."""
        return hashlib.sha256(repr((self.pattern, self.flags, sorted(self.uses), self.most)).encode()).hexdigest()[:10]


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
    of_last_resort(), read_waits()  # they make their patterns when they are first asked
    found: dict[tuple[str | bytes, int], Asked] = {}
    for asked in [*of_tables(), *_in_source(modules), *_kept(modules)]:
        key = (asked.pattern, asked.flags)
        if key in found:
            asked = replace(asked, uses=asked.uses | found[key].uses, most=max(asked.most, found[key].most))
        found[key] = asked
    return sorted(found.values(), key=lambda asked: (asked.where, str(asked.pattern)))


def _modules() -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(keepstep.__path__, "keepstep."):
        if info.name == "keepstep.__main__":
            continue
        try:
            yield importlib.import_module(info.name)
        except ImportError as error:  # an adapter of a framework that is not here
            print(f"not looked at: {info.name} ({error})", file=sys.stderr)


def of_tables() -> list[Asked]:
    """Those of signatures, blocks and progress, as they are compiled."""
    signatures, blocks, progress = tables()
    return [Asked("tables", each.expression) for each in (*signatures, *(one.begin for one in blocks), *progress)]


def _kept(modules: Iterable[ModuleType]) -> Iterator[Asked]:
    """Patterns that stand in modules, by name or in tables."""
    names: dict[int, str] = {}
    uses: defaultdict[int, set[str]] = defaultdict(set)
    things: dict[int, LazyPattern | re.Pattern[Any]] = {}
    for module in modules:
        source = Path(module.__file__ or "").read_text()
        for name, value in vars(module).items():
            if isinstance(value, LazyPattern | re.Pattern):
                things[id(value)] = value
                names.setdefault(id(value), f"{module.__name__}.{name}")
                uses[id(value)] |= set(re.findall(rf"\b{name}\.(\w+)", source)) & _ASKED
    things |= {id(thing): thing for thing in gc.get_objects() if isinstance(thing, LazyPattern)}
    for number, thing in things.items():
        flags = thing._flags if isinstance(thing, LazyPattern) else thing.flags
        most = thing.most if isinstance(thing, LazyPattern) else None
        known = frozenset(uses[number]) or frozenset({"search"})
        yield Asked(names.get(number, "in a table of patterns"), thing.pattern, flags, known, min(most or SIZE, SIZE))


def _in_source(modules: Iterable[ModuleType]) -> Iterator[Asked]:
    """Calls of ``re`` with a pattern that can be told without running the function around it."""
    for module in modules:
        tree = ast.parse(Path(module.__file__ or "").read_text())
        kept = {id(each.value) for each in tree.body if isinstance(each, ast.Assign | ast.AnnAssign)}
        for node in ast.walk(tree):
            if (
                not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args)
                or id(node) in kept
            ):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.func.attr in _ASKED):
                continue
            pattern = _value(node.args[0], module)
            if isinstance(pattern, str | bytes):
                use = "search" if node.func.attr == "compile" else node.func.attr
                yield Asked(f"{module.__name__}:{node.lineno}", pattern, _flags(node, module), frozenset({use}))


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
    promising = set()
    for n, text in enumerate(attacks(asked.pattern, asked.flags, min(PROBE, asked.most), effort)):
        took = _time(pattern, asked, text)
        if took > PROMISING_S:
            promising.add(n)
        if took > LIMIT_S and (took := _best(pattern, asked, text, took)) > LIMIT_S:
            return Measured(asked, took, text)
    worst, on = 0.0, ""
    for n, text in enumerate(attacks(asked.pattern, asked.flags, asked.most, effort) if promising else ()):
        if n not in promising:
            continue
        took = _best(pattern, asked, text, _time(pattern, asked, text))
        if took > worst:
            worst, on = took, text
        if worst > LIMIT_S:
            break
    return Measured(asked, worst, on)


def _best(pattern: re.Pattern[Any], asked: Asked, text: str, took: float) -> float:
    """The best of several, where the first took too long: another process may have had the processor's cache."""
    times = 1
    while LIMIT_S < took < float("inf") and times < TIMES:
        took = min(took, _time(pattern, asked, text))
        times += 1
    return took / slower_than_usual() if took > LIMIT_S else took


def slower_than_usual() -> float:
    """How many times longer a search takes here than where the limit was set; at least 1."""
    return max(1.0, min(_time(_KNOWN, Asked("", ""), _KNOWN_TEXT) for _ in range(TIMES)) / KNOWN_S)


class _Hangs(Exception):
    pass


def _time(pattern: re.Pattern[Any], asked: Asked, text: str) -> float:
    """Seconds of the processor; infinite where it was ended."""
    subject = (text.encode() if isinstance(asked.pattern, bytes) else text)[: asked.most]
    signal.setitimer(signal.ITIMER_PROF, HANGS_S)
    began = time.thread_time()
    try:
        for use in asked.slowest_uses:
            found = getattr(pattern, use)(subject)
            if use == "finditer":
                deque(found, maxlen=0)
        return time.thread_time() - began
    except _Hangs:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@contextmanager
def hanging_ones_end() -> Iterator[None]:
    """While this is open, a search that does not come to an end is ended: Python looks for signals while it matches."""

    def end(number: int, frame: object) -> None:
        raise _Hangs

    before = signal.signal(signal.SIGPROF, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGPROF, before)


def measure_all(every: Iterable[Asked], effort: Effort = THOROUGH) -> Iterator[Measured]:
    """One after the other."""
    with hanging_ones_end():
        for asked in every:
            yield measure(asked, effort)


def main() -> int:
    parser = argparse.ArgumentParser(description="Find patterns that a hostile line makes slow.")
    parser.add_argument("--like", default="", help="only patterns whose place or text holds this")
    parser.add_argument("--quick", action="store_true", help="try fewer attacks, as the tests do")
    parser.add_argument(
        "--over",
        type=float,
        default=LIMIT_S * 1000,
        metavar="MS",
        help="show what takes longer than this (default: 50)",
    )
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="only every Nth pattern, from the Ith on")
    parser.add_argument("--remember", metavar="FILE", type=Path, help="write down which ones were fast")
    parser.add_argument("--new-since", metavar="FILE", type=Path, help="only those that were not written down there")
    asked = parser.parse_args()
    index, shards = map(int, asked.shard.split("/"))
    every = [each for each in every_pattern() if asked.like in each.where or asked.like in str(each.pattern)][
        index::shards
    ]
    if asked.new_since:
        known = set(asked.new_since.read_text().split())
        every = [each for each in every if each.digest not in known]
    results = []
    for number, measured in enumerate(measure_all(every, QUICK if asked.quick else THOROUGH), 1):
        results.append(measured)
        if sys.stderr.isatty():
            print(f"\r{number}/{len(every)}", end="", file=sys.stderr)
        if measured.seconds * 1000 > asked.over:
            print(
                f"{measured.seconds * 1000:8.1f} ms  {measured.asked.where}\n    "
                f"{measured.asked.pattern!r}\n    on {measured.text[:100]!r} ... ({len(measured.text)} characters)"
            )
    if asked.remember:
        fast = sorted({measured.asked.digest for measured in results if not measured.slow})
        asked.remember.write_text("".join(" ".join(fast[n : n + 10]) + "\n" for n in range(0, len(fast), 10)))
    slow = sum(measured.slow for measured in results)
    print(f"{len(results)} patterns on {SIZE >> 10} kB: {slow} slower than {LIMIT_S * 1000:.0f} ms")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What can be made smaller, in the order of what it gains per second of trials."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from keepstep.shrink import delta_debugging
from keepstep.shrink.program import SCOPES, Node, own_parts, uid
from keepstep.shrink.search import Search

SMALL = 2
IMPORTS = (ast.Import, ast.ImportFrom)
WRAPS = (ast.With, ast.Try, ast.If)
STAYS = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH", "TMPDIR", "USER")


def never_executed(search: Search) -> None:
    """What no rank ran goes in one trial: statements, functions that nobody called, documentation, unused imports."""
    program, best = search.program, search.best
    ran = search.executed
    gone: set[Node] = set()
    for each in program.statements():
        lines = range(each.lineno, (each.end_lineno or each.lineno) + 1)
        if uid(each) in search.kept:
            continue
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            called = any((uid(each)[0], line) in ran for line in range(each.body[0].lineno, lines.stop))
            gone |= set() if called else {uid(each), *map(uid, each.body)}
        elif not any((uid(each)[0], line) in ran for line in lines) or _is_text(each):
            gone.add(uid(each))
    used = {
        name.removeprefix(".")
        for each in program.statements()
        if not _gone(search, each, gone) and not isinstance(each, IMPORTS)
        for name in search.names.uses[uid(each)]
    }
    for each in program.statements():
        if isinstance(each, SCOPES) and uid(each) in gone and each.name in used:
            gone.discard(uid(each))  # only its body goes
        if isinstance(each, IMPORTS) and uid(each) not in search.kept and not _is_star(each):
            idle = [name for name in each.names if (name.asname or name.name).partition(".")[0] not in used]
            gone |= {uid(each)} if len(idle) == len(each.names) else set(map(uid, idle))
    if not search.same(replace(best, removed=best.removed | gone)):
        delta_debugging.reduce(
            sorted(gone), lambda piece: search.same(replace(search.best, removed=search.best.removed | set(piece)))
        )


def ranks(search: Search) -> None:
    """One rank, then two, then halving; one fewer than the result was tried, so the result is needed."""
    most = search.best.ranks
    if most is None or most == 1:
        return
    few, many = 0, most  # `few` does not fail in this way, `many` does
    for tried in (1, 2):
        if tried < many and few == tried - 1:
            few, many = (few, tried) if _with_ranks(search, tried) else (tried, many)
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if _with_ranks(search, middle) else (middle, many)
    search.needs = many


def _with_ranks(search: Search, count: int) -> bool:
    best = search.best
    if search.same(replace(best, ranks=count)):
        return True
    rank = search.failure.rank
    if rank is None or not 0 < rank < (best.ranks or 1) or rank == count - 1:
        return False
    # what the program does on one rank only, it does on the last one of fewer
    numbers = dict(best.numbers)
    for each in _left(search):
        for part in own_parts(each):
            if isinstance(part, ast.Compare):
                numbers |= {uid(leaf): count - 1 for leaf in ast.walk(part) if _whole_number(leaf) == rank}
    words = tuple(str(count - 1) if word == str(rank) else word for word in best.words)
    return search.same(replace(best, ranks=count, numbers=tuple(sorted(numbers.items())), words=words))


def slices(search: Search) -> None:
    """Only what the failing lines need by name, first without statements that change an object, then with them."""
    for mutators in (False, True):
        wanted = search.names.slice_of(search.kept, mutators=mutators)
        gone = {uid(each) for each in _left(search) if uid(each) not in wanted}
        if not gone or search.same(replace(search.best, removed=search.best.removed | gone)):
            search.sliced = True
            return


def records(search: Search) -> None:
    """The lines of files that the program reads: halves first, then less."""
    for path, lines in search.data.items():
        left = list(range(len(lines)))

        def goes(piece: list[int], path: str = path, left: list[int] = left) -> bool:
            now = [each for each in left if each not in set(piece)]
            others = dict(search.best.records)
            if not search.same(replace(search.best, records=tuple(sorted({**others, path: tuple(now)}.items())))):
                return False
            left[:] = now
            return True

        delta_debugging.reduce(list(left), goes, min(delta_debugging.UNKNOWN, 2 / len(lines)))


def arguments(search: Search) -> None:
    """Options with their values, all of them first."""
    words = search.best.words
    if not words:
        return
    groups: list[tuple[str, ...]] = []
    for word in words:
        if word.startswith("-") or not groups or len(groups[-1]) > 1 or not groups[-1][0].startswith("-"):
            groups.append((word,))
        else:
            groups[-1] += (word,)
    numbered = list(enumerate(groups))
    out: set[int] = set()

    def goes(piece: list[tuple[int, tuple[str, ...]]]) -> bool:
        tried = out | {number for number, _ in piece}
        left = tuple(word for number, group in numbered if number not in tried for word in group)
        if search.same(replace(search.best, words=left)):
            out.update(tried)
            return True
        return False

    if not goes(numbered):
        delta_debugging.reduce(numbered, goes)


def statements(search: Search) -> None:
    """Statements by delta debugging, from the outside to the inside, until nothing more goes."""
    chance = delta_debugging.LIKELY if search.sliced else delta_debugging.UNKNOWN
    before = None
    while before != search.best.removed:
        before = search.best.removed
        for level in range(12):
            here = [
                uid(each) for each in _left(search) if _depth(search, each) == level and uid(each) not in search.kept
            ]
            delta_debugging.reduce(here, lambda piece: _without(search, piece), chance)


def _without(search: Search, piece: list[Node]) -> bool:
    new = set(piece) - search.best.removed
    return not new or search.same(replace(search.best, removed=search.best.removed | new))


def wrappers(search: Search) -> None:
    """`with`, `try` and `if` whose body can stand alone. Never the condition under which it fails."""
    for each in list(_left(search)):
        if isinstance(each, WRAPS) and uid(each) not in search.kept:
            search.same(replace(search.best, unwrapped=search.best.unwrapped | {uid(each)}))


def numbers(search: Search) -> None:
    """Whole numbers. Equal ones change together and none overtakes another, so what fits stays fitting."""
    found: dict[int, list[Node]] = {}
    for each in _left(search):
        for leaf in own_parts(each):
            if (value := _whole_number(leaf) or 0) > SMALL:
                found.setdefault(value, []).append(uid(leaf))
    small = {value: SMALL + place for place, value in enumerate(sorted(found))}
    if all(value == small[value] for value in small) or _with_numbers(search, found, small):
        return
    now = {value: value for value in found}
    for value in sorted(found, reverse=True):
        below = max([SMALL - 1, *(other for other in now.values() if other < value)])
        for tried in (below + 1, (below + 1 + value) // 2):
            if tried < value and _with_numbers(search, found, {**now, value: tried}):
                now[value] = tried
                break


def _with_numbers(search: Search, found: dict[int, list[Node]], new: dict[int, int]) -> bool:
    merged = dict(search.best.numbers)
    merged |= {node: new[value] for value, nodes in found.items() for node in nodes if new[value] != value}
    return search.same(replace(search.best, numbers=tuple(sorted(merged.items()))))


def variables(search: Search) -> None:
    """Variables of the environment: all but those that any program needs."""
    names = sorted(name for name in search.env if name not in STAYS and not name.startswith("LC_"))

    def goes(piece: list[str]) -> bool:
        return search.same(replace(search.best, unset=search.best.unset | set(piece)))

    if names and not goes(names):
        delta_debugging.reduce(names, goes)


def _left(search: Search) -> Iterator[ast.stmt]:
    gone = set(search.best.removed)
    return (each for each in list(search.program.statements()) if not _gone(search, each, gone))


def _gone(search: Search, node: ast.stmt, gone: set[Node]) -> bool:
    return uid(node) in gone or any(uid(each) in gone for each in search.program.above(node))


def _depth(search: Search, node: ast.stmt) -> int:
    return sum(isinstance(each, ast.stmt) for each in search.program.above(node))


def _is_star(node: ast.Import | ast.ImportFrom) -> bool:
    return any(each.name == "*" or getattr(node, "module", "") == "__future__" for each in node.names)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _whole_number(node: ast.AST) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


ALL: tuple[Callable[[Search], None], ...] = (
    never_executed,
    ranks,
    slices,
    records,
    arguments,
    statements,
    wrappers,
    numbers,
    variables,
)

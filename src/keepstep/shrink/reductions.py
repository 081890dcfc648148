# SPDX-License-Identifier: Apache-2.0
"""What can be made smaller, in the order of what it gains per second of trials."""

from __future__ import annotations

import ast
import glob
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from keepstep.shrink import delta_debugging
from keepstep.shrink.going_on import reads
from keepstep.shrink.names import loop_of
from keepstep.shrink.options_and_parameters import options_as_constants, parameters
from keepstep.shrink.own_waits import shorter_waits
from keepstep.shrink.program import SCOPES, Edits, Node, own_parts, uid
from keepstep.shrink.search import Search

SMALL = 2
IMPORTS = (ast.Import, ast.ImportFrom)
WRAPS = (ast.With, ast.Try, ast.If)
LOOPS = (ast.For, ast.While)
STAYS = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH", "TMPDIR", "USER")
DEVICES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/accel*")
OF_COLLECTIVES = "sync."
TELLS_APART = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
HALVINGS = 4
PATIENCE = 5
"""After so many refusals in a row a reduction that is tried one by one, or on data, ends."""
TALK = ("print", "pprint")
TALK_OF = ("debug", "info", "warning", "warn", "error", "log", "print")
LOGGERS = re.compile("log|warnings|console|logger", re.IGNORECASE)
CHAIN = 3
"""So many statements that fail for want of what is gone are tried away with it."""
STUBBORN, AT_LAST = 5, 3
"""The same where many are tried at once: what is left is tried again later, in another order, and then for less."""
IN_VAIN = 10
"""After so many trials in a row that all were refused, a reduction of statements ends."""
LEAST_GAIN = 1
"""Lines that must go with an expression, or it is not worth a trial."""


def at_once(search: Search) -> None:
    """What most programs can do without, in one trial: what no rank ran, all variables, all ranks but one."""
    best, idle = search.best, _never_executed(search) | _talk(search)
    gone = best.removed | _together(search, sorted(idle))
    less = replace(best, removed=gone, unset=best.unset | set(_variables(search)))
    if (best.ranks or 1) > 1 and not _takes_several(search) and search.same(_as_many(search, less, 1)):
        return
    search.same(less)


def never_executed(search: Search) -> None:
    """Statements, functions that nobody called, documentation, unused imports."""
    _reduce(search, sorted(_never_executed(search)))


def _never_executed(search: Search) -> set[Node]:
    program = search.program
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
        if not search.is_gone(each, gone) and not isinstance(each, IMPORTS)
        for name in search.names.uses[uid(each)]
    }
    for each in program.statements():
        if isinstance(each, SCOPES) and uid(each) in gone and each.name in used:
            gone.discard(uid(each))  # only its body goes
        if isinstance(each, IMPORTS) and uid(each) not in search.kept and not _is_star(each):
            idle = [name for name in each.names if (name.asname or name.name).partition(".")[0] not in used]
            gone |= {uid(each)} if len(idle) == len(each.names) else set(map(uid, idle))
    return gone


def _talk(search: Search) -> set[Node]:
    """What only prints, logs or asserts."""
    found = set()
    for each in search.program.statements():
        called = each.value.func if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) else None
        owner = getattr(called, "value", None)
        talks = getattr(called, "id", "") in TALK or (
            getattr(called, "attr", "") in TALK_OF and LOGGERS.search(getattr(owner, "id", getattr(owner, "attr", "")))
        )
        if (talks or isinstance(each, ast.Assert)) and uid(each) not in search.kept:
            found.add(uid(each))
    return found


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


def _takes_several(search: Search) -> bool:
    """Whether ranks wait for each other, or do not agree: one rank alone is tried as a proof only."""
    return search.failure.verdict == "hung" or search.failure.cause.startswith(OF_COLLECTIVES)


def _with_ranks(search: Search, count: int) -> bool:
    best = search.best
    plain, moved = replace(best, ranks=count), _as_many(search, best, count)
    if count == 1 and _takes_several(search):
        return search.same(plain)  # what the failing rank did would last for ever, without others to notice
    return search.same(moved) or (plain != moved and search.same(plain))


def _as_many(search: Search, edits: Edits, count: int) -> Edits:
    """With fewer ranks: what the program does on the failing rank only, it does on the last one."""
    rank = search.failure.rank
    if rank is None or not 0 < rank < (edits.ranks or 1) or rank == count - 1:
        return replace(edits, ranks=count)
    numbers = dict(edits.numbers)
    for each in search.program.statements():
        for part in own_parts(each):
            numbers |= {uid(leaf): count - 1 for leaf in _compared(part) if _whole_number(leaf) == rank}
    words = tuple(str(count - 1) if word == str(rank) else word for word in edits.words)
    return replace(edits, ranks=count, numbers=tuple(sorted(numbers.items())), words=words)


def _compared(node: ast.AST) -> Iterator[ast.AST]:
    """What a name is compared with: `1` of `rank == 1` and of `rank in (1, 3)`, not of `(step + 1) % 4 == 0`."""
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    if isinstance(node, ast.Compare) and not all(isinstance(each, TELLS_APART) for each in node.ops):
        return  # `world > 2` says how many there must be
    if any(isinstance(each, (ast.Name, ast.Attribute, ast.Call)) for each in sides):
        for each in sides:
            yield from each.elts if isinstance(each, (ast.Tuple, ast.List, ast.Set)) else [each]


def device(search: Search) -> None:
    """Does it fail on the CPU, where there is something else?"""
    if search.on_cpu is None and any(map(glob.glob, DEVICES)):
        search.on_cpu = search.same(replace(search.best, on_cpu=True))


def slices(search: Search) -> None:
    """Only what the failing lines need by name, or by what starts them, or writes files if they read some; what else
    is needed is learned from how that fails."""
    needs = search.kept | search.starts
    wanted = search.names.slice_of(needs, mutators=False)
    if any(reads(each) for each in search.left() if uid(each) in wanted):
        wanted = search.names.slice_of(needs | search.writes, mutators=False)
    _reduce(search, [uid(each) for each in _open_to_trial(search) if uid(each) not in wanted])


def records(search: Search) -> None:
    """The lines of files that the program reads: halves first, then less."""
    for path, lines in search.data.items():
        refused = 0
        left = list(range(len(lines)))

        def goes(piece: list[int], path: str = path, lines: list[str] = lines, left: list[int] = left) -> bool:
            nonlocal refused
            if refused == PATIENCE + len(lines).bit_length():  # it takes so many to find one line that is needed
                return False
            now = [each for each in left if each not in set(piece)]
            others = dict(search.best.records)
            if not search.same(replace(search.best, records=tuple(sorted({**others, path: tuple(now)}.items())))):
                refused += 1
                return False
            left[:], refused = now, 0
            return True

        delta_debugging.reduce(list(left), goes)


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

    delta_debugging.reduce(numbered, goes)


def statements(search: Search) -> None:
    """Statements, from the outside to the inside."""
    tried = set(search.kept)
    while True:
        open_to_trial = [uid(each) for each in _open_to_trial(search) if uid(each) not in tried]
        here = [node for node in open_to_trial if not _within(search, node, set(open_to_trial))]
        if not here:
            return
        tried |= set(here)
        _reduce(search, here)


def once_more(search: Search) -> None:
    """What was needed while more was there: all of it first."""
    left = [uid(each) for each in reversed(list(_open_to_trial(search))) if uid(each) not in search.kept]
    _reduce(search, left, AT_LAST)


def _reduce(search: Search, nodes: list[Node], patience: int = STUBBORN) -> None:
    refused = 0

    def goes(piece: list[Node]) -> bool:
        nonlocal refused
        if (
            refused < patience
            and search.in_vain < IN_VAIN
            and not (together := _together(search, piece)) <= search.best.removed
        ):
            went = _with_what_follows(search, _without(search, together))
            refused = 0 if went else refused + 1
        return set(piece) <= search.best.removed

    nodes = [node for node in nodes if node not in search.needed and search.allowed(_without(search, [node]))]
    delta_debugging.reduce(nodes, goes, lambda piece, depth: search.suspects(set(piece), depth))


def _together(search: Search, nodes: list[Node]) -> set[Node]:
    """Of these as many as may go in one trial: some may go alone, but not with the others."""
    found: set[Node] = set()

    def goes(piece: list[Node]) -> bool:
        allowed = search.allowed(_without(search, found.union(piece)))
        found.update(piece if allowed else ())
        return allowed

    delta_debugging.reduce(nodes, goes)
    return found


def _with_what_follows(search: Search, edits: Edits) -> bool:
    """Whether it is the same failure, or becomes it once the statements go at which the trial failed instead."""
    if search.same(edits):
        return True
    failed = search.last
    for _ in range(CHAIN):
        at = search.failed_at()
        if at is None or at in edits.removed:
            break
        edits = replace(edits, removed=edits.removed | {at})
        if not search.allowed(edits):
            break
        if search.same(edits):
            return True
    search.last = failed
    return False


def _without(search: Search, piece: Iterable[Node]) -> Edits:
    return replace(search.best, removed=search.best.removed | set(piece))


def wrappers(search: Search) -> None:
    """`with`, `try`, `if` and loops whose body can stand alone, once. Never the condition under which it fails, or
    under which something that the failing line needs comes about: in one of many steps, of one of many values."""
    left = list(search.left())
    found = [uid(each) for each in left if isinstance(each, WRAPS) and uid(each) not in search.kept]
    found = [each for each in found if not _chooses(search, search.program.nodes[each])]
    found += [uid(each) for each in left if isinstance(each, LOOPS) and _may_run_once(search, each, left)]
    delta_debugging.reduce(
        found, lambda piece: search.same(replace(search.best, unwrapped=search.best.unwrapped | set(piece)))
    )


def _chooses(search: Search, node: ast.AST) -> bool:
    """Whether it decides, more than once, about what the failing line needs."""
    if not isinstance(node, ast.If) or uid(node) not in search.feeding:
        return False
    now = search.program.replaced(node, search.best)
    return (uid(node)[0], node.lineno) in search.again and not isinstance(now.test, ast.Constant)  # type: ignore[attr-defined]


def _may_run_once(search: Search, loop: ast.For | ast.While, left: list[ast.stmt]) -> bool:
    """Whether nothing within it needs to know that it is a loop."""
    inside = [each for each in left if loop in search.program.above(each)]
    leaves = [each for each in inside if isinstance(each, (ast.Break, ast.Continue))]
    own = [each for each in leaves if loop_of(search.program, each) is loop]
    return not own and uid(loop) not in search.best.unwrapped


def parts(search: Search) -> None:
    """A part in place of an expression: `net` for `wrapped(net)`, `x` for `x + block(x)`, where more goes with it."""
    refused = 0
    tried: set[tuple[tuple[Node, Node] | None, Node]] = set()
    while True:
        for part in _gainful(search, tried):
            tried.add(part)
            if search.same(_with_part(search, *part)):
                refused = 0
                break  # others gain something else now
            refused += 1
            if refused == PATIENCE:
                return
        else:
            return


def _gainful(
    search: Search, tried: set[tuple[tuple[Node, Node] | None, Node]]
) -> list[tuple[tuple[Node, Node] | None, Node]]:
    """Those with which lines go, the largest gain first."""
    gains = []
    for number, part in enumerate(_parts(search)):
        if part not in tried and (closed := search.names.closed(_with_part(search, *part), search.kept)) is not None:
            gain = sum(_height(search, node) for node in closed.removed - search.best.removed)
            if gain >= LEAST_GAIN:
                gains.append((-gain, number, part))
    return [part for _, _, part in sorted(gains, key=lambda each: each[:2])]


def _with_part(search: Search, pair: tuple[Node, Node] | None, gone: Node) -> Edits:
    best = search.best
    if pair is None:
        return replace(best, removed=best.removed | {gone})
    return replace(best, replaced=(*best.replaced, pair))


def _parts(search: Search) -> Iterator[tuple[tuple[Node, Node] | None, Node]]:
    """An expression, and a part of it that may stand in its place; or what a call gives by name, and may do without."""
    done = dict(search.best.replaced)
    for each in search.left():
        if uid(each) in search.kept or isinstance(each, (*IMPORTS, *SCOPES)):
            continue
        feeds = uid(each) in search.feeding
        matters = feeds and search.failure.is_of_values
        for part in own_parts(each):
            given = isinstance(part, ast.keyword) and part.arg is not None and uid(part) not in search.best.removed
            if given and not (matters and search.numbers_in.is_one(part.value)):  # type: ignore[attr-defined]
                yield None, uid(part)
            if not isinstance(part, ast.expr) or uid(part) in done:
                continue
            inner: list[ast.expr] = []
            if isinstance(part, ast.Call):
                inner = [each for each in part.args[:1] if not isinstance(each, (ast.Starred, ast.Constant))]
            elif isinstance(part, ast.BinOp):
                inner = [part.left, part.right]
            elif isinstance(part, ast.IfExp) and not feeds:
                inner = [part.body, part.orelse]
            inner = [one for one in inner if not (matters and search.numbers_in.is_one(one))]
            yield from (((uid(part), uid(one)), uid(part)) for one in inner)


def _with_parts(search: Search, pairs: list[tuple[Node, Node]]) -> bool:
    return search.same(replace(search.best, replaced=(*search.best.replaced, *pairs)))


def _height(search: Search, node: Node) -> int:
    """Lines that go with it."""
    gone = search.program.nodes[node]
    return (gone.end_lineno or 0) - gone.lineno + 1 if isinstance(gone, ast.stmt) else 0


def all_numbers(search: Search) -> None:
    """All whole numbers at once, or else those that something is compared with: shorter trials from here on."""
    found = _numbers(search)
    if not _with_numbers(search, found, _smaller(sorted(found), set(found))):
        found = _numbers(search, compared=True)
        _with_numbers(search, found, _smaller(sorted(found), set(found)))


def numbers(search: Search) -> None:
    """Whole numbers. Equal ones change together, none overtakes another, and powers of two take the place of what is
    divided: what fits stays fitting."""
    found = _numbers(search)
    changed: set[int] = set()

    def goes(piece: list[int]) -> bool:
        new = _smaller(sorted(found), changed | set(piece))
        if all(new[value] == value for value in piece) or _with_numbers(search, found, new):
            changed.update(piece)
            return True
        return False

    stays = delta_debugging.reduce(sorted(found, reverse=True), goes)
    now = _smaller(sorted(found), changed)
    for _ in range(HALVINGS):
        new = dict(now)
        for value in stays:
            below = max([SMALL - 1, *(other for other in new.values() if other < new[value])])
            new[value] = max(below + 1, new[value] // 2)
        if new == now or not _with_numbers(search, found, new):
            return
        now = new


def _numbers(search: Search, *, compared: bool = False) -> dict[int, list[Node]]:
    """What is a size, with the places where it stands; ``compared``: what a number, as that of a step, is held to."""
    found: dict[int, list[Node]] = {}
    for each in search.left():
        if not _is_no_size(each):
            parts = list(own_parts(search.program.replaced(each, search.best)))
            sides = [side for part in parts if isinstance(part, ast.Compare) for side in (part.left, *part.comparators)]
            for leaf in sides if compared else parts:
                if (value := _value(search, leaf) or 0) > SMALL:
                    found.setdefault(value, []).append(uid(leaf))
    return found


def _smaller(values: list[int], changed: set[int]) -> dict[int, int]:
    """The next power of two above the number before, for those that are changed."""
    new: dict[int, int] = {}
    last = SMALL - 1
    for value in values:
        last = new[value] = min(value, 1 << last.bit_length()) if value in changed else value
    return new


def _with_numbers(search: Search, found: dict[int, list[Node]], new: dict[int, int]) -> bool:
    merged = dict(search.best.numbers)
    merged |= {node: new[value] for value, nodes in found.items() for node in nodes if new[value] != value}
    if merged == dict(search.best.numbers):
        return True
    return search.same(replace(search.best, numbers=tuple(sorted(merged.items()))))


def _is_no_size(node: ast.stmt) -> bool:
    """Whether its numbers are a seed or a port."""
    names = {each.lower() for each in map(_name_of, own_parts(node)) if each}
    return any("seed" in name or "port" in name.split("_") for name in names)


def _name_of(node: ast.AST) -> str | None:
    return (
        getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None)
        if isinstance(node, (ast.Name, ast.Attribute, ast.keyword, ast.arg))
        else None
    )


def variables(search: Search) -> None:
    """Variables of the environment: all but those that any program needs."""
    names = [name for name in _variables(search) if name not in search.best.unset]
    delta_debugging.reduce(names, lambda piece: search.same(replace(search.best, unset=search.best.unset | set(piece))))
    search.variables_tried = True


def is_chosen(variable: str) -> bool:
    """Whether programs can do without it in general."""
    return variable not in STAYS and not variable.startswith("LC_")


def _variables(search: Search) -> list[str]:
    return sorted(name for name in search.env if is_chosen(name))


def _open_to_trial(search: Search) -> Iterator[ast.stmt]:
    """All but imports: one goes with the last that uses it; to take it away is to take all its users away."""
    return (each for each in search.left() if not isinstance(each, IMPORTS))


def _within(search: Search, node: Node, nodes: set[Node]) -> bool:
    return any(uid(each) in nodes for each in search.program.above(search.program.nodes[node]))


def _is_star(node: ast.Import | ast.ImportFrom) -> bool:
    return any(each.name == "*" or getattr(node, "module", "") == "__future__" for each in node.names)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _value(search: Search, node: ast.AST) -> int | None:
    """A whole number as it is now."""
    value = _whole_number(node)
    return None if value is None else dict(search.best.numbers).get(uid(node), value)


def _whole_number(node: ast.AST) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


ALL: tuple[Callable[[Search], None], ...] = (
    at_once,
    never_executed,
    options_as_constants,
    shorter_waits,
    ranks,
    device,
    all_numbers,
    slices,
    parameters,
    parts,
    statements,
    arguments,
    wrappers,
    parameters,
    records,
    numbers,
    variables,
    once_more,
)

# SPDX-License-Identifier: Apache-2.0
"""The user's program as syntax trees, and a candidate: the edits that make a smaller program of it.

A node is named by its file and its number in the original tree, so edits are plain data and can be kept. What a
candidate leaves as it was keeps its formatting, and every line of it knows the line that it comes from.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from keepstep.shrink.folded import folded

Node = tuple[str, int]
"""A file, and the number of a node in it."""
Place = tuple[str, int]
"""A file, and the first line of a statement in it, in the original program."""
BODIES = ("body", "orelse", "finalbody")
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Edits:
    """What a candidate changes."""

    removed: frozenset[Node] = frozenset()
    """Statements; and names of imports, parameters of functions and what calls give for them."""
    unwrapped: frozenset[Node] = frozenset()
    """Compound statements of which only the body stays."""
    replaced: tuple[tuple[Node, Node], ...] = ()
    """Expressions in whose place stands another one of the program: a part of it, or what it always is."""
    numbers: tuple[tuple[Node, int], ...] = ()
    words: tuple[str, ...] = ()
    """The script's arguments."""
    ranks: int | None = None
    unset: frozenset[str] = frozenset()
    """Variables that are no longer set."""
    on_cpu: bool = False
    """No accelerator is seen."""
    records: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Of files that the program reads: the lines that are left."""

    def as_json(self) -> dict[str, object]:
        return {
            "removed": sorted(self.removed),
            "unwrapped": sorted(self.unwrapped),
            "replaced": list(self.replaced),
            "numbers": list(self.numbers),
            "words": list(self.words),
            "ranks": self.ranks,
            "unset": sorted(self.unset),
            "on_cpu": self.on_cpu,
            "records": list(self.records),
        }

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Edits:
        return cls(
            removed=frozenset(map(tuple, said["removed"])),
            unwrapped=frozenset(map(tuple, said["unwrapped"])),
            replaced=tuple((tuple(node), tuple(other)) for node, other in said["replaced"]),
            numbers=tuple((tuple(node), value) for node, value in said["numbers"]),
            words=tuple(said["words"]),
            ranks=said["ranks"],
            unset=frozenset(said["unset"]),
            on_cpu=said["on_cpu"],
            records=tuple((path, tuple(left)) for path, left in said["records"]),
        )


@dataclass
class Rendered:
    """The text of a file, and the origin of each of its lines."""

    lines: list[str] = field(default_factory=list)
    origins: list[Place | None] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def add(self, lines: Iterable[str], origin: Place | None) -> None:
        for line in lines:
            self.lines.append(line)
            self.origins.append(origin)


class Program:
    """The original files, by absolute path."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Raises SyntaxError."""
        self.texts = dict(texts)
        self.trees = {path: ast.parse(text) for path, text in texts.items()}
        self.nodes: dict[Node, ast.AST] = {}
        self.parents: dict[Node, Node | None] = {}
        for path, tree in self.trees.items():
            for number, node in enumerate(ast.walk(tree)):
                node.uid = (path, number)  # type: ignore[attr-defined]
                self.nodes[path, number] = node
            for node in ast.walk(tree):
                for child in ast.iter_child_nodes(node):
                    self.parents[uid(child)] = uid(node)

        self.whole_numbers: dict[Node, int] = {
            name: node.value
            for name, node in self.nodes.items()
            if isinstance(node, ast.Constant) and type(node.value) is int
        }

    def statements(self) -> Iterator[ast.stmt]:
        """All statements, in the order of the text."""
        for tree in self.trees.values():
            yield from _inner(tree)

    def statement_at(self, path: str, line: int) -> ast.stmt | None:
        """The innermost statement that has this line in its own part: a header, not a body."""
        found = None
        for each in _inner(self.trees[path]) if path in self.trees else ():
            if each.lineno <= line <= (each.end_lineno or each.lineno):
                found = each
        return found

    def node(self, name: Node) -> ast.AST:
        """A node of the program, or a literal."""
        if not name[0].startswith("="):
            return self.nodes[name]
        made = ast.parse(name[0][1:], mode="eval").body
        made.uid = name  # type: ignore[attr-defined]
        return made

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around one, from the inside."""
        at = self.parents.get(uid(node))
        while at is not None:
            yield self.nodes[at]
            at = self.parents.get(at)

    def made(self, edits: Edits) -> dict[str, Rendered]:
        """The files of a candidate."""
        return {path: self._file(path, edits) for path in self.trees}

    def _file(self, path: str, edits: Edits) -> Rendered:
        out = Rendered()
        changed = (*edits.removed, *edits.unwrapped, *dict(edits.numbers), *dict(edits.replaced))
        if not any(node[0] == path for node in changed):
            for number, line in enumerate(self.texts[path].splitlines(), 1):
                at = self.statement_at(path, number)
                out.add([line], (path, at.lineno) if at is not None else None)
            return out
        _Writer(self, path, edits, out).body(self.trees[path].body, 0)
        return out

    def replaced(self, node: ast.stmt, edits: Edits) -> ast.stmt:
        """A copy with other expressions in the place of those that are replaced, without parameters that are gone."""
        changed = _Replacement(self.node, dict(edits.replaced), edits.removed)
        return changed.visit(copy.deepcopy(node))  # type: ignore[no-any-return]


def uid(node: ast.AST) -> Node:
    return node.uid  # type: ignore[attr-defined,no-any-return]


def bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements within a statement."""
    for name in BODIES:
        found = getattr(node, name, None)
        if isinstance(found, list) and found and isinstance(found[0], ast.stmt):
            yield found
    for each in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield each.body


def name_called(node: ast.AST) -> str:
    """`save` of `torch.save(model)`; nothing of what is no call by a name."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", ""))) if isinstance(node, ast.Call) else ""


def own_parts(node: ast.stmt) -> Iterator[ast.AST]:
    """All nodes of a statement but those of the statements within it."""
    within = {id(each) for body in bodies(node) for each in body}
    waiting: list[ast.AST] = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [child for child in ast.iter_child_nodes(each) if id(child) not in within]


def _inner(node: ast.AST) -> Iterator[ast.stmt]:
    for body in bodies(node):
        for each in body:
            yield each
            yield from _inner(each)


def _apart(before: ast.stmt, after: ast.stmt, indent: int) -> int:
    """How many lines are left blank between two statements."""
    if isinstance(before, SCOPES) or isinstance(after, SCOPES):
        return 1 if indent else 2
    imports = [isinstance(each, (ast.Import, ast.ImportFrom)) for each in (before, after)]
    return int(imports[0] and not imports[1])


def literal(value: object) -> Node:
    """A constant that stands nowhere in the program, to replace an expression."""
    return (f"={value!r}", 0)


def _has_long_text(node: ast.stmt) -> bool:
    """Text of several lines, where white space counts."""
    return any(isinstance(each, ast.Constant) and "\n" in str(each.value) for each in ast.walk(node))


class _Replacement(ast.NodeTransformer):
    def __init__(self, node: Callable[[Node], ast.AST], replaced: Mapping[Node, Node], removed: Set[Node]) -> None:
        self._node, self._replaced, self._removed = node, replaced, removed

    def visit(self, node: ast.AST) -> Any:
        other = self._replaced.get(getattr(node, "uid", ("", -1)))
        return self.visit(copy.deepcopy(self._node(other))) if other is not None else super().visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        known = isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Constant)
        return ast.copy_location(ast.Constant(not node.operand.value), node) if known else node  # type: ignore[attr-defined]

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.test, ast.Constant):
            return node
        return node.body if node.test.value else node.orelse

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        idle = isinstance(node.op, ast.And)  # `True and x`, `None or x`
        while len(node.values) > 1 and isinstance(node.values[0], ast.Constant) and bool(node.values[0].value) == idle:
            del node.values[0]
        return node if len(node.values) > 1 else node.values[0]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.args = [each for each in node.args if uid(each) not in self._removed]
        node.keywords = [each for each in node.keywords if uid(each) not in self._removed]
        return self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        plain = [*node.posonlyargs, *node.args]
        defaults = dict(zip(map(uid, plain[len(plain) - len(node.defaults) :]), node.defaults, strict=True))
        for kind in ("posonlyargs", "args"):
            setattr(node, kind, [each for each in getattr(node, kind) if uid(each) not in self._removed])
        node.defaults = [defaults[uid(each)] for each in (*node.posonlyargs, *node.args) if uid(each) in defaults]
        pairs = [
            (each, value)
            for each, value in zip(node.kwonlyargs, node.kw_defaults, strict=True)
            if uid(each) not in self._removed
        ]
        node.kwonlyargs, node.kw_defaults = [each for each, _ in pairs], [value for _, value in pairs]
        return self.generic_visit(node)


class _Writer:
    """Writes one file of a candidate."""

    def __init__(self, program: Program, path: str, edits: Edits, out: Rendered) -> None:
        self._program, self._path, self._edits, self._out = program, path, edits, out
        self._source, self._numbers = program.texts[path].splitlines(), dict(edits.numbers)
        self._replaced = dict(edits.replaced)

    def body(self, statements: list[ast.stmt], indent: int) -> None:
        """What is left of a list of statements."""
        left = list(self._left(statements))
        for before, each in zip([None, *left], left, strict=False):
            if before is not None:
                self._out.add([""] * _apart(before, each, indent), None)
            self._statement(each, indent)
        if not left and indent:
            self._out.add([" " * indent + "pass"], None)

    def _left(self, statements: list[ast.stmt]) -> Iterator[ast.stmt]:
        for each in statements:
            if uid(each) in self._edits.unwrapped:
                yield from self._left(each.body)  # type: ignore[attr-defined]
            elif uid(each) not in self._edits.removed:
                yield each

    def _statement(self, node: ast.stmt, indent: int) -> None:
        origin = (self._path, node.lineno)
        if not any(bodies(node)) or isinstance(node, ast.Match):
            self._out.add(self._lines(node, indent), origin)
            return
        self._out.add(self._header(node, indent), origin)
        self.body(node.body, indent + 4)  # type: ignore[attr-defined]
        for handler in getattr(node, "handlers", ()):
            head = ast.unparse(ast.ExceptHandler(type=handler.type, name=handler.name, body=[ast.Pass()]))
            self._out.add([" " * indent + head.splitlines()[0]], (self._path, handler.lineno))
            self.body(handler.body, indent + 4)
        for name, word in (("orelse", "else:"), ("finalbody", "finally:")):
            left = list(self._left(getattr(node, name, [])))
            if left:
                self._out.add([" " * indent + word], origin)
                self.body(left, indent + 4)

    def _header(self, node: ast.stmt, indent: int) -> list[str]:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        inner: ast.stmt = node.body[0]  # type: ignore[attr-defined]
        last = min([inner.lineno, *(each.lineno for each in getattr(inner, "decorator_list", ()))]) - 1
        lines = self._source[first - 1 : last]
        while lines and not lines[-1].split("#")[0].strip():
            lines.pop()
        if lines and node.col_offset == indent and not lines[0].startswith("elif", indent) and not self._changed(node):
            return lines
        bare = copy.copy(node)
        bare.body = [ast.Pass()]  # type: ignore[attr-defined]
        for name in ("orelse", "finalbody"):
            if hasattr(bare, name):
                setattr(bare, name, [])
        if isinstance(node, ast.Try):
            return [" " * indent + "try:"]
        text = ast.unparse(ast.fix_missing_locations(self._with_numbers(bare)))
        return [" " * indent + part for line in text.splitlines()[:-1] for part in folded(line, indent)]

    def _lines(self, node: ast.stmt, indent: int) -> list[str]:
        lines = self._source[node.lineno - 1 : node.end_lineno]
        whole = (
            not lines[0][: node.col_offset].strip()
            and not lines[-1].encode()[node.end_col_offset or 0 :].split(b"#")[0].strip()
        )
        if whole and not self._changed(node):
            if node.col_offset == indent:
                return lines
            if len(lines) == 1:
                return [" " * indent + lines[0].strip()]
        text = ast.unparse(self._with_numbers(node))
        if isinstance(node, ast.Match) or _has_long_text(node):
            return [" " * indent + line for line in text.splitlines()]
        return [" " * indent + part for line in text.splitlines() for part in folded(line, indent)]

    def _changed(self, node: ast.stmt) -> bool:
        return any(
            uid(each) in self._numbers
            or uid(each) in self._replaced
            or (each is not node and uid(each) in self._edits.removed)
            for each in own_parts(node)
            if hasattr(each, "uid")
        )

    def _with_numbers(self, node: ast.stmt) -> ast.stmt:
        copied = self._program.replaced(node, self._edits)
        for each in ast.walk(copied):
            if isinstance(each, (ast.Import, ast.ImportFrom)):
                each.names = [name for name in each.names if uid(name) not in self._edits.removed]
            value = self._numbers.get(getattr(each, "uid", ("", -1)))
            if value is not None and isinstance(each, ast.Constant):
                each.value = value
        return copied

# SPDX-License-Identifier: Apache-2.0
"""The text of one file of a program becomes a :class:`Unit`: its calls, its assignments, its functions' skeletons."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from keepstep.parse.code import conditions
from keepstep.parse.code.expressions import NOTHING, Expressions, bound_literal, path
from keepstep.parse.code.reuse import read_again
from keepstep.parse.code.scope import Known, Scope, State
from keepstep.parse.code.unit import (
    SOME,
    UNKNOWN,
    AssignedSeen,
    BlockSeen,
    FunctionSeen,
    HandlerSeen,
    Returned,
    Skeleton,
    Test,
    Unit,
)
from keepstep.parse.code.vocabulary import MAIN_NAMES, is_rank_name

_IGNORED = re.compile(r"#\s*keepstep:\s*ignore(?:\[([A-Z0-9, ]*)\])?")


def read_program(text: str, module: str, *, is_package: bool = False) -> Unit:
    """Read one file. Raises ``SyntaxError``, ``ValueError`` or ``RecursionError`` if it is no Python of this version."""
    tree = ast.parse(text)
    state = State(module, text.encode("utf-8", "replace").split(b"\n"))
    _find_imports(tree, state, module, is_package)
    whole = Scope(f"{module}.<module>")
    reader = Statements(state, whole)
    if "donate_arg" in text:
        _note_reads(tree, state)
    reader.define_all(tree.body)
    reader.block(tree.body)
    state.functions.append(
        FunctionSeen(whole.function, 1, len(state.lines), (), (), (), "", whole.skeleton, tuple(whole.returns))
    )
    while state.later:
        node, outer, name, owner = state.later.pop(0)
        if isinstance(node, ast.ClassDef):
            Statements(state, outer).read_class(node, name)
        else:
            _read_function(node, state, outer, name, owner)
    started = any(not isinstance(each, _DEFINITIONS) for each in tree.body)
    return Unit(
        module,
        state.imports,
        state.classes,
        state.functions,
        state.calls,
        state.assigned,
        state.handlers,
        _ignored(text) if "keepstep:" in text else {},
        started,
        _at_once(tree, module, is_package),
    )


def _note_reads(tree: ast.Module, state: State) -> None:
    state.again.update(read_again(tree.body, state.imports))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            state.again.update(read_again(node.body, state.imports))


def _at_once(tree: ast.Module, module: str, is_package: bool) -> tuple[tuple[str, int], ...]:
    """The names that are imported when the file is, with the lines."""
    parts = module.split(".") if is_package else module.split(".")[:-1]
    found = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            found += [(each.name, node.lineno) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = _imported_from(node, parts)
            found += [(f"{start}.{each.name}" if start else each.name, node.lineno) for each in node.names]
    return tuple(found)


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)


def _ignored(text: str) -> dict[int, tuple[str, ...]]:
    found = {}
    for number, line in enumerate(text.split("\n"), 1):
        comment = _IGNORED.search(line)
        if comment:
            found[number] = tuple(re.findall(r"[A-Z]{3}\d{3}", comment[1] or ""))
    return found


def _find_imports(tree: ast.Module, state: State, module: str, is_package: bool) -> None:
    parts = module.split(".") if is_package else module.split(".")[:-1]
    for node in _statements(tree.body):
        if isinstance(node, ast.Import):
            for each in node.names:
                state.imports[each.asname or each.name.partition(".")[0]] = (
                    each.name if each.asname else each.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            start = _imported_from(node, parts)
            for each in node.names:
                state.imports[each.asname or each.name] = f"{start}.{each.name}" if start else each.name


def _imported_from(node: ast.ImportFrom, parts: list[str]) -> str:
    """The module that names are imported from; ``parts`` are those of the importer's package."""
    base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
    return ".".join(each for each in (base, node.module or "") if each)


def _read_function(node: ast.AST, state: State, outer: Scope, name: str, owner: str) -> None:
    scope = Scope(name, owner, outer)
    reader = Statements(state, scope)
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    if owner and named and named[0].arg in ("self", "cls"):
        named = named[1:]
    for index, each in enumerate(named):
        made = reader.value(each.annotation).made if each.annotation is not None else ""
        scope.names[each.arg] = Known(
            made=made,
            rank=is_rank_name(each.arg),
            ranked=is_rank_name(each.arg) or each.arg in MAIN_NAMES,
            test=conditions.FIRST_ONLY if each.arg in MAIN_NAMES else None,
            parameter=index,
        )
    decorators: tuple[str, ...] = ()
    decorated: tuple[str, ...] = ()
    if isinstance(node, ast.Lambda):
        known = reader.value(node.body)
        scope.returns.append(Returned(known.test, known.rank, known.functions, known.ranked, known.made))
    else:
        decorators = tuple(_decorator(each, reader) for each in node.decorator_list)
        decorated = tuple(state.long_text(each) for each in node.decorator_list)
        reader.define_all(node.body)
        reader.block(node.body)
    state.functions.append(
        FunctionSeen(
            name,
            node.lineno,
            node.end_lineno or node.lineno,
            tuple(each.arg for each in named),
            _defaults(given, [each.arg for each in named]),
            decorators,
            owner,
            scope.skeleton,
            tuple(scope.returns),
            decorated,
        )
    )


def _defaults(given: ast.arguments, names: list[str]) -> tuple[tuple[int, Test], ...]:
    positional = [each.arg for each in (*given.posonlyargs, *given.args)]
    pairs = [
        *zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True),
        *((each.arg, value) for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)),
    ]
    found = []
    for name, value in pairs:
        literal = _plain(value)
        if literal is not None and name in names:
            found.append((names.index(name), bound_literal(literal)))
    return tuple(found)


def _plain(node: ast.expr | None) -> str | None:
    """The literal of a truth value or a number, also a negative one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return f"-{node.operand.value!r}" if isinstance(node.operand.value, int) else None
    return repr(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, bool | int) else None


def _decorator(node: ast.expr, reader: Statements) -> str:
    """The decorator's name; that of ``partial(jax.jit, ...)`` is ``jax.jit``."""
    if isinstance(node, ast.Call):
        known = reader.value(node.func)
        if known.made in ("functools.partial", "partial") and node.args:
            return reader.value(node.args[0]).made
        return known.made
    return reader.value(node).made


class Statements(Expressions):
    """Reads statements, one after the other."""

    def define_all(self, body: Sequence[ast.stmt]) -> None:
        """The functions and classes of a block: they are known before they are read."""
        for node in _definitions(body):
            inside = self.scope.function.removesuffix(".<module>")
            path = f"{inside}.{node.name}"
            self.scope.define(node.name, Known(made=path, functions=(path,)))
            self.state.later.append((node, self.scope, path, ""))

    def read_class(self, node: ast.ClassDef, path: str) -> None:
        """What its objects hold, which all methods know; then the methods."""
        self.state.classes[path] = tuple(self.value(base).made for base in node.bases)
        shared = Scope(path, path, self.scope)
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        methods.sort(key=lambda each: each.name not in ("__init__", "setup", "build", "__post_init__"))
        inner = Statements(self.state, shared)
        inner.block([each for each in node.body if isinstance(each, ast.Assign | ast.AnnAssign)])
        for name, known in list(shared.names.items()):
            shared.names[f"self.{name}"] = known
        for method in methods:
            _note_attributes(method, Statements(self.state, Scope("", path, shared)), shared)
        for method in methods:
            self.state.later.append((method, shared, f"{path}.{method.name}", path))

    def block(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            getattr(self, f"_{type(node).__name__}", self._expressions_of)(node)

    def _inside(self, block: BlockSeen, body: Sequence[ast.stmt]) -> Skeleton:
        """Read a block, and return what is to be kept of it."""
        before, self.scope.skeleton = self.scope.skeleton, []
        self.scope.within.append(block)
        try:
            self.block(body)
            return self.scope.skeleton
        finally:
            self.scope.within.pop()
            self.scope.skeleton = before

    def _expressions_of(self, node: ast.stmt) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)

    def _FunctionDef(self, node: ast.FunctionDef) -> None:
        """Read later, see define_all."""

    _AsyncFunctionDef = _ClassDef = _Import = _ImportFrom = _Global = _Nonlocal = _Pass = _FunctionDef  # type: ignore

    def _Assign(self, node: ast.Assign) -> None:
        first = len(self.state.calls)
        if isinstance(node.value, ast.Tuple) and all(_fits(each, node.value) for each in node.targets):
            parts = [self.value(each) for each in node.value.elts]
            for target in node.targets:
                assert isinstance(target, ast.Tuple)
                for each, part, given in zip(target.elts, parts, node.value.elts, strict=True):
                    self._set(each, part, given, "")
            return
        known = self.value(node.value)
        for target in node.targets:
            self._set(target, known, node.value, "")
        if isinstance(node.value, ast.Call) and len(self.state.calls) > first:
            last = self.state.calls[-1]
            self.state.calls[-1] = last._replace(assigned=self.state.text(node.targets[0]))

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._set(node.target, self.value(node.value), node.value, "")

    def _AugAssign(self, node: ast.AugAssign) -> None:
        known = self.value(node.value)
        self._assigned(node.target, known, node.value, type(node.op).__name__)

    def _set(self, target: ast.expr, known: Known, value: ast.expr, operator: str) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for index, each in enumerate(target.elts):
                part = Known(made=path(known.made, f"[{index}]"), functions=known.functions)
                self._set(each.value if isinstance(each, ast.Starred) else each, part, value, operator)
            return
        if isinstance(target, ast.Name):
            if is_rank_name(target.id) and known.literal is None and not known.ranked:
                known = Known(made=known.made, ranked=True, rank=True, functions=known.functions)
            elif target.id in MAIN_NAMES and not known.ranked and not known.functions:
                known = Known(made=known.made, ranked=True, test=conditions.FIRST_ONLY)
            before = self.scope.names.get(target.id)
            if known.literal is None or before is None or not before.ranked:  # else: for runs with one process
                self.scope.set(target.id, known)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            self.scope.set(f"self.{target.attr}", known)
        self._assigned(target, known, value, operator)

    def _assigned(self, target: ast.expr, known: Known, value: ast.expr, operator: str) -> None:
        on = None
        if isinstance(target, ast.Attribute | ast.Subscript):
            on = self.seen(target.value, self.value(target.value))
        elif (
            not operator and not known.literal and not known.made and not known.ranked and not isinstance(value, _KEPT)
        ):
            return
        self.state.assigned.append(
            AssignedSeen(
                self.state.text(target),
                self.seen(value, known),
                self.scope.function,
                on,
                operator,
                tuple(self.scope.within),
                target.lineno,
                target.col_offset,
            )
        )

    def _If(self, node: ast.If) -> None:
        test, text = self.test(node.test), self.state.text(node.test)
        then = self._inside(BlockSeen("if", node.lineno, text, "", test), node.body)
        otherwise = self._inside(BlockSeen("else", node.lineno, text, "", conditions.negated(test)), node.orelse)
        if then or otherwise:
            self.scope.skeleton.append(("if", node.lineno, text, test, then, otherwise))

    def _For(self, node: ast.For | ast.AsyncFor) -> None:
        known = self.value(node.iter)
        test = SOME if known.ranked else UNKNOWN
        self._set(node.target, Known(made=path(known.made, "[]")), node.iter, "")
        self._loop("for", node, node.iter, known.made, test)

    _AsyncFor = _For

    def _While(self, node: ast.While) -> None:
        self._loop("while", node, node.test, "", self.test(node.test))

    def _loop(self, kind: str, node: ast.For | ast.AsyncFor | ast.While, over: ast.expr, made: str, test: Test) -> None:
        text = self.state.text(over)
        body = self._inside(BlockSeen(kind, node.lineno, text, made, test), node.body)
        if body:
            self.scope.skeleton.append(("loop", node.lineno, text, test, body))
        self.block(node.orelse)

    def _With(self, node: ast.With | ast.AsyncWith) -> None:
        blocks = []
        for item in node.items:
            known = self.value(item.context_expr)
            if item.optional_vars is not None:
                self._set(item.optional_vars, known, item.context_expr, "")
            blocks.append(BlockSeen("with", node.lineno, self.state.text(item.context_expr), known.made, UNKNOWN))
        self.scope.within.extend(blocks)
        self.block(node.body)
        del self.scope.within[len(self.scope.within) - len(blocks) :]

    _AsyncWith = _With

    def _Try(self, node: ast.Try) -> None:
        body = self._inside(BlockSeen("try", node.lineno, "", "", UNKNOWN), node.body)
        handlers = []
        for handler in node.handlers:
            caught = self.state.text(handler.type) if handler.type is not None else ""
            raises = any(isinstance(each, ast.Raise) for each in _statements(handler.body))
            within = tuple(self.scope.within)
            self.state.handlers.append(
                HandlerSeen(caught, self.scope.function, node.lineno, raises, within, handler.lineno)
            )
            handlers.append(self._inside(BlockSeen("except", handler.lineno, caught, "", UNKNOWN), handler.body))
        if body or any(handlers):
            self.scope.skeleton.append(("try", body, handlers, []))
        self.block(node.orelse)
        self.block(node.finalbody)

    _TryStar = _Try

    def _Match(self, node: ast.Match) -> None:
        self.value(node.subject)
        for case in node.cases:
            then = self._inside(BlockSeen("if", node.lineno, "match", "", UNKNOWN), case.body)
            if then:
                self.scope.skeleton.append(("if", node.lineno, "match", UNKNOWN, then, []))

    def _Return(self, node: ast.Return) -> None:
        if node.value is not None:
            known = self.value(node.value)
            if isinstance(node.value, ast.Tuple):
                self.scope.returns.append(Returned(None, False, (), False, known.made))
            else:
                self.scope.returns.append(Returned(known.test, known.rank, known.functions, known.ranked, known.made))
        self._exit("return", node)

    def _Raise(self, node: ast.Raise) -> None:
        self._expressions_of(node)
        self._exit("raise", node)

    def _Break(self, node: ast.Break) -> None:
        self._exit("break", node)

    def _Continue(self, node: ast.Continue) -> None:
        self._exit("continue", node)

    def _exit(self, how: str, node: ast.stmt) -> None:
        self.scope.skeleton.append(("exit", how, node.lineno))


_KEPT = (ast.BinOp, ast.Dict)
"""What is kept though nothing is known of it: sizes, losses and settings are written as they are."""


def _fits(target: ast.expr, value: ast.Tuple) -> bool:
    """Whether each element goes to a variable of its own."""
    return (
        isinstance(target, ast.Tuple)
        and len(target.elts) == len(value.elts)
        and not any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
    )


def _definitions(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The functions and classes of a block, also those under a condition, but not those in others."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
            continue
        for part in _BODIES.get(type(node), ()):
            for each in getattr(node, part):
                yield from _definitions(each.body if part in ("handlers", "cases") else [each])


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a block, with those inside of others."""
    for node in body:
        yield node
        for part in _BODIES.get(type(node), ()):
            inner = getattr(node, part)
            if part in ("handlers", "cases"):
                for each in inner:
                    yield from _statements(each.body)
            else:
                yield from _statements(inner)


_BODIES: dict[type[ast.stmt], tuple[str, ...]] = {
    ast.FunctionDef: ("body",),
    ast.AsyncFunctionDef: ("body",),
    ast.ClassDef: ("body",),
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.AsyncFor: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.With: ("body",),
    ast.AsyncWith: ("body",),
    ast.Try: ("body", "handlers", "orelse", "finalbody"),
    ast.Match: ("cases",),
}


def _note_attributes(method: ast.FunctionDef | ast.AsyncFunctionDef, reader: Statements, shared: Scope) -> None:
    """What a method puts into ``self``: the other methods use it, whichever is read first."""
    calls, assigned, later = len(reader.state.calls), len(reader.state.assigned), len(reader.state.later)
    for each in method.args.args:
        made = reader.value(each.annotation).made if each.annotation is not None else ""
        named = is_rank_name(each.arg)
        reader.scope.names[each.arg] = Known(made=made, rank=named, ranked=named)
    for node in _statements(method.body):
        if isinstance(node, ast.Assign):
            known: Known | None = None
            for target in node.targets:
                if isinstance(target, ast.Name):
                    known = known or reader.value(node.value)
                    reader.scope.set(target.id, known)
                elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    if target.value.id == "self":
                        known = known or reader.value(node.value)
                        if f"self.{target.attr}" not in shared.names or known != NOTHING:
                            shared.set(f"self.{target.attr}", known)
    del reader.state.calls[calls:], reader.state.assigned[assigned:], reader.state.later[later:]

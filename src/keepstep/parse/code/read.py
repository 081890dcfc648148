# SPDX-License-Identifier: Apache-2.0
"""The text of one file of a program becomes a :class:`Unit`: its calls, its assignments, its functions' skeletons."""

from __future__ import annotations

import ast
import re

from keepstep.parse.code import conditions
from keepstep.parse.code.ranks import MAIN_NAMES, is_rank_name
from keepstep.parse.code.read_again import read_again
from keepstep.parse.code.scope import FileState, KnownValue, Scope
from keepstep.parse.code.statements import Statements, returned
from keepstep.parse.code.syntax import statements
from keepstep.parse.code.unit import FunctionSeen, Test, Unit
from keepstep.parse.code.values import bound_literal, is_plain

_IGNORED = re.compile(r"#\s*keepstep:\s*(ignore|off)(?:\[([A-Z0-9, ]*)\])?")
_ON_AGAIN = re.compile(r"#\s*keepstep:\s*on\b")


def read_program(text: str, module: str, *, is_package: bool = False) -> Unit:
    """Read one file. Raises ``SyntaxError``, ``ValueError`` or ``RecursionError`` if it is no Python of this version."""
    tree = ast.parse(text)
    source = text.encode("utf-8", "replace")
    state = FileState(module, source.split(b"\n"))
    find_imports(tree, state, module, is_package)
    whole = Scope(f"{module}.<module>")
    reader = Statements(state, whole)
    if "donate_arg" in text:
        state.again = read_again(tree, state.imports)
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
        switched_off(text),
        started,
        imported_at_once(tree, module, is_package),
        state.blocks,
        state.tables,
        source,
        state.held,
    )


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)


def switched_off(text: str) -> dict[int, tuple[str, ...]]:
    """By line: ``ignore`` is for its own line, ``off`` for all from there until ``on``."""
    found: dict[int, tuple[str, ...]] = {}
    if "keepstep:" not in text:
        return found
    off: tuple[str, ...] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        comment = _IGNORED.search(line) if "keepstep:" in line else None
        rules = tuple(re.findall(r"[A-Z]{3}\d{3}", comment[2] or "")) if comment else ()
        if comment and comment[1] == "off":
            off = rules
        elif "keepstep:" in line and _ON_AGAIN.search(line):
            off = None
        if comment or off is not None:
            both = (off, rules) if off is not None and comment and comment[1] == "ignore" else (off or rules,)
            found[number] = () if () in both else tuple(dict.fromkeys(each for part in both for each in part or ()))
    return found


def _read_function(node: ast.AST, state: FileState, outer: Scope, name: str, owner: str) -> None:
    scope = Scope(name, owner, outer)
    reader = Statements(state, scope)
    assert isinstance(node, (*_FUNCTIONS, ast.Lambda))
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    if owner and named and named[0].arg in ("self", "cls"):
        if named[0].arg == "cls":
            scope.define("cls", KnownValue(made=owner, functions=(owner,)))
        else:
            scope.names["self"] = KnownValue(made=owner)
        named = named[1:]
    for index, each in enumerate(named):
        scope.names[each.arg] = KnownValue(
            made=reader.annotated(each.annotation),
            rank=is_rank_name(each.arg),
            ranked=is_rank_name(each.arg) or each.arg in MAIN_NAMES,
            test=conditions.FIRST_ONLY if each.arg in MAIN_NAMES else None,
            parameter=index,
            source=f"{name}({index})",
        )
    scope.rest = given.kwarg.arg if given.kwarg is not None else ""
    decorators: tuple[str, ...] = ()
    decorated: tuple[str, ...] = ()
    if isinstance(node, ast.Lambda):
        known = reader.value(node.body)
        scope.returns.append(returned(known, node.body))
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
            (*_defaults(given, [each.arg for each in named], outer), *scope.taken.items()),
            decorators,
            owner,
            scope.skeleton,
            tuple(scope.returns),
            decorated,
        )
    )


def _defaults(given: ast.arguments, names: list[str], outer: Scope) -> tuple[tuple[int, Test], ...]:
    positional = [each.arg for each in (*given.posonlyargs, *given.args)]
    pairs = [
        *zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True),
        *((each.arg, value) for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)),
    ]
    found = []
    for name, value in pairs:
        literal = _plain(value, outer)
        if literal is not None and name in names:
            found.append((names.index(name), bound_literal(literal)))
    return tuple(found)


def _plain(node: ast.expr | None, outer: Scope) -> str | None:
    """The literal of a truth value, a number, also a negative one, or a word; or of the name of such a constant."""
    if isinstance(node, ast.Name):
        known = outer.find(node.id)
        return known.literal if known is not None and known.literal != "None" and is_plain(known.literal) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return f"-{node.operand.value!r}" if isinstance(node.operand.value, int) else None
    literal = repr(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | str) else None
    return literal if is_plain(literal) else None


def _decorator(node: ast.expr, reader: Statements) -> str:
    """The decorator's name; that of ``partial(jax.jit, ...)`` is ``jax.jit``."""
    if isinstance(node, ast.Call):
        known = reader.value(node.func)
        if known.made in ("functools.partial", "partial") and node.args:
            return reader.value(node.args[0]).made
        return known.made
    return reader.value(node).made


# --- What a file imports, under which names, and when.


def imported_at_once(tree: ast.Module, module: str, is_package: bool) -> tuple[tuple[str, int], ...]:
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


def find_imports(tree: ast.Module, state: FileState, module: str, is_package: bool) -> None:
    parts = module.split(".") if is_package else module.split(".")[:-1]
    for node in statements(tree.body):
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

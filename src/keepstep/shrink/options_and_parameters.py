# SPDX-License-Identifier: Apache-2.0
"""What a program gets from outside, and hands on: options become constants, parameters that nobody uses go."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from keepstep.shrink import delta_debugging
from keepstep.shrink.names import CALLED_BY_OTHERS
from keepstep.shrink.program import Node, literal, own_parts, uid
from keepstep.shrink.search import Search

CONVERSIONS: dict[str, Callable[[str], object]] = {"str": str, "int": int, "float": float}
ROUNDS = 3
"""A parameter that goes may leave that of a caller unused."""


def options_as_constants(search: Search) -> None:
    """`args.width` becomes what `--width` is, and a field of a class of settings what it is: the parser can go."""
    values, left = _options(search)
    found: dict[str, list[tuple[Node, Node]]] = {}
    """By what the attribute is of: `args`, `self.args`."""
    for each in search.left():
        parts = list(own_parts(each))
        called = {id(part.func) for part in parts if isinstance(part, ast.Call)}
        for part in parts:
            if not isinstance(part, ast.Attribute) or not isinstance(part.ctx, ast.Load) or id(part) in called:
                continue
            if f".{part.attr}" in values and getattr(part.value, "id", "") != "self":
                found.setdefault(ast.unparse(part.value), []).append((uid(part), values[f".{part.attr}"]))

    def goes(piece: list[list[tuple[Node, Node]]]) -> bool:
        best = search.best
        edits = replace(best, replaced=(*best.replaced, *(pair for pairs in piece for pair in pairs)))
        return (edits.words != left and search.same(replace(edits, words=left))) or search.same(edits)

    delta_debugging.reduce(sorted(found.values(), key=len, reverse=True), goes)


def _options(search: Search) -> tuple[dict[str, Node], tuple[str, ...]]:
    """What each option is, by its attribute, and the words of the command that say something else."""
    values: dict[str, Node] = {}
    words = list(search.best.words)
    for each in search.left():
        for call in own_parts(each):
            if not isinstance(call, ast.Call) or getattr(call.func, "attr", "") != "add_argument":
                continue
            names = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            value = _value_of_option(call, [name for name in names if name.startswith("-")], words)
            if value is not None:
                values |= {name: value for name in search.names.binds[uid(each)] if name.startswith(".")}
    for each in search.left():
        if isinstance(each, ast.ClassDef):
            values |= _fields(search, each, values)
    return values, tuple(words)


def _value_of_option(call: ast.Call, names: list[str], words: list[str]) -> Node | None:
    """As a node; the words that say so are taken from ``words``."""
    said = {each.arg: each.value for each in call.keywords}
    action = said.get("action", ast.Constant("store"))
    kind = action.value if isinstance(action, ast.Constant) else None
    made = CONVERSIONS.get(getattr(said["type"], "id", "") if "type" in said else "str")
    if not names or made is None or kind not in ("store", "store_true", "store_false") or "nargs" in said:
        return None
    given = [n for n, word in enumerate(words) if word.partition("=")[0] in names]
    default = said.get("default")
    if kind != "store" and not (given and default):
        found, words[:] = bool(given) == (kind == "store_true"), [w for n, w in enumerate(words) if n not in given]
        return uid(default) if default is not None else literal(found)
    if given:
        at, (_, joined, value) = given[-1], words[given[-1]].partition("=")
        if not joined and at + 1 == len(words):
            return None
        text = value if joined else words[at + 1]
        del words[at : at + (1 if joined else 2)]
    elif default is None:
        return literal(None)
    elif isinstance(default, ast.Constant) and isinstance(default.value, str):
        text = default.value
    else:
        return uid(default)
    try:
        return literal(made(text))
    except ValueError:
        return None


def _fields(search: Search, owner: ast.ClassDef, options: Mapping[str, Node]) -> dict[str, Node]:
    """Of a class of settings: constants by name, or what the only call of the class says, maybe by an option."""
    if not any("dataclass" in ast.unparse(each) for each in owner.decorator_list):
        return {}
    found = {
        f".{each.target.id}": uid(each.value)
        for each in owner.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and isinstance(each.value, ast.Constant)
    }
    for each in search.left():
        for name in [name for name in _set_from_outside(search, each, owner) if name in found]:
            del found[name]  # something else sets it, too
        for call in own_parts(each):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == owner.name:
                if call.args:
                    return {}
                for keyword in call.keywords:
                    if keyword.arg is None:
                        return {}
                    found.pop(f".{keyword.arg}", None)
                    option = options.get(f".{getattr(keyword.value, 'attr', '')}")
                    given = uid(keyword.value) if option is None else option
                    if isinstance(search.program.node(given), ast.Constant):
                        found[f".{keyword.arg}"] = given
    return found


def _set_from_outside(search: Search, node: ast.stmt, owner: ast.ClassDef) -> set[str]:
    """Attributes that a statement sets, of something that may be of this class: not `self.width` in another class."""
    classes = [each for each in search.program.above(node) if isinstance(each, ast.ClassDef)]
    mine = not classes or classes[0] is owner
    return {
        f".{part.attr}"
        for part in own_parts(node)
        if isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Store)
        and (mine or getattr(part.value, "id", "") != "self")
    }


def parameters(search: Search) -> None:
    """Parameters that their function no longer uses, and what calls give for them."""
    for _ in range(ROUNDS):
        found = list(_unused_parameters(search))
        if not found:
            return
        delta_debugging.reduce(
            found, lambda piece: search.same(replace(search.best, removed=search.best.removed.union(*piece)))
        )


def _unused_parameters(search: Search) -> Iterator[frozenset[Node]]:
    program, uses = search.program, search.names.uses_now(search.best)
    left = list(search.left())
    others = _other_modules(search)
    calls: dict[str, list[ast.Call]] = {}
    otherwise: set[str] = set()
    for each in left:
        calls_here = [part for part in own_parts(each) if isinstance(part, ast.Call)]
        for call in calls_here:
            if getattr(getattr(call.func, "value", None), "id", "") in others:
                continue  # `np.load(path)` is no call of the program's own `load`
            calls.setdefault(_last_name(call.func), []).append(call)
        now = list(own_parts(program.replaced(each, search.best)))
        called = {id(part.func) for part in now if isinstance(part, ast.Call)}
        named = (part for part in now if isinstance(part, (ast.Name, ast.Attribute)) and id(part) not in called)
        otherwise |= {"." * isinstance(part, ast.Attribute) + _last_name(part) for part in named}
    functions = [each for each in left if isinstance(each, ast.FunctionDef)]
    parents = {_last_name(base) for each in left if isinstance(each, ast.ClassDef) for base in each.bases}
    for each in functions:
        owner = next(program.above(each))
        name = owner.name if each.name == "__init__" and isinstance(owner, ast.ClassDef) else each.name
        twins = [one for one in functions if one.name == each.name] if name == each.name else [each]
        mine = calls.get(name, [])
        if name.startswith("__") or name in (*CALLED_BY_OTHERS, *parents) or len(twins) > 1 or not mine:
            continue
        if ("." * (isinstance(owner, ast.ClassDef) and name == each.name) + name) in otherwise:
            continue
        if any(isinstance(arg, ast.Starred) for call in mine for arg in call.args) or any(
            keyword.arg is None for call in mine for keyword in call.keywords
        ):
            continue
        inside = {name for node in left if each in (node, *program.above(node)) for name in uses[uid(node)]}
        plain = [*each.args.posonlyargs, *each.args.args][isinstance(owner, ast.ClassDef) :]
        for number, parameter in enumerate([*plain, *each.args.kwonlyargs]):
            if parameter.arg in inside or uid(parameter) in search.best.removed or each.args.vararg:
                continue
            given: list[ast.AST] = [call.args[number] for call in mine if number < min(len(plain), len(call.args))]
            given += [one for call in mine for one in call.keywords if one.arg == parameter.arg]
            yield frozenset({uid(parameter), *map(uid, given)})


def _other_modules(search: Search) -> set[str]:
    """The names of imports that are of no file of the program."""
    own = {os.path.splitext(os.path.basename(path))[0] for path in search.program.texts}
    return {
        (alias.asname or alias.name).partition(".")[0]
        for each in search.left()
        if isinstance(each, (ast.Import, ast.ImportFrom))
        for alias in each.names
        if own.isdisjoint(f"{getattr(each, 'module', '') or ''}.{alias.name}".split("."))
    }


def _last_name(node: ast.AST) -> str:
    return str(getattr(node, "id", None) or getattr(node, "attr", None) or "")

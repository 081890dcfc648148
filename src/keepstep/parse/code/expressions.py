# SPDX-License-Identifier: Apache-2.0
"""Expressions: where each value comes from, whether it differs by rank, and the calls made on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from keepstep.parse.code import conditions
from keepstep.parse.code.scope import LONGEST_TEXT, Known, Scope, State
from keepstep.parse.code.unit import SOME, UNKNOWN, CallSeen, Test, ValueSeen
from keepstep.parse.code.vocabulary import (
    ALONE_NAMES,
    CHECKPOINTERS,
    COLLECTIVE_METHODS,
    COLLECTIVES,
    COMPILERS,
    COUNTED,
    EXITS,
    MAIN_NAMES,
    MAPS,
    OVER_A_GROUP,
    RANK_CALLS,
    RANK_NAMES,
    RANK_VARIABLES,
    SAME_OBJECT,
    SAME_VALUE,
    SHARDED,
    WORLD_NAMES,
    WRAPPERS,
    canonical,
    is_rank_name,
)

LONGEST_PATH = 300
NOTHING = Known()
_OF_FSDP = "FullyShardedDataParallel.state_dict_type"
_FULLY_SHARD = "torch.distributed.fsdp.fully_shard"
_TOLD = WRAPPERS | CHECKPOINTERS
_LITERALS = (str, int, float, bool, type(None))
_VARIABLE_CALLS = frozenset({"os.getenv", "os.environ.get", "os.environ.setdefault", "os.environ.pop"})


def path(made: str, more: str) -> str:
    """A longer path, or none where it would grow without end, as for ``x = x.next`` in a loop."""
    return f"{made}{more}" if made and len(made) < LONGEST_PATH else ""


class Expressions:
    """Reads expressions in a scope. ``value`` visits everything below, in the order in which Python evaluates it."""

    def __init__(self, state: State, scope: Scope) -> None:
        self.state, self.scope = state, scope
        self.readers: dict[type[ast.expr], Callable[[Any], Known]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.Subscript: self._subscript,
            ast.BinOp: self._operation,
            ast.BoolOp: self._condition,
            ast.Compare: self._condition,
            ast.UnaryOp: self._unary,
            ast.IfExp: self._choice,
            ast.Lambda: self._lambda,
            ast.NamedExpr: self._named,
            ast.Await: lambda node: self.value(node.value),
            ast.Starred: lambda node: self.value(node.value),
        }

    def value(self, node: ast.expr | None) -> Known:
        if node is None:
            return NOTHING
        read = self.readers.get(type(node))
        return read(node) if read is not None else self._others(node)

    def seen(self, node: ast.expr, known: Known) -> ValueSeen:
        """What is kept of a value."""
        ranked: bool | tuple[str, ...] = known.ranked or (known.functions if known.functions else False)
        return ValueSeen(self.state.text(node), known.made, ranked, known.literal, known.parts, node.lineno)

    def test(self, node: ast.expr) -> Test:
        """On which ranks a condition holds."""
        if isinstance(node, ast.BoolOp):
            tests = [self.test(each) for each in node.values]
            if _is_for_the_caller_to_say(node):
                return UNKNOWN
            return conditions.both(tests) if isinstance(node.op, ast.And) else conditions.either(tests)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return conditions.negated(self.test(node.operand))
        if isinstance(node, ast.Compare):
            return self._compared(node)
        return self._truth(self.value(node), _last_name(node))

    def _truth(self, known: Known, name: str) -> Test:
        if known.test is not None:
            return known.test
        if known.rank and known.parameter is None:
            return ("=", False, True)
        if known.ranked and known.parameter is None:
            return SOME
        if name in ALONE_NAMES:
            return conditions.ALWAYS
        if known.parameter is not None:
            return ("param", known.parameter, "", 0)
        return ("call", known.functions[0], "", 0) if known.functions else UNKNOWN

    def _compared(self, node: ast.Compare) -> Test:
        left, names = self.value(node.left), _last_name(node.left)
        rights = [self.value(each) for each in node.comparators]
        if len(rights) != 1:
            return SOME if left.ranked or any(right.ranked for right in rights) else UNKNOWN
        right, comparison = rights[0], type(node.ops[0]).__name__
        if right.rank and not left.rank and left.literal is not None:
            left, right, comparison = right, left, conditions.turned(comparison)
            names = _last_name(node.comparators[0])
        if left.rank and comparison in ("In", "NotIn"):
            return _among(node.comparators[0], comparison == "In", left.parameter)
        number = _number(right.literal)
        if left.rank and right.literal is not None and number is None:  # whether it is given at all
            return conditions.ALWAYS if comparison in ("NotEq", "IsNot") else conditions.NEVER
        if left.rank and left.parameter is not None and number is not None:
            return ("param", left.parameter, comparison, number)
        if left.rank:
            return SOME if number is None else conditions.rank_compared(comparison, number)
        if names in WORLD_NAMES and number is not None:
            return conditions.world_compared(comparison, number)
        if right.literal == "'chief'" or (names in ("task_type", "job_name") and right.literal == "'master'"):
            return ("=", comparison == "Eq", comparison != "Eq")
        if left.ranked or right.ranked:
            return SOME
        if left.test is not None and right.literal in ("True", "False"):
            same = (comparison in ("Eq", "Is")) == (right.literal == "True")
            return left.test if same else conditions.negated(left.test)
        if number is not None and left.parameter is not None:
            return ("param", left.parameter, comparison, number)
        return ("call", left.functions[0], comparison, number) if number is not None and left.functions else UNKNOWN

    def _constant(self, node: ast.Constant) -> Known:
        literal = repr(node.value)[:LONGEST_TEXT] if isinstance(node.value, _LITERALS) else None
        return Known(literal=literal)

    def _name(self, node: ast.Name) -> Known:
        found = self.scope.find(node.id)
        if found is not None:
            return found
        made = canonical(self.state.imports[node.id]) if node.id in self.state.imports else node.id
        return self._by_name(made, node.id)

    def _by_name(self, made: str, name: str) -> Known:
        """What a thing is, of which only the name is known."""
        if is_rank_name(name):
            return Known(made=made, ranked=True, rank=True)
        if name in MAIN_NAMES:
            return Known(made=made, ranked=True, test=conditions.FIRST_ONLY)
        return Known(made=made)

    def _attribute(self, node: ast.Attribute) -> Known:
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            found = self.scope.find(f"self.{node.attr}")
            if found is not None:
                return found
            made = f"{self.scope.owner}.{node.attr}" if self.scope.owner else ""
            known = self._by_name(made, node.attr)
            # it may be a property
            return known if known.ranked or not made else replace(known, functions=(made,))
        base = self.value(node.value)
        made = canonical(path(base.made, f".{node.attr}"))
        known = self._by_name(made, node.attr)
        return known if known.ranked or not base.literal else Known(made=made, literal=None)

    def _subscript(self, node: ast.Subscript) -> Known:
        base, index = self.value(node.value), self.value(node.slice)
        key = index.literal.strip("'\"") if index.literal else ""
        made = path(base.made, f"[{key}]")
        if key in RANK_VARIABLES or key in RANK_NAMES or made.endswith("[task][index]"):
            return Known(made=made, ranked=True, rank=True)
        return Known(made=made, ranked=base.ranked or index.ranked, functions=base.functions)

    def _operation(self, node: ast.BinOp) -> Known:
        left, right = self.value(node.left), self.value(node.right)
        parts = tuple(each.made for each in (left, right) if each.made)
        return Known(
            ranked=left.ranked or right.ranked,
            functions=(*left.functions, *right.functions),
            parts=_parts(left, right, parts),
        )

    def _condition(self, node: ast.expr) -> Known:
        test = self.test(node)
        return Known(ranked=conditions.is_ranked(test), test=test, functions=conditions.functions_in(test))

    def _unary(self, node: ast.UnaryOp) -> Known:
        if isinstance(node.op, ast.Not):
            return self._condition(node)
        inner = self.value(node.operand)
        if isinstance(node.op, ast.USub) and inner.literal:
            return Known(literal=f"-{inner.literal}")
        return Known(ranked=inner.ranked, functions=inner.functions)

    def _choice(self, node: ast.IfExp) -> Known:
        test = self.test(node.test)
        then, otherwise = self.value(node.body), self.value(node.orelse)
        ranked = conditions.is_ranked(test) or then.ranked or otherwise.ranked
        return Known(
            made=then.made or otherwise.made, ranked=ranked, rank=then.rank or otherwise.rank, functions=then.functions
        )

    def _lambda(self, node: ast.Lambda) -> Known:
        return Known(made=self.state.later_lambda(node, self.scope))

    def _named(self, node: ast.NamedExpr) -> Known:
        known = self.value(node.value)
        self.scope.set(node.target.id, known)
        return known

    def _others(self, node: ast.expr) -> Known:
        """Lists, formats, comprehensions and the rest: what is in them."""
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            return self._comprehension(node)
        inner = [self.value(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return Known(
            ranked=any(each.ranked for each in inner),
            functions=tuple(name for each in inner for name in each.functions)[:8],
            parts=_parts(*inner, also=tuple(each.made for each in inner if each.made)),
        )

    def _comprehension(self, node: Any) -> Known:
        iterated = [self.value(each.iter) for each in node.generators]
        for each in node.generators:
            for name in ast.walk(each.target):
                if isinstance(name, ast.Name):
                    self.scope.set(name.id, NOTHING)
            for condition in each.ifs:
                self.test(condition)
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                self.value(getattr(node, part))
        return Known(ranked=any(each.ranked for each in iterated))

    def _call(self, node: ast.Call) -> Known:
        callee = self._callee(node.func)
        name, on = callee.name, callee.on
        arguments = [("", each, self.value(each)) for each in node.args]
        arguments += [(each.arg or "**", each.value, self.value(each.value)) for each in node.keywords]
        self.state.calls.append(
            CallSeen(
                name,
                self.scope.function,
                on,
                tuple((label, self.seen(given, known)) for label, given, known in arguments),
                "",
                tuple(self.scope.within),
                node.lineno,
                node.col_offset,
                self.state.text(node),
                self.state.again.get((node.lineno, node.col_offset), ()),
            )
        )
        self._keep(name, node, arguments)
        return self._result(name, callee.known, arguments)

    def _callee(self, node: ast.expr) -> Callee:
        if isinstance(node, ast.Attribute):
            is_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            base = Known(made=self.scope.owner) if is_self else self.value(node.value)
            if is_self:
                known = self._attribute(node)
                # an attribute that holds an object is called; else it is a method of the class
                name = path(known.made, ".__call__") if self.scope.find(f"self.{node.attr}") else known.made
                return Callee(
                    name or f"?.{node.attr}", ValueSeen("self", base.made, False, None, (), node.lineno), known
                )
            on = self.seen(node.value, base)
            made = canonical(path(base.made, f".{node.attr}")) or f"?.{node.attr}"
            if base.parameter is not None:
                self._keep_unknown(base.parameter, node.attr, node.lineno)
            if node.attr in SAME_OBJECT and not made.startswith("os."):
                return Callee(made, on, base)
            method = self._by_name(made, node.attr)
            # what a value that differs by rank answers differs by rank: a path made from the rank exists or not
            return Callee(made, on, replace(method, ranked=True) if base.ranked and not base.rank else method)
        known = self.value(node)
        if known.parameter is not None:
            self._keep_unknown(known.parameter, "__call__", node.lineno)
        is_variable = isinstance(node, ast.Call) or (isinstance(node, ast.Name) and self.scope.holds_object(node.id))
        return Callee((path(known.made, ".__call__") if is_variable else known.made) or "?", None, known)

    def _keep_unknown(self, parameter: int, method: str, line: int) -> None:
        """A method of an argument: only the caller knows what that is."""
        self.scope.skeleton.append(("on", parameter, method, line))

    def _keep(self, name: str, node: ast.Call, arguments: list[tuple[str, ast.expr, Known]]) -> None:
        """Add what matters for the order of collectives."""
        method = name.rpartition(".")[2]
        kind = COLLECTIVES.get(name) or COLLECTIVE_METHODS.get(method, "") or self._kind_by_place(name, method)
        if kind:
            over = any(label in OVER_A_GROUP and known.literal != "None" for label, _, known in arguments)
            self.scope.skeleton.append(("c", name, kind, node.lineno, over))
        elif method == "__call__" and (compiler := name.removesuffix(".__call__")) in COMPILERS:
            called = f"{compiler}:{self.state.text(node.func)}"
            self.scope.skeleton.append(("c", called, "compiled", node.lineno, False))
        elif name in EXITS:
            self.scope.skeleton.append(("exit", "exit", node.lineno))
        elif name in MAPS and arguments and self.state.may_be_ours(arguments[0][2].made):
            self.scope.skeleton.append(("call", arguments[0][2].made, node.lineno, ()))
        elif self.state.may_be_ours(name):
            bound = tuple(
                (label or position, _bound(known))
                for position, (label, _, known) in enumerate(arguments)
                if known.ranked or _is_plain(known.literal) or _is_told(known.made, self.state)
            )
            self.scope.skeleton.append(("call", name, node.lineno, bound))

    def _kind_by_place(self, name: str, method: str) -> str:
        """Methods that are collectives because of what they stand in."""
        if method == "state_dict" and any(_OF_FSDP in each.made for each in self.scope.within if each.kind == "with"):
            return "save"
        if method in ("all_gather", "barrier") and name.startswith(self.scope.owner or "?"):
            bases = self.state.classes.get(self.scope.owner, ())
            return "collective" if any(base.startswith("lightning.") for base in bases) else ""
        return "collective" if name.endswith((".strategy.barrier", ".strategy.broadcast")) else ""

    def _result(self, name: str, callee: Known, arguments: list[tuple[str, ast.expr, Known]]) -> Known:
        """What a call returns."""
        if callee.rank or name in RANK_CALLS:
            return Known(made=name, ranked=True, rank=True)
        if callee.test is not None:
            return Known(made=name, ranked=callee.ranked, test=callee.test)
        given = [known for _, _, known in arguments]
        if name in _VARIABLE_CALLS and given and given[0].literal:
            variable = given[0].literal.strip("'\"")
            is_rank = variable in RANK_VARIABLES
            return Known(made=f"os.environ[{variable}]", ranked=is_rank, rank=is_rank)
        if name == "torch.device" and given and given[0].literal and not any(known.ranked for known in given):
            index = f":{given[1].literal}" if len(given) > 1 and given[1].literal else ""
            return Known(made=f"torch.device[{given[0].literal[1:-1]}{index}]")
        if given and (name in SAME_VALUE or (name == "functools.partial" and self.state.may_be_ours(given[0].made))):
            return given[0]
        if name == "next" and given:
            return Known(made=path(given[0].made, "[]"), ranked=given[0].ranked)
        method = name.rpartition(".")[2]
        if method in SAME_OBJECT and callee.made and not name.startswith("os."):
            return callee
        if name in COUNTED or (callee.ranked and not callee.made.startswith("?")) or name.startswith("os.path."):
            made = given[0].made if name in ("enumerate", "zip", "reversed", "sorted") and given else name
            return Known(made=made, ranked=callee.ranked or any(known.ranked for known in given))
        if callee.ranked or (method == "get" and given and given[0].ranked):
            return Known(made=name, ranked=True)
        if name in COMPILERS and any(label in ("devices", "device", "backend") for label, _, _ in arguments):
            return NOTHING  # for some devices only
        if name == _FULLY_SHARD and given:
            self._now_sharded(arguments[0][1])
            return Known(made=SHARDED)
        return Known(made=name, functions=(name,) if self.state.may_be_ours(name) else ())

    def _now_sharded(self, node: ast.expr) -> None:
        """``fully_shard(model)`` changes the model itself."""
        if isinstance(node, ast.Name):
            self.scope.set(node.id, Known(made=SHARDED))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            self.scope.set(f"self.{node.attr}", Known(made=SHARDED))


class Callee:
    """What is called. ``known`` is the function, or, for a method that returns its own object, that object."""

    __slots__ = ("known", "name", "on")

    def __init__(self, name: str, on: ValueSeen | None, known: Known) -> None:
        self.name, self.on, self.known = name, on, known


def _parts(*inner: Known, also: tuple[str, ...] = ()) -> tuple[str, ...]:
    found = [part for each in inner if isinstance(each, Known) for part in each.parts]
    return tuple(dict.fromkeys([*also, *found]))[:12]


def _is_for_the_caller_to_say(node: ast.BoolOp) -> bool:
    """``host is None or process_index() == host``: it differs by rank only if the caller names one."""
    compared = [each for each in node.values if isinstance(each, ast.Compare) and len(each.comparators) == 1]
    sides = [(each.left, each.comparators[0]) for each in compared]
    optional = {
        left.id for left, right in sides if isinstance(left, ast.Name) and not is_rank_name(left.id) and _is_none(right)
    }
    plain = [(left, right) for left, right in sides if not isinstance(right, ast.Constant)]
    return any(isinstance(each, ast.Name) and each.id in optional for pair in plain for each in pair)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _last_name(node: ast.expr) -> str:
    """The last name in it: ``rank`` of ``args.rank``, ``get_rank`` of ``dist.get_rank()``."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_plain(literal: str | None) -> bool:
    """Whether a constant argument may decide something: a truth value, None, or a number."""
    return literal is not None and (literal in ("True", "False", "None") or _number(literal) is not None)


def bound_literal(literal: str) -> Test:
    number = _number(literal)
    if number is not None:
        return ("number", number)
    return conditions.ALWAYS if literal == "True" else conditions.NEVER


def _bound(known: Known) -> Test:
    """What a function knows of an argument that decides something in it."""
    if known.literal is not None:
        return bound_literal(known.literal)
    if known.ranked:
        return known.test if known.test is not None else ("rank",) if known.rank else SOME
    return ("made", known.made)


def _is_told(made: str, state: State) -> bool:
    """Whether a function should know what it is given: a wrapped model, or an object of the project."""
    return made in _TOLD or (state.may_be_ours(made) and "." in made and made.rpartition(".")[2][:1].isupper())


def _number(literal: str | None) -> int | None:
    try:
        return int(literal) if literal is not None and literal not in ("True", "False") else None
    except ValueError:
        return None


def _among(node: ast.expr, inside: bool, parameter: int | None) -> Test:
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        return SOME
    try:
        numbers = [ast.literal_eval(each) for each in node.elts]
    except (ValueError, TypeError, SyntaxError):
        return SOME
    if not all(isinstance(each, int) for each in numbers):
        return SOME
    if parameter is not None:
        return ("param", parameter, "In" if inside else "NotIn", tuple(numbers))
    return conditions.rank_among(numbers, inside)

# SPDX-License-Identifier: Apache-2.0
"""Expressions: where each value comes from, whether it differs by rank, and the calls made on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from keepstep.parse.code import conditions
from keepstep.parse.code.deciding import Deciding
from keepstep.parse.code.kinds import kind_of
from keepstep.parse.code.ranks import (
    MAIN_NAMES,
    RANK_CALLS,
    RANK_NAMES,
    RANK_VARIABLES,
    is_rank_name,
)
from keepstep.parse.code.scope import LONGEST_TEXT, Known, Scope, State
from keepstep.parse.code.unit import BlockSeen, CallSeen, ValueSeen
from keepstep.parse.code.values import (
    Callee,
    bound,
    is_object,
    is_plain,
    is_told,
    parts_of,
    path,
)
from keepstep.parse.code.vocabulary import (
    COMPILERS,
    COUNTED,
    EQUALISED,
    EXITS,
    MAPS,
    OVER_A_GROUP,
    SAME_OBJECT,
    SAME_VALUE,
    SHARDED,
    UNTOLD,
    canonical,
)

NOTHING = Known()
_FULLY_SHARD = "torch.distributed.fsdp.fully_shard"
_LITERALS = (str, int, float, bool, type(None))
_VARIABLE_CALLS = frozenset({"os.getenv", "os.environ.get", "os.environ.setdefault", "os.environ.pop"})


class Expressions(Deciding):
    """Reads expressions in a scope. ``value`` visits everything below, in the order in which Python evaluates it."""

    def __init__(self, state: State, scope: Scope) -> None:
        super().__init__(state, scope)
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
        if isinstance(node.value, ast.Name):
            found = self.scope.find(f"{node.value.id}.{node.attr}")
            if found is not None:
                return found
        base = self.value(node.value)
        made = canonical(path(base.made, f".{node.attr}"))
        known = self._by_name(made, node.attr)
        if not known.ranked and is_object(base.made) and self.state.may_be_ours(made):
            return replace(known, functions=(made,))  # it may be a property
        return known if known.ranked or not base.literal else Known(made=made, literal=None)

    def _subscript(self, node: ast.Subscript) -> Known:
        base, index = self.value(node.value), self.value(node.slice)
        key = index.literal.strip("'\"") if index.literal else ""
        made = path(base.made, f"[{key}]")
        if key in RANK_VARIABLES or key in RANK_NAMES or made.endswith("[task][index]"):
            return Known(made=made, ranked=True, rank=True)
        part = node.slice
        is_even = isinstance(part, ast.Slice) and part.lower and part.upper and not part.step
        if is_even and not base.ranked:  # from ... to ...: as many on each rank, as a rule
            return Known(made=made, functions=base.functions)
        return Known(made=made, ranked=base.ranked or index.ranked, functions=base.functions)

    def _operation(self, node: ast.BinOp) -> Known:
        left, right = self.value(node.left), self.value(node.right)
        return Known(
            ranked=left.ranked or right.ranked,
            functions=(*left.functions, *right.functions),
            parts=parts_of(left, right),
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
        test, text = self.test(node.test), self.state.text(node.test)
        then, kept = self._aside(self.value, node.body, BlockSeen("if", node.lineno, text, "", test))
        other_side = BlockSeen("else", node.lineno, text, "", conditions.negated(test))
        otherwise, other = self._aside(self.value, node.orelse, other_side)
        if kept or other:
            self.scope.skeleton.append(("if", node.lineno, text, test, kept, other))
        if test in (conditions.ALWAYS, conditions.NEVER):  # in the case we look at
            return then if test == conditions.ALWAYS else otherwise
        if then == otherwise or (then.made and then.made == otherwise.made and not (then.ranked or otherwise.ranked)):
            return then  # as a loader with a progress bar, or without
        # a rank, with another value for a single process; but not a name that holds the rank if the user wants it
        ranked = conditions.is_ranked(test) or then.rank or otherwise.rank or (then.ranked and otherwise.ranked)
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
            parts=parts_of(*inner),
        )

    def _comprehension(self, node: Any) -> Known:
        iterated = [self.value(each.iter) for each in node.generators]
        ranked, functions = (
            any(each.ranked for each in iterated),
            [name for each in iterated for name in each.functions],
        )
        for each in node.generators:
            for name in ast.walk(each.target):
                if isinstance(name, ast.Name):
                    self.scope.set(name.id, NOTHING)
            for condition in each.ifs:
                test = self.test(condition)
                ranked = conditions.is_ranked(test) or ranked
                functions += conditions.functions_in(test)
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                self.value(getattr(node, part))
        return Known(ranked=ranked, functions=tuple(functions))

    def _call(self, node: ast.Call) -> Known:
        callee = self._callee(node.func)
        name, on = callee.name, callee.on
        arguments = [("", each, self.value(each)) for each in node.args]
        arguments += [(each.arg or "**", each.value, self.value(each.value)) for each in node.keywords]
        if name in UNTOLD:
            self._keep(name, node, arguments)
            return self._result(name, callee.known, arguments)
        self.state.calls.append(
            CallSeen(
                name,
                self.scope.function,
                on,
                tuple((label, self.seen(given, known)) for label, given, known in arguments),
                "",
                tuple(self.scope.within),
                node.func.end_lineno or node.lineno,  # in a chain over several lines: that of the method
                node.func.end_col_offset or node.col_offset,
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
        kind = kind_of(name, node, arguments, self.scope, self.state)
        if kind:
            if method in EQUALISED:
                self._now_equal(node)
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
            told = tuple(
                (label or position, bound(known))
                for position, (label, _, known) in enumerate(arguments)
                if known.ranked
                or known.parameter is not None
                or is_plain(known.literal)
                or is_told(known.made, self.state)
            )
            self.scope.skeleton.append(("call", name, node.lineno, told))

    def _now_equal(self, node: ast.Call) -> None:
        """After a broadcast or a reduction, all ranks hold the same."""
        for each in node.args[:1]:
            if isinstance(each, ast.Name):
                before = self.scope.find(each.id)
                self.scope.set(each.id, Known(made=before.made if before else ""))

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
            functions = tuple(name for known in given for name in known.functions)
            return Known(made=made, ranked=callee.ranked or any(known.ranked for known in given), functions=functions)
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

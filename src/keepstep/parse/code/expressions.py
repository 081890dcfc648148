# SPDX-License-Identifier: Apache-2.0
"""Expressions: where each value comes from, whether it differs by rank, and the calls made on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from keepstep.parse.code import conditions
from keepstep.parse.code.collective_calls import kind_of
from keepstep.parse.code.condition_reader import Deciding
from keepstep.parse.code.own_values import about_own_disk, joined, own_attribute, own_result
from keepstep.parse.code.ranks import CLOCKS, OWN_CALLS, RANK_CALLS, RANK_NAMES, RANK_VARIABLES
from keepstep.parse.code.scope import EACH, KnownValue, looked_up, may_be_ours, placed, span
from keepstep.parse.code.syntax import expressions_in
from keepstep.parse.code.text import LONGEST_TEXT
from keepstep.parse.code.unit import CLOCK, UNKNOWN
from keepstep.parse.code.values import (
    FULLY_SHARD,
    NOTHING,
    OPTIONS,
    VARIABLE_CALLS,
    Callee,
    bound,
    is_kept,
    is_object,
    is_share_of_all,
    kept_at,
    last_name,
    made_by,
    of_that_name,
    parts_of,
    path,
    returns_more,
    says_something,
    that_is,
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

_LITERALS = (str, int, float, bool, type(None))
_KEEP_TIME = (ast.Add, ast.Sub, ast.Mult, ast.Div)
"""What of a time makes another one, or how long something took."""
_SELF = ("self", "cls")
_BY = {False: NOTHING, True: KnownValue(ranked=True)}
"""By whether it differs by rank: what is known of a thing that has no other properties."""


class Expressions(Deciding):
    """Reads expressions in a scope. ``value`` visits everything below, in the order in which Python evaluates it."""

    def value(self, node: ast.expr | None) -> KnownValue:
        return _READERS[type(node)](self, node)

    def _constant(self, node: ast.Constant) -> KnownValue:
        return that_is(repr(node.value)[:LONGEST_TEXT] if isinstance(node.value, _LITERALS) else None)

    def _name(self, node: ast.Name) -> KnownValue:
        found = self.scope.find(node.id)
        if found is not None:
            return found
        found = self.state.outside.get(node.id)
        if found is None:
            found = self.state.outside[node.id] = self._from_outside(node.id)
        return found

    def _from_outside(self, name: str) -> KnownValue:
        """What is imported, or built in."""
        if name not in self.state.imports:
            return of_that_name(name, name)
        made = canonical(self.state.imports[name])
        known = of_that_name(made, name)
        return kept_at(made, made) if not known.ranked and may_be_ours(made) else known

    def _attribute(self, node: ast.Attribute) -> KnownValue:
        inner, attribute = node.value, node.attr
        if isinstance(inner, ast.Name):
            if inner.id in _SELF:
                return self._of_self(attribute)
            found = self.scope.find(f"{inner.id}.{attribute}")
            if found is not None:
                return found
        base = self.value(inner)
        made = canonical(path(base.made, f".{attribute}"))
        known = of_that_name(made, attribute)
        if base.own:
            return replace(known, own=own_attribute(base, attribute))
        if known.ranked:
            return known
        if isinstance(inner, ast.Name) and inner.id in OPTIONS and base.parameter is None:
            return kept_at(made, f"({inner.id}).{attribute}")
        is_ours = base.made in base.functions or (is_object(base.made) and may_be_ours(base.made))
        source = base.source or (base.made if is_ours else "")
        return kept_at(made, longer) if (longer := path(source, f".{attribute}")) else known

    def _of_self(self, attribute: str) -> KnownValue:
        found = self.scope.find(f"self.{attribute}")
        if found is not None:
            return found
        made = f"{self.scope.owner}.{attribute}" if self.scope.owner else ""
        known = of_that_name(made, attribute)
        return known if known.ranked or not made else kept_at(made, made)  # it may be a property

    def _subscript(self, node: ast.Subscript) -> KnownValue:
        base, index = self.value(node.value), self.value(node.slice)
        key = index.literal.strip("'\"") if index.literal else ""
        made = path(base.made, f"[{key}]")
        if key in RANK_VARIABLES or key in RANK_NAMES or made.endswith("[task][index]"):
            return KnownValue(made=made, ranked=True, rank=True)
        if key and base.entries:
            entry = base.entries.get(key) or base.entries.get(EACH)
            return entry if entry is not None and entry.literal is None else KnownValue(made=made)
        part = node.slice
        is_even = isinstance(part, ast.Slice) and part.lower and part.upper and not part.step
        if (is_even or is_share_of_all(node.value)) and not base.ranked:
            # from ... to ..., or a share: as many on each rank, as a rule
            return KnownValue(made=made, functions=base.functions)
        return KnownValue(made=made, ranked=base.ranked or index.ranked, functions=base.functions, own=base.own)

    def _operation(self, node: ast.BinOp) -> KnownValue:
        left, right = self.value(node.left), self.value(node.right)
        is_time = CLOCK in (left.test, right.test) and isinstance(node.op, _KEEP_TIME)
        return KnownValue(
            ranked=left.ranked or right.ranked,
            test=CLOCK if is_time else None,
            functions=(*left.functions, *right.functions),
            parts=parts_of(left, right),
            own=joined(left, right) if left.own or right.own else (),
        )

    def _condition(self, node: ast.expr) -> KnownValue:
        test = self.test(node)
        return KnownValue(ranked=conditions.is_ranked(test), test=test, functions=conditions.functions_in(test))

    def _unary(self, node: ast.UnaryOp) -> KnownValue:
        if isinstance(node.op, ast.Not):
            return self._condition(node)
        inner = self.value(node.operand)
        if isinstance(node.op, ast.USub) and inner.literal:
            return KnownValue(literal=f"-{inner.literal}")
        return KnownValue(ranked=inner.ranked, functions=inner.functions, own=inner.own)

    def _choice(self, node: ast.IfExp) -> KnownValue:
        test, text = self.test(node.test), self.state.text(node.test)
        then, kept = self._aside(self.value, node.body, ("if", node.lineno, text, "", test))
        other_side = ("else", node.lineno, text, "", conditions.negated(test))
        otherwise, other = self._aside(self.value, node.orelse, other_side)
        if kept or other:
            self.scope.skeleton.append(("if", node.lineno, text, test, kept, other))
        if test in (conditions.ALWAYS, conditions.NEVER):  # in the case we look at
            return then if test == conditions.ALWAYS else otherwise
        if then == otherwise or (then.made and then.made == otherwise.made and not (then.ranked or otherwise.ranked)):
            return then  # as a loader with a progress bar, or without
        # a rank, with another value for a single process; but not a name that holds the rank if the user wants it
        ranked = conditions.is_ranked(test) or then.rank or otherwise.rank or (then.ranked and otherwise.ranked)
        return KnownValue(
            made=then.made or otherwise.made, ranked=ranked, rank=then.rank or otherwise.rank, functions=then.functions
        )

    def _lambda(self, node: ast.Lambda) -> KnownValue:
        return KnownValue(made=self.state.later_lambda(node, self.scope))

    def _named(self, node: ast.NamedExpr) -> KnownValue:
        known = self.value(node.value)
        self.scope.set(node.target.id, known)
        return known

    def _others(self, node: ast.expr) -> KnownValue:
        """Lists, formats and the rest: what is in them."""
        return _made_of([self.value(child) for child in expressions_in(node)])

    def _dictionary(self, node: ast.Dict) -> KnownValue:
        self.state.tables.add(span(node))
        inner: list[KnownValue] = []
        entries: dict[str, KnownValue] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            inner += [] if isinstance(key, ast.Constant) else [self.value(key)]
            inner.append(self.value(value))
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                entries[key.value] = inner[-1]
        return replace(_made_of(inner), entries=entries) if entries else _made_of(inner)

    def _comprehension(self, node: Any) -> KnownValue:
        iterated = [self.value(each.iter) for each in node.generators]
        ranked = any([each.ranked for each in iterated])
        functions = [name for each in iterated for name in each.functions]
        for each in node.generators:
            for name in (each.target,) if isinstance(each.target, ast.Name) else ast.walk(each.target):
                if isinstance(name, ast.Name):
                    self.scope.set(name.id, NOTHING)
            for condition in each.ifs:
                test = self.test(condition)
                ranked = conditions.is_ranked(test) or ranked
                functions += conditions.functions_in(test)
        inner = [self.value(getattr(node, part)) for part in ("elt", "key", "value") if hasattr(node, part)]
        entries = {EACH: inner[-1]} if isinstance(node, ast.DictComp) else None
        return (
            KnownValue(ranked=ranked, functions=tuple(functions), entries=entries)
            if functions or entries
            else _BY[ranked]
        )

    def _call(self, node: ast.Call) -> KnownValue:
        func, state = node.func, self.state
        name, on, callee = self._callee(func)
        arguments = [("", each, _READERS[type(each)](self, each)) for each in node.args]
        for keyword in node.keywords:
            arguments.append((keyword.arg or "**", keyword.value, self.value(keyword.value)))
        if name not in UNTOLD:
            state.calls.append(
                (
                    name,
                    self.scope.function,
                    on,
                    tuple([(label, *placed(given, known)) for label, given, known in arguments]),
                    None,
                    self.scope.within,
                    func.end_lineno or node.lineno,  # in a chain over several lines: that of the method
                    func.end_col_offset or node.col_offset,
                    span(node),
                    state.again.get((node.lineno, node.col_offset), ()) if state.again else (),
                )
            )
        if self.scope.rest and (taken := self._taken(node)) is not None:
            return taken
        if is_kept(name):
            self._keep(name, node, arguments)
        given = [known for _, _, known in arguments]
        may_be_own = callee.own or name.endswith(".__call__") or any([known.own for known in given])
        own = own_result(name, callee, given) if may_be_own else ()
        if own:
            if name.endswith(".backward") and callee.own and not self._is_kept_back():
                self.scope.skeleton.append(("back", own, node.lineno))
            return replace(self._returned(name, callee, arguments), own=own)
        return self._returned(name, callee, arguments)

    def _taken(self, node: ast.Call) -> KnownValue | None:
        """``kwargs.pop("sync", False)``, if it is that: an argument like those that have a name."""
        func, given, scope = node.func, node.args, self.scope
        if not isinstance(func, ast.Attribute) or func.attr not in ("pop", "get") or not self._is_rest(func.value):
            return None
        values = [each.value if isinstance(each, ast.Constant) else ... for each in given]
        name, default = (*values, None, None)[:2]
        if not isinstance(name, str) or of_that_name("", name).ranked or not isinstance(default, bool | None):
            return None
        scope.taken.setdefault(name, conditions.ALWAYS if default else conditions.NEVER)
        return KnownValue(test=("param", name, "", 0))

    def _is_rest(self, node: ast.expr) -> bool:
        """Whether it is the ``**kwargs`` of this function, as far as we see."""
        return isinstance(node, ast.Name) and node.id == self.scope.rest and node.id not in self.scope.names

    def _is_kept_back(self) -> bool:
        """Whether gradients are only added up here, and exchanged later."""
        around = [self.state.blocks[each] for each in self.scope.within]
        return any(kind == "with" and "no_sync" in f"{text} {made}" for kind, _, text, made, _ in around)

    def _returned(self, name: str, callee: KnownValue, arguments: list[tuple[str, ast.expr, KnownValue]]) -> KnownValue:
        if name in OWN_CALLS:
            return KnownValue(made=name, ranked=True, test=CLOCK if name.startswith(CLOCKS) else None)
        if callee.test is None and not callee.ranked and not returns_more(name):
            return made_by(name)
        return self._result(name, callee, arguments)

    def _callee(self, node: ast.expr) -> Callee:
        if isinstance(node, ast.Attribute):
            inner, attribute = node.value, node.attr
            if isinstance(inner, ast.Name) and inner.id in _SELF:
                known = self._of_self(attribute)
                # an attribute that holds an object is called; else it is a method of the class
                name = path(known.made, ".__call__") if self.scope.find(f"self.{attribute}") else known.made
                name = name or (f"?{known.source}?.__call__" if known.source else f"?.{attribute}")
                return name, placed(inner, of_that_name(self.scope.owner, "")), known
            base = self._inherited() if _is_super(inner) and self.scope.owner else self.value(inner)
            on = placed(inner, base)
            made = (
                canonical(path(base.made, f".{attribute}"))
                or f"?{f'{base.source}?' if base.source else ''}.{attribute}"
            )
            if base.parameter is not None:
                self._keep_unknown(base.parameter, attribute, node.lineno)
            if attribute in SAME_OBJECT and not made.startswith("os."):
                return made, on, base
            method = of_that_name(made, attribute)
            if base.own:
                method = replace(method, own=base.own)
            # what a value that differs by rank answers differs by rank: a path made from the rank exists or not
            return made, on, replace(method, ranked=True) if base.ranked and not base.rank else method
        known = self.value(node)
        if known.parameter is not None:
            self._keep_unknown(known.parameter, "__call__", node.lineno)
        is_variable = isinstance(node, ast.Call) or (isinstance(node, ast.Name) and self.scope.holds_object(node.id))
        unknown = f"?{known.source}?.__call__" if known.source else "?"
        return (path(known.made, ".__call__") if is_variable else known.made) or unknown, None, known

    def _inherited(self) -> KnownValue:
        """``super()``: what the class adds to."""
        bases = self.state.classes.get(self.scope.owner, ())
        return of_that_name(bases[0] if bases else "super", "")

    def _keep_unknown(self, parameter: int, method: str, line: int) -> None:
        """A method of an argument: only the caller knows what that is."""
        self.scope.skeleton.append(("on", parameter, method, line))

    def _keep(self, name: str, node: ast.Call, arguments: list[tuple[str, ast.expr, KnownValue]]) -> None:
        """Add what matters for the order of collectives."""
        method = name.rpartition(".")[2]
        kind = kind_of(name, node, arguments, self.scope, self.state)
        if kind:
            if method in EQUALISED:
                self._now_equal(node)
            over = any(
                (label in OVER_A_GROUP and known.literal != "None") or (not label and last_name(each).endswith("group"))
                for label, each, known in arguments
            )
            self.scope.skeleton.append(("c", name, kind, node.lineno, over))
        elif method == "__call__" and (compiler := name.removesuffix(".__call__")) in COMPILERS:
            called = f"{compiler}:{self.state.text(node.func)}"
            self.scope.skeleton.append(("c", called, "compiled", node.lineno, False))
        elif name in EXITS:
            self.scope.skeleton.append(("exit", "exit", node.lineno))
        elif name in MAPS and arguments and may_be_ours(arguments[0][2].made):
            self.scope.skeleton.append(("call", arguments[0][2].made, node.lineno, ()))
        elif may_be_ours(name) or (looked_up(name) and "(" not in name):  # else: see _keep_unknown
            told = [
                (label or position, bound(known) if says_something(known) else UNKNOWN)
                for position, (label, _, known) in enumerate(arguments)
                if label != "**"
            ]
            if any(isinstance(each, ast.Starred) for each in node.args):
                told.append(("*", UNKNOWN))
            for each in node.keywords:
                if each.arg is None:
                    told.append(("**", ("given", "**") if self._is_rest(each.value) else UNKNOWN))
            self.scope.skeleton.append(("call", looked_up(name) or name, node.lineno, tuple(told)))

    def _now_equal(self, node: ast.Call) -> None:
        """After a broadcast or a reduction, all ranks hold the same."""
        for each in node.args[:1]:
            for inner in ast.walk(each):
                name = inner.id if isinstance(inner, ast.Name) else ""
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                    name = f"{inner.value.id}.{inner.attr}"
                before = self.scope.find(name) if name else None
                if name and (inner is each or (before is not None and before.own)):
                    self.scope.set(name, KnownValue(made=before.made if before else ""))

    def _result(self, name: str, callee: KnownValue, arguments: list[tuple[str, ast.expr, KnownValue]]) -> KnownValue:
        """What a call returns."""
        if callee.rank or name in RANK_CALLS:
            return KnownValue(made=name, ranked=True, rank=True)
        if callee.test is not None:
            return KnownValue(made=name, ranked=callee.ranked, test=callee.test)
        given = [known for _, _, known in arguments]
        if name in VARIABLE_CALLS and given and given[0].literal:
            variable = given[0].literal.strip("'\"")
            is_rank = variable in RANK_VARIABLES
            return KnownValue(made=f"os.environ[{variable}]", ranked=is_rank, rank=is_rank)
        if name == "torch.device" and given and given[0].literal and not any(known.ranked for known in given):
            index = f":{given[1].literal}" if len(given) > 1 and given[1].literal else ""
            return KnownValue(made=f"torch.device[{given[0].literal[1:-1]}{index}]")
        if given and (name in SAME_VALUE or (name == "functools.partial" and may_be_ours(given[0].made))):
            return given[0]
        if name == "next" and given:
            return KnownValue(made=path(given[0].made, "[]"), ranked=given[0].ranked)
        method = name.rpartition(".")[2]
        if method in SAME_OBJECT and callee.made and not name.startswith("os."):
            return callee
        if name.startswith("os.path.") and given and (found := about_own_disk(name, given[0])) is not None:
            return found
        if name in COUNTED or (callee.ranked and not callee.made.startswith("?")) or name.startswith("os.path."):
            made = given[0].made if name in ("enumerate", "zip", "reversed", "sorted") and given else name
            is_set = name == "sorted" and (made.partition(".")[0] == "set" or bool(given and given[0].source))
            made = "list" if is_set else made
            functions = tuple(name for known in given for name in known.functions)
            return KnownValue(
                made=made, ranked=callee.ranked or any(known.ranked for known in given), functions=functions
            )
        if callee.ranked or (method == "get" and given and given[0].ranked):
            return KnownValue(made=name, ranked=True)
        if name in COMPILERS and any(label in ("devices", "device", "backend") for label, _, _ in arguments):
            return NOTHING  # for some devices only
        if name == FULLY_SHARD and given:
            self._now_sharded(arguments[0][1])
            return KnownValue(made=SHARDED)
        return made_by(name)

    def _now_sharded(self, node: ast.expr) -> None:
        """``fully_shard(model)`` changes the model itself."""
        if isinstance(node, ast.Name):
            self.scope.set(node.id, KnownValue(made=SHARDED))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            self.scope.set(f"self.{node.attr}", KnownValue(made=SHARDED))


def _made_of(inner: list[KnownValue]) -> KnownValue:
    """What holds all of these."""
    functions = [name for each in inner for name in each.functions]
    parts = parts_of(*inner)
    ranked = any([each.ranked for each in inner])
    own = joined(*inner) if any([each.own for each in inner]) else ()
    return (
        KnownValue(ranked=ranked, functions=tuple(functions[:8]), parts=parts, own=own)
        if functions or parts or own
        else _BY[ranked]
    )


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


_READERS: dict[type[ast.expr] | type[None], Callable[[Any, Any], KnownValue]] = {
    **dict.fromkeys(ast.expr.__subclasses__(), Expressions._others),
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Call: Expressions._call,
    ast.Subscript: Expressions._subscript,
    ast.BinOp: Expressions._operation,
    ast.BoolOp: Expressions._condition,
    ast.Compare: Expressions._condition,
    ast.UnaryOp: Expressions._unary,
    ast.IfExp: Expressions._choice,
    ast.Lambda: Expressions._lambda,
    ast.NamedExpr: Expressions._named,
    ast.Dict: Expressions._dictionary,
    ast.Set: lambda self, node: replace(self._others(node), made="set"),
    ast.Await: lambda self, node: self.value(node.value),
    ast.Starred: lambda self, node: self.value(node.value),
    type(None): lambda self, node: NOTHING,
    **dict.fromkeys((ast.ListComp, ast.GeneratorExp, ast.DictComp), Expressions._comprehension),
    ast.SetComp: lambda self, node: replace(self._comprehension(node), made="set"),
}

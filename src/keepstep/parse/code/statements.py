# SPDX-License-Identifier: Apache-2.0
"""Statements, one after the other: assignments, branches, loops, and what they leave of the order of calls."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from keepstep.parse.code import conditions
from keepstep.parse.code.expressions import Expressions
from keepstep.parse.code.own_values import may_be_agreed
from keepstep.parse.code.ranks import MAIN_NAMES, OWN_CALLS, is_rank_name
from keepstep.parse.code.scope import EACH, KnownValue, Scope, placed, span
from keepstep.parse.code.syntax import definitions, expressions_in, fits, is_of_self, statements
from keepstep.parse.code.unit import SOME, UNKNOWN, BlockSeen, FunctionSeen, ReturnedValue, Skeleton, Test
from keepstep.parse.code.values import NOTHING, OPTIONS, kept_at, last_name, number_of, path
from keepstep.parse.code.vocabulary import EXITS

_OF_FIELDS = frozenset(
    {
        "dataclasses.dataclass",
        "typing.NamedTuple",
        "attr.s",
        "attr.dataclass",
        "attrs.define",
        "attrs.frozen",
        "attr.define",
    }
)
"""What makes a class whose objects are made of its fields."""
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_METHODS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OF_CLASSES = (ast.Assign, ast.AnnAssign)
_SEVERAL = (ast.Tuple, ast.List)
_DIVIDED = "divmod"
_IN_OBJECTS = (ast.Attribute, ast.Subscript)
_OF_FUNCTIONS = (ast.Call, ast.Name)
_LAST_OF_EXITS = frozenset(name.rpartition(".")[2] for name in EXITS)

_KEPT = (ast.BinOp, ast.Dict, ast.List, ast.ListComp)
"""What is kept though nothing is known of it: sizes, losses and settings are written as they are."""


class Statements(Expressions):
    """Reads statements, one after the other."""

    _last_test: tuple[Test, str] = (UNKNOWN, "")

    def define_all(self, body: Sequence[ast.stmt]) -> None:
        """The functions and classes of a block: they are known before they are read."""
        for node in definitions(body):
            inside = self.scope.function.removesuffix(".<module>")
            path = f"{inside}.{node.name}"
            self.scope.define(node.name, KnownValue(made=path, functions=(path,)))
            self.state.later.append((node, self.scope, path, ""))

    def read_class(self, node: ast.ClassDef, path: str) -> None:
        """What its objects hold, which all methods know; then the methods."""
        self.state.classes[path] = tuple(self.value(base).made for base in node.bases)
        shared = Scope(path, path, self.scope)
        methods = [each for each in node.body if isinstance(each, _METHODS)]
        methods.sort(key=lambda each: each.name not in ("__init__", "setup", "build", "__post_init__"))
        inner = Statements(self.state, shared)
        inner.block([each for each in node.body if isinstance(each, _OF_CLASSES)])
        for name, known in list(shared.names.items()):
            shared.names[f"self.{name}"] = known
        self._note_fields(node, path)
        for method in methods:
            _note_attributes(method, Statements(self.state, Scope("", path, shared)), shared)
        for method in methods:
            self.state.later.append((method, shared, f"{path}.{method.name}", path))

    def _note_fields(self, node: ast.ClassDef, path: str) -> None:
        """What the class itself sets; of a dataclass or a named tuple also the arguments that its objects are made of."""
        decorators = [
            self.value(each.func if isinstance(each, ast.Call) else each).made for each in node.decorator_list
        ]
        is_made_of_fields = any(each in _OF_FIELDS for each in (*decorators, *self.state.classes[path]))
        fields = []
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                if is_made_of_fields and "ClassVar" not in self.state.text(each.annotation):
                    fields.append(each.target.id)
                    self._hold_field(path, each.target.id, len(fields) - 1, each.target)
                if each.value is not None:
                    self.state.hold(f"{path}.{each.target.id}", self._default(each.value), each.value)
            elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                self.state.hold(f"{path}.{each.targets[0].id}", self.value(each.value), each.value)
        if fields and not any(isinstance(each, _METHODS) and each.name == "__init__" for each in node.body):
            self._define_init(path, node, tuple(fields))

    def _hold_field(self, path: str, name: str, number: int, node: ast.expr) -> None:
        self.state.hold(f"{path}.{name}", KnownValue(parameter=number), node, f"{path}.__init__")

    def _define_named_tuple(self, node: ast.Assign) -> bool:
        """``Point = namedtuple("Point", "x y")``, if it is one."""
        target, call = node.targets[0], node.value
        if not isinstance(target, ast.Name) or not isinstance(call, ast.Call) or last_name(call) != "namedtuple":
            return False
        try:
            given = ast.literal_eval(call.args[1])
        except (ValueError, IndexError, SyntaxError, TypeError):
            return False
        fields = given.replace(",", " ").split() if isinstance(given, str) else [str(each) for each in given]
        path = f"{self.scope.function.removesuffix('.<module>')}.{target.id}"
        self.state.classes[path] = ("typing.NamedTuple",)
        for number, name in enumerate(fields):
            self._hold_field(path, name, number, target)
        self._define_init(path, node, tuple(fields))
        self.scope.define(target.id, KnownValue(made=path, functions=(path,)))
        return True

    def _define_init(self, path: str, node: ast.stmt, fields: tuple[str, ...]) -> None:
        """The ``__init__`` that nobody wrote."""
        last = node.end_lineno or node.lineno
        self.state.functions.append(FunctionSeen(f"{path}.__init__", node.lineno, last, fields, (), (), path, [], ()))

    def _default(self, node: ast.expr) -> KnownValue:
        """That of a field: ``field(default_factory=f)`` calls ``f``."""
        if not isinstance(node, ast.Call):
            return self.value(node)
        by_name = {each.arg: each.value for each in node.keywords}
        if "default" in by_name:
            return self.value(by_name["default"])
        factory = by_name.get("default_factory")
        if factory is None:
            return self.value(node)
        return self.value(
            factory.body if isinstance(factory, ast.Lambda) else ast.copy_location(_called(factory), node)
        )

    def block(self, body: Sequence[ast.stmt]) -> None:
        scope = self.scope
        before = scope.within
        for node in body:
            _READERS[type(node)](self, node)
            if isinstance(node, ast.If) and not node.orelse and _leaves(node.body[-1]):
                # what follows is in fact the other side
                test, text = self._last_test
                other = self.state.block(("else", node.lineno, text, "", conditions.negated(test)))
                scope.within = (*scope.within, other)
        scope.within = before

    def _inside(self, block: BlockSeen, body: Sequence[ast.stmt]) -> Skeleton:
        """Read a block, and return what is to be kept of it."""
        if not body:
            return []
        scope = self.scope
        before, around = scope.skeleton, scope.within
        scope.skeleton, scope.within = [], (*around, self.state.block(block))
        try:
            self.block(body)
            return scope.skeleton
        finally:
            scope.skeleton, scope.within = before, around

    def annotated(self, node: ast.expr | None) -> str:
        """What an annotation says that a thing is, if it is there: ``Settings`` of ``Settings | None``."""
        if isinstance(node, ast.Subscript) and last_name(node.value) == "Optional":
            node = node.slice
        elif isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and node.right.value is None:
            node = node.left
        return self.value(node).made

    def _expressions_of(self, node: ast.stmt) -> None:
        for child in expressions_in(node):
            self.value(child)

    def _expression(self, node: ast.Expr) -> None:
        if type(node.value) is not ast.Constant:
            self.value(node.value)

    def _nothing(self, node: ast.stmt) -> None:
        """Definitions are read later, see define_all."""

    def _Assign(self, node: ast.Assign) -> None:
        if self._define_named_tuple(node):
            return
        first = len(self.state.calls)
        if isinstance(node.value, ast.Tuple) and all(fits(each, node.value) for each in node.targets):
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
            self.state.calls[-1] = (*last[:4], span(node.targets[0]), *last[5:])

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._set(node.target, self.value(node.value), node.value, "")

    def _AugAssign(self, node: ast.AugAssign) -> None:
        known = self.value(node.value)
        if known.ranked and isinstance(node.target, ast.Name):
            before = self.scope.find(node.target.id)
            self.scope.set(node.target.id, KnownValue(made=before.made if before else "", ranked=True))
        elif known.own and isinstance(node.target, ast.Name):
            before = self.scope.find(node.target.id)
            self.scope.set(node.target.id, KnownValue(made=before.made if before else "", own=known.own))
        self._assigned(node.target, known, node.value, type(node.op).__name__)

    def _set(self, target: ast.expr, known: KnownValue, value: ast.expr, operator: str) -> None:
        if isinstance(target, _SEVERAL):
            for index, each in enumerate(target.elts):
                part = _element(known, index)
                self._set(each.value if isinstance(each, ast.Starred) else each, part, value, operator)
            return
        if isinstance(target, ast.Name):
            if is_rank_name(target.id) and known.literal is None and not known.ranked:
                known = KnownValue(made=known.made, ranked=True, rank=True, functions=known.functions)
            elif target.id in MAIN_NAMES and not known.ranked and not known.functions:
                known = KnownValue(made=known.made, ranked=True, test=conditions.FIRST_ONLY)
            before = self.scope.names.get(target.id)
            known = self._as_flag(before, known)
            if known.literal is None or before is None or not before.ranked:  # else: for runs with one process
                self.scope.set(target.id, known)
            if target.id in self.scope.shared or self.scope.outer is None:
                self.state.hold(f"{self.state.module}.{target.id}", known, value, self.scope.function)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            self.scope.set(f"{target.value.id}.{target.attr}", known)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            self._set_entry(target.value.id, target.slice, known)
        if isinstance(target, ast.Attribute) and last_name(target.value) in OPTIONS:
            self.state.hold(f"(options).{target.attr}", known, value, self.scope.function)
        self._assigned(target, known, value, operator)

    def _set_entry(self, name: str, key: ast.expr, known: KnownValue) -> None:
        before = self.scope.find(name)
        if before is not None and before.entries:
            word = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else EACH
            self.scope.set(name, replace(before, entries={**before.entries, word: known}, row=None))

    def _as_flag(self, before: KnownValue | None, known: KnownValue) -> KnownValue:
        """A flag that only some ranks change: on the others it is what it was."""
        if before is None or before.literal not in ("True", "False") or before.literal == known.literal:
            return known
        around = [self.state.blocks[each] for each in self.scope.within]
        tests = [test for kind, _, _, _, test in around if kind in ("if", "else")]
        if not any(conditions.is_ranked(each) or conditions.functions_in(each) for each in tests):
            return known
        if known.literal is None:
            tests.append(UNKNOWN)
        set_here = conditions.both(tests)
        test = set_here if before.literal == "False" else conditions.negated(set_here)
        return KnownValue(ranked=conditions.is_ranked(test), test=test, functions=conditions.functions_in(test))

    def _assigned(self, target: ast.expr, known: KnownValue, value: ast.expr, operator: str) -> None:
        on = None
        if isinstance(target, _IN_OBJECTS):
            on = placed(target.value, self.value(target.value))
        elif (
            not operator and not known.literal and not known.made and not known.ranked and not isinstance(value, _KEPT)
        ):
            return
        kept = placed(value, known)
        self.state.assigned.append((span(target), kept, self.scope.function, on, operator, self.scope.within))

    def _If(self, node: ast.If) -> None:
        test, text = self.test(node.test), self.state.text(node.test)
        scope, before = self.scope, dict(self.scope.names) if node.orelse else {}
        then = self._inside(("if", node.lineno, text, "", test), node.body)
        otherwise: Skeleton = []
        if node.orelse:
            names, scope.names = scope.names, dict(before)  # this side knows nothing of what the other one sets
            otherwise = self._inside(("else", node.lineno, text, "", conditions.negated(test)), node.orelse)
            if test == conditions.ALWAYS:  # in the case we look at
                scope.names = names
            elif test != conditions.NEVER:
                scope.names = _either(before, names, scope.names)
        if then or otherwise:
            self.scope.skeleton.append(("if", node.lineno, text, test, then, otherwise))
        self._last_test = (test, text)

    def _For(self, node: ast.For | ast.AsyncFor) -> None:
        known = self.value(node.iter)
        test = SOME if known.ranked else UNKNOWN
        if not known.ranked and known.functions and isinstance(node.iter, _OF_FUNCTIONS):
            test = conditions.either([("call", name, "?", 0) for name in known.functions])
        turn = KnownValue(made=path(known.made, "[]"))
        self._set(node.target, turn, node.iter, "")
        for name in ast.walk(node.target):  # whatever its name: it takes all values in turn, on every rank
            if isinstance(name, ast.Name) and is_rank_name(name.id) and not known.ranked:
                self.scope.set(name.id, turn)
        self._loop("for", node, node.iter, known.made, test)

    def _While(self, node: ast.While) -> None:
        self._loop("while", node, node.test, "", self.test(node.test))

    def _loop(self, kind: str, node: ast.For | ast.AsyncFor | ast.While, over: ast.expr, made: str, test: Test) -> None:
        text = self.state.text(over)
        body = self._inside((kind, node.lineno, text, made, test), node.body)
        if body:
            self.scope.skeleton.append(("loop", node.lineno, text, test, body))
        self.block(node.orelse)

    def _With(self, node: ast.With | ast.AsyncWith) -> None:
        blocks = []
        for item in node.items:
            known = self.value(item.context_expr)
            if item.optional_vars is not None:
                self._set(item.optional_vars, known, item.context_expr, "")
            text = self.state.text(item.context_expr)
            blocks.append(self.state.block(("with", node.lineno, text, known.made, UNKNOWN)))
        before = self.scope.within
        self.scope.within = (*before, *blocks)
        self.block(node.body)
        self.scope.within = before

    def _Try(self, node: ast.Try) -> None:
        ends = next((each for each in (*node.body, *node.orelse) if isinstance(each, (ast.Return, ast.Break))), None)
        leaves = type(ends).__name__.lower() if ends is not None else ""
        body = self._inside(("try", node.lineno, leaves, "", UNKNOWN), node.body)
        handlers = []
        for handler in node.handlers:
            caught = self.state.text(handler.type) if handler.type is not None else ""
            raises = self._raises(handler.body)
            self.state.handlers.append(
                (caught, self.scope.function, node.lineno, raises, self.scope.within, handler.lineno)
            )
            handlers.append(self._inside(("except", handler.lineno, caught, "", UNKNOWN), handler.body))
        if body or any(handlers):
            self.scope.skeleton.append(("try", body, handlers, []))
        self.block(node.orelse)
        self.block(node.finalbody)

    def _raises(self, body: Sequence[ast.stmt]) -> bool:
        """Whether a handler lets an exception out: not one that does so unless memory ran out."""
        asked = [each for each in body if isinstance(each, ast.If) and "memory" in self.state.text(each.test)]
        others = [each for each in body if each not in asked]
        if any(isinstance(each, ast.Raise) for each in statements(others)):
            return True
        return any(self._raises(each.body) and self._raises(each.orelse) for each in asked)

    def _Match(self, node: ast.Match) -> None:
        subject, text = self.value(node.subject), f"match {self.state.text(node.subject)}"
        for case in node.cases:
            value = case.pattern.value if isinstance(case.pattern, ast.MatchValue) else None
            number = number_of(self.value(value).literal)
            known = subject.rank and subject.parameter is None and number is not None
            test = conditions.rank_compared("Eq", number) if known and number is not None else UNKNOWN
            then = self._inside(("if", node.lineno, text, "", test), case.body)
            if then:
                self.scope.skeleton.append(("if", node.lineno, text, test, then, []))

    def _Return(self, node: ast.Return) -> None:
        if node.value is not None:
            if isinstance(node.value, ast.Tuple):
                elements = tuple(returned(self.value(each), each) for each in node.value.elts)
                self.scope.returns.append(ReturnedValue(None, False, (), False, "", elements))
            else:
                self.scope.returns.append(returned(self.value(node.value), node.value))
        self._exit("return", node)

    def _Raise(self, node: ast.Raise) -> None:
        self._expressions_of(node)
        self._exit("raise", node)

    def _Break(self, node: ast.Break) -> None:
        self._exit("break", node)

    def _Continue(self, node: ast.Continue) -> None:
        self._exit("continue", node)

    def _Global(self, node: ast.Global) -> None:
        self.scope.shared.update(node.names)

    def _exit(self, how: str, node: ast.stmt) -> None:
        self.scope.skeleton.append(("exit", how, node.lineno))


_READERS: dict[type[ast.stmt], Callable[[Any, Any], None]] = {
    **dict.fromkeys(ast.stmt.__subclasses__(), Statements._expressions_of),
    ast.Expr: Statements._expression,
    ast.Assign: Statements._Assign,
    ast.AnnAssign: Statements._AnnAssign,
    ast.AugAssign: Statements._AugAssign,
    ast.If: Statements._If,
    ast.For: Statements._For,
    ast.AsyncFor: Statements._For,
    ast.While: Statements._While,
    ast.With: Statements._With,
    ast.AsyncWith: Statements._With,
    ast.Try: Statements._Try,
    ast.Match: Statements._Match,
    ast.Return: Statements._Return,
    ast.Raise: Statements._Raise,
    ast.Break: Statements._Break,
    ast.Continue: Statements._Continue,
    **dict.fromkeys((*_METHODS, ast.ClassDef, ast.Import, ast.ImportFrom), Statements._nothing),
    **dict.fromkeys((ast.Nonlocal, ast.Pass), Statements._nothing),
    ast.Global: Statements._Global,
}
if hasattr(ast, "TryStar"):
    _READERS[ast.TryStar] = Statements._Try


def _element(known: KnownValue, index: int) -> KnownValue:
    """What one of several targets gets. Both parts of ``divmod`` are made of what it was given, as ``//`` and ``%`` are."""
    if known.made == _DIVIDED:
        return KnownValue(ranked=known.ranked, functions=known.functions)
    functions = tuple([f"{name}[{index}]" for name in known.functions])
    own = known.ranked and known.made in OWN_CALLS
    return KnownValue(path(known.made, f"[{index}]"), own, functions=functions, own=known.own)


def _either(
    before: dict[str, KnownValue], then: dict[str, KnownValue], otherwise: dict[str, KnownValue]
) -> dict[str, KnownValue]:
    """What is known after both sides of a branch: of two values the second, unless it is for runs with one process."""
    for name, known in otherwise.items():
        first = then.get(name)
        if known is before.get(name) or (known.literal is not None and first is not None and first.ranked):
            continue
        is_either = known.test is not None and not known.ranked and first is not before.get(name) and first != known
        if first is not None and known.own and not first.own:  # one side may have reduced it
            known = replace(known, own=())
        if first is not None and known.functions and not known.rank and may_be_agreed(first):
            known = NOTHING
        then[name] = NOTHING if is_either else known  # a flag that each side sets under a condition of its own
    return then


def returned(known: KnownValue, node: ast.expr) -> ReturnedValue:
    """What a function gives back."""
    return ReturnedValue(known.test, known.rank, known.functions, known.ranked, known.made, (), span(node))


def _called(function: ast.expr) -> ast.Call:
    return ast.Call(func=function, args=[], keywords=[])


def _leaves(node: ast.stmt) -> bool:
    """Whether nothing after it in its block is reached."""
    if isinstance(node, _EXITS):
        return True
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    if not isinstance(called, (ast.Name, ast.Attribute)):
        return False
    name = called.id if isinstance(called, ast.Name) else called.attr
    return name in _LAST_OF_EXITS and ast.unparse(called) in EXITS


def _note_attributes(method: ast.FunctionDef | ast.AsyncFunctionDef, reader: Statements, shared: Scope) -> None:
    """What a method puts into ``self``: the other methods use it, whichever is read first."""
    calls, assigned, later = len(reader.state.calls), len(reader.state.assigned), len(reader.state.later)
    owner, state = reader.scope.owner, reader.state
    function = f"{owner}.{method.name}"
    named = (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs)[1:]
    for index, each in enumerate(named):
        is_rank = is_rank_name(each.arg)
        reader.scope.names[each.arg] = KnownValue(
            reader.annotated(each.annotation), is_rank, is_rank, parameter=index, source=f"{function}({index})"
        )

    def put(attribute: str, known: KnownValue, value: ast.expr) -> None:
        state.hold(f"{owner}.{attribute}", known, value, function)
        if known.parameter is not None:  # what it is, the caller knows
            known = replace(kept_at(known.made, f"{owner}.{attribute}"), rank=known.rank, ranked=known.ranked)
        before = shared.names.get(f"self.{attribute}")
        if before is not None and before.literal is None and before != known and known.functions and not known.ranked:
            known = kept_at(known.made, f"{owner}.{attribute}")  # what all methods put there must agree
        if before is None or known != NOTHING:
            shared.set(f"self.{attribute}", known)

    for node in statements(method.body):
        if not isinstance(node, _OF_CLASSES) or node.value is None:
            continue
        known: KnownValue | None = None
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) and fits(target, node.value):
                values = [reader.value(each) for each in node.value.elts]
                for part, value, given in zip(target.elts, values, node.value.elts, strict=True):
                    if isinstance(part, ast.Name):
                        reader.scope.set(part.id, value)
                    elif is_of_self(part):
                        put(part.attr, value, given)
            elif isinstance(target, ast.Name):
                known = known or reader.value(node.value)
                reader.scope.set(target.id, known)
            elif is_of_self(target):
                known = known or reader.value(node.value)
                put(target.attr, known, node.value)
            elif isinstance(target, ast.Tuple) and any(is_of_self(each) for each in target.elts):
                known = known or reader.value(node.value)
                for index, part in enumerate(target.elts):
                    if is_of_self(part) and known.made == _DIVIDED:
                        put(part.attr, _element(known, index), node.value)
                    elif is_of_self(part):
                        shared.set(f"self.{part.attr}", KnownValue(made=path(known.made, f"[{index}]")))
    del reader.state.calls[calls:], reader.state.assigned[assigned:], reader.state.later[later:]

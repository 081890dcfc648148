# SPDX-License-Identifier: Apache-2.0
"""Which names of a program hold plain numbers, as far as its text tells.

`randrange(vocab)` and `vocab` are both numbers, so where one stands for the other nothing fails that would not have
failed: but another number is another reason. `net` for `wrapped(net)` is no such thing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from keepstep.shrink.names import FUNCTIONS
from keepstep.shrink.program import Program, name_called

GIVE_NUMBERS = ("int", "float", "len", "round", "abs", "sum", "randrange", "randint", "random", "hash", "ord", "item")
COUNT = ("range", "enumerate")
KINDS = ("int", "float")
ROUNDS = 4
"""A number is handed on from function to function so often, at most."""


class PlainNumbers:
    """``is_one(expression)``: by the names alone, so a name that is a number anywhere is one everywhere."""

    def __init__(self, program: Program) -> None:
        self._names: set[str] = set()
        """Attributes begin with a dot."""
        functions: dict[str, list[str]] = {}
        """The parameters of each that a call gives by their places; of a class, those of its `__init__`."""
        for node in program.nodes.values():
            if isinstance(node, FUNCTIONS):
                plain = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
                owner = next(program.above(node))
                name = owner.name if isinstance(owner, ast.ClassDef) and node.name == "__init__" else node.name
                functions[name] = plain[isinstance(owner, ast.ClassDef) :]
            elif isinstance(node, ast.arg) and getattr(node.annotation, "id", "") in KINDS:
                self._names.add(node.arg)
        for _ in range(ROUNDS):
            before = len(self._names)
            for node in program.nodes.values():
                self._names |= {*self._bound_to_one(node, functions)} - {""}
            if len(self._names) == before:
                break

    def is_one(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Constant):
            return type(node.value) in (int, float)
        if isinstance(node, ast.Name):
            return node.id in self._names
        if isinstance(node, ast.Attribute):
            return f".{node.attr}" in self._names
        if isinstance(node, ast.UnaryOp):
            return self.is_one(node.operand)
        if isinstance(node, ast.BinOp):
            return self.is_one(node.left) and self.is_one(node.right)
        return name_called(node) in GIVE_NUMBERS

    def _bound_to_one(self, node: ast.AST, functions: dict[str, list[str]]) -> Iterator[str]:
        if isinstance(node, ast.Assign) and self.is_one(node.value):
            yield from (name for target in node.targets if (name := _bound(target)))
        elif isinstance(node, ast.AnnAssign) and node.value is not None and self.is_one(node.value):
            yield _bound(node.target)
        elif isinstance(node, (ast.For, ast.comprehension)):
            counts = name_called(node.iter) in COUNT
            target = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
            yield from [_bound(target)] if counts else []
        elif isinstance(node, ast.arguments):
            plain = [*node.posonlyargs, *node.args]
            with_default = zip(plain[len(plain) - len(node.defaults) :], node.defaults, strict=True)
            for each, default in (*with_default, *zip(node.kwonlyargs, node.kw_defaults, strict=True)):
                if default is not None and self.is_one(default):
                    yield each.arg
        elif isinstance(node, ast.Call) and name_called(node) == "add_argument":
            said = {each.arg: each.value for each in node.keywords}
            if getattr(said.get("type"), "id", "") in KINDS:
                options = [each.value for each in node.args if isinstance(each, ast.Constant)]
                yield from (f".{each.lstrip('-').replace('-', '_')}" for each in options if isinstance(each, str))
        elif isinstance(node, ast.Call):
            names = functions.get(name_called(node), [])
            yield from (name for name, value in zip(names, node.args, strict=False) if self.is_one(value))
            yield from (each.arg for each in node.keywords if each.arg and self.is_one(each.value))


def _bound(target: ast.AST) -> str:
    return f".{target.attr}" if isinstance(target, ast.Attribute) else str(getattr(target, "id", ""))

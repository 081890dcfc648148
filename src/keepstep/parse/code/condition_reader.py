# SPDX-License-Identifier: Apache-2.0
"""The conditions of a program, as far as they say on which ranks they hold."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from keepstep.parse.code import conditions
from keepstep.parse.code.own_values import joined
from keepstep.parse.code.ranks import ALONE_NAMES, WORLD_NAMES
from keepstep.parse.code.scope import FileState, KnownValue, Scope, may_be_ours
from keepstep.parse.code.unit import CLOCK, SOME, UNKNOWN, BlockSeen, Skeleton, Test
from keepstep.parse.code.values import (
    is_for_the_caller_to_say,
    is_of_one_stage,
    last_name,
    number_of,
    rank_among_these,
    word_of,
)

Read = TypeVar("Read")
_HOLD_NO_CALLS = (ast.Constant, ast.Name)


class Deciding:
    """Reads conditions. What is called in them is seen by ``value``."""

    def __init__(self, state: FileState, scope: Scope) -> None:
        self.state, self.scope = state, scope

    @abstractmethod
    def value(self, node: ast.expr | None) -> KnownValue:
        """Read an expression, and everything below."""

    def test(self, node: ast.expr) -> Test:
        """On which ranks a condition holds."""
        if isinstance(node, ast.BoolOp):
            tests = self._tests_in_turn(node)
            if is_for_the_caller_to_say(node) or is_of_one_stage(node):
                return UNKNOWN
            return conditions.both(tests) if isinstance(node.op, ast.And) else conditions.either(tests)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return conditions.negated(self.test(node.operand))
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.Constant):
            return conditions.ALWAYS if node.value else conditions.NEVER
        if isinstance(node, ast.Name) and self.scope.is_function(node.id):  # it is not called
            return conditions.ALWAYS
        known = self.value(node)
        if isinstance(node, ast.Name) and self._is_imported(node.id, known):
            return ("call", known.made, "named", 0)
        return self._truth(known, last_name(node))

    def _is_imported(self, name: str, known: KnownValue) -> bool:
        """Whether another file of the project may say whether it is a function or a variable."""
        if name not in self.state.imports or self.scope.find(name) is not None:
            return False
        return may_be_ours(known.made) and name not in ALONE_NAMES and not known.rank

    def _tests_in_turn(self, node: ast.BoolOp) -> list[Test]:
        """The tests of ``and`` or ``or``: what is called in a later one depends on those before."""
        tests = [self.test(node.values[0])]
        text = self.state.text(node.values[0])
        for each in node.values[1:]:
            before = (
                conditions.both(tests) if isinstance(node.op, ast.And) else conditions.negated(conditions.either(tests))
            )
            test, kept = self._aside(self.test, each, ("if", node.lineno, text, "", before))
            if kept:
                self.scope.skeleton.append(("if", node.lineno, text, before, kept, []))
            tests.append(test)
        return tests

    def _aside(self, read: Callable[[ast.expr], Read], node: ast.expr, where: BlockSeen) -> tuple[Read, Skeleton]:
        """Read an expression that is evaluated under a condition, and what is to be kept of it."""
        if isinstance(node, _HOLD_NO_CALLS):
            return read(node), []
        scope = self.scope
        before, around = scope.skeleton, scope.within
        scope.skeleton, scope.within = [], (*around, self.state.block(where))
        try:
            return read(node), scope.skeleton
        finally:
            scope.skeleton, scope.within = before, around

    def _truth(self, known: KnownValue, name: str) -> Test:
        if known.test is not None:
            return UNKNOWN if known.test == CLOCK else known.test
        if known.rank and known.parameter is None:
            return ("=", False, True)
        if known.ranked and known.parameter is None:
            return SOME
        if known.own:
            return ("own", known.own)
        if name in ALONE_NAMES:
            return conditions.ALWAYS
        if known.parameter is not None:
            return ("param", known.parameter, "", 0)
        return ("call", known.functions[0], "", 0) if known.functions else UNKNOWN

    def _compared(self, node: ast.Compare) -> Test:
        left, names = self.value(node.left), last_name(node.left)
        rights = [self.value(each) for each in node.comparators]
        if len(rights) != 1:
            return SOME if left.ranked or any(right.ranked for right in rights) else UNKNOWN
        right, comparison = rights[0], type(node.ops[0]).__name__
        if right.rank and not left.rank and left.literal is not None:
            left, right, comparison = right, left, conditions.turned(comparison)
            names = last_name(node.comparators[0])
        if left.rank and comparison in ("In", "NotIn"):
            return rank_among_these(node.comparators[0], comparison == "In", left.parameter)
        number = number_of(right.literal)
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
        if (left.own or right.own) and comparison not in ("Is", "IsNot", "In", "NotIn"):
            return ("own", joined(left, right))
        if left.test is not None and right.literal in ("True", "False"):
            same = (comparison in ("Eq", "Is")) == (right.literal == "True")
            return left.test if same else conditions.negated(left.test)
        if number is not None and left.parameter is not None:
            return ("param", left.parameter, comparison, number)
        word = word_of(right.literal)
        if word is not None and left.parameter is not None and comparison in ("Eq", "NotEq"):
            return ("param", left.parameter, comparison, word)
        if number is not None:
            return ("call", left.functions[0], comparison, number) if left.functions else UNKNOWN
        direct = [each for each in (left, right) if each.functions == (each.made,)] if right.literal is None else []
        functions = [each.made for each in direct]
        return conditions.either([("call", name, "?", 0) for name in functions]) if functions else UNKNOWN

# SPDX-License-Identifier: Apache-2.0
"""Which functions of a project lead to some others: only these need be followed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from keepstep.check.code.program.project import Project
from keepstep.parse.code.unit import UNKNOWN, FunctionSeen, Skeleton, Test

_CALLED = ("__call__", "forward", "call")
"""The methods that run when an object is called."""


class Callers:
    """By function, those that may call it. A method of an argument may be any method of that name."""

    def __init__(self, project: Project, functions: Iterable[FunctionSeen]) -> None:
        self._by_name: dict[str, set[str]] = defaultdict(set)
        self._by_method: dict[str, set[str]] = defaultdict(set)
        for function in functions:
            module = project.module_of(function)
            for item in items(function.skeleton):
                if item[0] == "on":
                    for method in _CALLED if item[2] == "__call__" else (item[2],):
                        self._by_method[method].add(function.name)
                elif item[0] == "call":
                    callee = project.function(item[1], module)
                    if callee is not None:
                        self._by_name[callee.name].add(function.name)

    def of(self, names: Iterable[str]) -> set[str]:
        """These functions, and all that lead to them."""
        found = set(names)
        pending = list(found)
        while pending:
            name = pending.pop()
            new = (self._by_name[name] | self._by_method[name.rpartition(".")[2]]) - found
            found |= new
            pending += new
        return found


def tests_in(skeleton: Skeleton) -> Iterator[Test]:
    """The conditions of branches and loops, less those that say nothing about ranks."""
    return (item[3] for item in items(skeleton) if item[0] in ("if", "loop") and item[3] != UNKNOWN)


def items(skeleton: Skeleton) -> Iterator[tuple[Any, ...]]:
    """All of it, also what stands in branches, loops and ``try``."""
    for item in skeleton:
        yield item
        what = item[0]
        if what == "if":
            yield from items(item[4])
            yield from items(item[5])
        elif what == "loop":
            yield from items(item[4])
        elif what == "try":
            yield from items(item[1])

# SPDX-License-Identifier: Apache-2.0
"""What one file of a program says, as plain tuples: they are kept between runs and sent between processes.

A *test* says on which ranks a condition holds, as far as the file itself shows it:

- ``("=", on_the_first_rank, on_another)``
- ``("some",)`` it differs by rank, nobody knows how
- ``("call", function, operator, number)`` the result of a function of the project, compared
- ``("param", index, operator, number)`` an argument, compared
- ``("and", tests)``, ``("or", tests)``, ``("not", test)``
- ``("?",)`` it has nothing to do with ranks

A *skeleton* is what is left of a function if only that is kept which decides about the order of collectives:

- ``("c", name, kind, line, over_a_group)`` a collective
- ``("call", function, line, arguments)`` a call of another function; ``arguments``: those that say something: they
  differ by rank, are constant, ``("made", path)``, or ``("given", parameter)``
- ``("on", parameter, method, line)`` a method of an argument, or the argument itself, is called
- ``("if", line, text, test, then, otherwise)``
- ``("loop", line, text, test, body)``
- ``("try", body, handlers, finally)``
- ``("exit", how, line)`` where ``how`` is ``return``, ``break``, ``continue``, ``raise`` or ``exit``
"""

from __future__ import annotations

from typing import Any, NamedTuple

Test = tuple[Any, ...]
Skeleton = list[tuple[Any, ...]]

UNKNOWN: Test = ("?",)
SOME: Test = ("some",)


class ValueSeen(NamedTuple):
    """See :class:`keepstep.core.facts.code.Value`. ``ranked``: it is, or else the functions that decide it."""

    text: str
    made: str
    ranked: bool | tuple[str, ...]
    literal: str | None
    parts: tuple[str, ...]
    line: int


class BlockSeen(NamedTuple):
    """See :class:`keepstep.core.facts.code.Block`."""

    kind: str
    line: int
    text: str
    made: str
    test: Test


class CallSeen(NamedTuple):
    """See :class:`keepstep.core.facts.code.CodeCall`."""

    name: str
    function: str
    on: ValueSeen | None
    arguments: tuple[tuple[str, ValueSeen], ...]
    assigned: str
    within: tuple[BlockSeen, ...]
    line: int
    column: int
    text: str
    again: tuple[tuple[str, int], ...] = ()
    """See :class:`keepstep.core.facts.code.CodeCall`."""


class AssignedSeen(NamedTuple):
    """See :class:`keepstep.core.facts.code.CodeAssigned`."""

    target: str
    value: ValueSeen
    function: str
    on: ValueSeen | None
    operator: str
    within: tuple[BlockSeen, ...]
    line: int
    column: int


class HandlerSeen(NamedTuple):
    """See :class:`keepstep.core.facts.code.CodeHandler`."""

    caught: str
    function: str
    tried: int
    raises: bool
    within: tuple[BlockSeen, ...]
    line: int


class Returned(NamedTuple):
    """What a ``return`` gives back."""

    test: Test | None
    rank: bool
    """It is a rank itself."""
    functions: tuple[str, ...]
    """The functions that make it."""
    ranked: bool
    made: str
    elements: tuple[Returned, ...] = ()
    """Those of a tuple."""


class FunctionSeen(NamedTuple):
    """A function, and what it may return."""

    name: str
    line: int
    end: int
    parameters: tuple[str, ...]
    defaults: tuple[tuple[int, Test], ...]
    """The parameters that are True or False if nothing else is given."""
    decorators: tuple[str, ...]
    owner: str
    """The class of a method."""
    skeleton: Skeleton
    returns: tuple[Returned, ...]
    decorated: tuple[str, ...] = ()
    """The decorators as they are written."""


class Unit(NamedTuple):
    """One file."""

    module: str
    imports: dict[str, str]
    classes: dict[str, tuple[str, ...]]
    """The bases of each class."""
    functions: list[FunctionSeen]
    calls: list[CallSeen]
    assigned: list[AssignedSeen]
    handlers: list[HandlerSeen]
    ignored: dict[int, tuple[str, ...]]
    """By line, the rules that a comment there switches off; none named: all."""
    started: bool
    at_once: tuple[tuple[str, int], ...] = ()
    """What is imported as soon as the file is, with the lines."""

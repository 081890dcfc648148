# SPDX-License-Identifier: Apache-2.0
"""What one file of a program says, as plain tuples: they are kept between runs and sent between processes.

A *test* says on which ranks a condition holds, as far as the file itself shows it:

- ``("=", on_the_first_rank, on_another)``
- ``("some",)`` it differs by rank, nobody knows how
- ``("clock",)`` it is a time: it differs by rank if it is compared, but is true on all of them
- ``("call", function, operator, number)`` the result of a function of the project, or what is kept at a source, compared; with
  the operator ``named``, it is not called: a function is true on all ranks
- ``("param", index, operator, number)`` an argument, compared; by its name, if it is one of ``**kwargs``
- ``("own", makers)`` it is made of this rank's own data, see :attr:`keepstep.parse.code.scope.KnownValue.own`
- ``("and", tests)``, ``("or", tests)``, ``("not", test)``
- ``("?",)`` it has nothing to do with ranks

A *skeleton* is what is left of a function if only that is kept which decides about the order of collectives:

- ``("c", name, kind, line, over_a_group)`` a collective
- ``("call", function, line, arguments)`` a call of another function; ``arguments``: those that say something: they
  differ by rank, are constant, ``("made", path)``, ``("given", parameter)``, ``("given", "**")``, or ``("of", source)``
- ``("on", parameter, method, line)`` a method of an argument, or the argument itself, is called
- ``("back", makers, line)`` the backward pass of a loss that is made of this rank's own data
- ``("if", line, text, test, then, otherwise)``
- ``("loop", line, text, test, body)``
- ``("try", body, handlers, finally)``
- ``("exit", how, line)`` where ``how`` is ``return``, ``break``, ``continue``, ``raise`` or ``exit``

A *source* says where a value is kept; another file looks it up there:

- ``package.module.NAME`` of a module, ``package.module.Class.attribute`` of the objects of a class
- ``package.module.function(2)`` the third parameter of a function
- ``(args).attribute`` of an object with options, wherever it was filled
- any of these, or a function, with ``.attribute`` added: of the object that is found there

In a name, ``?source?.method`` is a method of what is kept at a source, and ``?.method`` one of something unknown.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Test = tuple[Any, ...]
Skeleton = list[tuple[Any, ...]]

UNKNOWN: Test = ("?",)
SOME: Test = ("some",)
CLOCK: Test = ("clock",)


Span = tuple[int, int, int, int]
"""Where an expression stands: its first line and column in bytes, its last line, and the column where it ends."""
ValueSeen = tuple[str, bool | tuple[str, ...], str | None, tuple[str, ...]]
"""Where it comes from; whether it differs by rank, or else the functions that decide it; the literal; the parts. See
:class:`keepstep.model.facts.code.Value`."""
Placed = tuple[ValueSeen, int, int, int, int]
"""A value, and the span of the expression."""
ArgumentSeen = tuple[str, ValueSeen, int, int, int, int]
"""The argument's name, or nothing, and what is placed there."""
BlockSeen = tuple[str, int, str, str, Test]
"""Kind, line, text, where the iterable comes from, test. See :class:`keepstep.model.facts.code.Block`."""
Within = tuple[int, ...]
"""The numbers of blocks in :attr:`Unit.blocks`, the outermost first."""
CallSeen = tuple[
    str, str, Placed | None, tuple[ArgumentSeen, ...], Span | None, Within, int, int, Span, tuple[tuple[str, int], ...]
]
"""Name, function, object, arguments, where the variable stands that gets the result, blocks, line, column, span,
variables read again. See :class:`keepstep.model.facts.code.CodeCall`. Nearly all of what is read is calls, so they are
plain tuples of small things, and texts are cut out of the source only where a rule asks."""
AssignedSeen = tuple[Span, Placed, str, Placed | None, str, Within]
"""Target, value, function, object, operator, blocks. See :class:`keepstep.model.facts.code.CodeAssigned`."""
HeldSeen = tuple[Test | None, bool, tuple[str, ...], bool, str, str | None, tuple[str, int] | None, Span]
"""What is put somewhere: its test, whether it is a rank, the functions and sources that decide it, whether it differs
by rank, where it comes from, its literal, the function and parameter that gave it, and where it is written."""
HandlerSeen = tuple[str, str, int, bool, Within, int]
"""Exceptions, function, line of the ``try``, whether it raises, blocks, line. See
:class:`keepstep.model.facts.code.CodeHandler`."""


class ReturnedValue(NamedTuple):
    """What a ``return`` gives back."""

    test: Test | None
    rank: bool
    """It is a rank itself."""
    functions: tuple[str, ...]
    """The functions that make it."""
    ranked: bool
    made: str
    elements: tuple[ReturnedValue, ...] = ()
    """Those of a tuple."""
    where: Span = (0, 0, 0, 0)


class FunctionSeen(NamedTuple):
    """A function, and what it may return."""

    name: str
    line: int
    end: int
    parameters: tuple[str, ...]
    defaults: tuple[tuple[int | str, Test], ...]
    """The parameters that are True or False if nothing else is given; by name, what is taken out of ``**kwargs``."""
    decorators: tuple[str, ...]
    owner: str
    """The class of a method."""
    skeleton: Skeleton
    returns: tuple[ReturnedValue, ...]
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
    at_once: tuple[tuple[str, int], ...]
    """What is imported as soon as the file is, with the lines."""
    blocks: list[BlockSeen]
    tables: set[Span]
    """Where dictionaries are written."""
    source: bytes
    held: dict[str, list[HeldSeen]]
    """By source: all that is put there. What a class says for itself comes first."""

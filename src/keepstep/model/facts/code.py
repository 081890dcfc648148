# SPDX-License-Identifier: Apache-2.0
"""What a training program says, read from its text and never run."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An expression."""

    text: str
    """As it is written, cut if long."""
    made: str = ""
    """Where it comes from, as a dotted path: ``torch.utils.data.DataLoader`` for a variable that holds one,
    ``tensorflow.data.Dataset.range.shuffle.batch`` for what a chain of calls returned; empty: unknown."""
    ranked: bool = False
    """Whether it differs by rank."""
    literal: str | None = None
    """The constant that it is, as Python writes it: ``True``, ``32``, ``'nccl'``."""
    parts: tuple[str, ...] = ()
    """Where the things in it come from, if it is a list, a tuple or an operation."""
    line: int = 0
    target: str = ""
    """The function of the project that it is, if it is one."""
    span: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Where it stands: first line and column, last line and the column where it ends. Columns count bytes from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of a call. ``name`` is empty if it is given by position."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlock:
    """What a line stands in: ``if``, ``else``, ``for``, ``while``, ``with``, ``try`` or ``except``. After
    ``if x: return`` the rest stands in its ``else``."""

    kind: str
    line: int
    text: str
    """The test, the iterable, the context manager, the exceptions; of a ``try``: ``return`` or ``break`` if it leaves
    where nothing fails."""
    made: str = ""
    """Where the iterable or the context manager comes from."""
    ranked: bool = False
    """Whether the test, or the number of turns, differs by rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFile(Fact):
    """A file of the program."""

    module: str
    imports: tuple[str, ...]
    """The modules and names that it imports."""
    started: bool = False
    """Whether it has a ``__main__`` part, or does things when it is imported."""
    at_once: tuple[tuple[str, int], ...] = ()
    """What it imports as soon as it is imported itself, with the lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFunction(Fact):
    """A function or method. ``name`` starts with its module; ``bases`` are those of its class."""

    name: str
    parameters: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    given_to: tuple[str, ...] = ()
    """The calls that it is an argument of, by name: ``tensorflow.distribute.MirroredStrategy.run``."""
    returns: tuple[str, ...] = ()
    """Where the things that it returns come from; an empty one is unknown."""
    end: int = 0
    """Its last line."""
    decorated: tuple[str, ...] = ()
    """The decorators as they are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeCall(Fact):
    """A call. ``name`` is the dotted path of what is called; ``?.item`` is a method of something unknown."""

    name: str
    function: str
    """The function that it stands in; that of the module itself ends with ``<module>``."""
    on: Value | None = None
    """The object, if it is a method."""
    arguments: tuple[Argument, ...] = ()
    assigned: str = ""
    """The variable that gets the result: ``model``, ``self.model``."""
    within: tuple[CodeBlock, ...] = ()
    """The blocks of its function around it, the outermost first."""
    order: int = 0
    """Its place in the file: of two calls in one function, the smaller comes first."""
    text: str = ""
    target: str = ""
    """The function of the project that it calls, if it is one."""
    again: tuple[tuple[str, int], ...] = ()
    """In files that donate arguments: the variables it is given that are read again before they are assigned anew,
    with the lines on which they are."""
    span: tuple[int, int, int, int] = (0, 0, 0, 0)
    """As that of a value."""

    def argument(self, name: str, position: int | None = None) -> Value | None:
        """The value of an argument, by its name, or else by its position."""
        for each in self.arguments:
            if each.name == name:
                return each.value
        if position is None:
            return None
        given = [each.value for each in self.arguments if not each.name]
        return given[position] if position < len(given) else None

    @property
    def method(self) -> str:
        """The last part of its name."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeAssigned(Fact):
    """An assignment. ``operator`` is ``+`` for ``+=``; ``on`` is the object whose attribute or item it sets."""

    target: str
    value: Value
    function: str
    on: Value | None = None
    operator: str = ""
    within: tuple[CodeBlock, ...] = ()
    order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeHandler(Fact):
    """An ``except``. ``tried`` is the line of its ``try``, which the calls in it have among their blocks."""

    caught: str
    """The exceptions, as written; empty: all."""
    function: str
    tried: int
    raises: bool
    """Whether it raises an exception again, or another one."""
    within: tuple[CodeBlock, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDiverges(Fact):
    """A collective that some ranks issue, and others do not, or not at the same place in their order."""

    collective: str
    kind: str
    """``collective``, ``save``, ``checkpoint``, ``forward``, ``backward``, ``group`` or ``compiled``."""
    how: str
    """``branch``: only one side issues it. ``exit``: some ranks have left before. ``loop``: they make different numbers
    of turns. ``sides``: the other side issues something else in its place."""
    condition: str
    """The test on which ranks differ, as it is written."""
    condition_line: int
    path: tuple[str, ...] = ()
    """How the line leads to the collective, if other functions are on the way: ``save() at train.py:12``."""
    other: str = ""
    """What the other side issues, or how it leaves."""
    other_line: int | None = None
    function: str = ""
    decided: tuple[str, ...] = ()
    """The values that decide the condition, where they are not in it: ``lead is `rank == 0` at context.py:7``."""
    places: tuple[tuple[str, int], ...] = ()
    """File and line of each function on that path."""

# SPDX-License-Identifier: Apache-2.0
"""What is known while a file is read: names, the block one is in, and what is kept of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache

from keepstep.parse.code.text import cut
from keepstep.parse.code.unit import (
    AssignedSeen,
    BlockSeen,
    CallSeen,
    FunctionSeen,
    HandlerSeen,
    HeldSeen,
    Placed,
    ReturnedValue,
    Skeleton,
    Span,
    Test,
    ValueSeen,
    Within,
)

_FOREIGN = frozenset(
    """
    torch tensorflow keras jax jaxlib numpy np scipy os sys math time datetime json re logging argparse random
    shutil pathlib collections functools itertools typing types warnings copy pickle subprocess threading
    multiprocessing socket tqdm wandb horovod deepspeed accelerate lightning transformers datasets flax optax orbax
    sklearn pandas PIL cv2 yaml print len range int str float bool list dict set tuple enumerate zip isinstance
    getattr hasattr setattr super open min max sum sorted map filter abs any all iter next round repr type vars id
    input reversed format ValueError RuntimeError TypeError KeyError Exception NotImplementedError AssertionError
    ImportError StopIteration FileNotFoundError OSError
    """.split()
)
"""Where a name starts that no file of the project defines."""


def looked_up(name: str) -> str:
    """The path of what starts at a source: ``module.Trainer.context.sync`` of ``?module.Trainer.context?.sync``."""
    source, _, rest = name[1:].partition("?") if name.startswith("?") else ("", "", "")
    return source + rest if rest else ""


@lru_cache(maxsize=1 << 14)
def may_be_ours(name: str) -> bool:
    """Whether a file of the project may define it."""
    root = name.partition(".")[0].partition("[")[0]
    return root not in _FOREIGN and not name.startswith("?")


def span(node: ast.expr) -> Span:
    at = node.__dict__
    return at["lineno"], at["col_offset"], at["end_lineno"], at["end_col_offset"]


EACH = "*"


@dataclass(slots=True)
class KnownValue:
    """What is known about a value. It is never changed; a frozen class would take three times as long to make."""

    made: str = ""
    ranked: bool = False
    rank: bool = False
    """It is a rank itself, so it can be compared with a number."""
    test: Test | None = None
    """It is a condition."""
    literal: str | None = None
    functions: tuple[str, ...] = ()
    """Functions of the project that may make it differ by rank."""
    parts: tuple[str, ...] = ()
    parameter: int | None = None
    source: str = ""
    """Where it is kept, see :mod:`keepstep.parse.code.unit`."""
    own: tuple[str, ...] = ()
    """The calls that make it of this rank's own data, if what is called is a wrapped model; after a ``>``, the functions
    of the project that it went through: one that meets the other ranks may have made it the same on all."""
    entries: dict[str, KnownValue] | None = None
    """Of a dictionary that is written out: what is under each word; under :data:`EACH`, what is under all of them."""
    row: ValueSeen | None = field(default=None, compare=False)
    """What is kept of it, see :func:`placed`."""


def placed(node: ast.expr, known: KnownValue) -> Placed:
    """What is kept of a value: the same tuple each time, because most values are used several times."""
    row = known.row
    if row is None:
        made = known.made or (f"?{known.source}?" if known.source else "")
        row = known.row = (made, known.ranked or known.functions or False, known.literal, known.parts)
    at = node.__dict__
    return row, at["lineno"], at["col_offset"], at["end_lineno"], at["end_col_offset"]


class Scope:
    """A function, or the file itself: its names, and what is kept of its order."""

    def __init__(self, function: str, owner: str = "", outer: Scope | None = None) -> None:
        self.function, self.owner, self.outer = function, owner, outer
        self.names: dict[str, KnownValue] = {}
        self.within: Within = ()
        self.skeleton: Skeleton = []
        self.returns: list[ReturnedValue] = []
        self.shared: set[str] = set()
        """Names of the file itself that it changes."""
        self.rest = ""
        """The name of its ``**kwargs``."""
        self.taken: dict[str, Test] = {}
        """By name: the truth values that are taken out of these, if nothing else is given."""
        self._functions: set[str] = set()

    def find(self, name: str) -> KnownValue | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def set(self, name: str, known: KnownValue) -> None:
        self.names[name] = known
        self._functions.discard(name)

    def define(self, name: str, known: KnownValue) -> None:
        """A function or class of that name, not an object."""
        self.names[name] = known
        self._functions.add(name)

    def is_function(self, name: str) -> bool:
        """Whether the name stands for a function or class that is defined here or around."""
        scope: Scope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.outer
        return scope is not None and name in scope._functions

    def holds_object(self, name: str) -> bool:
        """Whether the name stands for something that was made: then calling it calls the object."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return name not in scope._functions and bool(scope.names[name].made)
            scope = scope.outer
        return False


@dataclass
class FileState:
    """One file while it is read."""

    module: str
    lines: list[bytes]
    blocks: list[BlockSeen] = field(default_factory=list)
    tables: set[Span] = field(default_factory=set)
    """Where dictionaries are written: more is kept of their texts."""
    imports: dict[str, str] = field(default_factory=dict)
    outside: dict[str, KnownValue] = field(default_factory=dict)
    """What is known of the names that the file does not define itself."""
    calls: list[CallSeen] = field(default_factory=list)
    assigned: list[AssignedSeen] = field(default_factory=list)
    handlers: list[HandlerSeen] = field(default_factory=list)
    held: dict[str, list[HeldSeen]] = field(default_factory=dict)
    functions: list[FunctionSeen] = field(default_factory=list)
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    later: list[tuple[ast.AST, Scope, str, str]] = field(default_factory=list)
    """Functions to be read when what is around them has been: node, scope around, name, class."""
    again: dict[tuple[int, int], tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """By the place of a call: the variables that are read again, in files that donate arguments."""

    def text(self, node: ast.expr) -> str:
        """The expression as it is written, in one line."""
        return cut(self.lines, span(node), is_long=isinstance(node, ast.Dict))

    def long_text(self, node: ast.expr) -> str:
        """The same, with more of it."""
        return cut(self.lines, span(node), is_long=True)

    def hold(self, source: str, known: KnownValue, node: ast.expr, function: str = "") -> None:
        """Keep what is put at a source in a function."""
        given = (function, known.parameter) if known.parameter is not None else None
        parts = (known.test, known.rank, known.functions, known.ranked, known.made, known.literal)
        self.held.setdefault(source, []).append((*parts, given, span(node)))

    def block(self, block: BlockSeen) -> int:
        """The number of a new block."""
        self.blocks.append(block)
        return len(self.blocks) - 1

    def later_lambda(self, node: ast.Lambda, scope: Scope) -> str:
        name = f"{scope.function}.<lambda:{node.lineno}>"
        self.later.append((node, scope, name, scope.owner))
        return name

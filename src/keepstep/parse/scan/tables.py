# SPDX-License-Identifier: Apache-2.0
"""All tables of messages: the rows of ``keepstep.knowledge``, and those of the modules of ``formats`` and ``tools``.

Rows that are a pattern, a fact and constants are data. Where a function makes the fact, the row stands beside the
function, in the module of the same name. What is derived from the patterns is kept between starts; a row's fact or
function is imported when the row first matches.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import keepstep.knowledge as knowledge
import keepstep.model.facts
import keepstep.parse.formats
import keepstep.parse.tools
from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.parse.scan import bounded, literals
from keepstep.parse.scan import signature as signatures
from keepstep.parse.scan.anchors import Keeper
from keepstep.parse.scan.block import Block
from keepstep.parse.scan.patience import set_up
from keepstep.parse.scan.signature import Derived, Make, Signature, States, signature

NAME = "signatures"
_PIECE = lazy_pattern(r"\{([a-z_]+)\}")
"""Stands for a part that several patterns of a file share."""


class Tables(NamedTuple):
    """``progress``: what is read in small logs and in the last part of large ones only."""

    signatures: tuple[Signature, ...]
    blocks: tuple[Block, ...]
    progress: tuple[Signature, ...]


@cache
def tables(kept: Keeper | None = None) -> Tables:
    """Of the last start, if no row has changed since. ``kept``: for an installation that cannot be written."""
    way, rows = knowledge.seal(_way_of_deriving()), knowledge.seal(_sources())
    key = f"{way} {rows}"
    body = knowledge.read_derived(NAME)
    if not body.startswith(key.encode()) and kept is not None:
        body = kept.get(NAME, key) or body
    head, _, rest = body.partition(b"\n")
    found, _, by_pattern = rest.partition(b"\n")
    if head.startswith(way.encode()):
        signatures.recall = Recalled(by_pattern)
    if head == key.encode():
        return _made(json.loads(found))
    plain = _derived()
    by_pattern = json.dumps(signatures.derived).encode()
    body = b"\n".join((key.encode(), json.dumps(plain).encode(), by_pattern))
    signatures.recall = Recalled(by_pattern)
    if not knowledge.write_derived(NAME, body) and kept is not None:
        kept.put(NAME, key, body)
    return _made(plain)


def _way_of_deriving() -> list[str]:
    return [str(each.__file__) for each in (signatures, bounded, literals)] + [__file__]


def _sources() -> Iterator[str]:
    for package in (keepstep.parse.formats, keepstep.parse.tools, keepstep.model.facts):
        yield from knowledge.files(package.__path__[0], ".py")
    yield from data_files()


def data_files() -> list[str]:
    """``<who>/<subject>.toml``: the rows of messages."""
    return [path for path in knowledge.files(knowledge.FOLDER, ".toml") if _name(path)[0] != "knowledge"]


def patterns() -> list[str]:
    """Of all rows, as they are written."""
    tables()
    assert isinstance(signatures.recall, Recalled)
    return list(signatures.recall.found)


class Recalled:
    """What an earlier start derived from patterns."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    @cached_property
    def found(self) -> dict[str, tuple[str, list[str], bool, list[str]]]:
        return json.loads(self._body)  # type: ignore[no-any-return]

    def __call__(self, pattern: str) -> Derived | None:
        if pattern not in self.found:
            return None
        expression, anchors, folds_case, groups = self.found[pattern]
        return Derived(expression, tuple(anchors), folds_case, tuple(groups))


class Later:
    """What makes the fact of a row, found when the row first matches: a fact with constants, or a row of a module."""

    def __init__(self, module: str, *of: Any) -> None:
        self._module = module
        self._of = of

    @cached_property
    def found(self) -> Make:
        with set_up():
            module = importlib.import_module(self._module)
            if len(self._of) == 2:
                table, index = self._of
                found: Make = getattr(module, table)[index].make
                return found
            name, constants, groups = self._of
            fact = getattr(module, name)
            return States(fact, typed(fact, constants), tuple(groups))

    def __call__(self, match: re.Match[str]) -> Fact | None:
        return self.found(match)


def typed(fact: type[Fact], constants: dict[str, Any]) -> dict[str, Any]:
    """Constants of a data file as the fact has them: an enumeration's member for its value, a tuple for a list."""
    if not constants:
        return {}
    from keepstep.model.codec import typed_fields

    return typed_fields(fact, constants)


def _made(plain: dict[str, Any]) -> Tables:
    def row(where: str, expression: str, anchors: list[str], folds_case: bool, of: list[Any]) -> Signature:
        return Signature(expression, Later(*of), tuple(anchors), folds_case, where)

    def block(where: str, expression: str, anchors: list[str], folds_case: bool, of: list[Any], inside: bool) -> Block:
        module, index = of

        def read(*given: Any) -> Any:
            with set_up():
                blocks = importlib.import_module(module).BLOCKS
            return blocks[index].read(*given)

        return Block(Signature(expression, _states_nothing, tuple(anchors), folds_case, where), read, inside)

    return Tables(
        tuple(row(*each) for each in plain["signatures"]),
        tuple(block(*each) for each in plain["blocks"]),
        tuple(row(*each) for each in plain["progress"]),
    )


def _states_nothing(match: re.Match[str]) -> None:
    """The first line of a block: its reader makes the facts."""


def _derived() -> dict[str, Any]:
    """Every row as plain data."""
    every: dict[str, list[Any]] = {"signatures": [], "blocks": [], "progress": []}
    modules = {
        tuple(info.name.split(".")[2:]): info.name
        for package in (keepstep.parse.formats, keepstep.parse.tools)
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    }
    files = {("tools", *_name(path)): path for path in data_files()}
    for key in sorted({*modules, *files}):  # functions first: they read more of a message than a row of data does
        if key in modules:
            _add_module(every, modules[key])
        if key in files:
            every["signatures"] += map(_plain_row, rows_of(files[key]))
    return every


def _name(path: str) -> list[str]:
    """``["cuda", "errors"]``."""
    return path.removesuffix(".toml").replace("\\", "/").split("/")[-2:]


def rows_of(path: str) -> Iterator[tuple[Signature, dict[str, Any]]]:
    """The signatures of a data file, each with all that its row says; its pattern in one text."""
    from keepstep.model.codec import fact_types

    said = knowledge.read_toml(path)
    pieces: dict[str, str] = said.get("pieces", {})
    where = f"knowledge/{'/'.join(_name(path))}.toml"
    for number, row in enumerate(said["signature"], 1):
        try:
            row["pattern"] = _PIECE.sub(lambda its: pieces.get(its[1], its[0]), "".join(row["pattern"]))
            fact = fact_types()[row["fact"]]
            anchors, constants = row.get("anchors", ()), typed(fact, row.get("set", {}))
            made = signature(row["pattern"], fact, anchors=anchors, **constants)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"row {number} of {where}: {error!r}") from error
        yield replace(made, where=where), row


def _plain_row(of: tuple[Signature, dict[str, Any]]) -> list[Any]:
    made, row = of
    assert isinstance(made.make, States)
    module = made.make.fact.__module__
    return [*_plain(made), [module, row["fact"], row.get("set", {}), signatures.derive(row["pattern"]).groups]]


def _plain(each: Signature, where: str = "") -> list[Any]:
    return [where or each.where, each.expression, each.anchors, each.folds_case]


def _add_module(every: dict[str, list[Any]], name: str) -> None:
    module = importlib.import_module(name)
    where = f"{'/'.join(name.split('.')[1:])}.py"
    for table in ("SIGNATURES", "LAST_WORDS", "PROGRESS"):
        kind = "signatures" if table == "SIGNATURES" else "progress"
        rows: tuple[Signature, ...] = getattr(module, table, ())
        every[kind] += [[*_plain(each, where), [name, table, n]] for n, each in enumerate(rows)]
    blocks: tuple[Block, ...] = getattr(module, "BLOCKS", ())
    every["blocks"] += [[*_plain(b.begin, where), [name, n], b.inside_others] for n, b in enumerate(blocks)]

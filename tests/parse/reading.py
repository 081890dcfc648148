# SPDX-License-Identifier: Apache-2.0
"""Reading a text with one table, as the scanner does: a signature counts only where its anchor is there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType

from keepstep.model.facts.base import Fact
from keepstep.parse.scan.signature import Signature
from keepstep.parse.scan.tables import tables


def reader(table: ModuleType) -> Callable[[str], list[Fact]]:
    """``read`` for the tests of one table."""
    return functools.partial(read, table)


def read(table: ModuleType, text: str) -> list[Fact]:
    """The facts that a table finds in a text of one writer: the module's rows and the rows of data of the same name."""
    found: list[Fact] = []
    for each in tables().signatures:
        fact = each.read(text) if _is_of(table, each) else None
        if fact is not None:
            assert _anchored(each, text), f"no anchor of {each.pattern.pattern!r} in {text!r}"
            found.append(fact)
    first, *rest = text.split("\n")
    for one in tables().blocks:
        match = one.begin.pattern.search(first) if _is_of(table, one.begin) else None
        if match:
            assert _anchored(one.begin, first)
            found.extend(one.read(match, iter(rest)))
    return found


def _is_of(table: ModuleType, each: Signature) -> bool:
    _, *folders, who, subject = table.__name__.split(".")
    return each.where in (f"knowledge/{who}/{subject}.toml", "/".join((*folders, who, f"{subject}.py")))


def _anchored(signature: Signature, text: str) -> bool:
    if signature.folds_case:
        return any(anchor.lower() in text.lower() for anchor in signature.anchors)
    return any(anchor in text for anchor in signature.anchors)

# SPDX-License-Identifier: Apache-2.0
"""COD304: one process takes more rows than the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from keepstep.model.facts import CodeAssigned, CodeCall, CodeFile
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Severity,
    lazy_pattern,
    rule,
)
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.jax._jax import PARTS

_LAST = lazy_pattern(r"(?:==|>=)\s*\(?\s*[\w.]+(?:\(\))?\s*-\s*1\b", most=500)
"""Compared with the last one."""
_REST = lazy_pattern(r"\+.*\b\w*(?:index|idx|host|process|rank|pid)\w*(?:\(\))?\s*<\s*[a-zA-Z_(]", most=150)
"""One more for the first few."""
_COUNTS = re.compile(r"[-+*/]|\blen\(|\.shape\b")


def _uneven(seen: EvidenceSet) -> Iterator[Evidence[CodeAssigned] | Call]:
    known = program(seen)
    for file in seen.all(CodeFile):
        if known.imports(file, "jax") and _makes_global(known, file):
            yield from (each for each in known.assigned_in_file(file) if _is_by_process(each.fact))
    for call in known.calls("numpy.array_split"):
        sections = call.fact.argument("indices_or_sections", 1)
        if sections is not None and sections.made == "jax.process_count" and _makes_global(known, call):
            yield call


def _is_by_process(fact: CodeAssigned) -> bool:
    """Whether a size, or the end of a slice, is another one on the last process or on the first few."""
    text = fact.value.text
    if fact.value.ranked and " if " in text and _COUNTS.search(_LAST.sub("", text)):
        return bool(_LAST.search(text) or _REST.search(text))
    if fact.value.ranked and _REST.search(text):
        return True
    test = fact.within[-1] if fact.within else None
    is_last = test is not None and test.kind == "if" and test.ranked and _LAST.search(test.text)
    return bool(is_last and fact.target.isidentifier() and _COUNTS.search(text))


def _makes_global(known: ProjectFacts, place: Evidence[Any]) -> bool:
    """Whether arrays of the same shape are expected of all processes."""
    return bool(known.among(place, *PARTS, "jax.experimental.multihost_utils.process_allgather"))


def _text(place: Evidence[CodeAssigned] | Call) -> str:
    fact = place.fact
    return fact.text if isinstance(fact, CodeCall) else f"{fact.target} = {fact.value.text}"


@rule(
    id="COD304",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(CodeAssigned, CodeCall),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def host_dependent_shape(seen: EvidenceSet) -> Findings:
    """The number of rows of a process depends on its index.

    ## What it looks like
    ```python
    import jax

    def my_rows(table, sharding):
        index, count = jax.process_index(), jax.process_count()
        size = len(table) // count
        stop = len(table) if index == count - 1 else (index + 1) * size
        return jax.make_array_from_process_local_data(
            sharding, table[index * size : stop]
        )
    ```

    ## Why it happens
    Each process derives the global shape, and the program it compiles, from its own part. If one of them holds a
    few rows more, they disagree: they hang, fail, or compute different numbers.

    ## How we know
    The size or the end of a slice is chosen by comparing the process' index with the last one or with a remainder,
    in a program that makes global arrays of such parts.

    ## What to do
    ```python
    import jax

    def my_rows(table, sharding):
        index, count = jax.process_index(), jax.process_count()
        size = len(table) // count
        stop = (index + 1) * size
        return jax.make_array_from_process_local_data(
            sharding, table[index * size : stop]
        )
    ```

    ## When this is wrong
    When the number of rows is always divisible, or the parts are padded afterwards.
    """
    for each in _uneven(seen):
        yield Found(
            title="processes hold parts of different sizes",
            because=f"`{_text(each)}` gives one process more rows than another; global arrays are made of these parts",
            evidence=(each,),
            fixes=(
                Fix(
                    do="give each process the same number of rows: drop or pad the rest", safety=Safety.CHANGES_RESULTS
                ),
            ),
        )

# SPDX-License-Identifier: Apache-2.0
"""Rules: one pure function over the evidence, with its identity and its documentation."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from keepstep.model.cause import Cause
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.finding import Confidence, Found, Severity, Standing

Find = Callable[[EvidenceSet], Iterator[Found]]

HEADINGS = ("What it looks like", "Why it happens", "How we know", "What to do", "When this is wrong")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One diagnosis. ``needs``: the rule is asked only if one of these facts was seen."""

    id: str
    name: str
    cause: Cause
    needs: tuple[type[Fact], ...]
    find: Find
    doc: str
    severity: Severity = Severity.FATAL
    confidence: Confidence = Confidence.ESTABLISHED
    standing: Standing = Standing.MECHANISM
    explains: tuple[Cause, ...] = ()
    since: str = "0.1"
    preview: bool = False
    """Too often wrong, or a matter of taste: asked only if the user wants it."""

    @property
    def summary(self) -> str:
        return self.doc.strip().splitlines()[0] if self.doc.strip() else self.name


def rule(
    *,
    id: str,
    cause: Cause,
    needs: tuple[type[Fact], ...],
    severity: Severity = Severity.FATAL,
    confidence: Confidence = Confidence.ESTABLISHED,
    standing: Standing = Standing.MECHANISM,
    explains: tuple[Cause, ...] = (),
    since: str = "0.1",
    preview: bool = False,
) -> Callable[[Find], Rule]:
    """Turn a function into a :class:`Rule`; name and documentation are the function's own."""

    def make(find: Find) -> Rule:
        return Rule(
            id=id,
            name=getattr(find, "__name__", id).replace("_", "-"),
            cause=cause,
            needs=needs,
            find=find,
            doc=find.__doc__ or "",
            severity=severity,
            confidence=confidence,
            standing=standing,
            explains=explains,
            since=since,
            preview=preview,
        )

    return make


def rules_in(package: ModuleType, without: str = "") -> tuple[Rule, ...]:
    """Every rule of a package, less those of one inside it, found by walking it: nothing to register."""
    modules = [package]
    pending = [(package.__path__, package.__name__)]
    while pending:
        path, name = pending.pop()
        for info in pkgutil.iter_modules(path, name + "."):
            if info.name != without:
                modules.append(importlib.import_module(info.name))
                if info.ispkg:
                    pending.append((modules[-1].__path__, info.name))
    found = {r.id: r for m in modules for r in vars(m).values() if isinstance(r, Rule)}
    return tuple(found[key] for key in sorted(found))

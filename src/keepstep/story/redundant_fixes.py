# SPDX-License-Identifier: Apache-2.0
"""Leaves out advice to set what the run was already started with. Pure."""

from __future__ import annotations

from dataclasses import replace

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.process import StartedWith
from keepstep.model.finding import Finding, Fix

_SETS = lazy_pattern(r"(?:export )?((?:[A-Z][A-Z0-9_]*=[^\s$;&|]+ )*[A-Z][A-Z0-9_]*=[^\s$;&|]+ ?)(?:$|;|(?<= )[a-z])")
_RAISES = lazy_pattern(r"ulimit -(?P<flag>[a-z]) (?P<value>unlimited|\d+)(?:;|$)")
_LIMITS = {"c": "CORE", "n": "NOFILE", "u": "NPROC", "l": "MEMLOCK", "s": "STACK", "v": "AS", "f": "FSIZE"}


def without_what_is_so(finding: Finding, seen: EvidenceSet) -> Finding:
    """The finding without fixes that would change nothing."""
    started = [each.fact for each in seen.all(StartedWith)]
    if not started:
        return finding
    kept = tuple(fix for fix in finding.fixes if not all(_is_so(fix, each) for each in started))
    return finding if len(kept) == len(finding.fixes) else replace(finding, fixes=kept)


def _is_so(fix: Fix, started: StartedWith) -> bool:
    command = fix.command or ""
    raised = _RAISES.match(command)
    if raised is not None:
        limit = dict(started.limits).get(_LIMITS.get(raised["flag"], ""))
        if limit is None:
            return False
        return limit == -1 or (raised["value"] != "unlimited" and limit >= int(raised["value"]))
    sets = _SETS.match(command)
    return sets is not None and set(sets[1].split()) <= set(started.variables)

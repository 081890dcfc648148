# SPDX-License-Identifier: Apache-2.0
"""A crash would leave little or nothing to explain it: which settings hide it, and the lines that change them."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.model.facts import ScriptCalls, TraceSettings
from keepstep.model.report import Note
from keepstep.rules.api import EvidenceSet, listing

HIDES_WARNINGS = 2
"""TF_CPP_MIN_LOG_LEVEL: 2 hides warnings, 3 errors too."""


def no_trace(seen: EvidenceSet) -> Note | None:
    """One note about all hosts; None where a crash would leave its traces."""
    prints = any(e.fact.faulthandler for e in seen.all(ScriptCalls))
    gaps: dict[str, str | None] = {}
    for each in seen.all(TraceSettings):
        gaps.update(_gaps(each.fact, prints))
    if not gaps:
        return None
    lines = [line for line in gaps.values() if line]
    says = f"a crash would leave little to explain it: {listing(tuple(gaps))}."
    return Note(says=says + (" To change that:" if lines else ""), command="\n".join(lines) or None)


def _gaps(fact: TraceSettings, prints: bool) -> Iterator[tuple[str, str | None]]:
    if fact.log_level is not None and fact.log_level >= HIDES_WARNINGS:
        hidden = "warnings" if fact.log_level == HIDES_WARNINGS else "warnings and errors"
        yield (
            f"TF_CPP_MIN_LOG_LEVEL={fact.log_level} hides {hidden} of TensorFlow and XLA",
            "export TF_CPP_MIN_LOG_LEVEL=0",
        )
    if not (fact.faulthandler or prints):
        yield "Python prints no stack (faulthandler is off)", "export PYTHONFAULTHANDLER=1"
    if fact.core_handler is not None:
        where = f"goes to {fact.core_handler.rpartition('/')[2]}" if fact.core_handler else "is written nowhere"
        yield f"a core file {where} (core_pattern)", "sysctl -w kernel.core_pattern=core.%p   # as root"
    elif fact.core_limit == 0 and fact.core_limit_most == 0:
        yield "no core file is written (the hard limit `ulimit -Hc` is 0, which only root can raise)", None
    elif fact.core_limit == 0:
        yield "no core file is written (`ulimit -c` is 0)", "ulimit -c unlimited"

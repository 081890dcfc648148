# SPDX-License-Identifier: Apache-2.0
"""Advice that the run already follows is left out."""

from __future__ import annotations

import pytest

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.process import FatalSignal, StartedWith
from keepstep.model.finding import Confidence, Finding, Fix, Severity, Standing
from keepstep.story.redundant_fixes import without_what_is_so

WITH = StartedWith(
    variables=("KEEPSTEP=on", "NCCL_DEBUG=INFO", "PYTHONFAULTHANDLER=1", "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
    limits=(("CORE", -1), ("NOFILE", 4096)),
)


def kept(command: str | None, *started: StartedWith) -> bool:
    crash = Evidence(fact=FatalSignal(signal="SIGSEGV"), origin=Origin(source="rank0.log"))
    finding = Finding(
        rule="FRW001", cause=Cause.FRAMEWORK_BUG_SEGFAULT, title="it crashed", because="a signal", evidence=(crash,),
        confidence=Confidence.ESTABLISHED, severity=Severity.FATAL, standing=Standing.MECHANISM, ranks=(0,),
        fixes=(Fix(do="do it", command=command),), explains=(),
    )  # fmt: skip
    items = tuple(Evidence(fact=each, origin=Origin(source="start.jsonl")) for each in started)
    return bool(without_what_is_so(finding, EvidenceSet(items=(crash, *items))).fixes)


SO = [
    "export PYTHONFAULTHANDLER=1",
    "export PYTHONFAULTHANDLER=1 NCCL_DEBUG=INFO",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...",
    "KEEPSTEP=on python train.py",
    "ulimit -c unlimited; keepstep why core*",
    "ulimit -n 4096",
]
NOT_SO = [
    "export NCCL_DEBUG=WARN",
    "export PYTHONFAULTHANDLER=1 NCCL_P2P_DISABLE=1",
    "export CLASSPATH=$(hadoop classpath --glob)",
    "ulimit -n 65536",
    "ulimit -n unlimited",
    "ulimit -l unlimited",
    "python -X tracemalloc ...",
    None,
]


@pytest.mark.parametrize("command", SO)
def test_what_is_so_already_is_not_advised(command: str) -> None:
    assert not kept(command, WITH)


@pytest.mark.parametrize("command", NOT_SO)
def test_what_would_change_something_is_advised(command: str | None) -> None:
    assert kept(command, WITH)


@pytest.mark.parametrize("command", SO)
def test_all_is_advised_where_nobody_knows_how_the_run_was_started(command: str) -> None:
    assert kept(command)


def test_what_some_ranks_lack_is_advised() -> None:
    assert kept("export PYTHONFAULTHANDLER=1", WITH, StartedWith())

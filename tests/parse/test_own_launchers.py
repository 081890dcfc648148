# SPDX-License-Identifier: Apache-2.0
"""How a process ended, in the words of launchers that people write themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.facts.process import ProcessExited
from keepstep.parse.scan.knowledge import build
from keepstep.parse.scan.logscan import LogScan
from keepstep.parse.tools.programs import process_ends


def facts_of(text: str) -> list[object]:
    return [seen.fact for seen in LogScan(build(process_ends.SIGNATURES, ())).scan([text.encode()])]


@pytest.mark.parametrize(
    ("text", "rank", "code", "signal"),
    [
        ("AssertionError: process 0 failed, return value: -6", 0, -6, None),
        ("launcher: rank 1 pid 6606 exited with signal 11 (SIGSEGV)", 1, None, "SIGSEGV"),
        ("[run.sh] worker 3 died with exit code 137", 3, 137, None),
        ("Task 12 exited with a non-zero exit status: 1", 12, 1, None),
        ("rank 2 (pid 411) was killed by signal 9", 2, None, "SIGKILL"),
    ],
)
def test_the_member_and_its_end_are_read(text: str, rank: int, code: int | None, signal: str | None) -> None:
    (fact,) = [fact for fact in facts_of(text) if isinstance(fact, ProcessExited)]
    assert (fact.rank, fact.code, fact.signal) == (rank, code, signal)


@pytest.mark.parametrize(
    "text",
    [
        "process 4711 failed to start",
        "rank 1 failed to connect, retrying",
        "worker 3 exited the barrier",
        "Task 5 ended in 12 s",
    ],
)
def test_other_words_are_no_end(text: str) -> None:
    assert not [fact for fact in facts_of(text) if isinstance(fact, ProcessExited)]


def test_who_reports_the_end_of_another_is_not_to_blame(tmp_path: Path) -> None:
    """As JAX's own multi-process test runner tells it, when process 1 was killed."""
    (tmp_path / "run.log").write_text(
        "E1116 16:51:11.250870   31937 coordination_service.cc:1549] Use error polling to propagate the following error to all tasks:"
        " UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n1\nThe tasks have crashed.\n"
        'Traceback (most recent call last):\n  File "/job/all_reduce_test.py", line 147, in <module>\n    main()\n'
        "AssertionError: process 0 failed, return value: -6\n"
    )
    root = explain_paths([tmp_path]).report.root
    assert root is not None and root.rule == "NET004" and root.ranks == (1,)

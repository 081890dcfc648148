# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check` and `keepstep run` say that is no problem: it is said once, and the status stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts import Fact, ScriptCalls, TraceSettings
from keepstep.model.report import Note
from keepstep.rules.notes import notes_on
from keepstep.sources.host import failure_trace
from keepstep.supervise.start.launch import Job
from keepstep.supervise.start.preflight import preflight, would_end_it

GOOD = {"host": "a", "faulthandler": True, "core_limit": None, "core_limit_most": None}


def note(*facts: Fact) -> Note | None:
    items = tuple(Evidence(fact=fact, origin=Origin(source="a check")) for fact in facts)
    found = notes_on(EvidenceSet(items=items), ())
    assert len(found) <= 1
    return found[0] if found else None


def settings(**changes: object) -> TraceSettings:
    return TraceSettings(**{**GOOD, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"log_level": 2}, "export TF_CPP_MIN_LOG_LEVEL=0"),
        ({"log_level": 3}, "export TF_CPP_MIN_LOG_LEVEL=0"),
        ({"faulthandler": False}, "export PYTHONFAULTHANDLER=1"),
        ({"core_limit": 0}, "ulimit -c unlimited"),
        ({"core_handler": "/usr/share/apport/apport"}, "sysctl -w kernel.core_pattern=core.%p   # as root"),
        ({"core_limit": 0, "core_limit_most": 0}, None),
    ],
)
def test_each_setting_that_hides_a_crash_is_said_with_the_line_to_set(
    changes: dict[str, object], line: str | None
) -> None:
    found = note(settings(**changes))
    assert found is not None and found.command == line


def test_nothing_is_said_where_a_crash_leaves_its_traces() -> None:
    assert note(settings()) is None
    assert note(settings(log_level=1)) is None
    assert note(settings(faulthandler=False), ScriptCalls(script="train.py", faulthandler=True)) is None


def test_many_hosts_are_one_note() -> None:
    found = note(*(settings(host=f"node-{n}", core_limit=0) for n in range(8)))
    assert found is not None and found.says.count("core file") == 1


def test_a_check_says_it_once_and_its_status_stays() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "PYTHONFAULT"))}
    env = {**clean, "TF_CPP_MIN_LOG_LEVEL": "3"}
    words = f"ulimit -S -c 0; exec {sys.executable} -m keepstep check resources --json"
    done = subprocess.run(["sh", "-c", words], env=env, capture_output=True, text=True, timeout=120)
    report = json.loads(done.stdout)
    (found,) = [each for each in report["notes"] if "crash" in each["says"]]
    assert "export TF_CPP_MIN_LOG_LEVEL=0" in found["command"].splitlines()
    assert "export PYTHONFAULTHANDLER=1" in found["command"].splitlines()
    assert done.returncode == (1 if report["findings"] else 0)
    assert not [each for each in report["coverage"] if "core" in each["what"]]


def test_a_run_sets_what_it_can_itself_and_says_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_trace, "PATTERN", tmp_path / "core_pattern")
    (tmp_path / "core_pattern").write_text("core\n")
    job = Job(command=("true",), cwd=tmp_path, members=(), as_given=True)
    for env, said in (({}, False), ({"TF_CPP_MIN_LOG_LEVEL": "3"}, True)):
        words, fatal = would_end_it(preflight(job, tmp_path, {"PATH": "/usr/bin", **env}, None))
        assert any("TF_CPP_MIN_LOG_LEVEL" in each for each in words) is said
        assert not any("faulthandler" in each or "`ulimit -c`" in each for each in words)
        assert not fatal

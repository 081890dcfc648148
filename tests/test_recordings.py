"""Real runs of this project's own lab, recorded: failing ones are explained, healthy ones stay silent.

``lab/record.py`` makes them; each folder's ``recording.json`` says what really happened.
"""

import json
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.core.report import Report, Verdict

FOLDER = Path(__file__).parent / "recordings"
RECORDINGS = sorted(p.parent.name for p in FOLDER.glob("*/recording.json"))


def told(name: str) -> dict:
    return json.loads((FOLDER / name / "recording.json").read_text())


def replay(name: str) -> Report:
    files = [p for p in sorted((FOLDER / name).rglob("*")) if p.is_file() and p.name != "recording.json"]
    folders = sorted({p for p in (FOLDER / name).iterdir() if p.name != "recording.json"})
    return explain_paths(folders if any(p.is_dir() for p in folders) else files).report


FAILING = [name for name in RECORDINGS if told(name)["cause"] is not None]
HEALTHY = [name for name in RECORDINGS if told(name)["cause"] is None]


@pytest.mark.parametrize("name", FAILING)
def test_a_failing_run_is_explained(name):
    expected = told(name)
    root = replay(name).root
    assert root is not None
    assert root.cause.value in {expected["cause"], *expected["also_accept"]}, root.title
    if expected["root_ranks"]:
        assert set(root.ranks) & set(expected["root_ranks"]), (root.ranks, expected["root_ranks"])
        assert len(root.ranks) <= max(2, len(expected["root_ranks"])), root.ranks


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_gives_no_finding(name):
    report = replay(name)
    assert [(f.rule, f.title, f.evidence[0].quote) for f in report.findings] == []
    assert report.verdict is Verdict.HEALTHY


def test_there_are_enough_of_them():
    frameworks = {told(name)["framework"] for name in RECORDINGS}
    assert len(FAILING) >= 20
    assert len(HEALTHY) >= 10
    assert len(frameworks) >= 3

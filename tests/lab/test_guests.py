# SPDX-License-Identifier: Apache-2.0
"""Guests: the catalogue is sound, the judging is strict, and a few of them really run, with and without keepstep."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep_lab.guests import judge, table
from keepstep_lab.guests.catalogue import GUESTS
from keepstep_lab.guests.faults import FAULTS
from keepstep_lab.guests.guest import PROGRAMS, Guest, Way
from keepstep_lab.guests.judge import Result
from keepstep_lab.guests.score import what_is_missing
from keepstep_lab.guests.visit import carry_out, prepared


def test_a_guest_has_its_files_and_only_faults_that_exist() -> None:
    for guest in GUESTS.values():
        assert all((PROGRAMS / name).is_file() for name in guest.files), guest.name
        assert guest.program in " ".join(guest.command), guest.name
        assert set(guest.faults) <= set(FAULTS), guest.name
        assert guest.note, guest.name


def test_a_program_knows_nothing_of_keepstep() -> None:
    for path in PROGRAMS.glob("*.py"):
        text = path.read_text()
        assert "KEEPSTEP" not in text, path.name
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.partition(".")[0] == "keepstep" for name in names), path.name


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Guest:
    (tmp_path / "program.py").write_text(text)
    for module in ("keepstep_lab.guests.visit", "keepstep_lab.guests.guest"):
        monkeypatch.setattr(f"{module}.PROGRAMS", tmp_path)
    return Guest("mine", "torch", "a program of this test", ("program.py",), ("python", "program.py"), limit=30.0)


def test_losses_are_found_whole_where_two_ranks_write_over_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = "print('loss 0.25rank 1 loss -1.5e-07\\n\\ntrain_loss=nan', flush=True)"
    with prepared(program(tmp_path, monkeypatch, torn), Way.PLAIN) as visit:
        carry_out(visit)
        assert visit.losses() == ["loss -1.5e-07", "loss 0.25", "loss=nan"]
        assert visit.status == 0


def test_what_a_program_leaves_is_noticed_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import subprocess\nopen('more17.txt', 'w')\nsubprocess.Popen(['sleep', '300'], "
        "start_new_session=True)\nprint('loss 1.0')"
    )
    monkeypatch.setattr("keepstep_lab.guests.visit.LEAVING_S", 0.5)
    with prepared(program(tmp_path, monkeypatch, text), Way.PLAIN) as visit:
        carry_out(visit)
        assert visit.left_running == ["sleep 300"]
        assert visit.files() == {"more#.txt"}
        wrong = judge.left_behind(visit, judge.Plain(["loss 1.0"], set(), 0.0))
        assert wrong == ["still running afterwards: sleep 300", "left beside the program: more#.txt"]
    assert not visit.work.exists()
    assert not any(
        "sleep" in path.read_text() for path in Path("/proc").glob("[0-9]*/environ") if _carries(path, visit.token)
    )


def _carries(path: Path, token: str) -> bool:
    try:
        return token.encode() in path.read_bytes()
    except OSError:
        return False


def test_a_word_of_keepstep_in_a_healthy_run_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "print('keepstep: run .keepstep/runs/x: 2 processes\\nkeepstep: finished with status 0\\nrank 0 | "
        "keepstep: rank 1 is slow')"
    )
    with prepared(program(tmp_path, monkeypatch, text), Way.PLAIN) as visit:
        carry_out(visit)
        assert judge.spoken(visit) == ["it said: keepstep: rank 1 is slow"]


def test_the_page_shows_what_was_wrong_and_what_was_not_run() -> None:
    results = [
        Result("torch_gpt", "plain"),
        Result("torch_gpt", "guard", wrong=["it said: a | b"]),
        Result("torch_gpt", "ranks"),
        Result("torch_spawn", "guard", skipped="needs torch"),
        Result("torch_gpt", "guard", fault="killed", said="unknown.not_established, rank 1"),
    ]
    page = table.markdown(results, "Made by a test.")
    assert "| torch_gpt | wrong: it said: a \\| b | ok | not run |" in page
    assert "| torch_spawn | skipped | does not apply | not run |" in page
    assert "| torch_gpt | killed | guard | ok | unknown.not_established, rank 1 |" in page
    assert "Made by a test. Healthy guests right 1 of 2; broken guests right 1 of 1; skipped 1" in page


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "way"), [pytest.param("torch_spawn", "guard", marks=pytest.mark.long), ("torch_gpt", "ranks")]
)
def test_a_healthy_guest_is_left_alone(name: str, way: str) -> None:
    if missing := what_is_missing(GUESTS[name]):
        pytest.skip(missing)
    command = [sys.executable, "-m", "keepstep", "lab", "guests", "run", name, "--way", way, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    results = json.loads(done.stdout)["results"]
    assert not [each["wrong"] for each in results if each["wrong"]]
    assert [each["way"] for each in results] == ["plain", way]
    assert done.returncode == 0
    assert all(rank["steps"] > 50 and rank["model"] for rank in results[-1]["seen"])

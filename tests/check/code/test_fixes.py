# SPDX-License-Identifier: Apache-2.0
"""``--fix`` changes what is safe to change, whole files or none, and nothing that is hidden or has changed."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from inspect import cleandoc
from pathlib import Path

import pytest

from keepstep.check.code.apply_fixes import apply_fixes, edit_of
from keepstep.check.code.check_code import CodeRequest, check_code
from keepstep.model.finding import Finding
from keepstep.rules import code_rules
from tests.check.code.test_check_code import keepstep
from tests.lazy_framework import need_framework

PROGRAMS = Path(__file__).parent / "programs"
EPOCHS = """\
from torch.utils.data import DataLoader, DistributedSampler


def train(data, step):
    sampler = DistributedSampler(data){}
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    total = 0.0
    for epoch in range(10):{}
        for batch in loader:
            loss = step("ä", batch)
            loss.backward()
            total += loss
"""
FIXED = """\
        sampler.set_epoch(epoch)
        for batch in loader:
            loss = step("ä", batch)
            loss.backward()
            total += loss.detach()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(EPOCHS.format("", ""))
    return path


def fix(script: Path, *words: str) -> tuple[int, str, str]:
    done = keepstep("check", "code", script.name, *words, cwd=script.parent)
    return done.returncode, done.stdout, done.stderr


def test_what_is_safe_is_changed_and_told(script: Path) -> None:
    os.chmod(script, 0o754)
    status, out, err = fix(script, "--fix")
    assert (status, out) == (0, "no problems found in 1 file\n")
    assert "fixed: train.py:8: COD105" in err and "fixed: train.py:12: COD115" in err
    assert script.read_text().endswith("range(10):\n" + FIXED)
    assert script.stat().st_mode & 0o777 == 0o754
    assert [each.name for each in script.parent.iterdir()] == ["train.py"]


@pytest.mark.parametrize(
    ("encoding", "end", "head"),
    [
        ("utf-8", "\r\n", ""),
        ("latin-1", "\n", "# -*- coding: latin-1 -*-\n"),
        ("utf-8-sig", "\n", ""),
        ("utf-8", "\r", ""),
    ],
)
def test_ends_of_lines_and_encoding_stay(script: Path, encoding: str, end: str, head: str) -> None:
    before = (head + EPOCHS.format("", "")).replace("\n", end)
    script.write_bytes(before.encode(encoding))
    assert fix(script, "--fix")[0] == 0
    after = script.read_bytes().decode(encoding)
    assert after.endswith(FIXED.replace("\n", end)) and after.count(end) == before.count(end) + 1
    assert ("\n" in after.replace(end, "")) is False


def test_the_changes_are_shown_without_being_made(script: Path) -> None:
    before = script.read_text()
    status, out, err = fix(script, "--show-fixes")
    assert status == 1 and script.read_text() == before
    assert "+        sampler.set_epoch(epoch)\n" in out and "-            total += loss\n" in out
    assert "2 problems would be fixed, 0 would remain" in err


def test_what_is_switched_off_or_known_stays_as_it_is(script: Path) -> None:
    script.write_text(EPOCHS.format("", "  # keepstep: ignore[COD105] one pass over the data"))
    (script.parent / "keepstep.toml").write_text('[check.code]\nper-file-ignores = { "train.py" = ["COD115"] }\n')
    before = script.read_text()
    assert fix(script, "--fix")[0] == 0 and script.read_text() == before
    script.write_text(EPOCHS.format("", ""))
    (script.parent / "keepstep.toml").unlink()
    fix(script, "--write-baseline", "known.json")
    assert fix(script, "--fix", "--baseline", "known.json")[0] == 0
    assert script.read_text() == EPOCHS.format("", "")


def test_a_file_that_changed_meanwhile_is_left_alone(script: Path) -> None:
    checked = check_code(CodeRequest(paths=(script,)))
    script.write_text("import os\n" + EPOCHS.format("", ""))
    done = apply_fixes(checked.report.findings, checked.programs, checked.digests)
    assert done.made == () and [why for _, why in done.refused] == ["it changed while it was checked"]
    assert script.read_text().startswith("import os\n")


def test_a_link_stays_a_link_and_a_file_of_two_names_is_left_alone(script: Path) -> None:
    real = script.rename(script.with_name("real.txt"))
    script.symlink_to(real)
    assert fix(script, "--fix")[0] == 0
    assert script.is_symlink() and "set_epoch" in real.read_text()
    real.write_text(EPOCHS.format("", ""))
    os.link(real, script.with_name("other.txt"))
    status, _, err = fix(script, "--fix")
    assert status == 1 and "several names" in err and real.read_text() == EPOCHS.format("", "")


@pytest.mark.parametrize(
    "text",
    [
        EPOCHS.format("", "").replace("range(10):", "range(10):\n        # each of them"),
        EPOCHS.format("", "").replace("    sampler = D", "    if data:\n        sampler = D"),
        EPOCHS.format("", "").replace("for epoch in range(10)", "for epoch, name in enumerate('ab')"),
    ],
)
def test_a_way_of_writing_that_is_not_known_is_not_touched(script: Path, text: str) -> None:
    script.write_text(text)
    findings = check_code(CodeRequest(paths=(script,), select=("COD105",))).report.findings
    assert len(findings) == 1 and edit_of(findings[0], unsafe=True) is None


def test_what_changes_results_is_changed_only_if_that_is_wanted(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import tensorflow as tf\n\nPER_REPLICA = 32\nstrategy = tf.distribute.MirroredStrategy()\n"
        "size = PER_REPLICA * strategy.num_replicas_in_sync\n"
        "data = tf.data.Dataset.range(1024).batch(PER_REPLICA)\n"
        "batches = strategy.experimental_distribute_dataset(data)\n"
    )
    before = script.read_text()
    assert fix(script, "--fix", "--select", "COD208")[0] == 1 and script.read_text() == before
    assert fix(script, "--fix", "--unsafe-fixes", "--select", "COD208")[0] == 0
    assert ".batch(PER_REPLICA * strategy.num_replicas_in_sync)\n" in script.read_text()


def test_options_that_do_not_go_together_are_refused(script: Path) -> None:
    assert "nothing asks for any" in fix(script, "--unsafe-fixes")[2]
    assert "--write-baseline keeps" in fix(script, "--fix", "--write-baseline", "x.json")[2]
    assert fix(script, "--stdin-filename", "x.py")[0] == 2


Fixed = tuple[list[Finding], set[tuple[str, str]], set[tuple[str, str]]]
WRONG = sorted(path for part in ("shown", "held_out", "added") for path in (PROGRAMS / part).glob("*/wrong*"))


@pytest.fixture
def fixed(tmp_path: Path) -> Fixed:
    """The labelled programs with all changes made: what was fixed, and by rule and file what was found and is left."""
    for path in WRONG:
        shutil.copytree(path.parent, tmp_path / path.parent.name, ignore=shutil.ignore_patterns("right*"))
    asked = CodeRequest(paths=(tmp_path,), preview=True, cache=False)
    before = check_code(asked)
    done = apply_fixes(before.report.findings, before.programs, before.digests, unsafe=True)
    assert done.refused == ()
    after = check_code(asked)
    return list(done.made), places(before.report.findings), places(after.report.findings)


def places(findings: Iterable[Finding]) -> set[tuple[str, str]]:
    return {(each.rule, each.evidence[0].origin.source) for each in findings}


def test_a_fixed_program_has_no_such_finding_no_other_one_and_is_still_python(fixed: Fixed) -> None:
    made, before, after = fixed
    assert {each.rule for each in made} >= {"COD105", "COD115", "COD208", "COD214", "COD305"} and len(made) >= 8
    assert not places(made) & after
    assert after <= before
    for each in made:
        ast.parse(Path(each.evidence[0].origin.source).read_text())


@pytest.mark.long
@pytest.mark.frameworks
def test_a_fixed_program_runs_on_two_ranks(fixed: Fixed) -> None:
    need_framework("torch")
    programs = sorted({each.evidence[0].origin.source for each in fixed[0] if each.rule in ("COD105", "COD115")})
    assert len(programs) >= 4
    command = [sys.executable, str(Path(__file__).with_name("two_ranks.py")), *programs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    happened = {row["program"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert {path: row["end"] for path, row in happened.items()} == dict.fromkeys(programs, "ok")


@pytest.mark.parametrize(("told", "left"), [("", 0), (", shuffle=True", 0), (", shuffle=False", 1)])
def test_a_loader_keeps_its_order_where_the_sampler_has_none(tmp_path: Path, told: str, left: int) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from torch.utils.data import DataLoader, DistributedSampler\n\n\ndef load(data):\n"
        f"    sampler = DistributedSampler(data{told})\n"
        "    return DataLoader(data, sampler=sampler, shuffle=True)\n"
    )
    assert fix(script, "--fix", "--select", "COD104")[0] == left


@pytest.mark.parametrize("rule", ["COD104", "COD105", "COD108", "COD115", "COD208", "COD214", "COD305", "COD306"])
def test_the_example_of_a_rule_is_fixed(tmp_path: Path, rule: str) -> None:
    doc = next(each.doc for each in code_rules() if each.id == rule)
    script = tmp_path / "train.py"
    script.write_text(cleandoc(doc).split("```python\n")[1].partition("```")[0])
    status, out, err = fix(script, "--fix", "--unsafe-fixes", "--select", rule)
    assert (status, "fixed: train.py:" in err) == (0, True), out + script.read_text()

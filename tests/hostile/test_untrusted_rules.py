# SPDX-License-Identifier: Apache-2.0
"""Python from a folder that the user did not name never runs, and a stranger's settings stop nothing."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.cli.parser import run
from keepstep.errors import UserError
from keepstep.extend import Extensions, load_extensions
from keepstep.extend.rule_folders import user_folder
from tests.hostile.rules import with_python_rules

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    return tmp_path / "settings" / "keepstep"


def found(folder: Path) -> Extensions:
    return load_extensions(start=folder, installed=False)


def said(own: Extensions) -> str:
    return "\n".join(f"{each.what}: {each.why}" for each in own.coverage)


def test_python_of_a_config_that_was_merely_found_does_not_run(tmp_path: Path) -> None:
    rules = with_python_rules(tmp_path / "project", tmp_path / "ran")
    own = found(tmp_path / "project")
    assert not (tmp_path / "ran").exists()
    assert [rule.name for rule in own.rules] == ["quota-refused"], "its signatures are used"
    assert f"1 Python file in {rules}" in said(own)
    assert f"keepstep rules trust {rules}" in said(own)


@pytest.mark.parametrize("named", ["config", "folder", "settings"])
def test_python_of_a_folder_that_the_user_named_runs(tmp_path: Path, named: str, own_settings: Path) -> None:
    rules = with_python_rules(tmp_path / "project", tmp_path / "ran")
    (tmp_path / "elsewhere").mkdir()
    if named == "config":
        own = load_extensions(tmp_path / "project" / "keepstep.toml", installed=False)
    elif named == "folder":
        own = load_extensions(folders=[rules], start=tmp_path / "elsewhere", installed=False)
    else:
        own_settings.mkdir(parents=True)
        (own_settings / "config.toml").write_text(f'[rules]\nfolders = ["{rules}"]\n')
        own = found(tmp_path / "elsewhere")
    assert (tmp_path / "ran").exists()
    assert not own.coverage
    assert own.rules


def test_a_decision_holds_for_this_path_and_these_files_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "ran"
    rules = with_python_rules(tmp_path / "project", marker)
    (rules / "_shared.py").write_text("x = 1\n")
    assert run(["rules", "trust", str(rules)]) == 0
    assert "evil.py" in capsys.readouterr().out
    assert not found(tmp_path / "project").coverage
    assert marker.exists()
    marker.unlink()

    copied = with_python_rules(tmp_path / "copy", marker)
    (copied / "_shared.py").write_text("x = 1\n")
    assert "you have not trusted this folder" in said(found(tmp_path / "copy"))
    for change in ("evil.py", "_shared.py", "more.py"):
        before = (rules / change).read_text() if (rules / change).exists() else None
        (rules / change).write_text("import this_is_not_looked_for\n")
        assert "have changed since" in said(found(tmp_path / "project"))
        (rules / change).write_text(before) if before is not None else (rules / change).unlink()
    assert not marker.exists()
    assert not found(tmp_path / "project").coverage
    assert marker.exists()


def test_decisions_are_listed_and_taken_back(
    tmp_path: Path, own_settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = with_python_rules(tmp_path / "project", tmp_path / "ran")
    assert run(["rules", "trust", str(tmp_path / "project")]) == 0, "by the folder of its keepstep.toml, too"
    assert (own_settings / "trusted.json").stat().st_mode & 0o777 == 0o600
    assert own_settings.stat().st_mode & 0o777 == 0o700
    assert run(["rules", "trust", "--list"]) == 0
    assert str(rules) in capsys.readouterr().out
    assert run(["rules", "trust", "--forget", str(rules)]) == 0
    assert "you have not trusted this folder" in said(found(tmp_path / "project"))
    assert run(["rules", "trust", "--forget", str(rules)]) == 2
    (tmp_path / "empty").mkdir()
    assert run(["rules", "trust", str(tmp_path / "empty")]) == 2


def test_a_compiled_file_beside_a_trusted_one_is_not_used(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    rules = with_python_rules(tmp_path / "project", marker)
    source = rules / "evil.py"
    py_compile.compile(str(source), doraise=True)
    info = source.stat()
    source.write_text("#" * (info.st_size - 1) + "\n")  # as long and as old as what was compiled
    os.utime(source, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert run(["rules", "trust", str(rules)]) == 0
    assert not found(tmp_path / "project").coverage
    assert not marker.exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[rules\n", "not valid TOML"),
        ("rules = 3\n", "must be a path"),
        ('[rules]\nfolder = "nowhere"\n', "does not exist"),
        ('[rules]\nfolder = "/etc"\n', "is not below it"),
        ('[rules]\nfolder = ".."\n', "is not below it"),
        ('[rules]\nfolder = "~no-such-user/x"\n', "must be a path"),
        ('[rules]\nfolder = "a\\u0000b"\n', "must be a path"),
        ("x = " + "[" * 100_000, "not valid TOML"),
        ("# " + "x" * (2 << 20), "larger than a megabyte"),
    ],
)
def test_a_wrong_config_that_was_merely_found_stops_nothing(tmp_path: Path, text: str, told: str) -> None:
    with_python_rules(tmp_path, tmp_path / "ran")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "keepstep.toml").write_text(text)
    own = found(tmp_path / "below")
    assert "skipped" in said(own) and told in said(own)
    assert own.rules, "the next one upwards is used"


def test_a_wrong_config_that_was_named_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "keepstep.toml").write_text("[rules\n")
    with pytest.raises(UserError, match="not valid TOML"):
        load_extensions(tmp_path / "keepstep.toml", installed=False)


def test_a_config_that_is_a_pipe_or_a_device_stops_nothing(tmp_path: Path) -> None:
    for name, target in (("a", None), ("b", "/dev/zero")):
        (tmp_path / name).mkdir()
        if target is None:
            os.mkfifo(tmp_path / name / "keepstep.toml")
        else:
            (tmp_path / name / "keepstep.toml").symlink_to(target)
        assert "not a regular file" in said(found(tmp_path / name))


@pytest.mark.parametrize("what", ["keepstep.toml", "own", "own/quota.toml"])
def test_what_others_can_change_is_skipped(tmp_path: Path, what: str) -> None:
    with_python_rules(tmp_path, tmp_path / "ran")
    (tmp_path / what).chmod(0o777)
    own = found(tmp_path)
    assert not own.rules
    assert "other users can change it" in said(own)


@ROOT_ONLY
@pytest.mark.parametrize("what", ["keepstep.toml", "own", "own/quota.toml"])
def test_what_belongs_to_another_user_is_skipped(tmp_path: Path, what: str) -> None:
    with_python_rules(tmp_path, tmp_path / "ran")
    os.chown(tmp_path / what, 4321, 4321)
    own = found(tmp_path)
    assert not own.rules
    assert "belongs to another user" in said(own)


@ROOT_ONLY
def test_decisions_in_a_file_that_another_user_owns_do_not_count(tmp_path: Path, own_settings: Path) -> None:
    rules = with_python_rules(tmp_path / "project", tmp_path / "ran")
    assert run(["rules", "trust", str(rules)]) == 0
    os.chown(own_settings / "trusted.json", 4321, 4321)
    assert "you have not trusted this folder" in said(found(tmp_path / "project"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": "keepstep.trust/1", "folders": 3}',
        '{"schema": "keepstep.trust/1", "folders": {"/": 1}}',
    ],
)
def test_damaged_decisions_are_none(tmp_path: Path, own_settings: Path, text: str) -> None:
    rules = with_python_rules(tmp_path / "project", tmp_path / "ran")
    own_settings.mkdir(parents=True)
    (own_settings / "trusted.json").write_text(text)
    assert "you have not trusted this folder" in said(found(tmp_path / "project"))
    assert run(["rules", "trust", str(rules)]) == 0
    assert not found(tmp_path / "project").coverage


def test_settings_of_ones_own_that_are_wrong_are_said(tmp_path: Path, own_settings: Path) -> None:
    own_settings.mkdir(parents=True)
    (own_settings / "config.toml").write_text("[rules]\nfolders = 3\n")
    assert "folders must be a list of paths" in said(found(tmp_path))
    assert user_folder() == own_settings


def test_a_link_to_python_elsewhere_is_not_run_even_where_it_is_trusted(tmp_path: Path) -> None:
    rules = with_python_rules(tmp_path / "project", tmp_path / "ran")
    (rules / "evil.py").rename(tmp_path / "outside.py")
    (rules / "link.py").symlink_to(tmp_path / "outside.py")
    (rules / "fine.py").write_text("x = 1\n")
    assert run(["rules", "trust", str(rules)]) == 0
    assert "link that leads out of the folder" in said(found(tmp_path / "project"))
    assert not (tmp_path / "ran").exists()


def test_modules_of_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    for module in ("hyperscan", "zstandard", "rich", "json", "argparse", "tomllib", "psutil", "jinja2", "evil"):
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    described = tmp_path / "evil-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Name: evil\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[keepstep.rules]\nevil = evil\n")
    (tmp_path / "a.log").write_text("step 1\n")
    command = [
        sys.executable,
        "-m",
        "keepstep",
        "why",
        "--no-kernel-log",
        "--html",
        "page.html",
        "--bundle",
        "all.tar.gz",
        "a.log",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 3), done.stderr
    assert not (tmp_path / "ran").exists()


def test_one_file_that_cannot_be_read_leaves_the_others_of_a_named_folder(tmp_path: Path) -> None:
    rules = with_python_rules(tmp_path / "project", tmp_path / "ran")
    os.mkfifo(rules / "pipe.py")
    own = load_extensions(folders=[rules], start=tmp_path, installed=False)
    assert (tmp_path / "ran").exists()
    assert "pipe.py: not a regular file" in said(own)
    (tmp_path / "ran").unlink()
    assert run(["rules", "trust", str(rules)]) == 2, "what is trusted has to be known"
    assert "pipe.py" in said(found(tmp_path / "project")) and not (tmp_path / "ran").exists()


def test_a_current_folder_that_is_gone_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert load_extensions(installed=False) == Extensions()
    monkeypatch.chdir(tmp_path)

# SPDX-License-Identifier: Apache-2.0
"""``keepstep completion`` and ``keepstep manual``, in the shells and the formatter that are installed."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest

from keepstep.cli import own_crash
from keepstep.cli.completion import bash, fish, zsh
from keepstep.cli.completion.commands import Command, Takes, command_of, suggestions
from keepstep.cli.completion.manual import page
from keepstep.cli.parser import VERBS, build, run
from tests.supervise.starting import wait_for

KEEPSTEP = command_of(build(), suggestions())
COMMANDS = list(KEEPSTEP.walk())
ASK_BASH = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _keepstep; printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "keepstep.bash"
    path.write_text(bash.script(KEEPSTEP))
    return path


def completed(script: Path, *words: str, folder: Path | None = None) -> list[str]:
    """What bash offers for the last word."""
    asked = ["bash", "--norc", "-c", ASK_BASH, "bash", str(script), "keepstep", *words]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=folder, timeout=30)
    assert done.stderr == ""
    return done.stdout.split()


def test_the_verbs_are_those_of_the_parser() -> None:
    below = [" ".join(each.path) for verb in KEEPSTEP.commands for each in (verb, *verb.commands)]
    assert [each for each in below if each in VERBS] == list(VERBS)
    assert {each.path[0] for each in KEEPSTEP.commands} == {verb.split()[0] for verb in VERBS}
    assert tuple(VERBS) == own_crash.VERBS


def test_every_suggestion_has_its_place() -> None:
    places = {
        (" ".join(command.path), value.name)
        for command in COMMANDS
        for value in (command.value, *(option.value for option in command.options))
        if value is not None and value.takes is Takes.WORDS
    }
    assert set(suggestions()) <= places


def test_bash_offers_every_command_and_option(script: Path) -> None:
    for command in COMMANDS:
        options = [name for option in command.options for name in option.names]
        assert completed(script, *command.path, "-") == options
        if command.commands:
            words = command.value.words if command.value else ()
            assert completed(script, *command.path, "") == [*words, *(each.path[-1] for each in command.commands)]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["w"], ["why", "watch"]),
        (["run", "--remedy", ""], ["off", "safe", "ask", "all"]),
        (["run", "--remedy", "=", "a"], ["ask", "all"]),
        (["check", "--wait", "net"], ["network"]),
        (["check", "da"], ["data"]),
        (["check", "data", "ra"], ["rank0.log"]),
        (["check", "data", "--quar"], ["--quarantine"]),
        (["rules", "show", "NET002"], ["NET002"]),
        (["rules", "--config", "list", "sh"], ["show"]),
        (["lab", "run", "torch_detail_s"], ["torch_detail_segfault"]),
        (["lab", "guests", "run", "--fault", "al"], ["all"]),
        (["why", "--pid", ""], []),
        (["run", "-n", "4", "--", "env", "--help", ""], ["rank0.log"]),
        (["run", "env", "--remedy", ""], ["rank0.log"]),
        (["why", "ra"], ["rank0.log"]),
        (["why", "--html", "ra"], ["rank0.log"]),
        (["why", "--rules", ""], []),
    ],
)
def test_bash_offers_what_may_follow(script: Path, words: list[str], offered: list[str], tmp_path: Path) -> None:
    (tmp_path / "rank0.log").touch()
    assert completed(script, *words, folder=tmp_path) == offered


def test_bash_offers_runs_by_their_names(script: Path, tmp_path: Path) -> None:
    (tmp_path / ".keepstep" / "runs" / "20261118T020126Z-train").mkdir(parents=True)
    assert completed(script, "why", "la", folder=tmp_path) == ["last"]
    assert completed(script, "why", "2026", folder=tmp_path) == ["20261118T020126Z-train"]


def test_bash_offers_commands_after_the_dashes_of_run(script: Path) -> None:
    assert "bash" in completed(script, "run", "-n", "2", "--", "bas")


def test_the_tab_key_completes(script: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {"PATH": os.environ["PATH"], "TERM": "dumb"})
    try:
        os.write(terminal, f'source {quote(str(script))}; keepstep() {{ echo "$*" >{quote(str(told))}; }}\n'.encode())
        os.write(terminal, b"keepstep rul\tsh\tNET002\tx\n")
        wait_for(lambda: told.exists() and told.read_text() != "", 20)
        assert told.read_text() == "rules show NET002 x\n"
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


@pytest.mark.parametrize(("shell", "made"), [("zsh", zsh.script(KEEPSTEP)), ("fish", fish.script(KEEPSTEP))])
def test_the_other_shells_can_read_theirs(shell: str, made: str, tmp_path: Path) -> None:
    assert all(name in made for name in ("why", "seconds-per-file", "torch_segfault", "NET002"))
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "keepstep"
    path.write_text(made)
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def options_of(command: Command) -> list[str]:
    return [name for option in command.options for name in option.names if option.names != ("-h", "--help")]


def test_the_manual_has_every_command_and_option() -> None:
    text = page(build()).replace("\\-", "-")
    for command in COMMANDS[1:]:
        section = text.split(f".SS keepstep {' '.join(command.path)}\n")[1].split("\n.SS ")[0].split("\n.SH ")[0]
        assert all(f"\\fB{name}\\fR" in section for name in options_of(command))
    assert ".SH EXIT STATUS" in text and ".SH EXAMPLES" in text


def test_the_formatter_has_nothing_to_say_against_the_manual() -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    asked = ["groff", "-man", "-ww", "-Tascii"]
    done = subprocess.run(asked, input=page(build()), capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert "kubectl logs job/train | keepstep why -" in done.stdout


def test_the_verbs_print_them(capsys: pytest.CaptureFixture[str]) -> None:
    for shell, module in (("bash", bash), ("zsh", zsh), ("fish", fish)):
        assert run(["completion", shell]) == 0
        assert capsys.readouterr().out == module.script(KEEPSTEP)
    assert run(["manual"]) == 0
    assert capsys.readouterr().out == page(build())


def test_every_help_text_fits_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            run([*command.path, "--help"])
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80, command.path


def test_help_loads_no_verb() -> None:
    code = "import sys; from keepstep.cli.parser import run\ntry: run(['--help'])\nexcept SystemExit: pass\n"
    code += "print([m for m in sys.modules if m.startswith('keepstep.cli.') and 'arguments' not in m], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "['keepstep.cli.parser']\n"

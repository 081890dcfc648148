# SPDX-License-Identifier: Apache-2.0
"""Every command of every fix can be pasted into a shell; what belongs into a program is shown as code.

Looked at are the commands as the rules write them, those of each rule that fires, and those in all recordings' reports.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import RUN_FOLDER, Fix
from keepstep.model.report import Report
from tests.rules.test_every_rule_fires import FAMILIES, entries, report_on

SOURCE = Path(__file__).parents[2] / "src" / "keepstep"
RECORDINGS = Path(__file__).parents[1] / "recordings"
PROGRAMS = set(
    """
    awk bash cat chronyc column command compute-sanitizer conda curl cut dcgmi dd df dmesg docker du echo env
    ethtool export file find firewall-cmd free fuser gcloud gdb getent grep head horovodrun hostname ib_write_bw
    ibstat ibv_devinfo iostat ip iperf3 iptables journalctl keepstep kill kubectl ldconfig ldd ls lscpu lsof
    md5sum mkdir mount mpirun nc numactl nvidia-smi pgrep ping pip ps py-spy pystack python quota ray rm
    rocm-smi sacct sbatch scontrol sed sha256sum show_gids sinfo sort squeue srun ss ssh stat sudo sysctl
    systemctl tail taskset tc tee timedatectl top torchrun tracepath true ulimit umask uname uniq unset valgrind
    wc
    """.split()
)
"""What a command may begin with. Add a program that you advise."""
_ASSIGNED = re.compile(r"^(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\$\([^)]*\)|\S*)\s*)+")
_STRINGS = re.compile(r"'[^']*'|\"[^\"]*\"|\$\([^()]*\)")
_LOUD = re.compile(r"(?<![\w$/.=:,{%-])[A-Z][A-Z0-9_]+(?![\w=,:/-])")
"""A word in capitals that no variable, option or path contains: the reader has to replace it."""
OF_TOOLS = {"INPUT", "ACCEPT", "COMPUTE", "ECC", "TF_CONFIG", "MASTER_PORT"}


def parses(command: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False).returncode == 0


def faults(command: str) -> Iterator[str]:
    """What keeps a command from being pasted."""
    if "..." in command or "…" in command:
        yield "an ellipsis"
    bare = _STRINGS.sub("x", re.sub(r"\s#.*", "", command.replace(RUN_FOLDER, "runs/one")))
    for part in re.split(r"[;|&\n]+", bare):
        words = _ASSIGNED.sub("", part.strip()).split()
        if words and words[0] not in PROGRAMS:
            yield f"{words[0]!r} is no program"
    blank = set(Fix(do="", command=command).blanks)
    unknown = {word for word in _LOUD.findall(bare)} - blank - OF_TOOLS
    if unknown and not bare.startswith(("export ", "unset ")):
        yield f"{unknown} is neither filled in nor marked"


def all_faults(commands: set[str]) -> dict[str, list[str]]:
    found = {each: list(faults(each)) for each in sorted(commands)}
    whole = "".join(
        f"f{n}() {{\n:\n{each.replace(RUN_FOLDER, 'runs')}\n}}\n" for n, each in enumerate(sorted(commands))
    )
    if not parses(whole):
        for each in commands:
            if not parses(each):
                found[each].append("no shell can parse it")
    return {each: why for each, why in found.items() if why}


def is_code(text: str) -> bool:
    """Whether Python can parse it, as a statement or the head of one; a job script's line is a comment to it."""
    for whole in (text, f"{text} pass"):
        try:
            ast.parse(whole)
        except SyntaxError:
            continue
        return True
    return False


def written(name: str) -> set[str]:
    """What all rules pass to ``Fix`` under a name, with a word for each value that is filled in."""
    found = set()
    for path in (*(SOURCE / "rules").rglob("*.py"), *(SOURCE / "supervise" / "decide").glob("*.py")):
        text = path.read_text("utf-8")
        for call in ast.walk(ast.parse(text)) if f"{name}=" in text else ():
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("Fix", "Remedy"):
                found |= {text for kw in call.keywords if kw.arg == name for text in _texts(kw.value)}
    return found


def _texts(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.IfExp):
        yield from _texts(value.body)
        yield from _texts(value.orelse)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.JoinedStr):
        parts = (each.value if isinstance(each, ast.Constant) else "7" for each in value.values)
        text = "".join(map(str, parts))
        if not text.startswith("7"):  # what the command begins with is filled in: seen where its rule fires
            yield text


def test_commands_as_rules_write_them() -> None:
    commands = written("command")
    assert len(commands) > 100
    assert all_faults(commands) == {}


def test_code_as_rules_write_it() -> None:
    code = written("code")
    assert len(code) > 40
    assert [each for each in code if not is_code(each)] == []


def of(report: Report) -> set[str]:
    return {fix.command for finding in report.findings for fix in finding.fixes if fix.command}


@pytest.mark.parametrize("family", FAMILIES)
def test_commands_of_each_rule_that_fires(family: str, tmp_path: Path) -> None:
    commands = set()
    for number, entry in enumerate(entries(family)):
        commands |= of(report_on(entry, tmp_path / str(number)))
    assert all_faults(commands) == {}


@pytest.mark.long
def test_commands_in_the_reports_of_recordings() -> None:
    commands = set()
    for folder in [each for each in sorted(RECORDINGS.iterdir()) if each.is_dir()]:
        commands |= of(explain_paths([folder]).report)
    assert commands
    assert all_faults(commands) == {}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("print(labels.min())", "no shell can parse it"),
        ("nc -vz the coordination service PORT", None),
        ("drop_remainder=True  # torch: drop_last=True", None),
        ("torchrun ...", "an ellipsis"),
        ("strategy.run(step)", "no shell can parse it"),
        ("kill THAT_ONE", "{'THAT_ONE'} is neither filled in nor marked"),
    ],
)
def test_the_test_knows_what_cannot_be_pasted(command: str, why: str | None) -> None:
    found = all_faults({command}).get(command, [])
    assert why is None or why in found


def test_a_command_says_what_to_replace_in_it() -> None:
    assert Fix(do="", command="nc -vz HOST PORT; kill -CONT PID").blanks == ("HOST", "PORT", "PID")
    assert Fix(do="", command="export NCCL_DEBUG=INFO; sacct -u $USER -o JobID").blanks == ()

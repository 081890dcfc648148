# SPDX-License-Identifier: Apache-2.0
"""``keepstep lab`` where the package ``keepstep-lab`` is not installed, and what goes on working without it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = """
import sys
from pathlib import Path

sys.path = [each for each in sys.path if not (Path(each or ".") / "keepstep_lab").exists()]
from keepstep.cli import main

main()
"""


def keepstep(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, in an interpreter that has no place in which the lab could be found."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments], capture_output=True, text=True, timeout=60, cwd=ROOT
    )


@pytest.mark.parametrize("words", [(), ("--help",), ("list",), ("run", "torch_segfault", "--json"), ("nodes", "list")])
def test_it_says_in_one_line_what_to_install(words: tuple[str, ...]) -> None:
    done = keepstep("lab", *words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("keepstep: the lab is a package of its own, keepstep-lab, which is not installed")
    named = re.search(r"`pip install \./(\w+)`", line)
    assert named is not None
    assert 'name = "keepstep-lab"' in (ROOT / named[1] / "pyproject.toml").read_text()


@pytest.mark.parametrize("words", [("--help",), ("manual",), ("completion", "bash"), ("completion", "zsh")])
def test_help_manual_and_completion_know_the_verb(words: tuple[str, ...]) -> None:
    done = keepstep(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"\blab\b", done.stdout)
    assert "torch_segfault" not in done.stdout.replace("keepstep lab run torch_segfault", "")


def test_the_other_verbs_do_not_need_it() -> None:
    done = keepstep("why", str(ROOT / "tests" / "recordings" / "torch_full_disk"))
    assert done.returncode == 1 and "disk" in done.stdout

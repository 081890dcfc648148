# SPDX-License-Identifier: Apache-2.0
"""The user's command: what every rank runs, as how many, and how to start a smaller one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import open_regular
from keepstep.check.memory.launch_line import understood
from keepstep.errors import UserError

KNOWN = ("python", "torchrun", "accelerate")
LARGEST_SCRIPT = 1 << 20
OPTIONS_OF_RUN = {"-n": "ranks", "--ranks": "ranks", "--ps": "ps"}
FLAGS_OF_RUN = {"--chief": "chief", "--evaluator": "evaluator"}


@dataclass(frozen=True)
class LaunchLine:
    """``ranks`` is None for a program that starts its ranks itself; ``by`` is the launcher that the user named."""

    python: str
    script: str
    words: tuple[str, ...]
    """The script's arguments."""
    ranks: int | None
    by: str
    """``torchrun``, ``keepstep``, ``python`` or ``given``."""
    roles: tuple[tuple[str, Any], ...] = ()
    given: tuple[str, ...] = ()
    """Of another program that starts the ranks (`mpirun`, a shell script): the command before ``words``."""

    def order(self) -> dict[str, Any]:
        """For a trial."""
        begin = self.given or (self.python, self.script)
        return {"command": [*begin, *self.words], "ranks": self.ranks, "roles": dict(self.roles)}

    def beside(self) -> list[str]:
        """The files of the command that are no Python: a shell script that starts the ranks."""
        root = os.path.join(os.path.dirname(self.script), "")
        return [each for each in self.given if each.startswith(root) and not each.endswith(".py")]

    def line(self, script: str) -> str:
        """To paste."""
        words = shlex.join(self.words)
        tail = f"{script} {words}".rstrip()
        if self.by == "torchrun":
            return f"torchrun --standalone --nproc-per-node {self.ranks} {tail}"
        if self.given:
            root = os.path.join(os.path.dirname(self.script), "")
            given = [self.given[0].replace(root, "./"), *(each.replace(root, "") for each in self.given[1:])]
            programs = [os.path.basename(each) if os.path.isabs(each) else each for each in given]
            return shlex.join([*programs, *self.words])
        if self.ranks is None:
            return f"python {tail}"
        roles = "".join(f" --{name}" + (f" {value}" if value is not True else "") for name, value in self.roles)
        return f"keepstep run -n {self.ranks}{roles} -- python {tail}"

    def smaller(self, ranks: int | None, words: tuple[str, ...]) -> LaunchLine:
        return replace(self, ranks=ranks, words=words)


def launch_line(command: list[str]) -> LaunchLine:
    """What a command line means. Raises :class:`UserError`."""
    if not command:
        raise UserError(
            "no command is given", hint="for instance: keepstep shrink -- torchrun --nproc-per-node 4 train.py"
        )
    if Path(command[0]).name == "keepstep" and command[1:2] == ["run"]:
        return _of_run(command[2:])
    if not Path(command[0]).name.startswith(KNOWN) and not command[0].endswith(".py"):
        return _as_given(command)
    line = understood(command)
    if not line.script:
        raise UserError("only a script can be made smaller, not a module", hint="give the path of the .py file")
    launched = line.ranks is not None
    return LaunchLine(
        line.python, os.path.abspath(line.script), line.arguments, line.ranks, "torchrun" if launched else "python"
    )


def _as_given(command: list[str]) -> LaunchLine:
    """A program that starts the ranks in its own way. The script is a word of the command, or of its shell script."""
    found = shutil.which(command[0])
    if found is None:
        raise UserError(f"program {command[0]} not found", hint="give the command as you would type it in the shell")
    words = [os.path.abspath(each) if os.path.isfile(each) else each for each in command]
    at = next((n for n, word in enumerate(words) if word.endswith(".py") and os.path.isfile(word)), None)
    if at is not None:
        return LaunchLine(
            sys.executable, words[at], tuple(words[at + 1 :]), None, "given", given=tuple(words[: at + 1])
        )
    for word in words:
        if os.path.isfile(word) and os.path.getsize(word) < LARGEST_SCRIPT:
            with open_regular(word) as stream:
                named = re.findall(r"(?<![\w./-])[\w./-]+\.py\b", stream.read().decode(errors="replace"))
            if script := next(filter(os.path.isfile, named), None):
                return LaunchLine(sys.executable, os.path.abspath(script), (), None, "given", given=tuple(words))
    raise UserError("the command names no .py file that is here", hint="name the script that the ranks run")


def _of_run(words: list[str]) -> LaunchLine:
    """`keepstep run -n 4 -- python train.py`."""
    said: dict[str, Any] = {}
    while words and words[0] != "--" and words[0].startswith("-"):
        name, has_value, value = words[0].partition("=")
        words = words[1:]
        if name in OPTIONS_OF_RUN:
            if not has_value and words:
                value, words = words[0], words[1:]
            said[OPTIONS_OF_RUN[name]] = int(value) if value.isdecimal() else 1
        elif name in FLAGS_OF_RUN:
            said[FLAGS_OF_RUN[name]] = True
        elif not has_value and words and words[0] != "--" and not words[0].startswith("-"):
            words = words[1:]
    inner = launch_line(words[1:] if words[:1] == ["--"] else words)
    ranks = said.pop("ranks", None)
    return inner if ranks is None else replace(inner, ranks=ranks, by="keepstep", roles=tuple(said.items()))

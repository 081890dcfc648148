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
from keepstep.cluster.launch_line import understood
from keepstep.errors import UserError

KNOWN = ("python", "torchrun", "accelerate")
LARGEST_SCRIPT = 1 << 20
OPTIONS_OF_RUN = {"-n": "ranks", "--ranks": "ranks", "--ps": "ps"}
FLAGS_OF_RUN = {"--chief": "chief", "--evaluator": "evaluator"}


@dataclass(frozen=True)
class JobCommand:
    """``ranks`` is None for a program that starts its ranks itself; ``by`` is the launcher that the user named."""

    python: str
    script: str
    words: tuple[str, ...]
    """The script's arguments."""
    ranks: int | None
    by: str
    """``torchrun``, ``accelerate``, ``keepstep``, ``python`` or ``given``."""
    module: str = ""
    """Its dotted name, if it is started as one: `python -m package.train`."""
    root: str = ""
    """The folder that the names of its files begin in."""
    precision: str = ""
    """What `accelerate launch` was told."""
    roles: tuple[tuple[str, Any], ...] = ()
    given: tuple[str, ...] = ()
    """Of another program that starts the ranks (`mpirun`, a shell script): the command before ``words``."""
    variables: tuple[tuple[str, str], ...] = ()
    """What `env NAME=VALUE ...` sets for it."""

    def order(self) -> dict[str, Any]:
        """For a trial."""
        begin = self.given or (self.python, *(("-m", self.module) if self.module else (self.script,)))
        return {"command": [*begin, *self.words], "ranks": self.ranks, "roles": dict(self.roles)}

    def beside(self) -> list[str]:
        """The files of the command that are no Python: a shell script that starts the ranks."""
        root = os.path.join(self.root, "")
        return [each for each in self.given if each.startswith(root) and not each.endswith(".py")]

    def launcher(self) -> list[str]:
        """The module of the launcher with its options, as the user named it; empty: there is none."""
        if self.by == "torchrun":
            return ["torch.distributed.run", "--standalone", "--nproc-per-node", str(self.ranks)]
        if self.by == "accelerate":
            more = ["--mixed_precision", self.precision] if self.precision else []
            return ["accelerate.commands.launch", "--num_processes", str(self.ranks), *more]
        return []

    def what(self) -> list[str]:
        """What each rank runs."""
        return [*(["-m", self.module] if self.module else [os.path.basename(self.script)]), *self.words]

    def line(self) -> str:
        """To paste."""
        tail = shlex.join(self.what())
        if launcher := self.launcher():
            program = "torchrun" if self.by == "torchrun" else "accelerate launch"
            return f"{program} {shlex.join(launcher[1:])} {tail}"
        if self.given:
            root = os.path.join(self.root, "")
            given = [self.given[0].replace(root, "./"), *(each.replace(root, "") for each in self.given[1:])]
            programs = [os.path.basename(each) if os.path.isabs(each) else each for each in given]
            return shlex.join([*programs, *self.words])
        if self.ranks is None:
            return f"python {tail}"
        roles = "".join(f" --{name}" + (f" {value}" if value is not True else "") for name, value in self.roles)
        return f"keepstep run -n {self.ranks}{roles} -- python {tail}"

    def as_script(self) -> JobCommand:
        """The same of a file that stands alone."""
        name = os.path.basename(os.path.dirname(self.script) if self.script.endswith("__main__.py") else self.script)
        script = os.path.join(self.root, f"{name.removesuffix('.py')}.py")
        return replace(self, module="", script=script) if self.module else self

    def smaller(self, ranks: int | None, words: tuple[str, ...]) -> JobCommand:
        return replace(self, ranks=ranks, words=words)


def job_command(command: list[str]) -> JobCommand:
    """What a command line means. Raises :class:`UserError`."""
    if not command:
        raise UserError(
            "no command is given", hint="for instance: keepstep shrink -- torchrun --nproc-per-node 4 train.py"
        )
    given, rest = _variables(command)
    if given:
        inner = job_command(rest)
        return replace(inner, variables=(*given, *inner.variables))
    if Path(command[0]).name == "keepstep" and command[1:2] == ["run"]:
        return _of_run(command[2:])
    if not Path(command[0]).name.startswith(KNOWN) and not command[0].endswith(".py"):
        return _as_given(command)
    line = understood(command)
    if line.shards:
        return _as_given(command)
    script = os.path.abspath(line.script) if line.script else _file_of(line.module)
    by = "python" if line.ranks is None else "accelerate" if "accelerate" in " ".join(command[:3]) else "torchrun"
    root = os.getcwd() if line.module else os.path.dirname(script)
    return JobCommand(
        line.python, script, line.arguments, line.ranks, by, line.module, root, line.precision if line.ranks else ""
    )


def _variables(command: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """`env NAME=VALUE ... COMMAND`, or the same without `env`: what it sets, and the rest."""
    given, rest = [], command[1:] if command[0] == "env" else command
    while rest and (found := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", rest[0], re.DOTALL)):
        given.append((found[1], found[2]))
        rest = rest[1:]
    return given, rest


def _file_of(module: str) -> str:
    """Where a module of the user's lies below the working directory."""
    path = os.path.abspath(module.replace(".", os.sep))
    for each in (f"{path}.py", os.path.join(path, "__main__.py")):
        if os.path.isfile(each):
            return each
    raise UserError(f"module {module} not found", hint=f"looked below {os.getcwd()}")


def _as_given(command: list[str]) -> JobCommand:
    """A program that starts the ranks in its own way. The script is a word of the command, or of its shell script."""
    found = shutil.which(command[0])
    if found is None:
        raise UserError(f"program {command[0]} not found", hint="give the command as you would type it in the shell")
    words = [os.path.abspath(each) if os.path.isfile(each) else each for each in command]
    at = next((n for n, word in enumerate(words) if word.endswith(".py") and os.path.isfile(word)), None)
    if at is not None:
        return _given(words[at], words[at + 1 :], words[: at + 1])
    for word in words:
        if os.path.isfile(word) and os.path.getsize(word) < LARGEST_SCRIPT:
            with open_regular(word) as stream:
                named = re.findall(r"(?<![\w./-])[\w./-]+\.py\b", stream.read().decode(errors="replace"))
            if script := next(filter(os.path.isfile, named), None):
                return _given(os.path.abspath(script), [], words)
    raise UserError("the command names no .py file that is here", hint="name the script that the ranks run")


def _given(script: str, words: list[str], given: list[str]) -> JobCommand:
    root = os.path.dirname(script)
    return JobCommand(sys.executable, script, tuple(words), None, "given", root=root, given=tuple(given))


def _of_run(words: list[str]) -> JobCommand:
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
    inner = job_command(words[1:] if words[:1] == ["--"] else words)
    ranks = said.pop("ranks", None)
    return inner if ranks is None else replace(inner, ranks=ranks, by="keepstep", roles=tuple(said.items()))

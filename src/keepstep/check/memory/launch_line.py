# SPDX-License-Identifier: Apache-2.0
"""The user's command line: which interpreter runs which script with which arguments, as how many ranks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from keepstep.errors import UserError

EXAMPLE = "for instance: keepstep check memory --device h200 -- python train.py"
TORCHRUN = ("torch.distributed.run", "torch.distributed.launch")
FLAGS = {
    *("--standalone", "--no-python", "--no_python", "--use-env", "--use_env", "--multi_gpu", "--multi-gpu", "--debug"),
    *("--use_fsdp", "--use_deepspeed", "--cpu", "--quiet", "-q", "--run-path", "--run_path"),
    *("--same_network", "--dynamo_use_dynamic"),
}
"""Options of launchers that take no value."""


@dataclass(frozen=True, kw_only=True)
class LaunchLine:
    """``script`` or ``module`` is given, the other is empty. ``ranks``: as the launcher's options say, else None."""

    python: str
    script: str = ""
    module: str = ""
    arguments: tuple[str, ...] = ()
    ranks: int | None = None
    precision: str = ""
    """What `accelerate launch --mixed_precision` says."""


def understood(command: list[str]) -> LaunchLine:
    """What a command line runs. Raises :class:`UserError`."""
    if not command:
        raise UserError("no command is given", hint=EXAMPLE)
    program, rest = Path(command[0]).name, command[1:]
    if program.endswith(".py"):
        return _script(sys.executable, command)
    if program == "torchrun":
        return _launched(_beside(command[0]), rest)
    if program == "accelerate" and rest[:1] == ["launch"]:
        return _launched(_beside(command[0]), rest[1:])
    if program.startswith("python"):
        return _of_python(command[0], rest)
    raise UserError(
        f"`{program}` is not a command that can be tried here",
        hint="give `python`, `torchrun` or `accelerate launch` with the script",
    )


def _of_python(python: str, words: list[str]) -> LaunchLine:
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
        words = words[2:] if words[0] in ("-W", "-X") else words[1:]
    if words[:1] == ["-m"] and len(words) > 1:
        if words[1] in TORCHRUN:
            return _launched(python, words[2:])
        if words[1] == "accelerate.commands.launch":
            return _launched(python, words[2:])
        return LaunchLine(python=python, module=words[1], arguments=tuple(words[2:]))
    if not words or words[0] == "-c":
        raise UserError("no script is given", hint=EXAMPLE)
    return _script(python, words)


def _script(python: str, words: list[str]) -> LaunchLine:
    if not Path(words[0]).is_file():
        raise UserError(f"script {words[0]} not found", hint=f"looked in {Path.cwd()}")
    return LaunchLine(python=python, script=words[0], arguments=tuple(words[1:]))


def _launched(python: str, words: list[str]) -> LaunchLine:
    """`--nproc-per-node 8 train.py ...`: the launcher's options, then what each rank runs."""
    said: dict[str, str] = {}
    while words and words[0].startswith("-"):
        name, has_value, value = words[0].partition("=")
        if name in ("-m", "--module"):
            break
        if has_value or name in FLAGS or len(words) == 1:
            words = words[1:]
        else:
            value, words = words[1], words[2:]
        said[name.lstrip("-").replace("-", "_")] = value
    line = _of_python(python, ["-m", *words[1:]] if words[:1] == ["--module"] else words)
    total = said.get("num_processes", "")
    each, nodes = said.get("nproc_per_node", ""), said.get("nnodes", "1").partition(":")[2] or said.get("nnodes", "1")
    ranks = None
    if total.isdecimal():
        ranks = int(total)
    elif each.isdecimal() and nodes.isdecimal():
        ranks = int(each) * int(nodes)
    return LaunchLine(
        python=line.python,
        script=line.script,
        module=line.module,
        arguments=line.arguments,
        ranks=ranks,
        precision=said.get("mixed_precision", ""),
    )


def _beside(launcher: str) -> str:
    """The interpreter of the launcher's own environment."""
    import shutil

    found = shutil.which(launcher)
    if found is None:
        raise UserError(f"program {launcher} not found", hint=EXAMPLE)
    python = Path(found).with_name("python")
    return str(python) if python.exists() else sys.executable

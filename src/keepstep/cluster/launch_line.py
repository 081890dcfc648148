# SPDX-License-Identifier: Apache-2.0
"""The user's command line: which interpreter runs which script with which arguments, as how many ranks."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from keepstep.errors import UserError

EXAMPLE = "give it as you would type it, for instance: -- torchrun --nproc-per-node 4 train.py"
TORCHRUN = ("torch.distributed.run", "torch.distributed.launch")
FLAGS = {
    *("--standalone", "--no-python", "--no_python", "--use-env", "--use_env", "--multi_gpu", "--multi-gpu", "--debug"),
    *("--use_fsdp", "--use_deepspeed", "--cpu", "--quiet", "-q", "--run-path", "--run_path"),
    *("--same_network", "--dynamo_use_dynamic"),
}
"""Options of launchers that take no value."""
WRAPPERS = {
    "uv": ("run",),
    "poetry": ("run",),
    "pipenv": ("run",),
    "pdm": ("run",),
    "nohup": (),
    "time": (),
    "exec": (),
}
"""Words that may go before a command without changing what it runs."""
STARTERS = ("mpirun", "mpiexec", "srun", "horovodrun", "jsrun", "aprun", "flux")
"""They start a program once per rank, by options of their own."""
HOME_OF_ACCELERATE = "~/.cache/huggingface/accelerate/default_config.yaml"


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
    variables: tuple[tuple[str, str], ...] = ()
    """What the script's environment has besides."""
    shards: bool = False
    """`accelerate launch` would shard the model with FSDP or DeepSpeed."""
    ranks_by_host: str = ""
    """The option that leaves the number of ranks to the host it runs on: `--nproc-per-node gpu`."""


def understood(command: list[str]) -> LaunchLine:
    """What a command line runs. Raises :class:`UserError`."""
    if not command:
        raise UserError("no command is given", hint=EXAMPLE)
    program, rest = Path(command[0]).name, command[1:]
    if (more := WRAPPERS.get(program)) is not None and tuple(rest[: len(more)]) == more:
        return understood(rest[len(more) :])
    if program == "env" or ("=" in program and not program.startswith("=")):
        return _with_variables(rest if program == "env" else command)
    if program.endswith(".py"):
        return _script(sys.executable, command)
    if program == "torchrun":
        return _launched(_beside(command[0]), rest)
    if program == "accelerate" and rest[:1] == ["launch"]:
        return _accelerated(_beside(command[0]), rest[1:])
    if re.fullmatch(r"python[\d.]*|pypy[\d.]*", program):
        return _of_python(command[0], rest)
    if program in STARTERS:
        raise UserError(
            f"the options of `{program}` are not understood",
            hint="give what one rank runs, and how many there are: --ranks 8 -- python train.py",
        )
    if program == "deepspeed":
        raise UserError(
            "what DeepSpeed's engine shards and offloads is not known here",
            hint="a script that does without deepspeed.initialize: give it with torchrun",
        )
    if program.endswith(".sh") or program in ("bash", "sh", "zsh"):
        raise UserError("a shell script is not tried", hint="give the command that it ends with, and --ranks")
    return _installed(command)


def _with_variables(words: list[str]) -> LaunchLine:
    """`env NAME=VALUE ... COMMAND`: for the script, and so for the dry run."""
    given: dict[str, str] = {}
    while words and (found := re.fullmatch(r"(\w+)=(.*)", words[0], re.DOTALL)):
        given[found[1]] = found[2]
        words = words[1:]
    if words[:1] and words[0].startswith("-"):
        raise UserError(f"option {words[0]} of `env` is not understood", hint="give the variables and the command")
    line = understood(words)
    return replace(line, variables=(*given.items(), *line.variables))


def _installed(command: list[str]) -> LaunchLine:
    """A command that a package installed is a script of Python, and its first line says which."""
    found = shutil.which(command[0])
    first = b""
    if found is not None:
        with open(found, "rb") as program:
            first = program.readline(500)
    if python := re.match(rb"#!\s*(?:/usr/bin/env\s+)?(\S*python[\d.]*)\s*$", first):
        return LaunchLine(python=os.fsdecode(python[1]), script=found or "", arguments=tuple(command[1:]))
    if found is None:
        raise UserError(f"program {command[0]} not found", hint=EXAMPLE)
    raise UserError(
        f"`{Path(command[0]).name}` is not a command that can be tried here",
        hint="give `python`, `torchrun` or `accelerate launch` with the script",
    )


def _of_python(python: str, words: list[str]) -> LaunchLine:
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
        words = words[2:] if words[0] in ("-W", "-X") else words[1:]
    if words[:1] == ["-m"] and len(words) > 1:
        if words[1] in TORCHRUN:
            return _launched(python, words[2:])
        if words[1] == "accelerate.commands.launch":
            return _accelerated(python, words[2:])
        return LaunchLine(python=python, module=words[1], arguments=tuple(words[2:]))
    if not words or words[0] == "-c":
        raise UserError("no script is given", hint=EXAMPLE)
    return _script(python, words)


def _script(python: str, words: list[str]) -> LaunchLine:
    if not Path(words[0]).is_file():
        raise UserError(f"script {words[0]} not found", hint=f"looked in {Path.cwd()}")
    return LaunchLine(python=python, script=words[0], arguments=tuple(words[1:]))


def _launched(python: str, words: list[str], configured: dict[str, str] | None = None) -> LaunchLine:
    """`--nproc-per-node 8 train.py ...`: the launcher's options, then what each rank runs."""
    said: dict[str, str] = dict(configured or {})
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
    shards = "use_fsdp" in said or "use_deepspeed" in said
    by_host = f"--nproc-per-node {each}" if each and not each.isdecimal() else ""
    return replace(line, ranks=ranks, precision=said.get("mixed_precision", ""), shards=shards, ranks_by_host=by_host)


def _accelerated(python: str, words: list[str]) -> LaunchLine:
    """The options of `accelerate launch`, over what its file says."""
    file, asked = os.path.expanduser(HOME_OF_ACCELERATE), False
    for place, word in enumerate(words):
        name, has_value, value = word.partition("=")
        if name in ("--config_file", "--config-file"):
            file, asked = (value if has_value else "".join(words[place + 1 : place + 2])), True
        if not word.startswith("-") and word.endswith(".py"):
            break
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        if asked:
            raise UserError(f"cannot read {file}", hint=str(error)) from error
        text = ""
    said = {name: value.strip(" \t'\"") for name, value in re.findall(r"^(\w+):([^#\n]*)", text, re.MULTILINE)}
    known = {name: said[name] for name in ("num_processes", "mixed_precision") if said.get(name)}
    kind = said.get("distributed_type", "").upper()
    if kind in ("FSDP", "DEEPSPEED"):
        known[f"use_{kind.lower()}"] = ""
    return _launched(python, words, known)


def _beside(launcher: str) -> str:
    """The interpreter of the launcher's own environment."""
    found = shutil.which(launcher)
    if found is None:
        raise UserError(f"program {launcher} not found", hint=EXAMPLE)
    python = Path(found).with_name("python")
    return str(python) if python.exists() else sys.executable

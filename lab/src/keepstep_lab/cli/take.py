# SPDX-License-Identifier: Apache-2.0
"""``keepstep lab take``: what `keepstep shrink` made becomes a scenario, a job that breaks by itself."""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import open_regular, share_whole
from keepstep.errors import UserError, cannot_write
from keepstep_lab.scenarios import SCENARIOS

HERE = Path(__file__).resolve().parent.parent
TABLE = HERE / "scenarios" / "shrunk.toml"
BEGIN = "# Programs that `keepstep shrink` made; `keepstep lab take` writes this file.\n\n[no_fault]\n"
IMPORTS = {"tensorflow": "tf", "keras": "tf", "tf_keras": "tf", "jax": "jax", "flax": "jax", "torch": "torch"}


def take(asked: argparse.Namespace) -> int:
    """Returns the exit status."""
    folder = Path(asked.folder)
    try:
        said = json.loads(_read(folder / "shrunk.json"))
        (file,) = said["files"]
        text = _read(folder / file)
        said.setdefault("variables", {})
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"{folder} has no program of one file that `keepstep shrink` made", hint=f"looked for shrunk.json: {error}"
        ) from error
    variables = said["variables"]
    line = shlex.split(said["run"])[len(variables) :]
    if not said["ranks"] and line[0] != "python":
        raise UserError("the lab starts the ranks itself", hint="shrink it as `keepstep run -n N -- python SCRIPT`")
    name = asked.name or f"{_framework(text)}_{re.sub(r'[^a-z0-9]+', '_', Path(file).stem.lower())}"
    if not re.fullmatch(r"(tf|torch|jax)_[a-z0-9_]+", name) or name in SCENARIOS:
        raise UserError(
            f"{name} is {'taken' if name in SCENARIOS else 'no name of a scenario'}",
            hint="give --name with another one, such as torch_wrong_label; it begins with the framework",
        )
    row: dict[str, Any] = {"job": name, "cause": said["cause"], "ranks": said["ranks"] or 1, "hang": said["hung"]}
    row["args"] = " ".join(said["arguments"])
    values = ", ".join(f"{key} = {json.dumps(value)}" for key, value in row.items())
    try:
        share_whole(HERE / "jobs" / f"{name}.py", _with(variables, text).encode())
        before = _read(TABLE) if TABLE.exists() else BEGIN
        share_whole(
            TABLE, f"{before}{name}.note = {json.dumps(said['title'])}\n{name}.with = {{ {values} }}\n".encode()
        )
    except OSError as error:
        raise cannot_write(HERE, error) from error
    print(f"{name} is a scenario now; try it:\n\n  keepstep lab run {name}")
    return 0


def _with(variables: dict[str, str], text: str) -> str:
    """A job sets the variables that it needs itself."""
    future = [node.end_lineno or 0 for node in ast.parse(text).body if getattr(node, "module", "") == "__future__"]
    lines, at = text.splitlines(keepends=True), max(future, default=0)
    sets = [f"import os\n\nos.environ.update({variables!r})\n"] if variables else []
    return "".join([*lines[:at], *sets, *lines[at:]])


def _framework(text: str) -> str:
    """The one that the program imports; without any, ranks get torch's variables."""
    for node in ast.walk(ast.parse(text)):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            if found := IMPORTS.get(name.partition(".")[0]):
                return found
    return "torch"


def _read(path: Path) -> str:
    with open_regular(path) as stream:
        return stream.read().decode()

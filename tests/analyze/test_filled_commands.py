# SPDX-License-Identifier: Apache-2.0
"""Commands that read a run's own files can be pasted: the place of those files is in them, wherever the run was."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import RUN_FOLDER
from keepstep.rules import builtin_rules


def note(path: Path, rank: int, fact: str, **fields: Any) -> None:
    line = {"fact": fact, "fields": fields, "origin": {"source": path.name}, "at": 100.0, "rank": {"index": rank}}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def of_models(folder: Path, rank: int) -> None:
    file = folder / f"rank{rank}-{100 + rank}-0.notes.jsonl"
    stated = [["parameters", f"2 with {36 + rank} numbers"]]
    note(file, rank, "ContractStated", subject="model", ordinal=0, stated=stated, certain=True)
    values = [["2 with 36 numbers", [0]], ["2 with 37 numbers", [1]]]
    note(file, rank, "ContractBroken", subject="model", ordinal=0, what="parameters", values=values, certain=True)


def of_collectives(folder: Path, rank: int) -> None:
    file = folder / f"rank{rank}-{100 + rank}-0.notes.jsonl"
    issued = [[1, "all_reduce", "all_reduce", ""], [2, ("all_reduce", "barrier")[rank], "", f"train.py:{rank}"]]
    note(file, rank, "CollectivesIssued", group="0", issued=issued)


@pytest.mark.parametrize(
    "folders",
    [
        pytest.param(["guard/20261117-1"], id="the guard alone"),
        pytest.param(["my runs/one/attempt-0/guard"], id="keepstep run --run-dir"),
        pytest.param(["runs/one/attempt-0/node0/guard", "runs/one/attempt-0/node1/guard"], id="several nodes"),
    ],
)
@pytest.mark.parametrize(("state", "rule", "fact"), [
    (of_models, "SYN201", "ContractStated"), (of_collectives, "SYN206", "CollectivesIssued"),
])  # fmt: skip
def test_what_each_rank_noted_is_printed(tmp_path: Path, folders: list[str], state: Any, rule: str, fact: str) -> None:
    for rank in range(2):
        state(tmp_path / folders[rank % len(folders)], rank)
    read = tmp_path / folders[0].partition("/guard")[0].partition("/node")[0]
    (read / "report.json").write_text(f'{{"command": "grep {fact}"}}\n')
    root = explain_paths([read]).report.root
    assert root is not None and root.rule == rule
    command = root.fixes[-1].command
    assert command is not None and RUN_FOLDER not in command
    printed = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd="/", check=True).stdout
    assert [json.loads(line)["rank"]["index"] for line in sorted(printed.splitlines())] == [0, 1]
    assert all(json.loads(line)["fact"] == fact for line in printed.splitlines())


def test_no_rule_names_the_folder_of_runs_that_only_some_runs_have() -> None:
    for each in builtin_rules():
        written = Path(inspect.getfile(each.find)).read_text()
        assert re.search(r'command=f?"[^"]*\.keepstep', written) is None, each.id

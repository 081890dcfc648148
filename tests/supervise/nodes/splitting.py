# SPDX-License-Identifier: Apache-2.0
"""An attempt of a run on one host as if each rank had run on a host of its own, all with the same process number."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from keepstep.signals import blackbox
from keepstep.signals.blackbox import SLOT_HEAD, SLOT_SIZE, SLOTS

SAME = 4711
"""The process number of every rank."""
HOSTS = ("host-a", "host-b")


def split(attempt: Path, into: Path, *, ahead_s: float = 0.0) -> dict[int, int]:
    """Two folders like an attempt's, below ``into``; the clock of the second is ahead. Returns rank by old number."""
    pids = {
        int(found[2]): int(found[1])
        for path in (attempt / "guard").iterdir()
        if (found := re.fullmatch(r"rank(\d+)-(\d+)-\d+\.(?:box|notes\.jsonl)", path.name))
    }
    exits = attempt / "exits.jsonl"
    for each in map(json.loads, exits.read_text().splitlines() if exits.exists() else []):
        if each["fact"] == "ProcessExited" and "rank" in each:
            pids[each["fields"]["pid"]] = each["rank"]["index"]
    for rank in (0, 1):
        node = into / f"node{rank}"
        (node / "guard").mkdir(parents=True)
        shift = ahead_s * rank
        for path in [path for path in attempt.rglob("*") if path.is_file()]:
            _copy(path, node / path.relative_to(attempt), rank, pids, shift)
        said = {"schema": "keepstep.node/1", "node": rank, "host": HOSTS[rank], "address": f"10.0.0.{rank + 1}"}
        (node / "node.json").write_text(json.dumps({**said, "ranks": [rank], "ahead_s": shift}))
    return pids


def _copy(path: Path, copy: Path, rank: int, pids: dict[int, int], shift: float) -> None:
    name = path.name.removeprefix(".")
    if re.match(r"rank\d+[-.]", name):
        if not re.match(rf"rank{rank}[-.]", name):
            return
        copy = copy.with_name(re.sub(r"-\d+-", f"-{SAME}-", path.name))
    elif path.suffix == ".box":
        raise AssertionError(f"whose is {path.name}?")
    if path.suffix == ".box":
        copy.write_bytes(_box(path.read_bytes(), pids, shift))
    elif path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        mine = [_same(each, pids, shift) for each in lines if path.name == "start.jsonl" or _is_of(each, rank, pids)]
        copy.write_text("".join(json.dumps(each) + "\n" for each in mine))
        if path.name == "start.jsonl":
            copy.write_text(copy.read_text().replace('"ranks": 2', '"ranks": 1'))
    elif path.name == "arrivals.json":
        said = json.loads(path.read_text())
        said["logs"] = {name: each for name, each in said["logs"].items() if name == f"rank{rank}.log"}
        for each in said["logs"].values():
            each["marks"] = [[place, at + shift] for place, at in each["marks"]]
        copy.write_text(json.dumps(said))
    elif path.name != "report.json":
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)


def _is_of(each: dict[str, Any], rank: int, pids: dict[int, int]) -> bool:
    if isinstance(each.get("ranks"), dict):  # a measurement
        each["ranks"] = {name: one for name, one in each["ranks"].items() if name == str(rank)}
        return True
    index = (each.get("rank") or {}).get("index")
    if index is None:
        index = pids.get(each.get("fields", {}).get("pid"), 0)
    return bool(index == rank)


def _same(thing: Any, pids: dict[int, int], shift: float) -> Any:
    if isinstance(thing, dict):
        return {key: each + shift if key == "at" and shift else _same(each, pids, shift) for key, each in thing.items()}
    if isinstance(thing, list):
        return [_same(each, pids, shift) for each in thing]
    if isinstance(thing, str):
        return re.sub(r"\d+", lambda found: str(SAME) if int(found[0]) in pids else found[0], thing)
    return SAME if type(thing) is int and thing in pids else thing


def _box(data: bytes, pids: dict[int, int], shift: float) -> bytes:
    who = blackbox.identity(data)
    who = {**who, "pid": SAME, "wall": who["wall"] + shift}
    text = json.dumps(who, separators=(",", ":")).encode()
    assert len(text) <= SLOT_SIZE - SLOT_HEAD.size
    for slot in SLOTS:
        data = data[:slot] + SLOT_HEAD.pack(len(text)) + text + data[slot + SLOT_HEAD.size + len(text) :]
    return data

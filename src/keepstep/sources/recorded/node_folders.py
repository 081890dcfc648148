# SPDX-License-Identifier: Apache-2.0
"""A run on several hosts: its attempt has a folder for each (``node0``, ``node1``), like that of a run on one.

Ranks are numbered over all hosts, but process numbers and clocks belong to one host each.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.safe_files import open_regular
from keepstep.base.wording import ranks as say_ranks
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.rank_places import RanksOnHost
from keepstep.model.identity import MOST_RANKS, HostPid, Rank
from keepstep.sources.files.left_files import LeftFile, RunNode

NODE, NODE_SCHEMA = "node.json", "keepstep.node/1"
LIVING, LIVING_SCHEMA = "living.json", "keepstep.living/1"
FRESH_S = 15.0
"""How long what a host said about its processes counts: it may have been lost since."""
MOST_BYTES = 16 << 20
LONGEST_HOST = 120
_FOLDER = re.compile(r"node(\d{1,7})")
_RANK = re.compile(r"(?:guard/)?rank(\d{1,7})[-.]")
_PIDS = ("pid", "sent_by")


def with_nodes(files: Sequence[LeftFile]) -> list[LeftFile]:
    """The files, each with the host it is from. Files with a rank in their name keep it, others get their folder's."""
    folders = {folder: None for left in files if (folder := _folder(left)) is not None}
    said = {folder: read_node(folder) for folder in folders}
    known = {folder: found for folder, found in said.items() if found is not None}
    if not known:
        return list(files)
    hosts = Counter(node.host for node in known.values())
    labelled = {
        folder: replace(node, host=f"{node.host} (node {node.number})") if hosts[node.host] > 1 else node
        for folder, node in known.items()
    }
    named = [_named(left, labelled) for left in files]
    ranks: dict[int, set[int]] = {}
    for each in named:
        if each.node is not None and (found := _RANK.match(each.name)):
            ranks.setdefault(each.node.number, set()).add(int(found[1]))
    return [
        replace(each, node=replace(each.node, ranks=each.node.ranks or tuple(sorted(ranks.get(each.node.number, ())))))
        if each.node is not None
        else each
        for each in named
    ]


def on_hosts(evidence: Iterable[Evidence[Fact]], files: Iterable[LeftFile]) -> list[Evidence[Fact]]:
    """Evidence from files, placed on the hosts that the files are from."""
    nodes = {left.name: left.node for left in files if left.node is not None}
    if not nodes:
        return list(evidence)
    return [on_host(each, node) if (node := nodes.get(each.origin.source)) is not None else each for each in evidence]


def on_host(each: Evidence[Fact], node: RunNode) -> Evidence[Fact]:
    """With its host, its process numbers as those of the host, and its time by the leader's clock."""
    numbers = {
        name: HostPid(value, node.host) for name in _PIDS if type(value := getattr(each.fact, name, None)) is int
    }
    at = each.at
    return replace(
        each,
        fact=replace(each.fact, **numbers) if numbers else each.fact,
        rank=replace(each.rank, node=node.host) if isinstance(each.rank, Rank) else None,
        at=at - node.ahead_s if at is not None else None,
    )


def who_is_where(files: Iterable[LeftFile]) -> list[Evidence[Fact]]:
    """The hosts of the run, and their ranks."""
    nodes = {left.node.number: left.node for left in files if left.node is not None}
    return [
        Evidence(
            fact=RanksOnHost(host=node.host, ranks=node.ranks, serving=node.serving),
            origin=Origin(source=f"node{number}/{NODE}"),
            quote=f"{node.host} runs {say_ranks(node.ranks) if node.ranks else 'no rank'}",
        )
        for number, node in sorted(nodes.items())
    ]


def _folder(left: LeftFile) -> Path | None:
    """The folder of the host that a file may be from."""
    if left.path is None:
        return None
    for folder in (left.path.parent, left.path.parent.parent):
        if _FOLDER.fullmatch(folder.name):
            return folder
    return None


def _named(left: LeftFile, nodes: Mapping[Path, RunNode]) -> LeftFile:
    folder = _folder(left)
    node = nodes.get(folder) if folder is not None else None
    if node is None or left.path is None or folder is None:
        return left
    name = str(left.path.relative_to(folder))
    return replace(left, node=node, name=name if _RANK.match(name) else f"{folder.name}/{name}")


def read_node(folder: Path) -> RunNode | None:
    """What the leader says about a host; None if it says nothing that can be read."""
    found, number = _json(folder / NODE), _FOLDER.fullmatch(folder.name)
    if found is None or number is None or not isinstance(found.get("host"), str):
        return None
    ahead = found.get("ahead_s")
    said = _json(folder / LIVING) or {}
    pids, now = said.get("pids"), said.get("now_ns")
    if not isinstance(pids, list) or type(now) is not int:
        pids, now = None, 0
    return RunNode(
        number=int(number[1]),
        host=found["host"][:LONGEST_HOST] or f"node {number[1]}",
        ahead_s=float(ahead) if type(ahead) in (int, float) and abs(ahead) < 1e9 else 0.0,  # type: ignore[arg-type]
        ranks=_ranks(found.get("ranks")),
        serving=_ranks(found.get("serving")),
        living=frozenset(pid for pid in pids if type(pid) is int) if pids is not None else None,
        looked_ns=now,
        fresh=pids is not None and abs(time.time() - _changed(folder / LIVING)) < FRESH_S,
    )


def _ranks(said: object) -> tuple[int, ...]:
    if not isinstance(said, list):
        return ()
    return tuple(sorted({rank for rank in said if type(rank) is int and 0 <= rank < MOST_RANKS}))


def _json(path: Path) -> dict[str, Any] | None:
    try:
        with open_regular(path, follow=False) as stream:
            found = foreign_json.loads(stream.read(MOST_BYTES))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0

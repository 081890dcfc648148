# SPDX-License-Identifier: Apache-2.0
"""TF_CONFIG: what it says, what is wrong with it, and a better one.

``{"cluster": {"worker": ["host:port", ...], "chief": [...], "ps": [...]}, "task": {"type": "worker", "index": 0}}``
"""

from __future__ import annotations

import difflib
import json
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from keepstep.base.launchers import TF_CONFIG
from keepstep.base.whole_numbers import whole
from keepstep.cluster.address import DEFAULT_PORT, joined, read_address
from keepstep.cluster.cluster_type import Cluster, Task
from keepstep.cluster.launcher_answer import ClusterSaid
from keepstep.model.facts.cluster import Fault, VariableFaulty

NAME = TF_CONFIG.rank[0]
LARGEST = 4_000_000
ROLES = ("chief", "master", "worker", "ps", "evaluator")
"""In the order in which ranks are counted; ``master`` is TF 1's chief."""


def read(env: Mapping[str, str]) -> ClusterSaid:
    """The cluster that the variable describes."""
    return ClusterSaid(*read_tf_config(env[NAME])) if NAME in env else ClusterSaid()


def read_tf_config(text: str) -> tuple[Cluster | None, list[VariableFaulty]]:
    """The cluster that ``text`` means, as far as it can be understood, and every fault in it."""
    found, unreadable = _load(text)
    faults = [unreadable] if unreadable else []
    if not isinstance(found, dict):
        return None, faults or [_fault(Fault.NOT_AN_OBJECT, text[:80], wanted='{"cluster": {...}, "task": {...}}')]
    better = _Better(found)
    faults += _cluster_faults(found, better)
    faults += _task_faults(found, better)
    whole = json.dumps(better.config)
    return _cluster(better.config), [replace(fault, better=whole, sure=better.sure) for fault in faults]


def rpc_layer(text: str) -> str | None:
    """The transport that it asks for (``grpc``), which all tasks must agree on; None where it says none."""
    found, _ = _load(text)
    layer = found.get("rpc_layer") if isinstance(found, dict) else None
    return layer[:80] if isinstance(layer, str) and layer else None


def write_tf_config(cluster: Cluster, rank: int) -> str:
    """The TF_CONFIG of one rank."""
    tasks: dict[str, list[str]] = {}
    own: dict[str, Any] = {}
    for task in cluster.tasks:
        if task.role != "evaluator":
            tasks.setdefault(task.role, []).append(task.address or "")
        if task.rank == rank:
            own = {"type": task.role, "index": task.index}
    return json.dumps({"cluster": tasks, "task": own})


def _load(text: str) -> tuple[Any, VariableFaulty | None]:
    """The JSON, repaired where the mistake is a common one; and the mistake."""
    if len(text) > LARGEST:
        return None, _fault(Fault.TOO_LARGE, text[:40], wanted=f"at most {LARGEST} characters")
    try:
        return json.loads(text), None
    except RecursionError:
        return None, _fault(Fault.NOT_JSON, text, wanted="a flat description; this one is nested without end")
    except ValueError as error:
        column = getattr(error, "pos", 0)
        wanted = _hint(text, column)
        for repaired in _repairs(text):
            try:
                found = json.loads(repaired)
            except (ValueError, RecursionError):
                continue
            return found, _fault(Fault.NOT_JSON, _around(text, column), wanted=wanted, column=column + 1)
        return None, _fault(Fault.NOT_JSON, _around(text, column), wanted=wanted, column=column + 1)


def _hint(text: str, column: int) -> str:
    if not text.strip():
        return "a description of the cluster; it is empty"
    if re.search(r"\$\{?\w+|\{\{", text):
        return "values; a variable or template in it was not filled in"
    if "'" in text and '"' not in text.replace('\\"', ""):
        return "double quotes; it has single ones, as Python prints a dictionary"
    if text.lstrip()[:2] in ("{\\", "'{", '"{'):
        return "one layer of quotes; it was quoted twice"
    if re.search(r",\s*[}\]]", text):
        return "no comma after the last entry"
    return f"JSON; the reader stopped at character {column + 1}"


def _repairs(text: str) -> Iterator[str]:
    stripped = text.strip()
    for candidate in (stripped, stripped.strip("'\""), stripped.replace('\\"', '"')):
        yield re.sub(r",(\s*[}\]])", r"\1", candidate)
        yield re.sub(r",(\s*[}\]])", r"\1", candidate.replace("'", '"'))


def _around(text: str, column: int) -> str:
    """The part of a long text that holds the mistake."""
    return text if len(text) <= 200 else text[max(0, column - 60) : column + 60]


class _Better:
    """A corrected copy of the description."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.config: dict[str, Any] = {**found}
        self.sure = True
        """Whether every fault could be corrected without knowing more; else the copy is an example."""

    def guess(self, **parts: Any) -> None:
        """Put something in that would work, though only the user knows what was meant."""
        self.sure = False
        self.config.update(parts)


def _cluster_faults(found: dict[str, Any], better: _Better) -> Iterator[VariableFaulty]:
    cluster = found.get("cluster")
    if not cluster:
        better.guess(cluster={"worker": [f"{socket.gethostname()}:{DEFAULT_PORT}"]})
        yield _fault(Fault.NO_CLUSTER, None, wanted='"cluster": {"worker": ["HOST:PORT", ...]}')
        return
    if not isinstance(cluster, dict):
        better.guess(cluster={"worker": _listed(cluster) or [f"{socket.gethostname()}:{DEFAULT_PORT}"]})
        yield _fault(Fault.BAD_CLUSTER, _shown(cluster), wanted='{"worker": ["HOST:PORT", ...]}')
        return
    corrected: dict[str, list[str]] = {}
    taken: dict[str, str] = {}
    for role, addresses in cluster.items():
        if role not in ROLES:
            better.sure = False
            yield _fault(Fault.UNKNOWN_ROLE, str(role)[:80], wanted=f"one of {', '.join(ROLES)}")
            role = _meant(str(role))
        listed = _listed(addresses)
        if listed is None:
            better.sure = False
            yield _fault(Fault.BAD_CLUSTER, f"{role}: {_shown(addresses)}", wanted='a list of "HOST:PORT"')
            continue
        if listed is not addresses:
            yield _fault(Fault.BAD_CLUSTER, f"{role}: {_shown(addresses)}", wanted='a list of "HOST:PORT"')
        corrected.setdefault(role, [])
        for index, text in enumerate(listed):
            yield from _address_faults(f"{role}:{index}", text, corrected[role], taken, better)
    if "evaluator" in corrected:
        del corrected["evaluator"]
        yield _fault(
            Fault.EVALUATOR_IN_CLUSTER, "evaluator", wanted="an evaluator only as its own task, not in the cluster"
        )
    chiefs = len(corrected.get("chief", [])) + len(corrected.get("master", []))
    if chiefs > 1:
        better.sure = False
        all_chiefs = [*corrected.pop("chief", []), *corrected.pop("master", [])]
        corrected = {"chief": all_chiefs[:1], **corrected, "worker": [*all_chiefs[1:], *corrected.get("worker", [])]}
        yield _fault(Fault.SEVERAL_CHIEFS, str(chiefs), wanted="one chief")
    if not chiefs and not corrected.get("worker"):
        better.sure = False
        yield _fault(Fault.NOBODY_TRAINS, ", ".join(map(str, corrected)), wanted="a chief or workers")
        corrected["worker"] = [f"{socket.gethostname()}:{DEFAULT_PORT}"]
    better.config["cluster"] = corrected


def _listed(addresses: Any) -> list[str] | None:
    """The addresses of one task type; TensorFlow also takes a map from index to address."""
    if isinstance(addresses, str):
        return [part.strip() for part in addresses.split(",") if part.strip()]
    if isinstance(addresses, dict):
        pairs = [(str(index), text) for index, text in addresses.items()]
        if all(whole(index) is not None and isinstance(text, str) for index, text in pairs):
            return [text for _, text in sorted(pairs, key=lambda pair: int(pair[0]))]
        return None
    if isinstance(addresses, list) and addresses and all(isinstance(text, str) for text in addresses):
        return addresses
    return None


def _address_faults(
    task: str, text: str, corrected: list[str], taken: dict[str, str], better: _Better
) -> Iterator[VariableFaulty]:
    address = read_address(text)
    if address.fault is not None:
        better.sure = better.sure and address.better is not None
        yield _fault(address.fault, f"{task}: {_shown(text)}", wanted="HOST:PORT")
    whole = address.better or joined(address.host, address.port) or text
    if whole in taken:
        better.sure = False
        yield _fault(
            Fault.DUPLICATE_ADDRESS, f"{whole} for {taken[whole]} and {task}", wanted="an address of its own for each"
        )
        while whole in taken and address.host:
            port = int(whole.rpartition(":")[2]) + 1
            whole = joined(address.host, port) or whole
    taken.setdefault(whole, task)
    corrected.append(whole)


def _task_faults(found: dict[str, Any], better: _Better) -> Iterator[VariableFaulty]:
    task = found.get("task")
    cluster: dict[str, list[str]] = better.config["cluster"]
    first = next(iter(cluster))
    if not isinstance(task, dict) or "type" not in task:
        better.guess(task={"type": first, "index": 0})
        yield _fault(Fault.NO_TASK, _shown(task) if task else None, wanted='"task": {"type": "worker", "index": 0}')
        return
    role, index = task["type"], task.get("index", 0)
    if role not in ROLES:
        yield _fault(Fault.UNKNOWN_ROLE, _shown(role), wanted=f"one of {', '.join(ROLES)}")
        better.sure = False
        role = _meant(str(role))
    if isinstance(index, bool) or not isinstance(index, int):
        number = int(index) if isinstance(index, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", index) else None
        better.sure = better.sure and number is not None
        yield _fault(Fault.INDEX_NOT_A_NUMBER, _shown(index), wanted="a number, without quotes")
        index = number or 0
    if role != "evaluator":
        count = len(cluster.get(role, ()))
        if not count:
            yield _fault(Fault.ROLE_NOT_IN_CLUSTER, str(role), wanted=f"one of {', '.join(map(str, cluster))}")
            better.sure, role, index = False, first, 0
        elif not 0 <= index < count:
            yield _fault(Fault.INDEX_OUT_OF_RANGE, f"{role}:{index}", wanted=f"an index from 0 to {count - 1}")
            better.sure, index = False, count - 1 if index == count else 0
    better.config["task"] = {**task, "type": role, "index": index}


def _meant(role: str) -> str:
    """The task type that a misspelt one probably means."""
    near = difflib.get_close_matches(role.lower(), ROLES, n=1, cutoff=0.6)
    return near[0] if near else "ps" if "param" in role.lower() else "worker"


def _cluster(config: dict[str, Any]) -> Cluster | None:
    cluster, task = config.get("cluster"), config.get("task")
    if not isinstance(cluster, dict) or not any(cluster.values()):
        return None
    tasks: list[Task] = []
    for role in [*ROLES, *(role for role in cluster if role not in ROLES)]:
        for index, text in enumerate(cluster.get(role, ())):
            address = read_address(text)
            tasks.append(Task(rank=len(tasks), role=str(role), index=index, host=address.host, port=address.port))
    me = None
    if isinstance(task, dict):
        who = (task.get("type"), task.get("index", 0))
        me = next((each.rank for each in tasks if (each.role, each.index) == who), None)
        if who[0] == "evaluator" and me is None and isinstance(who[1], int):
            me = len(tasks)
            tasks.append(Task(rank=me, role="evaluator", index=who[1]))
    return Cluster(said_by=NAME, tasks=tuple(tasks), me=me)


def _fault(fault: Fault, value: str | None, *, wanted: str, column: int | None = None) -> VariableFaulty:
    return VariableFaulty(variable=NAME, fault=fault, value=value, wanted=wanted, column=column)


def _shown(value: Any) -> str:
    return json.dumps(value)[:80] if not isinstance(value, str) else value[:80]

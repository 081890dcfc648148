# SPDX-License-Identifier: Apache-2.0
"""Starts the programs that try collectives, on this host, and makes facts of what they print."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from keepstep.base.launchers import TF_CONFIG, TORCHRUN
from keepstep.check.collectives.plan import BYTES, Plan, Trial, trials
from keepstep.check.place import Collected, Place
from keepstep.cluster.cluster_type import Cluster
from keepstep.cluster.jax import write_jax
from keepstep.cluster.tf_config import write_tf_config
from keepstep.cluster.torchrun import write_torchrun
from keepstep.cluster.write_variables import cluster_of
from keepstep.model.evidence import Coverage, CoverageState
from keepstep.model.facts.collectives import CollectivesFailed, CollectiveTried
from keepstep.sources.host.ports import free_ports

LAST_WORDS = 4000
END_S = 5.0
STUCK_S = 30.0
"""A rank that is in one trial for less than this when the time is up is slow. Longer, and it is stuck."""
_ERROR = re.compile(r"[\w.]{1,100}(?:Error|Exception)\b")


def look_alone(place: Place, plan: Plan) -> Collected:
    """As many ranks as were asked for, all on this host."""
    plan = replace(plan, on_this_host=plan.ranks * plan.devices)
    ports = free_ports(plan.ranks)
    cluster = cluster_of(["127.0.0.1"], per_host=plan.ranks)
    here = replace(cluster, tasks=tuple(replace(task, port=ports[task.rank]) for task in cluster.tasks))
    return _tried(place, plan, [_variables(here, rank) for rank in range(plan.ranks)])


def look(place: Place, plan: Plan) -> Collected:
    """The rank of the job that this process is. The others do the same at the same time."""
    assert place.cluster is not None and place.cluster.me is not None
    made = _variables(place.cluster, place.cluster.me)
    return _tried(place, plan, [{name: value for name, value in made.items() if name not in place.env}])


def _variables(cluster: Cluster, rank: int) -> dict[str, str]:
    return {TF_CONFIG.name: write_tf_config(cluster, rank), **write_torchrun(cluster, rank), **write_jax(cluster, rank)}


def _tried(place: Place, plan: Plan, variables: Sequence[Mapping[str, str]]) -> Collected:
    looked = Collected()
    with tempfile.TemporaryDirectory(prefix="keepstep-") as folder:
        processes = [_Child(place.env, plan, each, folder) for each in variables]
        try:
            until = time.monotonic() + plan.limit_s
            while any(each.runs() for each in processes) and time.monotonic() < until:
                if any(each.failed() for each in processes):
                    until = min(until, time.monotonic() + END_S)
                time.sleep(0.05)
        finally:
            for each in processes:
                each.end()
        for each in processes:
            looked.take(each.said(place, plan))
    looked.coverage = list(dict.fromkeys(looked.coverage))
    return looked


class _Child:
    def __init__(self, env: Mapping[str, str], plan: Plan, variables: Mapping[str, str], folder: str) -> None:
        self.rank = int(variables.get(TORCHRUN.rank[0], env.get(TORCHRUN.rank[0], "0")))
        self._out = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._err = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        program = f"keepstep.check.collectives.in_{plan.framework}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", program, json.dumps(asdict(plan))],
            env={**env, **variables, "KEEPSTEP": "off"},
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
        )
        self._late = False

    def runs(self) -> bool:
        return self._process.poll() is None

    def failed(self) -> bool:
        return self._process.poll() not in (None, 0)

    def end(self) -> None:
        self._late, self._ended = self.runs(), time.monotonic()
        if self._late:
            self._process.kill()
        self._process.wait()

    def said(self, place: Place, plan: Plan) -> Collected:
        """What it found out, and how it ended if not well."""
        looked = Collected()
        self._out.seek(0)
        lines = [json.loads(line) for line in self._out.read().splitlines() if line.startswith(b"{")]
        head: dict[str, Any] = next((each for each in lines if "world" in each), {})
        plan = replace(plan, link_size=head.get("link_size", plan.link_size))
        every = list(trials(plan, head["world"])) if head else []
        where = f"{plan.framework} {head.get('version', '')}".strip()
        least = {each["of"]: tuple(each["smallest"]) for each in lines if "smallest" in each}
        links = {each["of"]: each["link"] for each in lines if "link" in each}
        for each in lines:
            if "median_s" in each:
                number = each.get("trial", each.get("again"))
                each["smallest"] = least.get(number, ()) if each.get("wrong") else ()
                each["link"] = links.get(number, ("", "", 0.0))
                fact = _fact(every[number], each, plan, head, self.rank if plan.framework == "torch" else None)
                looked.add(place.saw(fact, f"rank {self.rank}, {where}", fact.words))
        last, since = max(((each["begins"], each["at"]) for each in lines if "begins" in each), default=(None, 0.0))
        what = f"collectives of {where} over {head.get('backend', '')}"
        for words, why in _left_out(every, lines).items():
            looked.coverage.append(Coverage(what=words, state=CoverageState.NOT_CHECKED, why=why))
        if self._process.returncode == 0:
            looked.checked(what)
        elif self._late and self._ended - since < STUCK_S:
            looked.partly(what, f"{last} of {len(every)} were tried in {plan.limit_s:.0f} s: give it more with --limit")
        else:
            failed = CollectivesFailed(
                framework=plan.framework,
                rank=self.rank,
                during=_named(every[last]) if last is not None else "the start of the group",
                late_s=plan.limit_s if self._late else None,
                said=self._last_words(),
            )
            looked.add(place.saw(failed, f"rank {self.rank}, {where}", failed.words))
        self._out.close()
        self._err.close()
        return looked

    def _last_words(self) -> str:
        size = self._err.seek(0, os.SEEK_END)
        self._err.seek(max(0, size - LAST_WORDS))
        lines = [line.strip() for line in self._err.read().decode("utf-8", "replace").splitlines() if line.strip()]
        errors = [line for line in lines if _ERROR.match(line)]
        return (errors or lines)[-1][:300] if lines and not self._late else ""


def _left_out(every: Sequence[Trial], lines: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the framework or its backend does not have, and its words for that."""
    refused = {each["trial"]: str(each["refused"]) for each in lines if "refused" in each}
    return {f"{every[number].operation} of {every[number].dtype}": why for number, why in refused.items()}


def _named(trial: Trial) -> str:
    return f"{trial.operation} of {trial.elements * BYTES[trial.dtype]} bytes ({trial.dtype})"


def _fact(
    trial: Trial, told: Mapping[str, Any], plan: Plan, head: Mapping[str, Any], rank: int | None
) -> CollectiveTried:
    medium, words, gives = told["link"]
    return CollectiveTried(
        framework=plan.framework,
        backend=str(head["backend"]),
        operation=trial.operation,
        dtype=trial.dtype,
        size=trial.elements * BYTES[trial.dtype],
        groups=1 if "again" in told else len(trial.groups),
        members=len(trial.groups[0]),
        pair=next((each for each in trial.groups if rank in each), ()) if trial.of_links else (),
        rounds=int(told["rounds"]),
        wrong_rounds=int(told.get("wrong", 0)),
        wrong=tuple((rank, first, last, many) for rank, first, last, many in told.get("differences", ())),
        median_s=float(told["median_s"]),
        smallest=tuple(told["smallest"]),
        medium=medium,
        link=words,
        gives_bytes_s=gives,
        again="again" in told,
    )

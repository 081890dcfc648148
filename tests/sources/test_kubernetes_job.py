# SPDX-License-Identifier: Apache-2.0
"""Kubernetes jobs, through a stand-in for ``kubectl``.

No cluster is available where these tests run, so a small program of that name is put on the PATH; it answers from
files, with documents of the shape that a cluster's API gives. What is proven is the reading, not a cluster.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from keepstep.errors import Unavailable, UserError
from keepstep.model.evidence import CoverageState
from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import Preempted
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.resource import DiskFull, OomKilled
from keepstep.sources.schedulers.kubernetes_job import read_kubernetes_job
from keepstep.sources.schedulers.kubernetes_ranks import ranks_of
from keepstep.sources.schedulers.scheduler_answer import JobLeft

KUBECTL = """#!{python}
import json, pathlib, sys
here, words = pathlib.Path({folder!r}), sys.argv[1:]
with (here / "calls").open("a") as calls:
    print(json.dumps(words), file=calls)
after = dict(zip(words, words[1:]))
if after.get("-n", "research") != "research":
    sys.exit("Error from server (Forbidden): pods is forbidden: User \\"ana\\" cannot list resource \\"pods\\"")
if words[0] == "logs":
    log = here / ".".join([words[1], after["-c"], *(["previous"] if "--previous" in words else []), "log"])
    sys.exit("Error from server (NotFound): the log is gone") if not log.exists() else None
    sys.stdout.buffer.write(log.read_bytes())
elif words[1] == "events":
    print((here / "events.json").read_text())
else:
    pods = json.loads((here / "pods.json").read_text())["items"]
    key, _, value = after.get("-l", "").partition("=")
    print(json.dumps(dict(items=[p for p in pods if not key or p["metadata"]["labels"].get(key) == value])))
"""


class Cluster:
    """The files that the stand-in answers from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pods: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        program = folder / "bin" / "kubectl"
        program.parent.mkdir()
        program.write_text(KUBECTL.format(python=sys.executable, folder=str(folder)))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def pod(self, name: str, labels: dict[str, str], log: str = "", previous: str = "", **parts: Any) -> None:
        status = parts.pop("status", {"phase": "Running"})
        container = {"name": "trainer", "image": "trainer:1", **parts}
        sidecar = {"name": "istio-proxy", "image": "proxy:1"}
        spec = {"nodeName": "node-b", "containers": [container, sidecar]}
        self.pods.append({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})
        (self.folder / f"{name}.trainer.log").write_text(log)
        if previous:
            (self.folder / f"{name}.trainer.previous.log").write_text(previous)

    def read(self, job: str) -> JobLeft:
        (self.folder / "pods.json").write_text(json.dumps({"items": self.pods}))
        (self.folder / "events.json").write_text(json.dumps({"items": self.events}))
        return read_kubernetes_job(job)

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return Cluster(tmp_path)


def ended(code: int, reason: str = "Error", restarts: int = 0, **more: Any) -> dict[str, Any]:
    """The status of a pod whose container ended; after restarts, of one that runs again."""
    terminated = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": "2025-03-01T10:00:07Z"}}
    states = {"state": {"running": {}}, "lastState": terminated} if restarts else {"state": terminated}
    container = {"name": "trainer", "restartCount": restarts, **states}
    return {"phase": "Failed", "containerStatuses": [container], **more}


def kubeflow(role: str, index: int) -> dict[str, str]:
    return {
        "training.kubeflow.org/job-name": "bert",
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }


def facts(left: JobLeft) -> list[Fact]:
    return [e.fact for e in left.evidence]


def test_a_container_killed_for_memory_names_its_rank_and_limit(cluster: Cluster) -> None:
    memory = {"limits": {"memory": "16Gi"}}
    cluster.pod("bert-master-0", kubeflow("master", 0), log="Connection reset by peer\n", status=ended(1))
    cluster.pod(
        "bert-worker-0", kubeflow("worker", 0), log="step 3\n", status=ended(137, "OOMKilled"), resources=memory
    )
    left = cluster.read("research/bert")
    assert facts(left) == [
        ProcessExited(reporter="Kubernetes", code=1, node="node-b"),
        OomKilled(by="Kubernetes", process="trainer", limit="16Gi"),
    ]
    assert [e.who for e in left.evidence] == [0, 1]
    assert [(t.name, t.data) for t in left.texts] == [
        ("bert-master-0/trainer.rank0.log", b"Connection reset by peer\n"),
        ("bert-worker-0/trainer.rank1.log", b"step 3\n"),
    ]


def test_an_exit_code_over_128_is_a_signal(cluster: Cluster) -> None:
    cluster.pod("train-0", {"job-name": "train"}, status=ended(139))
    assert facts(cluster.read("research/train")) == [
        ProcessExited(reporter="Kubernetes", signal="SIGSEGV", node="node-b")
    ]


def test_a_restarted_container_gives_the_log_of_its_earlier_life_first(cluster: Cluster) -> None:
    cluster.pod("train-0", {"job-name": "train"}, log="now\n", previous="then\n", status=ended(1, restarts=2))
    left = cluster.read("research/train")
    assert [t.data for t in left.texts] == [b"then\n", b"now\n"]
    assert "before its restart" in left.evidence[0].quote and "restarts=2" in left.evidence[0].quote


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("The node was low on resource: memory. Threshold quantity: 100Mi, available: 3Mi.", OomKilled),
        ("The node was low on resource: ephemeral-storage. Container trainer was using 9Gi", DiskFull),
        ("Pod was rejected: The node had condition: [PIDPressure].", Preempted),
    ],
)
def test_an_evicted_pod_is_told_by_what_the_node_lacked(cluster: Cluster, message: str, kind: type[Fact]) -> None:
    status = {"phase": "Failed", "reason": "Evicted", "message": message}
    cluster.pod("train-0", {"job-name": "train"}, status=status)
    left = cluster.read("research/train")
    assert [type(fact) for fact in facts(left)] == [kind]
    assert left.evidence[0].quote == f"Evicted: {message}"


def test_a_pod_that_the_scheduler_preempted_says_so(cluster: Cluster) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for vip"}
    cluster.pod("train-0", {"job-name": "train"}, status=ended(143, conditions=[condition]))
    assert Preempted(by="Kubernetes", reason="PreemptionByScheduler: for vip", node="node-b") in facts(
        cluster.read("research/train")
    )


def test_pods_that_never_ran_are_said_not_counted_as_healthy(cluster: Cluster) -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes: no gpu"}
    waiting = {"name": "trainer", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    cluster.pod("train-0", {"job-name": "train"}, status={"phase": "Pending", "conditions": [unscheduled]})
    cluster.pod("train-1", {"job-name": "train"}, status={"phase": "Pending", "containerStatuses": [waiting]})
    left = cluster.read("research/train")
    blind = {c.what: c.why for c in left.coverage if c.state is CoverageState.UNAVAILABLE}
    assert blind["pod train-0"] == "not scheduled: 0/4 nodes: no gpu"
    assert blind["pod train-1"] == "never started: ImagePullBackOff: no such image"


def test_only_warnings_about_these_pods_come_along_in_the_order_of_time(cluster: Cluster) -> None:
    cluster.pod("train-0", {"job-name": "train"})
    for at, about, reason in (
        ("T2", "train-0", "Evicted"),
        ("T1", "train-0", "NodeNotReady"),
        ("T0", "web-7", "Failed"),
    ):
        involved = {"kind": "Pod", "name": about}
        cluster.events.append({"involvedObject": involved, "reason": reason, "message": "a\nb", "lastTimestamp": at})
    left = cluster.read("research/train")
    assert left.texts[-1].data == (
        b"[pod/train-0/events] T1 Warning NodeNotReady: a b\n[pod/train-0/events] T2 Warning Evicted: a b\n"
    )


def test_pods_without_any_known_label_are_found_by_name(cluster: Cluster) -> None:
    cluster.pod("train-abc", {}, log="text\n")
    cluster.pod("trainer-x", {})
    assert [t.name for t in cluster.read("research/train").texts] == ["train-abc/trainer.log"]


def test_a_log_that_cannot_be_read_is_said(cluster: Cluster) -> None:
    cluster.pod("train-0", {"job-name": "train"})
    (cluster.folder / "train-0.trainer.log").unlink()
    left = cluster.read("research/train")
    assert ("train-0/trainer.log", "Error from server (NotFound): the log is gone") in [
        (c.what, c.why) for c in left.coverage
    ]


def test_kubectl_is_only_ever_asked_to_read(cluster: Cluster) -> None:
    cluster.pod("train-0", {"job-name": "train"}, status=ended(1))
    cluster.read("research/train")
    assert {call[0] for call in cluster.calls} == {"get", "logs"}
    assert not any("istio-proxy" in call for call in cluster.calls)


def test_no_pods_no_rights_no_client_and_no_name_are_told_apart(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unavailable, match="no pods of job train are left in namespace research"):
        cluster.read("research/train")
    with pytest.raises(Unavailable, match="pods is forbidden"):
        cluster.read("kube-system/train")
    with pytest.raises(UserError, match="not a Kubernetes job"):
        cluster.read("-n/x y")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(Unavailable, match="kubectl is not on the PATH"):
        cluster.read("research/train")


def pod(
    name: str, labels: dict[str, str] | None = None, env: dict[str, str] | None = None, **container: Any
) -> dict[str, Any]:
    listed = [{"name": key, "value": value} for key, value in (env or {}).items()]
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": [{"env": listed, **container}]}}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("a", env={"RANK": "1"}), pod("b", env={"RANK": "0"})], {"a": 1, "b": 0}),
        (
            [pod(f"j-{n}-x", {"batch.kubernetes.io/job-completion-index": str(n)}) for n in (1, 0)],
            {"j-0-x": 0, "j-1-x": 1},
        ),
        (
            [
                pod(
                    f"s{j}-{n}",
                    {"jobset.sigs.k8s.io/job-index": str(j), "batch.kubernetes.io/job-completion-index": str(n)},
                )
                for j in (0, 1)
                for n in (0, 1)
            ],
            {"s0-0": 0, "s0-1": 1, "s1-0": 2, "s1-1": 3},
        ),
        (
            [pod("c", kubeflow("Chief", 0)), pod("p", kubeflow("PS", 0)), pod("w", kubeflow("Worker", 1))],
            {"c": 0, "w": 2, "p": 3},
        ),
        ([pod("a", env={"RANK": "0"}), pod("b")], {}),
        ([pod("a", env={"RANK": "0"}, resources={"limits": {"nvidia.com/gpu": "8"}})], {}),
        ([pod("a", env={"RANK": "0"}, command=["torchrun", "--nproc-per-node=4"])], {}),
        ([pod("a", kubeflow("worker", 0), resources={"limits": {"google.com/tpu": "4"}})], {"a": 0}),
        ([pod("l", kubeflow("Launcher", 0)), pod("w", kubeflow("Worker", 0))], {}),
    ],
)
def test_ranks_are_taken_from_what_controllers_write(pods: list[dict[str, Any]], expected: dict[str, int]) -> None:
    assert ranks_of(pods) == expected

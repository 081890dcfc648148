# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes job, ``k8s:NAMESPACE/JOB``: its pods' logs, how their containers ended, and the events around them.

Any kind of job is found by the labels that its controller puts on pods (Job, JobSet, the Kubeflow training
operators, LeaderWorkerSet, Volcano, KubeRay), else by the pods' names. Only ``kubectl`` is called, and only to read.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.errors import Unavailable, UserError
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import MachineFault, Preempted
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.resource import DiskFull, OomKilled
from keepstep.model.identity import Rank
from keepstep.sources.files.left_files import LeftFile
from keepstep.sources.schedulers.kubernetes_ranks import ranks_of
from keepstep.sources.schedulers.scheduler_answer import Answer, Ask, JobLeft, as_log, ask_client

Pod = Mapping[str, Any]

JOB_LABELS = tuple(
    """
    job-name batch.kubernetes.io/job-name training.kubeflow.org/job-name jobset.sigs.k8s.io/jobset-name
    leaderworkerset.sigs.k8s.io/name volcano.sh/job-name ray.io/cluster ray.io/originated-from-cr-name
    pytorch-job-name tf-job-name
    """.split()
)
_NAME = lazy_pattern(r"(?:(?P<namespace>[a-z0-9]([a-z0-9.\-]*[a-z0-9])?)/)?(?P<job>[a-z0-9]([a-z0-9.\-]*[a-z0-9])?)")
_SIDECARS = {"istio-proxy", "linkerd-proxy", "vault-agent", "fluent-bit", "cloud-sql-proxy", "gke-gcsfuse-sidecar"}
_TAKEN_AWAY = {"Preempting", "Preempted", "Shutdown", "NodeShutdown", "Terminated", "DeadlineExceeded", "Evicted"}
MOST_PODS = 2_000
_NOT_UNDERSTOOD = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)
"""What reading a document of an unexpected shape raises."""


def read_kubernetes_job(job: str, ask: Ask = ask_client) -> JobLeft:
    """Everything that kubectl says about the pods of one job."""
    match = _NAME.fullmatch(job.strip())
    if not match:
        raise UserError(f"not a Kubernetes job: {job!r}", hint="write k8s:NAMESPACE/JOB, for example k8s:research/bert")
    where = ["-n", match["namespace"]] if match["namespace"] else []
    name = match["job"]
    pods = _pods(name, where, ask)
    if not pods:
        place = f"namespace {match['namespace']}" if match["namespace"] else "the current namespace"
        look = " ".join(["kubectl get pods", *where])
        raise Unavailable(
            f"no pods of job {name} are left in {place}",
            hint=f"finished pods may have been removed; check `{look}`, or give the logs from your log store",
        )
    try:
        ranks = ranks_of(pods)
    except _NOT_UNDERSTOOD:
        ranks = {}
    coverage = [Coverage(what=f"{len(pods)} pods (kubectl)", state=CoverageState.CHECKED)]
    texts: list[LeftFile] = []
    evidence: list[Evidence[Fact]] = []
    for pod in pods[:MOST_PODS]:
        rank = ranks.get(_pod_name(pod))
        try:
            evidence += list(_evidence(pod, rank))
            for container in _containers(pod):
                read, blind = _logs(pod, container, rank, where, ask)
                texts += read
                coverage += blind
            coverage += list(_not_started(pod))
        except _NOT_UNDERSTOOD:
            why = "kubectl's answer about it could not be understood"
            coverage.append(Coverage(what=f"pod {_pod_name(pod)}", state=CoverageState.UNAVAILABLE, why=why))
    events, said = _events(pods, where, ask)
    return JobLeft(
        name=f"kubernetes job {name}", texts=(*texts, *events), evidence=tuple(evidence), coverage=(*coverage, said)
    )


# -- the pods -------------------------------------------------------------------------------------------------------


def _pods(name: str, where: list[str], ask: Ask) -> list[Pod]:
    for label in JOB_LABELS:
        found = _items(ask(["kubectl", "get", "pods", *where, "-l", f"{label}={name}", "-o", "json"]))
        if found:
            return found
    every = _items(ask(["kubectl", "get", "pods", *where, "-o", "json"]))
    return [pod for pod in every if _pod_name(pod) == name or _pod_name(pod).startswith(f"{name}-")]


def _items(answer: Answer) -> list[Pod]:
    if not answer.found:
        raise Unavailable(
            "kubectl is not on the PATH",
            hint="install it and log in to the cluster, or pipe the logs: kubectl logs POD | keepstep why -",
        )
    if answer.status:
        raise Unavailable(
            f"kubectl failed: {answer.complaint}",
            hint="`kubectl get pods` must work here; check `kubectl config current-context`",
        )
    try:
        return [item for item in foreign_json.loads(answer.out)["items"] if isinstance(item, dict) and _pod_name(item)]
    except _NOT_UNDERSTOOD:
        raise Unavailable("kubectl's answer is not a list of pods") from None


def _pod_name(pod: Pod) -> str:
    return str((pod.get("metadata") or {}).get("name") or "")


def _node(pod: Pod) -> str | None:
    return (pod.get("spec") or {}).get("nodeName")


def _containers(pod: Pod) -> list[dict[str, Any]]:
    """The containers that do the job's work, and init containers that failed."""
    spec = pod.get("spec") or {}
    failed = {s["name"] for s in (pod.get("status") or {}).get("initContainerStatuses") or () if _ending(s)[1]}
    early = [c for c in spec.get("initContainers") or () if c.get("name") in failed]
    return [*early, *(c for c in spec.get("containers") or () if c.get("name") not in _SIDECARS)]


# -- how it ended ---------------------------------------------------------------------------------------------------


def _evidence(pod: Pod, rank: int | None) -> Iterator[Evidence[Fact]]:
    """The facts in the states of one pod and its containers, each with its quote."""
    status = pod.get("status") or {}
    who = Rank(index=rank, node=_node(pod)) if rank is not None else None

    def as_evidence(fact: Fact, words: str) -> Evidence[Fact]:
        return Evidence(fact=fact, origin=Origin(source=f"pod/{_pod_name(pod)}"), rank=who, quote=words)

    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    for fact in _pod_facts(pod, reason, message):
        yield as_evidence(fact, f"{reason}: {message}" if message else reason)
    for condition in status.get("conditions") or ():
        is_so = condition.get("type") == "DisruptionTarget" and condition.get("status") == "True"
        if is_so and reason not in _TAKEN_AWAY:
            why = f"{condition.get('reason', '')}: {condition.get('message', '')}"
            yield as_evidence(Preempted(by="Kubernetes", reason=why, node=_node(pod)), f"DisruptionTarget {why}")
    limits = {c.get("name"): (c.get("resources") or {}).get("limits") or {} for c in _containers(pod)}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        name = container.get("name")
        which, ended = _ending(container)
        if ended and name not in _SIDECARS:
            words = f"container {name} {which}: {ended.get('reason', '')} exitCode={ended.get('exitCode')}"
            restarts = container.get("restartCount") or 0
            words += f" restarts={restarts}" if restarts else ""
            yield as_evidence(_container_fact(str(name), ended, limits.get(name, {}), _node(pod)), words)


def _ending(container: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """How a container last ended badly, if it did: now, or before it was restarted."""
    for which in ("state", "lastState"):
        ended = (container.get(which) or {}).get("terminated") or {}
        if ended.get("exitCode") or ended.get("signal") or ended.get("reason") == "OOMKilled":
            return ("terminated" if which == "state" else "terminated before its restart"), ended
    return "", {}


def _pod_facts(pod: Pod, reason: str, message: str) -> Iterator[Fact]:
    node = _node(pod)
    if reason == "Evicted" and "low on resource: memory" in message:
        yield OomKilled(by="Kubernetes, for the node's memory", process=_pod_name(pod))
    elif reason == "Evicted" and ("ephemeral-storage" in message or "low on resource: inodes" in message):
        yield DiskFull(path=None)
    elif reason in _TAKEN_AWAY:
        yield Preempted(by="Kubernetes", reason=message or reason, node=node)
    elif reason in ("NodeLost", "NodeAffinity", "NodeUnreachable"):
        yield MachineFault(what=f"Kubernetes: {reason}", node=node)


def _container_fact(name: str, ended: Mapping[str, Any], limits: Mapping[str, Any], node: str | None) -> Fact:
    if ended.get("reason") == "OOMKilled":
        return OomKilled(by="Kubernetes", process=name, limit=limits.get("memory"))
    code = int(ended.get("exitCode") or 0)
    number = int(ended.get("signal") or (code - 128 if 128 < code < 160 else 0))
    try:
        struck = signal.Signals(number).name if number else None
    except ValueError:
        struck = None
    return ProcessExited(reporter="Kubernetes", code=None if struck else code, signal=struck, node=node)


def _not_started(pod: Pod) -> Iterator[Coverage]:
    """Pods that never ran have no logs; why is in their state."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            why = f"not scheduled: {condition.get('message') or condition.get('reason')}"
            yield Coverage(what=f"pod {_pod_name(pod)}", state=CoverageState.UNAVAILABLE, why=why)
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing", "CrashLoopBackOff"):
            why = f"never started: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
            yield Coverage(what=f"pod {_pod_name(pod)}", state=CoverageState.UNAVAILABLE, why=why)


# -- what it printed ------------------------------------------------------------------------------------------------


def _logs(
    pod: Pod, container: Mapping[str, Any], rank: int | None, where: list[str], ask: Ask
) -> tuple[list[LeftFile], list[Coverage]]:
    """The log of one container, and of the one before it if it was restarted."""
    name, inside = _pod_name(pod), str(container.get("name"))
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    restarts = max((s.get("restartCount") or 0 for s in statuses if s.get("name") == inside), default=0)
    owner = f".rank{rank}" if rank is not None else ""
    texts, blind = [], []
    for previous in [True, False] if restarts else [False]:
        answer = ask(["kubectl", "logs", name, *where, "-c", inside, *(["--previous"] if previous else [])])
        title = f"{name}/{inside}{owner}{'.previous' if previous else ''}.log"
        if answer.status == 0:
            texts.append(as_log(title, answer.out))
        else:
            blind.append(Coverage(what=title, state=CoverageState.UNAVAILABLE, why=answer.complaint))
    return texts, blind


def _events(pods: Sequence[Pod], where: list[str], ask: Ask) -> tuple[list[LeftFile], Coverage]:
    """The warnings that the cluster recorded about these pods, one per line, oldest first."""
    answer = ask(["kubectl", "get", "events", *where, "--field-selector", "type=Warning", "-o", "json"])
    ours = {_pod_name(pod) for pod in pods}
    try:
        lines = sorted(_warnings(foreign_json.loads(answer.out)["items"], ours)) if answer.status == 0 else None
    except _NOT_UNDERSTOOD:
        lines = None
    if lines is None:
        why = answer.complaint if answer.status else "not understood"
        return [], Coverage(what="kubernetes events", state=CoverageState.UNAVAILABLE, why=why)
    text = "".join(f"{line}\n" for _, line in lines)
    texts = [as_log("kubernetes-events.log", text.encode())] if text else []
    return texts, Coverage(what="kubernetes events", state=CoverageState.CHECKED)


def _warnings(items: Any, ours: set[str]) -> Iterator[tuple[str, str]]:
    for item in items:
        about = (item.get("involvedObject") or {}).get("name")
        if about in ours:
            at = str(item.get("lastTimestamp") or item.get("eventTime") or item.get("firstTimestamp") or "")
            message = " ".join(str(item.get("message") or "").split())
            yield at, f"[pod/{about}/events] {at} Warning {item.get('reason', '')}: {message}"

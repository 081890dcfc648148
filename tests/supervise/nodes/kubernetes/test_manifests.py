# SPDX-License-Identifier: Apache-2.0
"""The manifests in docs/kubernetes: valid, for every Kubernetes that has what they use, and in step with the code."""

from __future__ import annotations

import copy
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from keepstep.cli.parser import build
from keepstep.supervise.engines import kubernetes_event
from keepstep.supervise.engines.kubernetes import PORT, PREEMPTED, REPEATS
from tests.supervise.nodes.kubernetes.custom_kinds import KINDS
from tools.published_crds import CORE, FOLDER, manifests

ALL = list(manifests())
NAMES = [f"{file}:{document['kind']}" for file, document in ALL]
OLDEST, NEWEST = "1.31", "1.37"


def validate(document: dict[str, Any], version: str = OLDEST) -> None:
    """Raises if a field is unknown or of the wrong type; ``KeyError`` if there is no schema for the kind."""
    if document["apiVersion"] in CORE:
        kubernetes_validate.validate(document, version, strict=True)
        return
    jsonschema.Draft202012Validator(KINDS[document["apiVersion"], document["kind"]]).validate(document)
    for template in templates(document):
        kubernetes_validate.validate(template, version, strict=True)


def templates(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The Jobs and pods in a document, as if each were one of its own."""
    spec = document["spec"]
    sets = spec if document["kind"] == "JobSet" else spec.get("template", {}).get("spec", {})
    for job in sets.get("replicatedJobs", []):
        filled = {**job["template"]["spec"]}
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **job["template"], "spec": filled}
    if document["kind"] == "RayJob":
        ray = spec["rayClusterSpec"]
        for group in (ray["headGroupSpec"], *ray["workerGroupSpecs"]):
            yield {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": group["template"]}


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("document", [each for _, each in ALL], ids=NAMES)
def test_it_is_valid(document: dict[str, Any], version: str) -> None:
    validate(document, version)


def test_every_kind_that_we_promise_is_there() -> None:
    kinds = {document["kind"] for _, document in ALL}
    assert kinds == {
        *("Service", "Job", "JobSet", "TrainingRuntime", "TrainJob", "RayJob"),
        *("ServiceAccount", "Role", "RoleBinding"),
    }


@pytest.mark.parametrize("document", [each for _, each in ALL], ids=NAMES)
def test_a_misspelt_field_is_found_at_every_depth(document: dict[str, Any]) -> None:
    paths = list(places(document))
    assert len(paths) > 2 or document["kind"] in ("ServiceAccount", "Role", "RoleBinding")
    for path in paths:
        broken = copy.deepcopy(document)
        at: Any = broken
        for step in path:
            at = at[step]
        at["mispeltt"] = 1
        with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
            validate(broken)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every mapping whose fields have names of their own (not labels, limits and the like)."""
    if isinstance(value, dict):
        if path and path[-1] not in ("labels", "limits", "requests", "rayStartParams", "selector"):
            yield path
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list):
        for n, each in enumerate(value):
            yield from places(each, (*path, n))


def test_a_kind_without_a_schema_is_an_error() -> None:
    with pytest.raises(KeyError):
        validate({"apiVersion": "example.com/v1", "kind": "Other", "spec": {}})


def jobs() -> Iterator[dict[str, Any]]:
    for _, document in ALL:
        if document["kind"] == "Job":
            yield document
        elif document["apiVersion"] not in CORE and document["kind"] != "RayJob":
            yield from templates(document)


def test_each_job_acts_on_the_statuses_that_keepstep_ends_with() -> None:
    found = list(jobs())
    assert len(found) == 3
    for job in found:
        spec, pod = job["spec"], job["spec"]["template"]["spec"]
        rules = spec["podFailurePolicy"]["rules"]
        by_status = {
            status: rule["action"]
            for rule in reversed(rules)
            for status in rule.get("onExitCodes", {}).get("values", [])
        }
        assert by_status == {2: "FailJob", REPEATS: "FailJob", PREEMPTED: "Ignore"}
        assert {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]} in rules
        assert spec["podReplacementPolicy"] == "Failed", "a pod is replaced only when nothing of it runs any more"
        assert spec["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}, "a pod that was lost keeps nothing up"
        assert pod["restartPolicy"] == "Never", "podFailurePolicy needs it"
        (container,) = pod["containers"]
        assert {rule["onExitCodes"]["containerName"] for rule in rules if "onExitCodes" in rule} == {container["name"]}


def command_lines() -> Iterator[tuple[list[str], dict[str, Any] | None]]:
    for _, document in ALL:
        spec = document.get("spec", {})
        if document["kind"] == "RayJob":
            yield spec["entrypoint"].split(), None
        elif document["kind"] == "TrainJob":
            yield [*spec["trainer"]["command"], *spec["trainer"]["args"]], None
    for job in jobs():
        pod = job["spec"]["template"]["spec"]
        if "command" in pod["containers"][0]:
            yield [*pod["containers"][0]["command"], *pod["containers"][0]["args"]], job


def test_the_commands_are_keepsteps_own() -> None:
    found = list(command_lines())
    assert len(found) == 4
    for words, job in found:
        assert words[:2] == ["keepstep", "run"]
        asked = build().parse_args(words[1:])
        assert asked.per_node == 4 and asked.command[-2:] == ["python", "train.py"]
        if job is not None:
            spec = job["spec"]
            assert int(asked.nodes) == spec["completions"] == spec["parallelism"]
            assert spec["completionMode"] == "Indexed"
            assert asked.grace + 30 <= spec["template"]["spec"]["terminationGracePeriodSeconds"]
            assert spec["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": PORT}]


# --- built with kustomize


def built(name: str) -> list[dict[str, Any]]:
    """What `kubectl apply -k` of this folder gives to the cluster. kubectl refuses fields that it does not know."""
    done = subprocess.run(["kubectl", "kustomize", str(FOLDER / name)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def job_of(documents: list[dict[str, Any]]) -> tuple[dict[str, Any], Any]:
    """The Job, and what its command asks keepstep for."""
    (job,) = (each for each in documents if each["kind"] == "Job")
    container = job["spec"]["template"]["spec"]["containers"][0]
    return job["spec"], build().parse_args([*container["command"][1:], *container["args"]])


kustomize = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


@kustomize
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", ["base", "spares", "events"])
def test_what_kustomize_builds_is_valid(name: str, version: str) -> None:
    documents = built(name)
    assert len(documents) == (5 if name == "events" else 2)
    for each in documents:
        validate(each, version)


@kustomize
def test_there_are_as_many_pods_as_nodes_and_spare_ones() -> None:
    spec, asked = job_of(built("spares"))
    assert asked.spare_nodes == 1
    assert spec["completions"] == spec["parallelism"] == int(asked.nodes) + asked.spare_nodes
    assert asked.command[-2:] == ["python", "train.py"]


@kustomize
def test_pods_that_make_events_may_do_nothing_else_and_know_what_they_are() -> None:
    documents = built("events")
    spec, asked = job_of(documents)
    (role,) = (each for each in documents if each["kind"] == "Role")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]
    assert asked.on_failure == f"python -m {kubernetes_event.__name__}"
    names = {each["name"] for each in spec["template"]["spec"]["containers"][0]["env"]}
    assert {"POD_NAME", "POD_UID", "JOB_NAME", "JOB_UID"} < names

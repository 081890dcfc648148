# SPDX-License-Identifier: Apache-2.0
"""The manifests in docs/kubernetes: valid, for every Kubernetes that has what they use, and in step with the code."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from keepstep.cli.parser import build
from keepstep.supervise.engines.kubernetes import PORT, PREEMPTED, REPEATS
from tests.supervise.nodes.kubernetes.custom_kinds import KINDS
from tools.published_crds import CORE, manifests

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
    assert kinds == {"Service", "Job", "JobSet", "TrainingRuntime", "TrainJob", "RayJob"}


@pytest.mark.parametrize("document", [each for _, each in ALL], ids=NAMES)
def test_a_misspelt_field_is_found_at_every_depth(document: dict[str, Any]) -> None:
    paths = list(places(document))
    assert len(paths) > 2
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
        assert pod["restartPolicy"] == "Never", "podFailurePolicy needs it"
        (container,) = pod["containers"]
        assert {rule["onExitCodes"]["containerName"] for rule in rules if "onExitCodes" in rule} == {container["name"]}


def command_lines() -> Iterator[tuple[list[str], dict[str, Any] | None]]:
    for _, document in ALL:
        spec = document["spec"]
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

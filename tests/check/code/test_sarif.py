# SPDX-License-Identifier: Apache-2.0
"""What `--format sarif` writes is SARIF 2.1.0, whatever was found or could not be read."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from keepstep.check.code.check_code import CodeRequest, check_code
from keepstep.model.report import Report
from keepstep.render.sarif import render_sarif
from keepstep.rules import code_rules
from tests.check.code.test_check_code import CALLER, HELPER
from tests.render.sarif_fields import LOG

SHOWN = Path(__file__).parent / "programs" / "shown"


def report_on(path: Path) -> Report:
    return check_code(CodeRequest(paths=(path,), preview=True)).report


def document_of(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render_sarif(report_on(path), code_rules(), "1.0"))
    return document


def validate(document: dict[str, Any]) -> None:
    """Raises if a field is unknown, missing or of the wrong type."""
    jsonschema.Draft202012Validator(LOG).validate(document)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Findings with one and with two places, a name that a URI must escape, and a file that is no Python."""
    for name in ("COD001_env_rank_broadcast", "COD112_optimizer_before_fsdp"):
        (tmp_path / f"{name} ä#1.py").write_text((SHOWN / name / "wrong.py").read_text())
    (tmp_path / "broken.py").write_text("def f(:\n")
    return tmp_path


def test_findings_and_what_was_not_read_are_valid(folder: Path) -> None:
    document = document_of(folder)
    validate(document)
    run = document["runs"][0]
    assert {each["ruleId"] for each in run["results"]} >= {"COD001", "COD112"}
    assert any("relatedLocations" in each for each in run["results"])
    assert "broken.py" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert all(" " not in place_of(each) and "#" not in place_of(each) for each in run["results"])


def place_of(result: dict[str, Any]) -> str:
    uri: str = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    return uri


def test_a_report_without_findings_is_valid(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('nothing')\n")
    document = document_of(tmp_path)
    validate(document)
    assert document["runs"][0]["results"] == []


def test_all_labelled_programs_give_valid_documents_and_every_index_fits() -> None:
    document = document_of(SHOWN)
    validate(document)
    run = document["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert len(rules) > 30
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])


def test_the_whole_way_to_a_collective_is_a_flow(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "train.py").write_text(CALLER)
    document = json.loads(render_sarif(report_on(tmp_path), code_rules(), "1.0", "https://example.org/docs/"))
    validate(document)
    run = document["runs"][0]
    (result,) = run["results"]
    ((thread,),) = [each["threadFlows"] for each in result["codeFlows"]]
    flow = [each["location"]["physicalLocation"] for each in thread["locations"]]
    assert [(Path(each["artifactLocation"]["uri"]).name, each["region"]["startLine"]) for each in flow] == [
        ("train.py", 6),
        ("helper.py", 9),
    ]
    assert flow[1]["region"]["snippet"]["text"] == "dist.barrier()"
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["helpUri"] == "https://example.org/docs/rules/collective_on_some_ranks/"


def test_regions_end_after_they_begin_and_changes_lie_in_their_line() -> None:
    run = document_of(SHOWN)["runs"][0]
    regions = [each["physicalLocation"]["region"] for result in run["results"] for each in result["locations"]]
    with_end = [each for each in regions if "endColumn" in each]
    assert len(with_end) > 20 and all("startColumn" in each for each in regions)
    assert all((each["endLine"], each["endColumn"]) > (each["startLine"], each["startColumn"]) for each in with_end)
    fixed = [each for each in run["results"] if "fixes" in each]
    assert len(fixed) > 2
    for each in fixed:
        (change,) = each["fixes"][0]["artifactChanges"]
        region = change["replacements"][0]["deletedRegion"]
        text = Path(change["artifactLocation"]["uri"]).read_text().split("\n")[region["startLine"] - 1]
        assert region["startColumn"] <= region["endColumn"] <= len(text) + 1


def test_a_misspelt_field_is_found_at_every_depth(folder: Path) -> None:
    document = document_of(folder)
    paths = list(places(document))
    assert len(paths) > 10
    for path in paths:
        changed = copy.deepcopy(document)
        inner: Any = changed
        for key in path:
            inner = inner[key]
        inner["misspelt"] = 1
        with pytest.raises(jsonschema.ValidationError):
            validate(changed)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all objects, less the bags of properties, which may hold anything."""
    if isinstance(node, dict):
        yield path
        for key, value in node.items():
            if key != "properties":
                yield from places(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from places(value, (*path, index))

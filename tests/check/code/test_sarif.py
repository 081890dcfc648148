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

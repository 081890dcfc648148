# SPDX-License-Identifier: Apache-2.0
"""Reports are what docs/schema/keepstep.report-1.json says. `make docs` asks the package `jsonschema` the same."""

from __future__ import annotations

import copy
import json
import re
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.evidence import CoverageState
from keepstep.model.finding import Confidence, Role, Safety, Severity
from keepstep.model.report import SCHEMA, Verdict
from keepstep.render.json import render_json
from tools.report_schema import RECORDINGS, load

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
WORDS = {"$schema", "$id", "title", "description", "$defs"}
"""Keywords that demand nothing."""


def faults(value: Any, schema: dict[str, Any], whole: dict[str, Any], at: str = "report") -> list[str]:
    """What is wrong with a value, by the keywords that our schema uses. An unknown keyword is an error of the test."""
    found: list[str] = []
    for keyword, wanted in schema.items():
        if keyword == "$ref":
            found += faults(value, whole["$defs"][wanted.removeprefix("#/$defs/")], whole, at)
        elif keyword == "type":
            kinds = tuple(t for name in ([wanted] if isinstance(wanted, str) else wanted) for t in TYPES[name])
            if not isinstance(value, kinds) or isinstance(value, bool):
                found.append(f"{at}: {value!r} is no {wanted}")
        elif keyword == "const" and value != wanted:
            found.append(f"{at}: {value!r} is not {wanted!r}")
        elif keyword == "enum" and value not in wanted:
            found.append(f"{at}: {value!r} is none of {wanted}")
        elif keyword == "required":
            found += [f"{at}: {key} is missing" for key in wanted if key not in value]
        elif keyword == "properties":
            found += [
                f
                for key, each in wanted.items()
                if key in value
                for f in faults(value[key], each, whole, f"{at}.{key}")
            ]
        elif keyword == "additionalProperties":
            more = value.keys() - schema.get("properties", {}).keys()
            found += [f for key in more for f in faults(value[key], wanted, whole, f"{at}.{key}")]
        elif keyword == "items":
            found += [f for n, each in enumerate(value) for f in faults(each, wanted, whole, f"{at}[{n}]")]
        elif keyword == "pattern" and isinstance(value, str) and not re.search(wanted, value):
            found.append(f"{at}: {value!r} does not match {wanted}")
        elif keyword == "minimum" and isinstance(value, int | float) and value < wanted:
            found.append(f"{at}: {value} is below {wanted}")
        elif keyword in ("minItems", "minLength") and len(value) < wanted:
            found.append(f"{at}: shorter than {wanted}")
        elif keyword in ("maxItems", "maxLength") and len(value) > wanted:
            found.append(f"{at}: longer than {wanted}")
        else:
            known = {"const", "enum", "pattern", "minimum", "minItems", "minLength", "maxItems", "maxLength", *WORDS}
            assert keyword in known, f"the test does not know the keyword {keyword}"
    return found


def report_on(recording: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render_json(explain_paths([RECORDINGS / recording], kernel_log=False).report))
    return document


@pytest.mark.parametrize(
    "recording",
    (
        "tf_segfault_faulthandler",
        "torch_oom_killed",
        "jax_healthy",
        "jax_firewall_drops",
        "tf_preempted",
        "torch_nan_loss_four",
    ),
)
def test_a_report_is_what_the_schema_says(recording: str) -> None:
    assert not faults(report_on(recording), load(), load())


def test_nothing_at_all_is_a_report_too(tmp_path: Path) -> None:
    document = json.loads(render_json(explain_paths([tmp_path], kernel_log=False).report))
    assert document["verdict"] == "unknown"
    assert not faults(document, load(), load())


def test_the_checker_finds_what_is_wrong() -> None:
    schema, good = load(), report_on("jax_firewall_drops_midway")
    for path, value in (
        (("verdict",), "fine"),
        (("schema",), "keepstep.report/2"),
        (("findings", 0, "cause"), "nonsense"),
        (("findings", 0, "evidence"), []),
        (("ranks",), [-1]),
        (("world_size",), "two"),
        (("clocks", 0, "within_s"), "little"),
        (("clocks", 0, "within_s"), -1.5),
        (("clocks", 0, "logs"), []),
    ):
        bad: Any = copy.deepcopy(good)
        inner = bad
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        assert faults(bad, schema, schema), path
    del good["coverage"]
    assert faults(good, schema, schema) == ["report: coverage is missing"]


def test_the_schema_has_the_values_that_the_code_has() -> None:
    schema = load()
    finding, defs = schema["$defs"]["finding"]["properties"], schema["$defs"]
    pairs: list[tuple[dict[str, Any], type[Enum]]] = [
        (schema["properties"]["verdict"], Verdict),
        (finding["role"], Role),
        (finding["confidence"], Confidence),
        (finding["severity"], Severity),
        (defs["fix"]["properties"]["safety"], Safety),
        (defs["coverage"]["properties"]["state"], CoverageState),
    ]
    for written, kind in pairs:
        assert written["enum"] == [each.value for each in kind]
    assert schema["properties"]["schema"]["const"] == schema["$id"] == SCHEMA

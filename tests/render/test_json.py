# SPDX-License-Identifier: Apache-2.0
"""The JSON document: one, redacted, safe for any pipe."""

from __future__ import annotations

import json

from made_reports import out_of_memory

from keepstep.model.report import Report, Verdict
from keepstep.render.json import render_json


def test_the_root_cause_is_the_first_finding() -> None:
    document = json.loads(render_json(out_of_memory(8)))
    assert document["schema"] == "keepstep.report/1"
    assert document["findings"][0]["cause"] == "resource.gpu_oom"
    assert document["findings"][0]["evidence"][0]["at"] == "2025-11-15T12:00:00.000Z"
    assert document["findings"][1]["evidence_total"] == 7


def test_an_empty_report_has_all_keys() -> None:
    document = json.loads(render_json(Report(verdict=Verdict.UNKNOWN)))
    assert {"schema", "verdict", "findings", "coverage", "skipped"} <= set(document)


def test_the_document_is_ascii_and_redacted() -> None:
    text = render_json(out_of_memory(4, text="ü \udc80 password=hunter2x"))
    assert text.isascii()
    assert "hunter2x" not in text

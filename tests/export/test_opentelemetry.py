# SPDX-License-Identifier: Apache-2.0
"""Spans of a run: what a collector gets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from keepstep.errors import Unavailable, UserError
from keepstep.export.opentelemetry import post, spans
from keepstep.store import run_folders
from keepstep.store.run_folders import AttemptSaid

FINDING = {"rule": "RES001", "cause": "resource.host_oom_killed", "role": "initiating", "ranks": [3], "title": "killed"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two attempts with ten seconds between them; the first failed."""
    folder = run_folders.create(tmp_path, ["train", "--token=hf_" + "a" * 34], name="t", ranks=4, version="1")
    manifest = folder.manifest
    manifest.began, manifest.ended, manifest.state = 1000.0, 1100.0, "finished"
    manifest.attempts = [
        AttemptSaid(0, 1000.0, 1040.0, status=1, cause="resource.host_oom_killed", title="killed", decision="restart"),
        AttemptSaid(1, 1050.0, 1100.0, status=0, steps=500, step_s=0.1),
    ]
    (folder.attempt(0) / "report.json").write_text(json.dumps({"findings": [FINDING, "no finding"]}))
    folder.save()
    return folder.path


def told(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return document["resourceSpans"][0]["scopeSpans"][0]["spans"]  # type: ignore[no-any-return]


def test_run_attempts_and_the_pause_between_them(run: Path) -> None:
    whole, first, pause, second = of(spans(run))
    assert [each["name"] for each in (first, pause, second)] == ["attempt 0", "restart", "attempt 1"]
    assert all(each["parentSpanId"] == whole["spanId"] for each in (first, pause, second))
    assert (pause["startTimeUnixNano"], pause["endTimeUnixNano"]) == ("1040000000000", "1050000000000")
    assert first["status"] == {"code": 2, "message": "killed"}
    assert "status" not in second and told(second)["keepstep.steps"] == "500"
    (event,) = first["events"]
    assert (event["name"], told(event)["keepstep.ranks"]) == ("resource.host_oom_killed", "3")
    assert "hf_aaaa" not in json.dumps(spans(run))


def test_a_second_export_gives_the_same_spans(run: Path) -> None:
    assert spans(run) == spans(run)
    assert len({each["spanId"] for each in of(spans(run))}) == 4


def test_a_run_that_goes_on_says_so(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest |= {"ended": None, "state": "running"}
    manifest["attempts"][1]["ended"] = None
    (run / "manifest.json").write_text(json.dumps(manifest))
    whole, *_, last = of(spans(run))
    assert told(whole)["keepstep.goes_on"] is told(last)["keepstep.goes_on"] is True


def test_no_run_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        spans(tmp_path)


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, str | None, Any]]]]:
    heard: list[tuple[str, str | None, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.append((self.path, self.headers.get("x-key"), json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", heard
    server.shutdown()
    server.server_close()


def test_a_collector_gets_them(run: Path, collector: tuple[str, list[tuple[str, str | None, Any]]]) -> None:
    url, heard = collector
    post(spans(run), url, {"x-key": "1"})
    post(spans(run), f"{url}/v1/traces", {})
    assert heard == [("/v1/traces", "1", spans(run)), ("/v1/traces", None, spans(run))]


def test_no_collector(run: Path, collector: tuple[str, list[Any]]) -> None:
    with pytest.raises(UserError, match="no address"):
        post(spans(run), "localhost:4318", {})
    with pytest.raises(Unavailable, match="did not take the spans"):
        post(spans(run), "http://127.0.0.1:9", {})

# SPDX-License-Identifier: Apache-2.0
"""The hook that is called on a failure: a real command, a real web server on the loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.process import ExceptionRaised
from keepstep.model.finding import Confidence, Finding, Severity, Standing
from keepstep.model.report import Report, Verdict
from keepstep.supervise.show.on_failure import tell

SECRET = "ghp_" + "a1B2c3D4" * 5


def report() -> Report:
    fact = ExceptionRaised(type="ValueError", message=f"token {SECRET}")
    finding = Finding(
        rule="USR001",
        cause=Cause.USER_CODE_EXCEPTION,
        title=f"rank 0 raised ValueError: token {SECRET}",
        because="it was printed",
        evidence=(Evidence(fact=fact, origin=Origin(source="rank0.log", line=9), quote=f"ValueError: token {SECRET}"),),
        ranks=(0,),
        confidence=Confidence.ESTABLISHED,
        severity=Severity.FATAL,
        standing=Standing.EXCEPTION,
    )
    return Report(verdict=Verdict.FAILED, findings=(finding,))


@pytest.fixture
def server() -> Iterator[tuple[str, list[bytes]]]:
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(500 if "broken" in self.path else 204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    web = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{web.server_port}", got
    web.shutdown()
    web.server_close()


def test_a_command_gets_the_redacted_report(tmp_path: Path) -> None:
    out = tmp_path / "got.json"
    about = {"folder": "/runs/1", "attempt": 2, "command": ["python", "train.py", f"--token={SECRET}"]}
    said = tell(f"cat > {out}; echo $KEEPSTEP_CAUSE; exit 3", report(), about)
    assert said == "--on-failure: cat exited with status 3 (user.code_exception)"
    text = out.read_text()
    found = json.loads(text)
    assert SECRET not in text
    assert found["schema"] == "keepstep.report/1"
    assert found["findings"][0]["cause"] == "user.code_exception"
    assert found["run"]["attempt"] == 2


def test_a_webhook_gets_the_redacted_report(server: tuple[str, list[bytes]]) -> None:
    address, got = server
    assert tell(f"{address}/hook", report(), {"folder": "/runs/1"}) == "--on-failure: the webhook answered 204"
    assert json.loads(got[0])["run"]["folder"] == "/runs/1"
    assert SECRET.encode() not in got[0]
    assert "answered 500" in tell(f"{address}/broken", report(), {})


def test_a_hook_that_hangs_or_is_absent_harms_nothing() -> None:
    began = time.monotonic()
    assert "was killed after" in tell("sleep 60 | cat", report(), {}, timeout_s=0.5)
    assert time.monotonic() - began < 10
    assert "status 127" in tell("/no/such/program", report(), {})
    assert tell("http://127.0.0.1:9/", report(), {}).startswith("--on-failure failed")
    assert "status" in tell("true", report(), {})  # it reads nothing

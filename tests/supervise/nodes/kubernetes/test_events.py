# SPDX-License-Identifier: Apache-2.0
"""A failure becomes events of Kubernetes: asked of a server with a certificate of its own, and valid as it says."""

from __future__ import annotations

import io
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from keepstep.supervise.engines import kubernetes_event

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
REPORT = {
    "findings": [{"title": "rank 1 ended with SIGKILL", "cause": "unknown.not_established"}],
    "run": {"action": "restart", "decision": "the cause is unknown and may be over"},
}
WORDS = "rank 1 ended with SIGKILL [unknown.not_established]; decision: restart: the cause is unknown and may be over"
POD = {"POD_NAME": "train-0-x7k2p", "POD_UID": "u1", "JOB_NAME": "train", "JOB_UID": "u2"}


class Api(BaseHTTPRequestHandler):
    """The one thing that is asked of Kubernetes."""

    got: list[tuple[str, str | None, dict[str, Any]]]
    status: int

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.got.append((self.path, self.headers["Authorization"], body))
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api(tmp_path: Path) -> Iterator[tuple[type[Api], dict[str, str]]]:
    """It, and the variables of a pod that reaches it. The pod's account is in tmp_path."""
    key, certificate = tmp_path / "key", tmp_path / "ca.crt"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*words.split(), *names], check=True, capture_output=True, timeout=60)
    (tmp_path / "token").write_text("the-token")
    (tmp_path / "namespace").write_text("ml")
    kind = type("It", (Api,), {"got": [], "status": 201})
    server = HTTPServer(("127.0.0.1", 0), kind)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    where = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT_HTTPS": str(server.server_port)}
    yield kind, {**POD, **where}
    server.shutdown()
    thread.join()
    server.server_close()


def tell(env: dict[str, str], account: Path, monkeypatch: pytest.MonkeyPatch, report: object = REPORT) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(report)))
    return kubernetes_event.main(env, account)


def test_a_failure_is_an_event_of_the_pod_and_of_its_job(api, tmp_path: Path, monkeypatch) -> None:
    server, env = api
    assert tell(env, tmp_path, monkeypatch) == 0
    assert [(path, who) for path, who, _ in server.got] == [("/api/v1/namespaces/ml/events", "Bearer the-token")] * 2
    for _, _, event in server.got:
        for version in ("1.31", "1.37"):
            kubernetes_validate.validate(event, version, strict=True)
        assert event["message"] == WORDS
    assert [event["involvedObject"] for _, _, event in server.got] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "train-0-x7k2p", "namespace": "ml", "uid": "u1"},
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "namespace": "ml", "uid": "u2"},
    ]


def test_without_leave_it_says_so(api, tmp_path: Path, monkeypatch, capsys) -> None:
    server, env = api
    server.status = 403
    assert tell(env, tmp_path, monkeypatch) == 1
    assert "Kubernetes answered 403 Forbidden: may this pod's account make events?" in capsys.readouterr().out


def test_another_server_does_not_get_the_token(api, tmp_path: Path, monkeypatch, capsys) -> None:
    """One whose certificate the account does not vouch for."""
    server, env = api
    other = tmp_path / "other"
    other.mkdir()
    for name in ("token", "namespace"):
        (other / name).write_text((tmp_path / name).read_text())
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=y"
    files = ["-keyout", str(other / "key"), "-out", str(other / "ca.crt")]
    subprocess.run([*words.split(), *files], check=True, capture_output=True, timeout=60)
    assert tell(env, other, monkeypatch) == 1
    assert server.got == [] and "certificate verify failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("env", "report", "words"),
    [({}, REPORT, "POD_NAME is not set"), (POD, [], "no report"), (POD, REPORT, "this is no pod")],
)
def test_what_is_missing_is_a_clear_line(env, report, words, tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "namespace").write_text("ml")
    assert tell(env, tmp_path, monkeypatch, report) == 1
    assert words in capsys.readouterr().out


def test_a_long_message_is_cut() -> None:
    long = {"findings": [{"title": "x" * 5000, "cause": "user.code_exception"}]}
    assert len(kubernetes_event.message(long)) <= kubernetes_event.LONGEST

# SPDX-License-Identifier: Apache-2.0
"""Parameter servers are asked how fast they answer; one that stops is said, with what its loss would cost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keepstep.guard.adapters.tensorflow import parameter_servers
from keepstep.guard.adapters.tensorflow.parameter_servers import ParameterServers, answer_s
from tests.guard.test_contracts import guard_of

SERVER = """
import tensorflow as tf
server = tf.distribute.Server({"ps": ["127.0.0.1:0"]}, job_name="ps", task_index=0, protocol="grpc")
print(server.target, flush=True)
server.join()
"""


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    """A real server of TensorFlow: its address and its process."""
    env = {**os.environ, "KEEPSTEP": "off", "TF_CPP_MIN_LOG_LEVEL": "2"}
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip().removeprefix("grpc://"), process.pid
        finally:
            process.kill()


@pytest.mark.frameworks
def test_a_server_that_is_held_does_not_answer_though_its_port_does(
    server: tuple[str, int], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, pid = server
    session: Any = guard_of(0, 2, tmp_path, KEEPSTEP_COMPANION="off")
    session.open()
    save = session.ledger.saves("tensorflow", lambda: "tensorflow 2", lambda path: path)
    (tmp_path / "ckpt").mkdir()
    save(lambda path: path.write_bytes(b"weights"))(tmp_path / "ckpt" / "a.pt")
    session.ledger.close()
    servers = ParameterServers(session, [address])
    servers.look()
    monkeypatch.setattr(parameter_servers, "PATIENCE_S", 0.5)
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    servers.look()
    servers.look()
    monkeypatch.setattr(parameter_servers, "PATIENCE_S", 60.0)
    os.kill(pid, signal.SIGCONT)
    servers.look()
    session.flush()
    lines = [json.loads(line) for line in session.notes_path.read_text().splitlines()]
    session.close()
    asked = [json.dumps(each) for each in lines if "ParameterServerAsked" in json.dumps(each)]
    assert ["has not answered" in each for each in asked] == [False, True, False]
    said = capfd.readouterr().err
    assert said.count("has not answered") == 1
    assert "if it is lost, so is what was trained since step 0, saved" in " ".join(said.split())


def test_what_speaks_no_grpc_and_what_is_not_there_do_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            link, _ = listener.accept()
            with link:
                link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert answer_s(f"127.0.0.1:{port}") is None
        thread.join()
    assert answer_s(f"127.0.0.1:{port}") is None
    assert answer_s("nonsense") is None

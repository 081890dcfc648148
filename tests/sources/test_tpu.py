# SPDX-License-Identifier: Apache-2.0
"""TPUs by libtpu's metrics service: a real gRPC server that answers as the service's description says."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from keepstep.parse.formats.data.example_proto import NotAnExample
from keepstep.sources.host.tpu import BUSY, METHOD, PORTS, TOTAL, USED, TpuUsage, parse_metric, usage
from keepstep.sources.host.unary_call import unary_call
from keepstep.store.history.reader import open_history
from keepstep.supervise.watch.history_recorder import HistoryRecorder
from keepstep.watch.host_table import hosts_in
from tests.supervise.starting import wait_for

grpc = pytest.importorskip("grpc")
pytestmark = pytest.mark.frameworks
SAID = {USED: {0: 1 << 34, 1: 1 << 33}, TOTAL: {0: 1 << 35, 1: 1 << 35}, BUSY: {0: 62.5}}


def varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7) if value > 0x7F else bytes([value])


def part(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def response(values: dict[int, int | float]) -> bytes:
    """A ``MetricResponse`` with a gauge for each device."""
    metrics = b""
    for index, value in values.items():
        attribute = part(1, b"device-id") + part(2, b"\x18" + varint(index))
        gauge = b"\x10" + varint(value) if isinstance(value, int) else b"\x09" + struct.pack("<d", value)
        metrics += part(3, part(1, attribute) + part(2, b"\x08\x01") + part(3, gauge))
    return part(1, part(1, b"name") + part(2, b"what it is") + metrics)


class Service(grpc.GenericRpcHandler):  # type: ignore[misc]
    def service(self, call: Any) -> Any:
        if call.method != METHOD:
            return None

        def answer(question: bytes, context: Any) -> bytes:
            name = question[2:].decode()
            return response(SAID[name])

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def port() -> Iterator[int]:
    server = grpc.server(ThreadPoolExecutor(max_workers=2), handlers=[Service()])
    number = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield number
    server.stop(None).wait(5)


def test_memory_is_said_of_devices_and_the_time_that_a_chip_computed_of_both_of_its_own(port: int) -> None:
    assert usage({PORTS: f"{port},1"}) == [
        TpuUsage(index=0, busy=0.625, used=1 << 34, total=1 << 35),
        TpuUsage(index=1, busy=0.625, used=1 << 33, total=1 << 35),
    ]


def test_they_are_in_the_history_of_a_run(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "tpu,cpu")
    monkeypatch.setenv(PORTS, str(port))
    recorder = HistoryRecorder(tmp_path, (tmp_path,))
    wait_for(lambda: recorder.tick([], [], {}) and recorder.newest["gpu"])
    recorder.close()
    (view,) = hosts_in(open_history(tmp_path), (), time.time(), is_live=True)
    assert (view.tpus, view.gpus, view.gpu_busy, view.gpu_memory) == (True, 2, 0.625, 0.5)


def test_a_service_that_knows_no_such_method_is_no_answer(port: int) -> None:
    with pytest.raises(ValueError, match="no message came"):
        unary_call(port, METHOD + "s", b"")


def test_nobody_who_listens_is_no_tpu() -> None:
    assert usage({PORTS: "1"}) == []


@pytest.mark.parametrize("data", [b"\x0a\xff", b"\x0a\x04\x1a\x05\x00\x00", b"\xff" * 20])
def test_damaged_answers_are_refused(data: bytes) -> None:
    with pytest.raises(NotAnExample):
        parse_metric(data)

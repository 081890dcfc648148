# SPDX-License-Identifier: Apache-2.0
"""What the kernel says about interfaces and connections."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from keepstep.sources.host.interfaces import ERRORS, counters, tcp_state, unacknowledged, waited_for_processor


def an_interface(root: Path, name: str, **numbers: int | str) -> None:
    folder = root / name / "statistics"
    folder.mkdir(parents=True)
    for counter in (*ERRORS, "rx_packets", "tx_packets", "rx_dropped", "tx_dropped"):
        (folder / counter).write_text(f"{numbers.get(counter, 0)}\n")


def test_counters_are_summed_and_the_kinds_of_errors_kept(tmp_path: Path) -> None:
    an_interface(tmp_path, "eth0", rx_packets=7, tx_packets=3, rx_errors=2, rx_crc_errors=2, tx_dropped=1)
    an_interface(tmp_path, "lo", rx_packets=9)
    (found,) = counters(tmp_path).values()
    assert (found.interface, found.packets, found.errors, found.dropped) == ("eth0", 10, 2, 1)
    assert found.kinds == {"rx_errors": 2, "rx_crc_errors": 2}


def test_counters_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    an_interface(tmp_path, "eth0", rx_packets="nonsense")
    (tmp_path / "eth1").mkdir()
    assert counters(tmp_path) == {}
    assert counters(tmp_path / "absent") == {}


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO of Linux")
def test_a_connection_tells_its_segment_size_and_what_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        one = socket.create_connection(listening.getsockname())
        other, _ = listening.accept()
        with one, other:
            state = tcp_state(one)
            assert state is not None and state.segment > 500 and state.path_mtu > 1000
            assert unacknowledged(one) == 0
            one.sendall(b"x")
            assert other.recv(1) == b"x"
    assert unacknowledged(one) == 0, "a closed socket has nothing to tell"


def test_waiting_for_the_processor_only_grows() -> None:
    before = waited_for_processor()
    assert 0 <= before <= waited_for_processor()

# SPDX-License-Identifier: Apache-2.0
"""Processes that do not find each other: because of the loopback, a wrong network, or a process that never started."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding

CONNECTING = (
    "[2026-11-15 05:26:05,324] p{rank} jax._src.distributed INFO: Connecting to JAX distributed service on {at}:52521\n"
)
ANNOUNCED = "[2026-11-15 05:26:05,286] p{rank} train INFO: jax process {rank} of {size}, coordinator {at}:52521\n"
GAVE_UP = (
    "F1115 05:26:27.188160   20900 client.h:80] Terminating process because the JAX distributed service detected fatal "
    "errors. absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded\n\n"
    "RPC: /xla.coordination.CoordinationService/RegisterTask\n"
)


def started(folder: Path, ranks: tuple[int, ...], size: int, at: str) -> Finding:
    for rank in ranks:
        text = (ANNOUNCED + CONNECTING).format(rank=rank, size=size, at=at) + GAVE_UP
        (folder / f"rank{rank}.log").write_text(text)
    return explain_paths([folder]).report.findings[0]


def test_processes_that_all_called_the_loopback_in_vain_are_on_several_hosts(tmp_path):
    found = started(tmp_path, (0, 1), 2, "127.0.0.1")
    assert (found.cause.value, found.ranks) == ("config.localhost_address", (1,))


def test_processes_that_all_called_a_real_address_in_vain_are_parted_by_the_network(tmp_path):
    assert started(tmp_path, (0, 1), 2, "198.18.0.1").cause.value == "network.unreachable_or_firewall"


def test_the_one_process_that_is_not_seen_is_what_the_others_waited_for(tmp_path):
    found = started(tmp_path, (0, 1, 3), 4, "127.0.0.1")
    assert (found.rule, found.ranks) == ("SYN063", (2,))


def test_where_the_coordinator_itself_is_not_seen_nobody_is_called_late(tmp_path):
    assert started(tmp_path, (1, 2, 3), 4, "198.18.0.1").rule != "SYN063"


def test_a_store_that_counted_and_a_caller_of_localhost_were_on_two_hosts(tmp_path):
    (tmp_path / "rank0.log").write_text(
        "torch.distributed.DistStoreError: Timed out after 11 seconds waiting for clients. 1/2 clients joined.\n"
    )
    (tmp_path / "rank1.log").write_text(
        "[E1115 04:51:07.766341392 socket.cpp:1028] [c10d] The client socket has timed out after 10000ms while "
        "trying to connect to (localhost, 44391).\n"
    )
    found = explain_paths([tmp_path]).report.findings[0]
    assert (found.cause.value, found.ranks) == ("config.localhost_address", (1,))


def gave_out(folder: Path, address: str) -> Finding:
    (folder / "rank1.log").write_text(
        CONNECTING.format(rank=1, at="198.18.0.1")
        + "jax.errors.JaxRuntimeError: UNKNOWN: Gloo context initialization failed: "
        "[external/gloo/gloo/transport/tcp/pair.cc:152]"
        f" timed out connecting: SO_ERROR: No route to host, remote=[{address}]:6540$1\n"
    )
    return explain_paths([folder]).report.findings[0]


def test_an_address_of_another_network_than_the_meetings_is_of_a_wrong_interface(tmp_path):
    assert gave_out(tmp_path, "10.77.7.1").cause.value == "network.wrong_interface"


def test_an_address_of_the_meetings_own_network_is_merely_not_reached(tmp_path):
    assert gave_out(tmp_path, "198.18.0.2").cause.value == "network.unreachable_or_firewall"

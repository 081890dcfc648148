# SPDX-License-Identifier: Apache-2.0
"""Several real processes of one check meet on this machine: who prints, who is missing, and how all of them end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from keepstep.check.checkup import CheckRequest, place_of
from keepstep.check.meeting.connection import ProvenConnection
from keepstep.check.meeting.meeting_point import arrange, derived_ports, join
from tests.check.conftest import free_port, until


def check(rank: int, size: int, port: int, *words: str, **more: str) -> subprocess.Popen[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "OMPI", "KEEPSTEP"))}
    env |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **more}
    command = [sys.executable, "-m", "keepstep", "check", "network", "--json", *words]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_three_processes_meet_and_only_rank_0_prints() -> None:
    port = free_port()
    ended = [said(process) for process in [check(rank, 3, port, TORCHELASTIC_RUN_ID="x") for rank in (2, 1, 0)]]
    assert [(status, out, err) for status, out, err in ended[:2]] == [(0, "", "")] * 2
    report = json.loads(ended[2][1])
    assert ended[2][0] == 0 and report["verdict"] == "healthy"
    assert any("3 processes" in each["what"] for each in report["coverage"])


def test_who_never_comes_is_named_and_all_end_with_the_status_of_the_report() -> None:
    port = free_port()
    first, second = check(0, 3, port, "--wait", "6"), check(1, 3, port, "--wait", "20")
    status, out, _ = said(first)
    assert status == 1
    (finding,) = json.loads(out)["findings"]
    assert finding["rule"] == "CFG113" and finding["ranks"] == [2] and "2 of 3" in finding["title"]
    assert said(second)[:2] == (1, "")


def test_who_cannot_reach_rank_0_says_so_itself() -> None:
    status, out, _ = said(check(1, 2, free_port(), "--wait", "0.5"))
    assert status == 1
    (finding,) = json.loads(out)["findings"]
    assert finding["rule"] == "CFG113" and "refused" in finding["evidence"][0]["quote"]


def listening_ports(pid: int) -> list[int]:
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(entry))
        except OSError:
            continue
    rows = [
        line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return [int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


def connected(pid: int) -> bool:
    (port,) = listening_ports(pid) or (0,)
    rows = [
        line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return any(row[3] == "01" and int(row[1].rpartition(":")[2], 16) == port for row in rows)


def test_an_interrupt_closes_the_port_and_ends_the_others() -> None:
    first, second = check(0, 3, free := free_port(), "--wait", "60"), check(1, 3, free, "--wait", "60")
    try:
        until(lambda: connected(first.pid))
        (port,) = listening_ports(first.pid)
        first.send_signal(signal.SIGINT)
        assert said(first)[0] == 130
        status, out, _ = said(second)
        assert status == 1 and json.loads(out)["findings"][0]["rule"] == "NET102"
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(("127.0.0.1", port))
    finally:
        for process in (first, second):
            process.kill()


def test_who_dies_in_the_middle_is_a_finding() -> None:
    free = free_port()
    first = check(0, 3, free, "--wait", "60")
    try:
        appointment = arrange(place_of(CheckRequest(), _env(free, rank=1)), None, 60.0)
        assert appointment is not None
        came = join(appointment, {"rank": 1, "host": "here", "who": "me", "addresses": []})
        assert isinstance(came, ProvenConnection)
        came.close()
        last = check(2, 3, free, "--wait", "60")
        status, out, _ = said(first)
        assert status == 1
        (finding,) = json.loads(out)["findings"]
        assert finding["rule"] == "NET114" and finding["ranks"] == [1] and "looking around" in finding["title"]
        assert said(last)[0] == 1
    finally:
        first.kill()


def test_a_stranger_at_the_door_is_no_finding() -> None:
    free = free_port()
    port = derived_ports(arrange(place_of(CheckRequest(), _env(free)), None, 1.0).identity)[0]  # type: ignore[union-attr]
    first = check(0, 2, free, "--wait", "60")
    until(lambda: listening_ports(first.pid))
    assert listening_ports(first.pid) == [port]
    with socket.create_connection(("127.0.0.1", port)) as scanner:
        scanner.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(200))
        second = check(1, 2, free, "--wait", "60")
        assert said(first)[0] == 0
        assert said(second)[0] == 0


def _env(port: int, rank: int = 0) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}

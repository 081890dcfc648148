# SPDX-License-Identifier: Apache-2.0
"""SIGTERM ends every verb at once; `run` confirms it at once, and gives the ranks their grace period. Real processes.

What should take a second gets more here: the machine that runs the tests may be busy.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keepstep.parse.scan.tables import tables
from tests.supervise.starting import Running, wait_for

SOON_S = 10.0
LONG_S = 120
"""What the verb would go on for if nobody ended it."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "keepstep", *words]
    return subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def ended_by_sigterm(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(SOON_S)
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def waits_in(process: subprocess.Popen[bytes], what: str) -> bool:
    """Whether the process has a pipe or a socket open and sleeps, after all that it imports."""
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    return stat == "S" and what in maps


def test_sigterm_ends_why_while_it_waits_for_standard_input(tmp_path: Path) -> None:
    process = start(tmp_path, "why", "-")
    wait_for(lambda: waits_in(process, "hyperscan") or waits_in(process, "_json"))
    assert ended_by_sigterm(process) == -signal.SIGTERM


def test_sigterm_ends_why_in_the_middle_of_a_log(tmp_path: Path) -> None:
    """Each line holds so many failure words that it takes as long as a line may."""
    words = sorted({anchor for each in tables()[0] for anchor in each.anchors if "\n" not in anchor})
    order = random.Random(7)
    with (tmp_path / "rank0.log").open("w") as stream:
        for _ in range(300):
            stream.write(" ".join(order.sample(words, 2000))[:60_000] + "\n")
    process = start(tmp_path, "why", "--seconds-per-file", str(LONG_S), "rank0.log")
    wait_for(lambda: processor_time(process) > 0.3)
    assert ended_by_sigterm(process) == -signal.SIGTERM


def processor_time(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_sigterm_ends_check_while_it_waits_for_others(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "keepstep",
        "check",
        "network",
        "--wait",
        str(LONG_S),
        "--meet",
        f"127.0.0.1:{port}",
    ]
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: listens(port))
    assert ended_by_sigterm(process) == -signal.SIGTERM


def listens(port: int) -> bool:
    lines = Path("/proc/net/tcp").read_text().splitlines() + Path("/proc/net/tcp6").read_text().splitlines()
    return any(
        line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
        for line in lines[1:]
        if ":" in line.split()[1]
    )


@pytest.mark.parametrize("words", [("rules", "list"), ("runs",)], ids=" ".join)
def test_sigterm_ends_verbs_that_print(tmp_path: Path, words: tuple[str, ...]) -> None:
    process = start(tmp_path, *words)
    time.sleep(0.05)
    assert ended_by_sigterm(process) in (-signal.SIGTERM, 0)


def test_run_says_at_once_that_it_heard_sigterm_and_keeps_the_grace(tmp_path: Path) -> None:
    script = """
import os, signal, time
def save(number, frame):
    open("asked", "w").write(str(time.time()))
    while not os.path.exists("may-go"): time.sleep(0.05)
    os._exit(0)
signal.signal(signal.SIGTERM, save)
open("up", "w").write("x")
while True: time.sleep(0.1)
"""
    run = Running(tmp_path, "-n", "1", "--grace", str(LONG_S), script=script)
    heard = threading.Event()
    said: list[str] = []

    def read() -> None:
        assert run.process.stderr is not None
        for line in run.process.stderr:
            said.append(line)
            if "SIGTERM: stopping the ranks" in line:
                heard.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        wait_for(lambda: (tmp_path / "up").exists())
        run.process.send_signal(signal.SIGTERM)
        assert heard.wait(SOON_S), said
        wait_for(lambda: (tmp_path / "asked").exists())
        assert run.process.poll() is None, "it left before its rank had"
        (tmp_path / "may-go").touch()
        assert run.process.wait(60) == 143
    finally:
        if run.process.poll() is None:
            run.process.kill()
        reader.join(10)

# SPDX-License-Identifier: Apache-2.0
"""Whatever ends the lab, no process, temporary file, control group, mount, namespace or link of it remains."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepstep_lab import hosts
from keepstep_lab.sweeper import VARIABLE, control_groups

needs_hosts = pytest.mark.skipif(hosts.missing() is not None, reason=str(hosts.missing()))


def lab(temp: Path, *words: str) -> subprocess.Popen[str]:
    env = {**os.environ, "TMPDIR": str(temp)}
    command = [sys.executable, "-m", "keepstep", "lab", *words]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_until(condition, limit: float = 300.0) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def trains(temp: Path) -> bool:
    return any(" step " in path.read_text(errors="replace") for path in temp.glob("keepstep-lab-*/left/rank0.log"))


def processes_of(temp: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if f"KEEPSTEP_LAB_WORK={temp}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def tokens_of(temp: Path) -> set[str]:
    """What the processes of this lab carry, and only they: other labs may be at work on the machine."""
    found = set()
    for pid in processes_of(temp):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
            found |= {word.partition("=")[2] for word in words if word.startswith(f"{VARIABLE}=")}
    return found


def world() -> dict[str, set[str]]:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=False).stdout
    return {
        "links": {line.split(":")[1].strip() for line in links.splitlines()},
        "mounts": {place for place in mounted if "/pytest-of-" not in place},  # other tests mount small disks meanwhile
        "namespaces": {path.name for path in Path("/run/netns").glob("*")},
    }


@pytest.mark.frameworks
@pytest.mark.parametrize(
    "how",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL],
    ids=lambda how: how.name,
)
def test_nothing_is_left_when_the_lab_is_ended_in_the_middle(tmp_path: Path, how: signal.Signals) -> None:
    before = world()
    process = lab(tmp_path, "run", "torch_sleeping_rank")
    wait_until(lambda: trains(tmp_path))
    tokens = tokens_of(tmp_path)
    assert tokens
    process.send_signal(how)
    printed, _ = process.communicate(timeout=300)
    assert "Traceback" not in printed
    if how is signal.SIGTERM:
        assert "SIGTERM: the lab ends what it started" in printed
    wait_until(lambda: not processes_of(tmp_path) and not list(tmp_path.iterdir()))
    assert not [group for token in tokens for group in control_groups(token)]
    assert world() == before


@needs_hosts
def test_hosts_see_each_other_and_are_gone_when_closed(tmp_path: Path) -> None:
    before = world()
    (tmp_path / "other").mkdir()
    first = hosts.Hosts(3, tmp_path, dict(os.environ))
    second = hosts.Hosts(2, tmp_path / "other", dict(os.environ))
    try:
        assert first.do(0, "hostname").strip() == "node-0"
        assert "node-2" in first.do(1, "getent", "hosts", "node-2")
        assert "refused" in _knock(first, hosts.address(2)), "a port without a listener answers: there is a way"
        assert "refused" not in _knock(second, hosts.address(2)), "the other lab has no such host"
        assert world() == before, "nothing is added to the machine's own network"
    finally:
        first.close()
        second.close()
    assert world() == before


def _knock(lab_hosts: hosts.Hosts, address: str) -> str:
    return lab_hosts.do(0, "bash", "-c", f"timeout 5 bash -c 'exec 3<>/dev/tcp/{address}/9' 2>&1 || true")

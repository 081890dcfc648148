# SPDX-License-Identifier: Apache-2.0
"""The reaper ends ranks whose lease is over, whatever the agent does: real processes."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import keepstep
from keepstep.base import proc_stat
from keepstep.supervise.nodes.agent.lease import KILL_S
from keepstep.supervise.start import reaper as module
from keepstep.supervise.start.ending import Reaper
from keepstep.supervise.start.reaper import VARIABLE
from keepstep.supervise.start.spares import Launch


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    reaper = Reaper(secrets.token_hex(12))
    yield reaper
    reaper.kill_all(patience_s=10.0)
    reaper.bye()


def rank(reaper: Reaper) -> subprocess.Popen[bytes]:
    command = (sys.executable, "-S", "-c", "import time; time.sleep(600)")
    env = {**os.environ, VARIABLE: reaper.token}
    return reaper.start(Launch(rank=0, command=command, env=env, cwd=Path("/")), 1, 2)


def renew(reaper: Reaper, lease_s: float, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        reaper.lease(lease_s)
        time.sleep(0.1)


def is_killed(process: subprocess.Popen[bytes], within_s: float) -> bool:
    try:
        return process.wait(timeout=within_s) == -signal.SIGKILL
    except subprocess.TimeoutExpired:
        return False


def test_a_lease_that_is_renewed_keeps_ranks_alive_and_its_end_kills_them(reaper: Reaper) -> None:
    process = rank(reaper)
    renew(reaper, 2.0, 5.0)
    assert process.poll() is None
    assert is_killed(process, 2.0 + KILL_S)


def test_there_is_a_new_lease_after_one_is_over(reaper: Reaper) -> None:
    first = rank(reaper)
    reaper.lease(0.2)
    assert is_killed(first, 0.2 + KILL_S)
    reaper.lease(None)
    second = rank(reaper)
    time.sleep(2.0)
    assert second.poll() is None, "without a lease it lives as long as the agent"
    reaper.lease(0.5)
    assert is_killed(second, 0.5 + KILL_S)


def test_a_lease_that_is_renewed_after_it_was_over_counts_again(reaper: Reaper) -> None:
    """An agent that was frozen goes on as if nothing had happened."""
    first = rank(reaper)
    reaper.lease(0.2)
    assert is_killed(first, 0.2 + KILL_S)
    second = rank(reaper)
    renew(reaper, 1.0, 3.0)
    assert second.poll() is None
    assert is_killed(second, 1.0 + KILL_S)


def test_a_reaper_that_was_killed_is_replaced_by_one_that_knows_the_lease(reaper: Reaper) -> None:
    process = rank(reaper)
    reaper.lease(4.0)
    reaper._process.kill()
    reaper._process.wait()
    reaper.see_to_it()
    assert is_killed(process, 4.0 + KILL_S)


def test_where_no_memory_can_be_shared_the_lease_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    reaper = Reaper(secrets.token_hex(12))
    process = rank(reaper)
    renew(reaper, 1.0, 3.0)
    assert process.poll() is None
    assert is_killed(process, 1.0 + KILL_S)
    reaper.bye()


def test_folders_are_removed_also_if_our_own_files_are_gone(tmp_path: Path) -> None:
    """An installation may be replaced, or a temporary one removed, while a run goes on."""
    folder, left = tmp_path / "room", tmp_path / "keepstep"
    (folder / "attempt-0").mkdir(parents=True)
    for kept in (keepstep, proc_stat, module):  # what it loads when it starts
        copy = left / Path(kept.__file__).relative_to(Path(keepstep.__file__).parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept.__file__, copy)
    command = [sys.executable, "-I", "-S", str(copy), secrets.token_hex(12)]
    words = f"keep {folder / 'attempt-0'}\nremove {folder}\n"
    subprocess.run(command, input=words, text=True, timeout=60.0, check=True)
    assert not folder.exists()


def test_the_reaper_spares_an_agent_that_starts_a_rank_just_when_the_lease_ends(tmp_path: Path) -> None:
    """While it does, it is in the control group of its ranks."""
    program = (
        "import os, sys, time, secrets\n"
        "from pathlib import Path\n"
        "from keepstep.supervise.start import reaper as module\n"
        "from keepstep.supervise.start.ending import Reaper\n"
        "reaper = Reaper(secrets.token_hex(12))\n"
        "group = Path(sys.argv[1]); reaper._afterwards(f'group {group}')\n"
        "(group / 'cgroup.procs').write_text(f'{os.getpid()}\\n')\n"
        "reaper.lease(0.3); time.sleep(3.0); print('lives'); reaper.bye()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60.0, check=False
    )
    assert done.stdout == "lives\n", (done.returncode, done.stderr)

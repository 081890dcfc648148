# SPDX-License-Identifier: Apache-2.0
"""What a launcher starts is a fork that has the frameworks, and ends and hears signals as if it were Python itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

JOB = """
import os
import signal
import sys

import framework

print(framework.KIND, os.environ["SET_BY_LAUNCHER"], *sys.argv, flush=True)
if sys.argv[1] == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "waits":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
    print("ready", flush=True)
    signal.pause()
if sys.argv[1] == "stays":
    signal.pause()
sys.exit(3)
"""
LAUNCHER = """
import functools
import os
import subprocess
import sys
from types import ModuleType

from keepstep.guard import stand_in
from keepstep.shrink import trial_process, warm_launch

made = ModuleType("framework")
made.KIND = "already there"
warm = functools.partial(trial_process._become_rank, modules={"framework": made})
forks = warm_launch.begin(warm if sys.argv[1] == "warm" else trial_process._start_anew)
env = {**os.environ, "KEEPSTEP": "on", stand_in.VARIABLE: forks, "SET_BY_LAUNCHER": "yes"}
for how in ("stays", "ends", "dies", "waits"):
    job = subprocess.Popen(
        [sys.executable, "job.py", how], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    first = job.stdout.readline()
    if how == "stays":
        waits = job  # as a script does that waits for the first one it started
        continue
    if how == "waits":
        job.stdout.readline()
        job.terminate()
    print(first.strip(), job.wait(), flush=True)
print(waits.wait())
"""


@pytest.mark.parametrize("how, kind", [("warm", "already there"), ("anew", "imported")])
def test_a_process_of_a_launcher_is_a_fork_that_ends_as_itself(tmp_path: Path, how: str, kind: str) -> None:
    (tmp_path / "framework.py").write_text("KIND = 'imported'\n")
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    command = [sys.executable, "launcher.py", how]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    ends = ["ends 3", "dies -9", "waits 5"]
    # the one that stayed was ended
    assert found.stdout.splitlines() == [*(f"{kind} yes job.py {each}" for each in ends), "-15"], found.stderr

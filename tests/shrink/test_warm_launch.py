# SPDX-License-Identifier: Apache-2.0
"""What a launcher starts is a fork that has the frameworks, and ends and hears signals as if it were Python itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
forks = warm_launch.begin(functools.partial(trial_process._become_rank, modules={"framework": made}))
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


def test_a_process_of_a_launcher_is_a_fork_that_has_the_framework(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    found = subprocess.run([sys.executable, "launcher.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert found.stdout == (  # the last one was ended
        "already there yes job.py ends 3\nalready there yes job.py dies -9\nalready there yes job.py waits 5\n-15\n"
    ), found.stderr

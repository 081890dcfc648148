# SPDX-License-Identifier: Apache-2.0
"""Where the time of a real run went that crashed, came back from its checkpoint and finished."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.goodput_storm import run as storm
from keepstep.analyze.goodput import goodput
from keepstep.signals.goodput import UNEXPLAINED, Bucket
from tests.supervise.starting import Running

SCRIPT = """
import os, signal, time
from pathlib import Path
from keepstep.guard import attach

rank, saved = os.environ["RANK"], Path(f"saved{os.environ['RANK']}")
guard = attach()
with guard.phase("checkpoint"):
    begin = int(saved.read_text()) if saved.exists() else 0
for step in guard.steps(range(begin, 45)):
    time.sleep(0.1)
    if step == 20:
        with guard.phase("checkpoint"):
            saved.write_text("20")
            time.sleep(0.5)
    if step == 35 and rank == "1" and begin == 0:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_every_second_has_its_bucket_and_its_reason(tmp_path: Path) -> None:
    run = Running(tmp_path, "-n", "2", "--no-spares", script=SCRIPT)
    assert run.finish() == 0, run.err
    attempts = run.manifest["attempts"]
    assert len(attempts) == 2 and attempts[1]["resumed"] is True, attempts
    found = goodput(run.run)
    whole = 2 * (run.manifest["ended"] - run.manifest["began"])
    assert sum(found.buckets.values()) == pytest.approx(whole, rel=0.005)
    assert found.buckets[Bucket.PRODUCTIVE] > 2.0 and found.share == pytest.approx(run.manifest["goodput"], abs=0.01)
    again = {why for bucket, why in found.lost if bucket is Bucket.WASTED_PROGRESS_FROM_DISRUPTION}
    assert again == {attempts[0]["title"]}, "steps 21 to 35 were done twice, because rank 1 was killed"
    assert found.buckets[Bucket.WASTED_PROGRESS_FROM_DISRUPTION] > 1.0
    assert found.buckets[Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME] > 0.5
    assert found.unexplained_s < 0.1 * whole, found.lost

    command = [sys.executable, "-m", "keepstep", "runs", "last"]
    narrow = {**os.environ, "COLUMNS": "80"}
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=narrow)
    assert "steps that had to be done again" in said.stdout and UNEXPLAINED not in said.stderr, said
    assert max(map(len, said.stdout.splitlines())) <= 80
    document = json.loads(
        subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=120).stdout
    )
    assert sum(document["time"]["buckets"].values()) == pytest.approx(whole, rel=0.005)


@pytest.mark.frameworks
@pytest.mark.long
def test_who_computes_longer_keeps_the_others_waiting(tmp_path: Path) -> None:
    """A sample of `make goodput-storm`."""
    found = goodput(storm(tmp_path / "storm", [(10, "compute", 1)], limit_s=180.0))
    waits = {why: seconds for (bucket, why), seconds in found.lost.items() if bucket is Bucket.WAITING_FOR_ANOTHER_RANK}
    assert waits["rank 1 computes longer than the others"] > 2.0, found.lost
    assert found.unexplained_s < 0.05 * found.lost_s, found.lost

# SPDX-License-Identifier: Apache-2.0
"""A forecast of memory beside what a run takes: corrected after two steps, and after an end for lack of memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keepstep.extend.run_settings import RunSettings
from keepstep.model.codec import to_dict
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.resource import DeviceMemoryForecast, DeviceMemoryHeld, HostMemoryForecast
from keepstep.signals.thresholds import Threshold
from keepstep.supervise.watch.alarms import Alarms
from keepstep.supervise.watch.memory_ahead import MemoryAhead
from tests.supervise.starting import Running

GIB = 1 << 30
DEVICE = DeviceMemoryForecast(
    device="NVIDIA H200", total=150 * GIB, low=4 * GIB, high=5 * GIB, allocated=4 * GIB, longest=7 * GIB, earlier=True
)
HOST = HostMemoryForecast(low=10 * GIB, high=20 * GIB, ranks=2, earlier=True)
SCRIPT = """
import sys, time
from keepstep.guard import attach
from keepstep.guard.record.device_memory import DeviceMemory

guard = attach()
GIB = 1 << 30
DeviceMemory(guard._session, lambda: (4 * GIB, 4 * GIB, 6 * GIB)).watch()  # stands in for a GPU's allocator
for step in guard.steps(range(600)):
    time.sleep(0.1)
    said = guard._session.folder.parent / "pace.jsonl"
    if said.exists() and "will not fit" in said.read_text() and "of this host" in said.read_text():
        break
sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 6.00 "
         "GiB of which 1.00 GiB is free. Of the allocated memory 4.50 GiB is allocated by PyTorch")
"""


def evidence(*facts: object) -> list[Evidence]:
    return [Evidence(fact=each, origin=Origin(source="train.py")) for each in facts]


def held(gib: float, limit: int = 6) -> DeviceMemoryHeld:
    return DeviceMemoryHeld(steps=2, held=int(gib * GIB), taken=int(gib * GIB), limit=limit * GIB)


def test_a_run_corrects_its_forecast_and_why_names_the_difference(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text("".join(json.dumps(to_dict(each)) + "\n" for each in evidence(DEVICE, HOST)))
    run = Running(tmp_path, "-n", "1", "--max-attempts", "1", "--memory-forecast", "f.jsonl", script=SCRIPT)
    assert run.finish() == 1, run.err
    assert "as forecast; the forecast is now 4.3 GB to 5.4 GB of 6.4 GB" in run.err
    assert "a batch of the longest records will not fit: it needs 7.5 GB, and rank 0 may take 6.4 GB" in run.err
    assert "less than the 5.4 GB to 10.7 GB forecast" in run.err
    (found, *_) = json.loads((run.run / "attempt-0" / "report.json").read_text())["findings"]
    assert found["rule"] == "RES001"
    assert "tensors needed at least 3.50 GiB more" in found["because"] and "as forecast at first" in found["because"]
    assert any("came after the first steps" in fix["do"] for fix in found["fixes"])


def test_a_file_without_a_forecast_is_refused(tmp_path: Path) -> None:
    run = Running(tmp_path, "--memory-forecast", "train.py", script="")
    assert (run.finish(), "train.py holds no forecast" in run.err) == (2, True)


@pytest.mark.parametrize(
    ("gib", "says"),
    [(4.0, "as forecast"), (5.0, "25 % more than the 4.3 GB forecast"), (2.0, "50 % less than the 4.3 GB forecast")],
)
def test_the_first_steps_correct_the_forecast_once(gib: float, says: str) -> None:
    ahead = MemoryAhead(evidence(DEVICE))
    assert list(ahead.news({0: held(1)}, {0: {}, 1: {}})) == [], "one rank has not made two steps"
    words = list(ahead.news({0: held(1), 1: held(gib, limit=8)}, {0: {}, 1: {}}))
    assert words[0].startswith("rank 1: tensors held at most") and says in words[0]
    assert ("will not fit" in words[-1]) is (gib > 4.5), "7 GiB, as far off as the first steps were, into 8 GiB"
    assert list(ahead.news({0: held(9), 1: held(9)}, {0: {}, 1: {}})) == []


def test_a_device_that_fills_is_told_with_its_rank_and_the_step() -> None:
    said: list[str] = []
    alarms = Alarms(RunSettings(), said.append)
    for second in range(60):
        filling = {"device_memory_share": 0.6 + 0.005 * (second // 4), "step": 10.0 * second}
        alarms.see({"rank": {0: {"device_memory_share": 0.6, "step": 10.0 * second}, 1: filling}}, second, Path("."))
    (told,) = said
    assert told.startswith("rank 1, the most that tensors held of the rank's device: 6")
    assert "at this rate it reaches 98 % in " in told
    assert 2500 < int(told.rpartition("at about step ")[2]) < 4500, "38 % of the device, at an eighth per cent a second"


def test_who_grows_is_named_where_the_host_fills() -> None:
    said: list[str] = []
    alarms = Alarms(RunSettings(thresholds=(Threshold("host_memory_share", 0.9, for_s=5.0),)), said.append)
    for second in range(10):
        ranks = {0: {"memory": 1e9}, 1: {"memory": 1e9 + second * 2e8}}
        alarms.see({"rank": ranks, "host": {"node": {"host_memory_share": 0.95}}}, second, Path("."))
    (told,) = said
    assert told.endswith("95 %, above 90 % for 5.0 s; rank 1 grows most, by 1.0 GB in 5.0 s")

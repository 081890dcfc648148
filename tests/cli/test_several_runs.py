# SPDX-License-Identifier: Apache-2.0
"""`keepstep why RUNS/`: the latest failure, and what it has in common with those before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keepstep.cli.parser import run as main
from keepstep.store import run_folders

RAISED = 'step 10 loss 2\nTraceback (most recent call last):\n  File "/a/train.py", line 9, in <module>\n    main()\n'
OUT_OF_MEMORY = (
    RAISED + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 2 has a total capacity of"
    " 79.15 GiB of which 812.31 MiB is free.\n"
)
ECC = RAISED + "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
KEY = RAISED + "KeyError: 'label'\n"
BROKEN = RAISED + "RuntimeError: PytorchStreamReader failed reading file data/12 in /ckpt/step_200.pt\n"
DONE = "step 10 loss 2\nstep 20 loss 1\ntraining finished\n"


def run(root: Path, day: int, text: str, *, host: str = "gpu07", state: str = "failed") -> run_folders.RunFolder:
    folder = run_folders.create(root, ["python", "train.py"], name=f"day{day}", ranks=4, version="1")
    said = folder.manifest
    said.began = 1.79e9 + day * 86400
    said.ended, said.host, said.state, said.status = said.began + 3600, host, state, int(state != "finished")
    said.attempts.append(run_folders.AttemptSaid(number=0, began=said.began, ended=said.ended, status=said.status))
    (folder.attempt(0) / "rank2.log").write_text(text)
    folder.save()
    return folder


def report_on(capsys: pytest.CaptureFixture[str], *paths: Path) -> dict:
    main(["why", "--json", "--no-kernel-log", *map(str, paths)])
    return json.loads(capsys.readouterr().out)


def test_the_latest_failure_follows_a_fault_of_the_same_gpu(tmp_path, capsys):
    run(tmp_path, 1, KEY, host="gpu03")
    run(tmp_path, 2, ECC)
    run(tmp_path, 3, OUT_OF_MEMORY)
    run(tmp_path, 4, DONE, host="gpu03", state="finished")
    said = report_on(capsys, tmp_path)
    assert (said["verdict"], said["findings"][0]["cause"]) == ("failed", "resource.gpu_oom")
    assert said["earlier_runs"][:3] == [
        "host gpu07 began 2 of the last 3 failures",
        "the GPU of rank 2 on gpu07 began 2 of the last 3 failures",
        "this follows a fault of the same hardware (the GPU of rank 2 on gpu07) 24.0 h before: the GPU of rank 2"
        " reported a fault: uncorrectable ECC error",
    ]
    assert len(said["earlier_runs"]) == 5
    assert main(["why", "--no-kernel-log", str(tmp_path)]) == 1
    assert "earlier runs\n  + host gpu07 began 2 of the last 3 failures" in capsys.readouterr().out


def test_another_gpu_or_the_only_host_says_nothing(tmp_path, capsys):
    run(tmp_path, 1, ECC, host="gpu03")
    run(tmp_path, 2, OUT_OF_MEMORY)
    assert not any("follows" in told or "began" in told for told in report_on(capsys, tmp_path)["earlier_runs"])


def test_runs_that_are_named_one_by_one_are_several_runs_too(tmp_path, capsys):
    folders = [run(tmp_path, 1, BROKEN), run(tmp_path, 2, BROKEN), run(tmp_path, 3, DONE, state="finished")]
    said = report_on(capsys, *(folder.path for folder in folders))
    assert said["findings"][0]["cause"] == "checkpoint.corrupt_or_missing"
    assert any("2 of the last 2 failures" in told for told in said["earlier_runs"])


def test_a_single_run_is_explained_without_a_history(tmp_path, capsys):
    folder = run(tmp_path, 1, KEY)
    assert report_on(capsys, folder.path)["earlier_runs"] == []
    assert report_on(capsys, tmp_path)["earlier_runs"] == []


def test_no_run_yet_says_where_it_looked(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["why", "last"]) == 2
    said = capsys.readouterr().err
    assert "there is no run here yet" in said and str(tmp_path / ".keepstep" / "runs") in said


@pytest.mark.parametrize(
    "verb", ["top --once", "watch --html page.html", "export otlp", "profile", "save", "pause", "resume"]
)
def test_a_wrong_path_is_called_that(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("keepstep: no such file or run: nowhere\n")


def test_an_empty_folder_is_no_run_whose_time_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(tmp_path)]) == 2
    assert "is no run folder" in capsys.readouterr().err

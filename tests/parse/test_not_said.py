"""Source lines that Python shows, and keepstep's own words, are no messages of the job."""

import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.analyze.load_tables import known
from keepstep.analyze.why import explain_paths
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ErrorSaid, ExceptionRaised, ProcessExited
from keepstep.model.facts.training import LastOwnLine, StreamEnded
from keepstep.parse.scan.lines.not_said import without_source
from keepstep.parse.scan.logscan import LogScan

OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB"


def facts(text: str) -> list[Fact]:
    return [
        s.fact
        for s in LogScan(known()).scan([text.encode()])
        if not isinstance(s.fact, StreamEnded | ErrorSaid | LastOwnLine)
    ]


def kinds(text: str) -> list[str]:
    return [type(fact).__name__ for fact in facts(text)]


PROGRAM = f'''
def retry(on, do):
    return do()


def train(settings):
    return retry(on="{OUT_OF_MEMORY}", do=lambda: settings["lr"])


train({{}})
'''


def test_a_string_in_the_source_of_a_frame_is_not_what_happened(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    ran = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert OUT_OF_MEMORY in ran.stderr
    assert kinds(ran.stderr) == ["ExceptionRaised"]
    (tmp_path / "rank0.log").write_text(ran.stderr)
    (finding,) = explain_paths([tmp_path / "rank0.log"]).report.findings
    assert (finding.rule, finding.ranks) == ("USR001", (0,))


FRAMES = """Traceback (most recent call last):
  File "/srv/train.py", line 9, in main
    retry(
        on="CUDA out of memory. Tried to allocate 2.00 GiB",
        times=3,
    )
  File "/srv/train.py", line 4, in retry
    return settings["lr"]
KeyError: 'lr'
"""


@pytest.mark.parametrize("before", ["", "[rank1]: ", "rank 1 | ", "[default1]:"])
def test_nor_in_a_statement_of_several_lines_whoever_writes_it(before: str) -> None:
    text = "".join(f"{before}{line}\n" for line in FRAMES.splitlines())
    assert kinds(text) == ["ExceptionRaised"]


def test_nor_while_another_rank_writes_between() -> None:
    mine = [f"[rank1]: {line}" for line in FRAMES.splitlines()]
    text = "".join(f"{line}\n[rank0]: step {n} loss 0.5\n" for n, line in enumerate(mine, 1))
    assert "DeviceMemoryExhausted" not in kinds(text)


def test_nor_below_a_warning() -> None:
    text = f'/srv/train.py:12: UserWarning: slow\n  warnings.warn("{OUT_OF_MEMORY}")\n'
    assert kinds(text) == []


def test_nor_in_the_box_that_rich_draws() -> None:
    text = f"""╭───── Traceback (most recent call last) ─────╮
│ /srv/train.py:12 in main                     │
│                                              │
│    9 │   limit = 3                           │
│ ❱ 12 │   retry(on="{OUT_OF_MEMORY}")         │
╰──────────────────────────────────────────────╯
KeyError: 'lr'
"""
    assert "DeviceMemoryExhausted" not in kinds(text)


def test_nor_in_a_traceback_on_one_line() -> None:
    line = f'{{"msg": "Traceback (most recent call last):\\n  File \\"/srv/a.py\\", line 3, in main\\n    retry(\\"{OUT_OF_MEMORY}\\")\\nKeyError: 1"}}'
    assert OUT_OF_MEMORY not in without_source(line)
    assert "DeviceMemoryExhausted" not in kinds(line)


def test_what_an_exception_says_below_its_frames_is_said() -> None:
    said = FRAMES.replace("KeyError: 'lr'", f"torch.OutOfMemoryError: {OUT_OF_MEMORY}")
    assert "DeviceMemoryExhausted" in kinds(said)
    in_user_code = f"""Traceback (most recent call last):
  File "/srv/train.py", line 9, in main
    fit()
TypeError: in user code:

    File "/srv/train.py", line 4, in step  *
        return model(x)

    RuntimeError: {OUT_OF_MEMORY}
"""
    assert "DeviceMemoryExhausted" in kinds(in_user_code)


RAISE = """Traceback (most recent call last):
  File "/srv/train.py", line 9, in main
    dist.init_process_group("nccl")
  File "/usr/lib/python3/dist-packages/torch/distributed/rendezvous.py", line 233, in _get_env_or_raise
    raise _env_error("MASTER_ADDR")
"""


def test_a_raise_line_tells_where_the_message_is_missing_and_only_there() -> None:
    assert "RankVariableMissing" in kinds(RAISE)
    assert kinds(RAISE + "KeyError: 'lr'\n") == ["ExceptionRaised"]


def test_a_cluster_description_that_is_no_json_is_known_by_the_line_that_read_it(tmp_path: Path) -> None:
    program = 'import json, os\nos.environ["TF_CONFIG"] = "{"\nrank = json.loads(os.environ["TF_CONFIG"])\n'
    (tmp_path / "train.py").write_text(program)
    ran = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert kinds(ran.stderr) == ["ExceptionRaised", "ClusterSpecInvalid"]


# --- keepstep's own words


def test_what_keepstep_checked_is_not_what_the_job_said(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(
        "keepstep: check: the TPU's lock file /tmp/libtpu_lockfile exists, and no process holds it any more\n"
        "keepstep: check: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
        "step 1 loss 0.5\nstep 2 loss 0.4\n"
    )
    assert explain_paths([tmp_path]).report.findings == ()


def test_a_rank_whose_end_keepstep_reported_has_ended(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(
        "rank 0 | step 1 loss 0.5\nrank 1 | step 1 loss 0.5\n"
        "keepstep: rank 1 ended with SIGKILL (pid 77), 9.1 s after its start\n"
    )
    root = explain_paths([tmp_path]).report.findings[0]
    assert root.ranks == (1,)
    assert isinstance(root.evidence[0].fact, ProcessExited) and root.evidence[0].fact.signal == "SIGKILL"


def test_a_report_of_keepstep_in_a_log_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("step 1 loss 0.5\n" + FRAMES)
    said = subprocess.run(
        [sys.executable, "-m", "keepstep", "why", str(tmp_path / "rank0.log")],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    report = said.replace("KeyError: 'lr'", f"RuntimeError: {OUT_OF_MEMORY}")
    assert OUT_OF_MEMORY in report
    assert not any(isinstance(fact, ExceptionRaised) for fact in facts(report))
    assert "DeviceMemoryExhausted" not in kinds(f"step 1 loss 0.5\n{report}")

# SPDX-License-Identifier: Apache-2.0
"""A plain Python ending has its exception, its words, and the user's file and line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Confidence, Finding
from keepstep.model.report import Report
from keepstep.supervise.decide.cause_recurs import Returns, returns


def ran(folder: Path, program: str, name: str = "rank0.log") -> Report:
    """What is said of a program's own output."""
    (folder / "train.py").write_text(program)
    done = subprocess.run([sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, check=False)
    (folder / name).write_text(done.stdout + done.stderr)
    return explain_paths([folder / name]).report


def root(report: Report) -> Finding:
    assert report.root is not None
    return report.root


@pytest.mark.parametrize(
    "words", ["shape of mask differs", "connection refused by the cache", "the checkpoint is older than this model"]
)
def test_what_the_program_raises_is_told_with_its_line_and_not_guessed_at(tmp_path: Path, words: str) -> None:
    found = root(ran(tmp_path, f'def check(mask):\n    raise ValueError("{words}")\n\n\ncheck(1)\n'))
    assert found.rule == "USR001" and found.confidence is Confidence.ESTABLISHED
    assert found.title == f"rank 0 raised ValueError in train.py:2: {words}"


def test_an_assertion_without_a_message_is_told_by_its_own_line(tmp_path: Path) -> None:
    found = root(ran(tmp_path, "steps, ranks = 1, 2\nassert steps % ranks == 0\n"))
    assert found.title == "rank 0 raised AssertionError in train.py:2: assert steps % ranks == 0"


def test_nor_where_the_raise_stands_behind_its_condition(tmp_path: Path) -> None:
    found = root(ran(tmp_path, 'mask = 3\nif mask != 2: raise ValueError("shape of mask differs")\n'))
    assert found.title == "rank 0 raised ValueError in train.py:2: shape of mask differs"


def test_a_missing_module_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    found = root(ran(tmp_path, "import no_such_package.part\n"))
    assert found.rule == "ENV012" and found.confidence is Confidence.ESTABLISHED
    assert "no_such_package in train.py:1" in found.title
    assert found.fixes[0].command == "python -m pip install no_such_package"


def test_a_package_is_installed_by_its_own_name(tmp_path: Path) -> None:
    found = root(ran(tmp_path, "raise ModuleNotFoundError(\"No module named 'sklearn.svm'\")\n"))
    assert found.fixes[0].command == "python -m pip install scikit-learn"


# --- programs that end themselves

LISTENS = """
import atexit, sys
from keepstep.guard.ending.goodbye import Listener
listener = Listener(lambda ending: None)
listener.listen()
atexit.register(lambda: print(listener.ending()))


def main():
    sys.exit({0})


main()
"""


@pytest.mark.parametrize(("given", "status"), [("3", 3), ("'bad arguments'", 1)])
def test_the_guard_knows_the_line_that_called_exit(tmp_path: Path, given: str, status: int) -> None:
    (tmp_path / "train.py").write_text(LISTENS.format(given))
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert f"status={status}" in done.stdout and "place='train.py:10'" in done.stdout
    assert ("text='bad arguments'" in done.stdout) is (status == 1)


def noted(path: Path, rank: int, fact: str, at: float, quote: str = "", **fields: Any) -> None:
    line = {"fact": fact, "fields": fields, "origin": {"source": path.name}, "at": at, "rank": {"index": rank}}
    with path.open("a") as file:
        file.write(json.dumps(line | {"quote": quote}) + "\n")


LOST = "RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:36572"


def left(folder: Path, **fields: Any) -> Report:
    """Rank 1 ended itself, and rank 0 lost it."""
    (folder / "rank0.log").write_text(
        f'Traceback (most recent call last):\n  File "/srv/t.py", line 8, in f\n    g()\n{LOST}\n'
    )
    (folder / "rank1.log").write_text("rank 1 step 14 loss 0.07\n" + ("bad arguments\n" if "said" in fields else ""))
    fields.pop("said", None)
    noted(
        folder / "rank0-10-0.notes.jsonl", 0, "RankEnded", 101.0, goodbye=True, status=1, raised="RuntimeError", pid=10
    )
    noted(folder / "rank1-11-0.notes.jsonl", 1, "RankEnded", 100.0, goodbye=True, pid=11, **fields)
    return explain_paths([folder]).report


def test_a_rank_that_called_exit_is_no_fault_of_the_network(tmp_path: Path) -> None:
    found = root(left(tmp_path, status=3, place="train.py:64"))
    assert (found.rule, found.ranks, found.confidence) == ("USR003", (1,), Confidence.ESTABLISHED)
    assert found.title == "rank 1 ended itself with status 3 in train.py:64"
    assert returns(found, 14)[0] is Returns.PERHAPS


def test_the_text_of_a_system_exit_is_told(tmp_path: Path) -> None:
    found = root(left(tmp_path, status=1, said=True))
    assert found.title == "rank 1 ended itself with status 1: bad arguments"


def test_a_rank_whose_output_says_why_it_left_did_not_begin_it(tmp_path: Path) -> None:
    (tmp_path / "rank1.log").touch()
    report = left(tmp_path, status=1)
    (tmp_path / "rank1.log").write_text(f"rank 1 step 14 loss 0.07\n{LOST}\n")
    assert "USR003" in {each.rule for each in report.findings}
    assert "USR003" not in {each.rule for each in explain_paths([tmp_path]).report.findings}


def test_the_last_words_are_told_where_only_a_launcher_knows_the_status(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("rank 1 | bad arguments\nkeepstep: rank 1 ended with exit code 1 (pid 7)\n")
    assert "bad arguments" in root(explain_paths([tmp_path]).report).title


# --- programs that swallow their exception

SWALLOWED = """for step in range(1, 6):
    print(f"step {step} loss {1 / step:.3f}")
try:
    {}["lr"]
except Exception as error:
    PRINT
"""


def swallowed(folder: Path, print_it: str) -> Report:
    ran(folder, "import traceback\n" + SWALLOWED.replace("PRINT", print_it))
    noted(folder / "rank0-10-0.notes.jsonl", 0, "RankEnded", 101.0, goodbye=True, status=0, pid=10, world=1)
    (folder / "train.py").unlink()
    return explain_paths([folder]).report


def test_an_exception_that_was_only_printed_is_said_to_have_been_caught(tmp_path: Path) -> None:
    found = root(swallowed(tmp_path, "traceback.print_exc()"))
    assert found.rule == "USR001" and "ended with status 0" in found.because and "not caught" not in found.because


def test_an_error_as_the_last_word_of_a_rank_that_ended_well_is_said(tmp_path: Path) -> None:
    found = root(swallowed(tmp_path, 'print("error:", error)'))
    assert (found.rule, found.confidence) == ("USR004", Confidence.HYPOTHESIS)
    assert "error: 'lr'" in found.title


@pytest.mark.parametrize(("others", "short"), [(20, True), (7, False)])
def test_a_rank_that_goes_on_to_its_end_after_an_error_made_fewer_steps_than_the_others(
    tmp_path: Path, others: int, short: bool
) -> None:
    for rank, steps, more in ((0, others, ""), (1, 7, "Error: 'learning_rate'\n")):
        lines = "".join(f"step {step} loss {1 / (step + 1):.3f}\n" for step in range(steps))
        (tmp_path / f"rank{rank}.log").write_text(f"{lines}{more}bye\n")
        notes = tmp_path / f"rank{rank}-{10 + rank}-0.notes.jsonl"
        noted(notes, rank, "RankEnded", 101.0, goodbye=True, status=0, pid=10 + rank, world=2)
    found = [each for each in explain_paths([tmp_path]).report.findings if each.rule == "USR004"]
    assert [each.ranks for each in found] == ([(1,)] if short else [])


def test_a_rank_that_says_it_has_finished_has(tmp_path: Path) -> None:
    report = swallowed(tmp_path, 'print("error:", error); print("Training finished.")')
    assert report.findings == ()


# --- a call in the wrong context of a strategy


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("RuntimeError: apply_gradients() cannot be called in cross-replica context.", "strategy.run("),
        ("ValueError: Replica-local variables may only be assigned in a replica context.", "strategy.run("),
        ("ValueError: Variable (<v>) was not created in the distribution strategy scope of (<x>)", "strategy.scope("),
    ],
)  # fmt: skip
def test_advice_is_about_the_call_where_the_call_is_wrong(tmp_path: Path, said: str, advice: str) -> None:
    (tmp_path / "rank0.log").write_text(said + "\n")
    found = root(explain_paths([tmp_path]).report)
    assert found.rule == "SYN007" and advice in (found.fixes[0].code or "")


def test_an_exception_stays_established_if_a_library_writes_below_it(tmp_path: Path) -> None:
    """PyTorch warns of its process group as the interpreter exits: the exception is no longer the last line."""
    (tmp_path / "rank0.log").write_text(
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/srv/train.py", line 637, in <module>\n[rank0]:     main()\n'
        '[rank0]:   File "/srv/train.py", line 583, in main\n[rank0]:     save_checkpoint(is_best=is_best)\n'
        "[rank0]: TypeError: save_checkpoint() got an unexpected keyword argument 'is_best'\n"
        "[rank0]:[W222 08:15:47.095540416 ProcessGroupNCCL.cpp:1553] Warning: WARNING: destroy_process_group() was not "
        "called before program exit, which can leak resources. (function operator())\n"
    )
    found = root(explain_paths([tmp_path]).report)
    assert (found.rule, found.confidence, found.ranks) == ("USR001", Confidence.ESTABLISHED, (0,))
    assert "train.py:583" in found.title


def test_a_log_that_is_cut_off_within_a_traceback_failed(tmp_path: Path) -> None:
    """Its first line has no rank, the others do."""
    frames = "".join(
        f'[rank0]:   File "/srv/{name}.py", line {line}, in {name}\n[rank0]:     {name}()\n'
        for name, line in (("train", 242), ("schedule", 219), ("forward", 166))
    )
    (tmp_path / "train.log").write_text("Traceback (most recent call last):\n" + frames + "[rank0]:     output_t\n")
    report = explain_paths([tmp_path]).report
    assert (report.verdict.value, root(report).cause.value) == ("failed", "unknown.not_established")
    assert root(report).ranks == (0,)

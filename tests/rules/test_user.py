# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the program itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding


def findings(folder: Path, **logs: str) -> tuple[Finding, ...]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report.findings


def causes(folder: Path, **logs: str) -> list[str]:
    return [found.cause.value for found in findings(folder, **logs)]


STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))

KEY_ERROR = """\
Traceback (most recent call last):
  File "/srv/train.py", line 84, in main
    batch = sample["label"]
KeyError: 'label'
"""
PEER = """\
Traceback (most recent call last):
  File "/srv/train.py", line 90, in main
    loss.backward()
RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:32166.
"""


def test_the_exception_is_the_root_and_the_lost_peer_its_fallout(tmp_path):
    root = findings(tmp_path, rank0=PEER, rank1=KEY_ERROR)[0]
    assert (root.cause.value, root.ranks) == ("user.code_exception", (1,))
    assert "train.py:84" in root.title


def test_a_lost_peer_met_while_handling_the_exception_does_not_hide_it(tmp_path):
    text = KEY_ERROR + "\nDuring handling of the above exception, another exception occurred:\n\n" + PEER
    assert causes(tmp_path, rank0=text)[0] == "user.code_exception"


def test_one_finding_for_all_ranks_that_raised_the_same(tmp_path):
    found = findings(tmp_path, rank0=KEY_ERROR, rank1=KEY_ERROR)
    assert [f.ranks for f in found if f.cause.value == "user.code_exception"] == [(0, 1)]


def test_a_launcher_that_reports_a_failed_child_raised_nothing_of_its_own(tmp_path):
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )
    assert "user.code_exception" not in causes(tmp_path, log=text)


def test_the_child_of_a_spawn_is_named(tmp_path):
    text = (
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n"
        + KEY_ERROR
    )
    root = findings(tmp_path, log=text)[0]
    assert (root.cause.value, root.ranks) == ("user.code_exception", (1,))


def test_an_exception_that_was_caught_gives_nothing(tmp_path):
    assert findings(tmp_path, rank0="WARNING could not report:\n" + KEY_ERROR + STEPS) == ()


def test_a_progress_bar_drawn_once_more_does_not_hide_the_exception(tmp_path):
    text = KEY_ERROR + "  4%|4         | 17/387 [05:25<1:57:56, 19.13s/it]\n"
    assert causes(tmp_path, rank0=text)[0] == "user.code_exception"


@pytest.mark.parametrize(
    "text", ["train.py: error: unrecognized arguments: --fp8\n", "Override 'train.lr' not found\n"]
)
def test_a_refused_argument_is_an_exception_of_the_program(tmp_path, text):
    assert causes(tmp_path, log=text)[0] == "user.code_exception"


def test_an_unknown_exception_of_a_framework_is_told_as_a_guess(tmp_path):
    text = (
        "Traceback (most recent call last):\n"
        '  File "/srv/train.py", line 90, in main\n'
        "    hvd.init()\n"
        "horovod.common.exceptions.HostsUpdatedSomehowError: nobody knows\n"
    )
    (found,) = findings(tmp_path, rank0=text)
    assert (found.cause.value, found.confidence.value) == ("user.code_exception", "hypothesis")


def test_the_fix_of_torchrun_is_offered_to_torch_only(tmp_path):
    (found,) = findings(tmp_path, rank0=KEY_ERROR)
    assert not any("TORCHELASTIC" in (fix.command or "") for fix in found.fixes)

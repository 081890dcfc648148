# SPDX-License-Identifier: Apache-2.0
"""What shells say of children that were killed."""

from __future__ import annotations

import pytest

from keepstep.core.facts.process import ProcessExited
from keepstep.parse.tools.system import shell as table

WORDINGS = [
    (
        "/var/spool/slurmd/job1/slurm_script: line 28:  8156 Killed                  python3 main.py",
        ProcessExited,
        {"signal": "SIGKILL", "pid": 8156},
    ),
    ("Segmentation fault (core dumped)", ProcessExited, {"signal": "SIGSEGV"}),
    ("Bus error (core dumped)", ProcessExited, {"signal": "SIGBUS"}),
    ("Killed", ProcessExited, {"signal": "SIGKILL"}),
    ("zsh: killed     python train.py", ProcessExited, {"signal": "SIGKILL"}),
    ("[1]    11880 segmentation fault (core dumped)  python a.py", ProcessExited, {"signal": "SIGSEGV", "pid": 11880}),
    ("./train.sh:  60: 11880 killed              python3 main.py", ProcessExited, {"signal": "SIGKILL", "pid": 11880}),
    ("Iter: [4/299] Loss: 10.58:   1%|# | 4/299 [00:18<14:23,  2.93s/it]Killed", ProcessExited, {"signal": "SIGKILL"}),
    ("Killedng examples:  35%|###5 | 35000/100000", ProcessExited, {"signal": "SIGKILL"}),
    ("Killedg in train batch: 127687 / 263115", ProcessExited, {"signal": "SIGKILL"}),
    ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", ProcessExited, {"code": 137}),
    (
        "subprocess.CalledProcessError: Command '['python', 'a.py']' died with <Signals.SIGSEGV: 11>.",
        ProcessExited,
        {"signal": "SIGSEGV"},
    ),
    ("Segmentation fault: 11", ProcessExited, {"signal": "SIGSEGV"}),
    ("Train Tensorflow Model task failed with error code -9", ProcessExited, {"signal": "SIGKILL"}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "Killed 3 stale workers before the start",
        "worker: 3: killed  by the user's wish",
        "The job will be Terminated when it is done",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []

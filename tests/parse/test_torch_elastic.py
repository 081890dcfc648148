# SPDX-License-Identifier: Apache-2.0
"""torchrun's words about its workers."""

from __future__ import annotations

from keepstep.parse.tools.torch.elastic import BLOCKS

NEW = """\
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2023-05-01_00:00:00
  host      : node-b
  rank      : 9 (local_rank: 1)
  exitcode  : 1 (pid: 123)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
[2]:
  time      : 2023-05-01_00:00:01
  host      : node-b
  rank      : 10 (local_rank: 2)
  exitcode  : -15 (pid: 124)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 124
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2023-05-01_00:00:00
  host      : node-b
  rank      : 8 (local_rank: 0)
  exitcode  : -9 (pid: 122)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 122
============================================================
"""

OLD = """\
            train.py FAILED
=======================================
Root Cause:
[0]:
  time: 2021-08-23_15:06:04
  rank: 0 (local_rank: 0)
  exitcode: 1 (pid: 3287)
  error_file: <N/A>
  msg: "Process failed with exitcode 1"
=======================================
Other Failures:
  <NO_OTHER_FAILURES>
***************************************
"""


def blocks(text):
    lines = text.splitlines()
    return [
        fact
        for number, line in enumerate(lines)
        for each in BLOCKS
        if (match := each.begin.pattern.search(line))
        for fact in each.read(match, iter(lines[number + 1 :]))
    ]


def test_the_failure_table_names_the_first_to_fail_and_the_others():
    facts = blocks(NEW)
    assert [(f.rank, f.code, f.first) for f in facts] == [(9, 1, False), (10, -15, False), (8, -9, True)]
    assert facts[-1].signal == "SIGKILL"
    assert facts[-1].node == "node-b"


def test_the_table_of_older_versions_is_read_too():
    assert [(f.rank, f.code, f.first) for f in blocks(OLD)] == [(0, 1, True)]

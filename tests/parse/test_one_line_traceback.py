# SPDX-License-Identifier: Apache-2.0
"""Tracebacks that a service joined into one line."""

from __future__ import annotations

from keepstep.parse.formats.one_line_traceback import is_in_one_line, read_in_one_line

JOINED = (
    "The replica master 0 exited with a non-zero status of 1. Termination reason: Error. Traceback (most recent call last):"
    ' File "/root/train.py", line 12, in main run() File "/root/job.py", line 3, in run raise IOError(2)'
    " IOError: [Errno 2] No such file or directory: '/tmp/setup.py' The replica worker 3 exited with a non-zero status of 1."
    ' Termination reason: Error. Traceback (most recent call last): File "<string>", line 1, in <module>'
    " tensorflow.python.framework.errors_impl.UnavailableError: OS Error"
)


def test_each_replica_of_a_joined_line_gives_its_own_exception() -> None:
    first, second = read_in_one_line(JOINED)
    assert (first.type, first.rank, first.message) == (
        "IOError",
        0,
        "[Errno 2] No such file or directory: '/tmp/setup.py'",
    )
    assert [f.function for f in first.frames] == ["main", "run"]
    assert (second.type, second.rank, second.message) == (
        "tensorflow.python.framework.errors_impl.UnavailableError",
        3,
        "OS Error",
    )


def test_a_traceback_within_a_json_string_is_read_up_to_the_end_of_the_string() -> None:
    text = (
        r'{"message":"Traceback (most recent call last):\n  File \"train.py\", line 3, in main\n    f()\n'
        r'KeyError: \"a\"","severity":"ERROR"}'
    )
    (only,) = read_in_one_line(text)
    assert (only.type, only.message, only.frames[0].file) == ("KeyError", '"a"', "train.py")


def test_an_ordinary_head_is_not_taken_for_one() -> None:
    assert not is_in_one_line(":")
    assert not is_in_one_line(" in worker 3:")

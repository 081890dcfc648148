# SPDX-License-Identifier: Apache-2.0
"""How clients are asked: bounded, and without a traceback when they are not there."""

from __future__ import annotations

import sys

from keepstep.sources.schedulers.scheduler_answer import ask_client


def test_what_a_client_prints_comes_back_with_its_status() -> None:
    answer = ask_client([sys.executable, "-c", "import sys; print('out'); print('why', file=sys.stderr); sys.exit(4)"])
    assert (answer.status, answer.text, answer.complaint) == (4, "out\n", "why")


def test_a_client_that_is_not_there_is_said() -> None:
    answer = ask_client(["no-such-client-anywhere", "x"])
    assert not answer.found
    assert answer.complaint == "no-such-client-anywhere is not on the PATH"


def test_a_client_that_does_not_answer_is_left() -> None:
    answer = ask_client([sys.executable, "-c", "import time; time.sleep(30)"], 0.3)
    assert answer.status == 124
    assert "did not answer within" in answer.complaint

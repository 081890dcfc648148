# SPDX-License-Identifier: Apache-2.0
"""A real worker of a coordinator, which others end when the work is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.signals import blackbox
from tests.guard.tf_workers import run

pytestmark = pytest.mark.frameworks


def test_a_worker_that_serves_says_that_others_end_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "tf_server.py", ranks=1)
    (box,) = (blackbox.read(path.read_bytes()) for path in (tmp_path / "guard").glob("rank*.box"))
    assert (ran.codes, box.who["killed_as"]) == ([-9], "worker of a coordinator")

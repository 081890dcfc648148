# SPDX-License-Identifier: Apache-2.0
"""What a script spawns is forked from a process that has the frameworks, and is as empty as what is spawned."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import multiprocessing
import os
import sys

mark = []


def work(given):
    import framework

    print(framework.KIND, os.environ["SET_BY_SCRIPT"], given, mark, __name__, flush=True)
    sys.exit(7)


if __name__ == "__main__":
    from types import ModuleType

    from keepstep.shrink import warm_spawn

    made = ModuleType("framework")
    made.KIND = "already there"
    warm_spawn.begin({"framework": made})
    os.environ["SET_BY_SCRIPT"] = "yes"
    mark.append("only here")
    child = multiprocessing.get_context("spawn").Process(target=work, args=(3,))
    child.start()
    child.join()
    assert child.exitcode == 7, child.exitcode
"""


def test_a_spawned_process_has_the_framework_and_nothing_else_of_its_parent(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SCRIPT)
    found = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    assert found.stdout == "already there yes 3 [] __mp_main__\n"

# SPDX-License-Identifier: Apache-2.0
"""Workers that no trial could reach are named at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from keepstep.shrink.other_hosts import other_hosts

CLUSTER = {"cluster": {"worker": ["10.0.0.1:2222", "localhost:2223", "127.0.0.1:2224"], "ps": ["node7:1"]}}


def test_the_environment_and_the_script_are_asked(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("print('no cluster')\n")
    assert other_hosts(str(script), {}) == []
    assert other_hosts(str(script), {"TF_CONFIG": json.dumps(CLUSTER)}) == ["10.0.0.1:2222", "node7:1"]
    script.write_text(f'import os\nos.environ[\'TF_CONFIG\'] = """{json.dumps(CLUSTER)}"""\n')
    assert other_hosts(str(script), {}) == ["10.0.0.1:2222", "node7:1"]
    here = json.dumps({"cluster": {"worker": ["localhost:1", "[::1]:2"]}})
    assert other_hosts(str(script.with_name("none.py")), {"TF_CONFIG": here}) == []


def test_shrink_says_so_within_seconds(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(f"import os\nos.environ['TF_CONFIG'] = '{json.dumps(CLUSTER)}'\n")
    command = [sys.executable, "-m", "keepstep", "shrink", "--", sys.executable, "job.py"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert found.returncode == 3 and "waits for workers on other hosts (10.0.0.1:2222, node7:1)" in found.stderr

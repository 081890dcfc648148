# SPDX-License-Identifier: Apache-2.0
"""Real programs made smaller by real trials."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import keepstep_lab

pytestmark = pytest.mark.slow
LIMIT_S = 900

PROGRAM = """
import os
import socket

from rows import Rows, unused

RANK = int(os.environ["RANK"])


def report(text):
    try:
        socket.create_connection(("127.0.0.1", PORT), 1).sendall(text.encode())
    except OSError as error:
        print(error)


def main():
    print("starting")
    if RANK == 0:
        os.remove("checkpoint.bin")
    report("started")
    rows = Rows()
    for number in range(20):
        rows.add(number)
    if RANK == 2:
        rows.all.pop(9)
    for number in range(20):
        print(rows.all[number])
    report("done")


main()
"""
KEPT = r"starting|rows\.add|self\.all|RANK == 2|for "
"""What would be tried alone and needed takes most of the trials."""
ROWS = '''
class Rows:
    """Rows by number."""

    def __init__(self):
        self.all = {}
        self.log = []

    def add(self, number):
        self.all[number] = number * 2
        self.log.append(number)


def unused():
    return Rows()
'''


def test_a_program_becomes_smaller_and_keeps_its_bug_and_the_world_stays_as_it_is(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (tmp_path / "job.py").write_text(PROGRAM.replace("PORT", str(server.getsockname()[1])))
        (tmp_path / "rows.py").write_text(ROWS)
        (tmp_path / "checkpoint.bin").write_text("precious")
        command = [sys.executable, "-m", "keepstep", "shrink", "--json", "--budget", "10m", "--keep", KEPT, "--"]
        command += ["keepstep", "run", "-n", "3", "--", sys.executable, "job.py", "--some", "setting"]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
        assert found.returncode == 0, found.stderr[-3000:]
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert (tmp_path / "checkpoint.bin").read_text() == "precious"
    said = json.loads(found.stdout)
    assert said["cause"] == "user.code_exception" and said["same_in_empty_folder"] and said["complete"]
    assert said["ranks"] == 1 and said["run"] == "keepstep run -n 1 -- python job.py"
    folder = Path(said["folder"])
    left = (folder / "job.py").read_text()
    assert 'print("starting")' in left and "remove(" not in left, "--keep"
    assert said["files"] == ["job.py"], "the module is part of it now"
    assert "report(" not in left and "unused" not in left and "log" not in left
    assert "rows.all.pop(" in left, left
    mended = "\n".join(line for line in left.splitlines() if ".pop(" not in line and "if RANK" not in line)
    env = {**os.environ, "RANK": "0"}
    (folder / "job.py").write_text(mended)
    subprocess.run([sys.executable, "job.py"], cwd=folder, env=env, check=True, timeout=60)
    lab = tmp_path / "lab"
    shutil.copytree(Path(keepstep_lab.__file__).parent, lab / "keepstep_lab")
    command = [sys.executable, "-m", "keepstep", "lab"]
    env = {**os.environ, "PYTHONPATH": str(lab)}
    subprocess.run([*command, "take", str(folder), "--name", "torch_rows"], env=env, check=True, timeout=60)
    listed = subprocess.run([*command, "list", "torch_rows"], env=env, capture_output=True, text=True, timeout=60)
    assert "torch_rows" in listed.stdout and "1 ranks  user.code_exception" in listed.stdout, listed
    issue = (folder / "issue.md").read_text()
    assert "KeyError" in issue and "keepstep run -n 1 -- python job.py" in issue


def test_a_command_that_does_not_fail_is_no_case(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('fine')\n")
    command = [sys.executable, "-m", "keepstep", "shrink", "--", sys.executable, "job.py"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert found.returncode == 3 and "does not fail here" in found.stderr


def test_the_budget_bounds_the_first_run_too(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import time\ntime.sleep(1000)\n")
    command = [sys.executable, "-m", "keepstep", "shrink", "--budget", "3s", "--", sys.executable, "job.py"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert found.returncode == 3 and "the budget was spent" in found.stderr, found.stderr


@pytest.mark.long
def test_stopping_keeps_the_best_so_far_and_the_same_command_goes_on(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("rows = {}\nother = [3]\nprint(other)\nlater = 4\nprint(rows['key'])\n")
    command = [sys.executable, "-m", "keepstep", "shrink", "--", sys.executable, "job.py"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None and first.stdout is not None
        for line in first.stderr:
            if "(slices)" in line or "(statements)" in line:
                first.send_signal(signal.SIGTERM)  # as Ctrl-C, which a shell may have told us to ignore
                break
        first.stderr.read()
        said = first.stdout.read()
    assert first.returncode == 0 and "the same command goes on" in said, said
    assert "cd shrunk-job" in said and (tmp_path / "shrunk-job" / "issue.md").exists()
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert found.returncode == 0 and "going on where the earlier search ended" in found.stderr, found.stderr
    assert (tmp_path / "shrunk-job" / "job.py").read_text() == "rows = {}\nprint(rows['key'])\n"
    assert not (tmp_path / "shrunk-job" / "state.json").exists(), "it names the user's folders"


READS = """
import csv

with open("rows.csv") as stream:
    rows = list(csv.DictReader(stream))
total = 0
for row in rows:
    total += int(row["count"])
print(total)
"""


@pytest.mark.long
def test_only_the_records_that_matter_are_left(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(READS)
    rows = [f"name{n},{'none' if n == 17 else n}\n" for n in range(40)]
    (tmp_path / "rows.csv").write_text("".join(["name,count\n", *rows]))
    command = [sys.executable, "-m", "keepstep", "shrink", "--json", "--", "keepstep", "run", "-n", "1", "--"]
    command += [sys.executable, "job.py"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert found.returncode == 0, found.stderr
    said = json.loads(found.stdout)
    assert said["same_in_empty_folder"] and said["records"] == [3, 41], said
    folder = tmp_path / "shrunk-job"
    left = (folder / "rows.csv").read_text().splitlines()
    assert (left[0], left[2]) == ("name,count", "name17,none"), "and a row before it, since the line had been passed"
    told = json.loads((folder / "shrunk.json").read_text())
    assert told["cause"] == "user.code_exception" and str(tmp_path) not in json.dumps(told)


@pytest.mark.long
def test_variables_that_it_needs_are_part_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import os\nrows = [3]\nprint(rows[int(os.environ['ROW'])])\n")
    command = [
        sys.executable,
        "-m",
        "keepstep",
        "shrink",
        "--json",
        "--",
        "env",
        "ROW=1",
        "OTHER=2",
        "python",
        "job.py",
    ]
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    found = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    assert found.returncode == 0, found.stderr
    said = json.loads(found.stdout)
    assert said["run"] == "ROW=1 python job.py" and said["variables"] == {"ROW": "1"}, said

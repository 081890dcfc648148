# SPDX-License-Identifier: Apache-2.0
"""Limits and notices on real runs: said once, posted, called, saved, stopped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from keepstep.analyze.goodput import goodput
from keepstep.signals.goodput import Bucket
from tests.supervise.starting import OURS, Running, wait_for

SCRIPT = """
import os, time
import keepstep
from keepstep.guard import attach

held = []
for step in attach().steps(range({steps})):
    time.sleep(0.1)
    if keepstep.should_save():
        print("saved", flush=True)
    if step == 5:
        held = [open(os.devnull) for _ in range(100)]
    if step > 20:  # swings around the limit
        while held and len(held) > 60 + 40 * (step // 10 % 2):
            held.pop().close()
        held += [open(os.devnull) for _ in range(60 + 40 * (step // 10 % 2) - len(held))]
"""
LIMIT = """
[[threshold]]
reading = "files"
above = 80
for = "0s"
clear = 30
do = [{do}]
"""


@contextmanager
def receiver() -> Iterator[tuple[str, list[Any]]]:
    """A webhook on loopback, and what it has received."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook", got
        server.shutdown()


def config(folder: Path, text: str) -> str:
    (folder / "limits.toml").write_text(text)
    return "limits.toml"


def test_a_limit_is_told_once_and_its_actions_are_taken(tmp_path: Path) -> None:
    with receiver() as (address, got):
        text = LIMIT.format(do='"webhook", "command", "checkpoint"')
        text += f'[notices]\nwebhook = "{address}"\ncommand = "cat > told.json"\non = ["ended"]\n'
        run = Running(tmp_path, "-n", "1", "--config", config(tmp_path, text), script=SCRIPT.format(steps=80))
        assert run.finish() == 0, run.err
    told = [line for line in run.err.splitlines() if "above 80 files;" in line]
    assert len(told) == 1, told
    assert "rank 0, open file descriptors" in told[0] and "; posting it and calling the command and asking" in told[0]
    assert run.err.index(told[0]) < run.err.index("notice (threshold)"), "it is said before it is done"
    assert [each["kind"] for each in got] == ["threshold", "ended"]
    assert json.loads((tmp_path / "told.json").read_text())["kind"] in ("threshold", "ended")
    assert "the ranks save at about step" in run.err and "saved" in run.log(0)


def test_a_run_is_stopped_and_kept(tmp_path: Path) -> None:
    run = Running(
        tmp_path, "-n", "1", "--config", config(tmp_path, LIMIT.format(do='"stop"')), script=SCRIPT.format(steps=6000)
    )
    assert run.finish() == 143, run.err
    assert "stopping the run, which is kept" in run.err and run.manifest["state"] == "stopped"


def test_a_restart_and_the_end_are_told_as_slack_wants_it(tmp_path: Path) -> None:
    script = "import os, sys\nsys.exit(0 if os.path.exists('again') else open('again', 'w').close() or os.abort())"
    with receiver() as (address, got):
        run = Running(
            tmp_path, "-n", "1", "--config", config(tmp_path, f'[notices]\nslack = "{address}"\n'), script=script
        )
        assert run.finish() == 0, run.err
    assert [set(each) for each in got] == [{"text"}, {"text"}], got
    assert "restart: attempt 0 ended" in got[0]["text"] and "finished with status 0" in got[1]["text"]


STANDS_STILL = """
import os, time
from keepstep.guard import attach
for step in attach().steps(range(30)):
    time.sleep(0.1)
    while step == 15 and not os.path.exists("go"):
        time.sleep(0.1)
"""


def test_without_keepstep_run_the_companion_tells_of_it(tmp_path: Path) -> None:
    """By the user's own configuration. What lies near the job may be a stranger's, and calls nobody."""
    own = tmp_path / "home" / ".config" / "keepstep"
    own.mkdir(parents=True)
    with receiver() as (address, got):
        notices = f'[notices]\nwebhook = "{address}"\non = ["no progress", "ended"]\nno_progress = "3s"\n'
        (own / "config.toml").write_text(notices)
        (tmp_path / "keepstep.toml").write_text('[notices]\ncommand = "touch called"\n')
        (tmp_path / "train.py").write_text(STANDS_STILL)
        env = {name: value for name, value in os.environ.items() if name not in (*OURS, "XDG_CONFIG_HOME")}
        env |= {"KEEPSTEP_DIR": str(tmp_path / "guards"), "HOME": str(tmp_path / "home")}
        with subprocess.Popen([sys.executable, "train.py"], cwd=tmp_path, env=env) as training:
            try:
                wait_for(lambda: got)
            finally:
                (tmp_path / "go").touch()
            assert training.wait(120) == 0
        wait_for(lambda: len(got) == 2)
    assert [each["kind"] for each in got] == ["no progress", "ended"] and not (tmp_path / "called").exists()
    assert got[0]["text"].startswith("no rank has made progress for ") and got[1]["text"].endswith(" have ended")


def test_a_test_notice_says_how_it_went(tmp_path: Path) -> None:
    with receiver() as (address, got):
        config(tmp_path, f'[notices]\nwebhook = "{address}"\ncommand = "exit 3"\n')
        command = [sys.executable, "-m", "keepstep", "run", "--test-notice", "--config", "limits.toml"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "the webhook answered 200" in done.stdout and "status 3" in done.stdout, done
    assert got[0]["kind"] == "test"
    done = subprocess.run(command[:-2], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "no notices are configured" in done.stderr, done


SHRINKS = """
import os, time
from pathlib import Path
from keepstep.guard import attach

saved, world = Path("saved"), int(os.environ["WORLD_SIZE"])
guard, held = attach(), []
with guard.phase("checkpoint"):
    begin = int(saved.read_text()) if saved.exists() else 0
print("begins at", begin, "of", world, flush=True)
for step in guard.steps(range(begin, 400 if world > 1 else begin + 10)):
    time.sleep(0.1)
    if step == 5 and world > 1:
        held = [open(os.devnull) for _ in range(100)]
    if step % 40 == 39:
        with guard.phase("checkpoint"):
            saved.write_text(str(step + 1))
"""


def test_a_run_goes_on_with_a_rank_fewer_after_its_next_checkpoint(tmp_path: Path) -> None:
    limits = config(tmp_path, LIMIT.format(do='"fewer"'))
    run = Running(tmp_path, "-n", "2", "--no-spares", "--config", limits, script=SHRINKS)
    assert run.finish() == 0, run.err
    told = "above 80 files; going on with one rank fewer, after the next checkpoint or in 60 s"
    assert told in run.err and run.err.index(told) < run.err.index("decision: start again, smaller: a limit was passed")
    assert "begins at 0 of 2" in run.log(1) and re.search(r"begins at (40|80|120) of 1", run.log(0, attempt=1))
    assert not run.log(1, attempt=1) and run.manifest["ranks"] == 1 and len(run.manifest["attempts"]) == 2
    found = goodput(run.run)
    why = {why for (bucket, why) in found.lost if bucket is Bucket.OTHER}
    assert "a limit was passed, which costs the run a rank" in why, found.lost


def test_what_a_job_cannot_do_is_said_before_it_starts(tmp_path: Path) -> None:
    limits = config(tmp_path, LIMIT.format(do='"fewer"'))
    run = Running(tmp_path, "-n", "1", "--config", limits, script="")
    assert run.finish() == 0
    assert "the limit on files cannot do `fewer`: it has one rank" in run.err

# SPDX-License-Identifier: Apache-2.0
"""Standard input, output and error under `keepstep run`: in pipes, on a terminal, and after the reader is gone."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepstep.supervise.show.progress_bar import LONGEST, keep_of, last_state
from tests.supervise.starting import LIMIT_S, OURS, Running, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

BAR = r"""
import os, sys, time
who = os.environ.get("RANK", "alone")
for n in range(0, 101, 10):
    sys.stderr.write(f"\r{who} {n:3d}%|" + "#" * n + " " * (100 - n) + "|")
    sys.stderr.flush()
    time.sleep(0.05)
print(who, "to stdout")
sys.exit(3 if "unfinished" in sys.argv else sys.stderr.write("\n") and None)
"""


class OnTerminal:
    """`keepstep run` at a terminal of its own."""

    def __init__(self, folder: Path, *words: str, script: str) -> None:
        (folder / "train.py").write_text(script)
        clean = {name: value for name, value in os.environ.items() if name not in OURS}
        command = [sys.executable, "-m", "keepstep", "run", "--no-check", *words]
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(command[0], command, {**clean, "TERM": "xterm", "COLUMNS": "150"})
        self.text = ""

    def read(self) -> bool:
        """Something more, if there is. False when it has gone."""
        if select.select([self.master], [], [], 0.05)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return False
            self.text += data.decode("utf-8", "replace")
            return bool(data)
        return True

    def until(self, words: str) -> None:
        end = time.monotonic() + LIMIT_S
        while words not in self.text:
            assert self.read() and time.monotonic() < end, self.text

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def finish(self) -> int:
        end = time.monotonic() + LIMIT_S
        while self.read():
            assert time.monotonic() < end, self.text
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain", "plain"),
        (b"10%\r20%\r30%", "30%"),
        (b"10%\r20%\r", "20%"),
        (b"long state\rshort", "shortstate"),
        (b"long state\r\x1b[Kshort", "short"),
        (b"long state\r\x1b[2Kshort", "short"),
        (b"1/3\b\b\b2/3\b\b\b3/3", "3/3"),
        (b"1/3 [=>..]" + b"\b" * 10 + b"\r3/3 [====]", "3/3 [====]"),
        (b"\x1b[32mgreen\x1b[0m", "\x1b[32mgreen\x1b[0m"),
        (b"\x1b[2Jcleared\x07", "cleared"),
        ("█▌ 50%\r██ 100%".encode(), "██ 100%"),
        (b"a\tb", "a\tb"),
        (b"", ""),
    ],
)
def test_the_last_state_of_a_line(line: bytes, shown: str) -> None:
    assert last_state(line) == shown
    assert last_state(keep_of(line)) == shown


def test_a_long_bar_keeps_its_last_state() -> None:
    line = b"\r".join(b"%3d%%|%s" % (n, b"#" * 100) for n in range(101))
    assert len(line) > 5 * LONGEST
    rest = b""
    for place in range(0, len(line), 777):
        rest = keep_of(rest + line[place : place + 777])
        assert len(rest) < 6 * LONGEST
    assert last_state(rest) == last_state(line) == "100%|" + "#" * 100


def test_the_streams_of_several_ranks_stay_apart_and_bars_show_their_end(tmp_path: Path) -> None:
    run = Running(tmp_path, "-n", "2", script=BAR)
    assert run.finish() == 0
    for rank in (0, 1):
        assert f"rank {rank} | {rank} to stdout\n" in run.out
        assert f"rank {rank} | {rank} 100%|{'#' * 100}|\n" in run.err
        assert f"{rank} 100%|" in run.log(rank) and f"{rank} to stdout\n" in run.log(rank)
    assert "%|" not in run.out and "to stdout" not in run.err


def test_a_bar_that_is_never_finished_shows_how_far_it_came(tmp_path: Path) -> None:
    run = Running(
        tmp_path,
        "-n",
        "2",
        "--max-attempts",
        "1",
        script=BAR.replace('sys.exit(3 if "unfinished" in sys.argv', "sys.exit(3 if True"),
    )
    assert run.finish() == 3
    assert f"rank 1 | 1 100%|{'#' * 100}|\n" in run.err


def test_one_process_alone_is_passed_on_byte_by_byte(tmp_path: Path) -> None:
    run = Running(tmp_path, script=BAR)
    assert run.finish() == 0
    assert run.out == "alone to stdout\n"
    assert "\n".join(line for line in run.err.splitlines() if "|" in line).count("%|") == 11
    log = (run.run / "attempt-0" / "command.log").read_text()
    assert "\nalone to stdout\n" in log, "a line of its own in the log, though the bar was not finished"


@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_standard_input_reaches_a_single_process(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sum(map(int, sys.stdin)))")
    clean = {name: value for name, value in os.environ.items() if name not in OURS}
    done = subprocess.run(
        [sys.executable, "-m", "keepstep", "run", "--no-check", *options, "--", sys.executable, "train.py"],
        cwd=tmp_path, env=clean, input="1\n2\n39\n", capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "42\n")


def test_a_debugger_works_on_a_terminal(tmp_path: Path) -> None:
    run = OnTerminal(
        tmp_path, "--", sys.executable, "train.py", script="secret = 41\nbreakpoint()\nprint('went on with', secret)\n"
    )
    run.until("(Pdb) ")
    run.type("p secret + 1\n")
    run.until("42")
    run.type("c\n")
    assert run.finish() == 0
    assert "went on with 41" in run.text


def test_ctrl_c_reaches_the_users_own_program_as_it_would_without_us(tmp_path: Path) -> None:
    script = (
        "import time\nprint('trains', flush=True)\n"
        "try:\n    time.sleep(300)\nexcept KeyboardInterrupt:\n    print('saved', flush=True)\n"
    )
    run = OnTerminal(tmp_path, "--", sys.executable, "train.py", script=script)
    run.until("trains")
    run.type("\x03")
    assert run.finish() == 130
    assert "saved" in run.text and "stopping train.py (SIGINT" in run.text


def test_bars_of_several_ranks_stand_in_the_live_part(tmp_path: Path) -> None:
    script = BAR.replace("time.sleep(0.05)", "time.sleep(0.3)")
    run = OnTerminal(tmp_path, "-n", "2", "--", sys.executable, "train.py", script=script)
    assert run.finish() == 0
    states = [f"rank 0 | 0 {n:3d}%|" in run.text for n in range(0, 101, 10)]
    assert sum(states[:-1]) >= 3, "the bar is seen while it grows"
    assert run.text.count("\n") < 60, "and does not fill the screen"
    assert "rank 1" in run.text.rpartition("100%|")[0]


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_a_reader_that_goes_away_harms_nobody(tmp_path: Path, options: tuple[str, ...]) -> None:
    script = (
        "import os, time\nfor n in range(30): print('line', n, flush=True); time.sleep(0.02)\n"
        "open(f'done-{os.getpid()}', 'w').close()\n"
    )
    (tmp_path / "train.py").write_text(script)
    clean = {name: value for name, value in os.environ.items() if name not in OURS}
    process = subprocess.Popen(
        [sys.executable, "-m", "keepstep", "run", "--no-check", *options, "--", sys.executable, "train.py"],
        cwd=tmp_path, env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    assert process.wait(timeout=LIMIT_S) == 0, said
    assert len(list(tmp_path.glob("done-*"))) == (2 if options else 1)
    assert "BrokenPipe" not in said and "finished with status 0" in said


@pytest.mark.skipif(
    Path("/proc/sys/kernel/core_pattern").read_text().strip().startswith(("/", "|")), reason="cores go elsewhere"
)
def test_core_files_go_to_the_run_folder(tmp_path: Path) -> None:
    script = (
        "import os, signal, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGSEGV)\ntime.sleep(60)\n"
    )
    run = Running(tmp_path, "-n", "2", "--max-attempts", "1", script=script)
    assert run.finish() == 128 + signal.SIGSEGV
    assert [path.name for path in run.run.glob("attempt-0/cores/*")] == ["rank1.core"]
    assert not list(tmp_path.glob("core*"))


def test_an_unknown_value_of_keepstep_is_told_once_and_means_off(tmp_path: Path) -> None:
    script = "import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', '1'])\nprint(os.environ['KEEPSTEP'])\n"
    run = Running(tmp_path, "-n", "2", script=script, env={"KEEPSTEP": "verbose"})
    assert run.finish() == 0
    assert run.err.count("KEEPSTEP=verbose is unknown, so the guard is off") == 1
    assert run.out.count("off") == 2


def test_the_users_own_program_is_not_restarted_unless_asked_for(tmp_path: Path) -> None:
    script = "import os\nopen('starts', 'a').write('x')\nos.abort()\n"
    run = Running(tmp_path, script=script)
    assert run.finish() == 128 + signal.SIGABRT
    assert (tmp_path / "starts").read_text() == "x"
    assert "train.py ended with SIGABRT" in run.err and "launcher" not in run.err
    again = Running(tmp_path, "--max-attempts", "2", script=script)
    again.finish()
    wait_for(lambda: (tmp_path / "starts").read_text() == "xxx")

# SPDX-License-Identifier: Apache-2.0
"""What ranks print: into their files, to the terminal in measure, and never at the cost of the ranks."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from keepstep.supervise.show.outlet import Outlet, same_file
from keepstep.supervise.show.rank_output import Output
from keepstep.supervise.show.run_terminal import BURST, Terminal
from tests.supervise.starting import Running, wait_for

RANKS, SECONDS = 64, 3.0
PRINTS = """
import os, sys, time
line = b"x" * 8191 + b"\\n"
a_second = 50e6 / 64
began, done, slept = time.monotonic(), 0, 0.0
while (now := time.monotonic()) - began < float(sys.argv[1]):
    wanted = int((now - began) * a_second / len(line))
    before = time.monotonic()
    for _ in range(wanted - done):
        os.write(1, line)
    slept += time.monotonic() - before
    done = max(done, wanted)
    time.sleep(0.02)
sys.stderr.write(f"wrote {done * len(line)} in {slept:.3f}\\n")
"""


def test_what_is_printed_is_in_the_file_in_order(tmp_path: Path) -> None:
    output = Output()
    out, err = output.open("rank0", 0, tmp_path / "rank0.log")
    os.close(err)
    with open(out, "wb") as stream:
        for n in range(20_000):
            stream.write(b"line %d\n" % n)
    output.drain(5.0)
    output.close()
    assert (tmp_path / "rank0.log").read_bytes() == b"".join(b"line %d\n" % n for n in range(20_000))
    assert output.streams[0].printed == output.streams[0].written


def test_what_the_guard_says_is_no_sign_of_life(tmp_path: Path) -> None:
    output = Output()
    out, err = output.open("rank0", 0, tmp_path / "rank0.log")
    stream = output.streams[0]
    os.write(err, b"keepstep: rank 0: 1 of 2 ranks arrived after 31 s; rank 1 is missing\n")
    wait_for(lambda: stream.written > 0)
    assert stream.printed == 0
    os.write(err, b"keepstep: rank 0: something\nloaded 3 shards\n")
    wait_for(lambda: stream.printed > 0)
    os.close(out)
    os.close(err)
    output.drain(5.0)
    output.close()
    assert b"rank 1 is missing" in (tmp_path / "rank0.log").read_bytes()


@pytest.mark.slow
def test_64_ranks_of_output_do_not_wait(tmp_path: Path) -> None:
    """50 MB/s together: every rank prints all it has in its time, whatever the terminal does."""
    output = Output()
    (tmp_path / "prints.py").write_text(PRINTS)
    started = []
    for rank in range(RANKS):
        out, err = output.open(f"rank{rank}", rank, tmp_path / f"rank{rank}.log")
        os.close(err)
        with (tmp_path / f"said{rank}").open("wb") as said:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-I", str(tmp_path / "prints.py"), str(SECONDS)], stdout=out, stderr=said
                )
            )
        os.close(out)
    terminal = Terminal(out=io.StringIO(), words=io.StringIO())
    terminal.follow(output)
    for process in started:
        assert process.wait(timeout=60) == 0
    output.drain(5.0)
    output.close()
    terminal.close()
    total = 0
    for rank in range(RANKS):
        _, size, _, _ = (tmp_path / f"said{rank}").read_text().split()
        assert (tmp_path / f"rank{rank}.log").stat().st_size == int(size), (
            "all that was printed is there, and nobody waited for a reader"
        )
        total += int(size)
    assert total > RANKS * 1e5


def test_a_full_disk_costs_the_recording_and_not_the_rank(tmp_path: Path) -> None:
    output = Output()
    out, err = output.open("rank0", 0, Path("/dev/full"))
    os.close(err)
    with open(out, "wb") as stream:
        for _ in range(2000):
            stream.write(b"y" * 4095 + b"\n")
            stream.flush()
        stream.write(b"the last words\n")
    output.drain(5.0)
    output.close()
    assert output.is_full
    assert output.streams[0].dropped == 2000 * 4096 + 15
    assert bytes(output.streams[0].last_dropped).endswith(b"the last words\n")


def taken_by(terminal_of: Callable[[io.TextIOWrapper], Terminal], *, meanwhile: Callable[[Terminal], None]) -> str:
    """What a reader got of a terminal's output that began to read after ``meanwhile``."""
    reads, writes = os.pipe()
    got: list[bytes] = []
    with open(writes, "w", encoding="utf-8") as out:
        terminal = terminal_of(out)
        meanwhile(terminal)
        reader = threading.Thread(target=lambda: got.extend(iter(lambda: os.read(reads, 1 << 20), b"")))
        reader.start()
        terminal.unfollow()
        terminal.close()
    reader.join(20)
    os.close(reads)
    return b"".join(got).decode()


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_could_not_be_recorded_is_shown_in_full(tmp_path: Path, ranks: int) -> None:
    """Long lines, short ones, one without an end, and many more than a terminal gets of what a file holds."""
    output = Output()
    words = b"".join(b"%d:%s\n" % (n, b"w" * (n % 3000)) for n in range(2 * BURST)) + b"the end"

    def print_it(terminal: Terminal) -> None:
        for rank in range(ranks):
            out, err = output.open(f"rank{rank}", rank, Path("/dev/full"))
            terminal.follow(output)
            with open(out, "wb") as stream:
                stream.write(words)
            os.close(err)
        output.drain(5.0)
        output.close()

    text = taken_by(lambda out: Terminal(out=out, words=io.StringIO()), meanwhile=print_it)
    if ranks == 1:
        assert text == words.decode()
    for rank in range(ranks if ranks > 1 else 0):
        lines = [line for line in text.splitlines() if line.startswith(f"rank {rank} | ")]
        assert [line.partition("| ")[2] for line in lines] == words.decode().splitlines()


def test_a_reader_that_stops_stops_no_rank_and_is_told_what_it_missed(tmp_path: Path) -> None:
    output = Output()

    def print_it(terminal: Terminal) -> None:
        outs = [output.open(f"rank{rank}", rank, Path("/dev/full")) for rank in range(2)]
        for stream in output.streams:
            stream.unrecorded.most = 300_000
        terminal.follow(output)
        for out, err in outs:
            with open(out, "wb") as stream:
                stream.write(b"".join(b"%07d\n" % n for n in range(500_000)))
                stream.write(b"the last words\n")
            os.close(err)
        output.drain(5.0)
        output.close()

    text = taken_by(lambda out: Terminal(out=out, words=io.StringIO()), meanwhile=print_it)
    for rank in range(2):
        lines = [line for line in text.splitlines() if line.startswith(f"rank {rank} | ")]
        assert lines[-1].endswith("the last words")
        assert any("lost here: nobody read it in time, and it could not be recorded" in line for line in lines)


def test_a_reader_that_stops_does_not_keep_the_supervisor_from_deciding(tmp_path: Path) -> None:
    """Neither on a pipe of its own, as here, nor where words and output go to one place: see `Outlet`."""
    script = "import os, sys, time\nfor n in range(200): print('z' * 8000, flush=True)\n"
    script += "if os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(600)\n"
    (tmp_path / "train.py").write_text(script)
    words = tmp_path / "words"
    command = [sys.executable, "-m", "keepstep", "run", "--no-check", "-n", "2", "--max-attempts", "1", "--"]
    with (
        words.open("wb") as err,
        subprocess.Popen(
            [*command, sys.executable, "train.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=err
        ) as process,
    ):
        try:
            wait_for(lambda: "failed with status 3" in words.read_text(), 60)
            assert process.poll() is None, "it waits for its reader, as any program does, but in the end"
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 3
    assert b"rank 0 | zzz" in out and b"rank 1 | zzz" in out and b"all of it is in" in out


def test_an_outlet_never_waits_and_keeps_the_order(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    outlet, got = Outlet(), []
    with open(writes, "w") as one, open(os.dup(writes), "w") as other:
        assert same_file(one, other) and not same_file(one, io.StringIO())
        lines = [b"%d %s\n" % (n, b"x" * 100) for n in range(5000)]
        for n, line in enumerate(lines):
            outlet.put(other if n % 7 == 0 else one, line)
        assert outlet.is_full and not outlet.wait_for_room(0.01)
        reader = threading.Thread(target=lambda: got.extend(iter(lambda: os.read(reads, 1 << 16), b"")))
        reader.start()
        outlet.close()
        outlet.put(one, b"later\n")
    reader.join(20)
    os.close(reads)
    assert b"".join(got) == b"".join(lines) + b"later\n"


def test_what_the_file_took_comes_before_what_it_could_not_take(tmp_path: Path) -> None:
    """A limit on the size of files, as a quota: the recording ends within a line."""
    script = "import os\nfor n in range(3000): print(os.environ['RANK'], n, 'z' * 500)"
    limit = f"import resource, os, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({200_500}, {200_500}))"
    (tmp_path / "train.py").write_text(script)
    command = [sys.executable, "-m", "keepstep", "run", "--no-check", "-n", "1", "--", sys.executable, "train.py"]
    start = f"{limit}; os.execv(sys.executable, {command!r})"
    run = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert [line.split()[1] for line in run.stdout.splitlines()] == [str(n) for n in range(3000)]
    assert "the disk is full" in run.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_run_goes_on_when_its_disk_is_full(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=True)
    try:
        script = (
            "import os\nfor n in range(400): print('z' * 8000, flush=True)\n"
            "open(f'done-{os.environ[\"RANK\"]}', 'w').write('x')"
        )
        run = Running(tmp_path, "-n", "2", "--run-dir", str(small / "runs"), script=script)
        assert run.finish() == 0
        assert (tmp_path / "done-0").exists() and (tmp_path / "done-1").exists()
        assert "the disk is full" in run.err
        logs = [path.stat().st_size for path in small.rglob("rank*.log")]
        assert sum(logs) + len(run.out) >= 2 * 400 * 8001, "what is not in the recording was shown"
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_all_that_ranks_print_reaches_standard_output_where_nothing_can_be_recorded(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=True)
    try:
        with contextlib.suppress(OSError), (small / "fill").open("wb") as fill:
            fill.write(bytes(1 << 20))
        script = "import os\nfor n in range(1000): print(os.environ['RANK'], n, 'z' * 3990)"
        run = Running(tmp_path, "-n", "2", "--run-dir", str(small / "runs"), script=script)
        assert run.finish() == 0
        lines = [line.split() for line in run.out.splitlines()]
        assert all(len(line[-1]) == 3990 for line in lines)
        for rank in "01":
            assert [int(line[-2]) for line in lines if line[-3] == rank] == list(range(1000))
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_the_terminal_shows_names_and_leaves_out_what_is_too_much(tmp_path: Path) -> None:
    output, shown = Output(), io.StringIO()
    terminal = Terminal(out=shown, words=io.StringIO())
    outs = []
    for rank in range(2):
        out, err = output.open(f"rank{rank}", rank, tmp_path / f"rank{rank}.log")
        os.close(err)
        outs.append(out)
    terminal.follow(output)
    os.write(outs[0], b"hello\nprogress 1\rprogress 2\n\x1b[2Jclear\n")
    os.close(outs[0])
    wait_for(lambda: "clear" in shown.getvalue() or None)
    with open(outs[1], "wb") as stream:
        stream.write(b"".join(b"many %d\n" % n for n in range(20 * BURST)))
    output.drain(5.0)
    output.close()
    wait_for(lambda: "not shown" in shown.getvalue() or None)
    terminal.unfollow()
    terminal.close()
    text = shown.getvalue()
    assert "rank 0 | hello\n" in text and "rank 0 | progress 2\n" in text and "progress 1" not in text
    assert "\x1b[2J" not in text and "rank 0 | clear\n" in text
    assert text.count("rank 1 | many") < 3 * BURST and "all of it is in" in text


def test_a_terminal_that_is_gone_does_not_end_the_run() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    terminal = Terminal(out=Gone(), words=Gone())
    terminal.say("hello")
    terminal.plainly("report")
    terminal.close()


def test_the_supervisor_reads_while_it_works(tmp_path: Path) -> None:
    """A busy interpreter (a diagnosis) holds nobody up for long: the pipe is large and emptied in the kernel."""
    output = Output()
    out, err = output.open("rank0", 0, tmp_path / "rank0.log")
    os.close(err)
    end = time.monotonic() + 0.5
    written = 0
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", "import os\nfor _ in range(200): os.write(1, b'q' * 65536)"], stdout=out
    )
    os.close(out)
    while time.monotonic() < end or process.poll() is None:
        written += sum(range(1000))
    output.drain(5.0)
    output.close()
    assert (tmp_path / "rank0.log").stat().st_size == 200 * 65536


def test_a_line_whose_end_comes_late_is_shown_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unbuffered programs write a line and its end apart; a bar that goes on is shown as it is now and then."""
    monkeypatch.setattr("keepstep.supervise.show.run_terminal.BAR_EVERY_S", 0.0)
    output, shown = Output(), io.StringIO()
    terminal = Terminal(out=shown, words=io.StringIO())
    outs = []
    for rank in range(2):
        out, err = output.open(f"rank{rank}", rank, tmp_path / f"rank{rank}.log")
        os.close(err)
        outs.append(out)
    terminal.follow(output)
    os.write(outs[0], b"loss 0.25")
    wait_for(lambda: "loss 0.25" in shown.getvalue() or None)
    os.write(outs[0], b"\nloss 0.25\nnext\n")
    wait_for(lambda: "next" in shown.getvalue() or None)
    for out in outs:
        os.close(out)
    output.drain(5.0)
    output.close()
    terminal.unfollow()
    terminal.close()
    assert shown.getvalue() == "rank 0 | loss 0.25\nrank 0 | loss 0.25\nrank 0 | next\n"

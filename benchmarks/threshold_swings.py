# SPDX-License-Identifier: Apache-2.0
"""Whether each usual limit gives one alert of a real value that swings around it, on real runs of `keepstep run`.

    python -m benchmarks.threshold_swings [--readings disk_share,shm_share,...]        (as root; up to 14 minutes)

Each value is moved for real, in mount and network namespaces and a control group of the benchmark's own: files on a
small disk and in a small /dev/shm, memory in a limited control group, open files of the rank, packets into a tap device
of 10 Mb/s (one that nobody reads drops them), TCP over a loopback that loses some. Only swap is a made /proc/meminfo,
because swap space is the whole machine's. It is beyond the limit for 10 s and a little less for 10 s, never longer,
until the time of the limit and 80 s are over, then well again. GPUs and TPUs: tests/signals/test_thresholds.py.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import mmap
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from keepstep.extend.run_settings import DEFAULTS
from keepstep.signals.thresholds import Threshold, in_unit
from keepstep.sources.host.network_counts import network_counts
from keepstep.store.history.reader import open_history
from keepstep.store.history.readings import READINGS

ROWS = {row.reading: row for row in DEFAULTS}
MB = 1 << 20
GROUP = Path(f"/sys/fs/cgroup/memory/keepstep-swings-{os.environ.get('KEEPSTEP_SWINGS') or os.getpid()}")
HALF_S, MORE_S = 10.0, 80.0
JOB = """
import os, sys, time
import keepstep
held = []
for step in keepstep.guard.attach().steps(range(10**9)):
    want = int(open(sys.argv[1]).read() or 0)
    while len(os.listdir("/proc/self/fd")) - 1 < want:
        held.append(open(os.devnull))
    while held and len(os.listdir("/proc/self/fd")) - 1 > want:
        held.pop().close()
    time.sleep(0.2)
"""
FILES = 400
ROUGH = ("net_share", "net_drops", "net_retransmits")
"""What cannot be moved as exactly."""


class Swung:
    """``level``: what the reading shall be, in its own unit; set by the schedule, followed by the value's thread."""

    def __init__(self, row: Threshold, follow: Callable[[Swung], None]) -> None:
        self.row, self._follow, self.level, self.over = row, follow, 0.0, False
        self.well = row.is_clear_at * (0.5 if row.reading in ROUGH else 0.9)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self.over:
            self._follow(self)

    def at(self, since_s: float) -> bool:
        """Sets the level of this moment; False when the value has been well for long enough."""
        beyond, between = (
            self.row.limit * (1.2 if self.row.reading in ROUGH else 1.02),
            (self.row.limit + self.row.is_clear_at) / 2,
        )
        swings_s = self.row.for_s + MORE_S
        swinging = beyond if since_s // HALF_S % 2 == 0 else between
        self.level = swinging if since_s < swings_s else self.well
        return since_s < swings_s + self.row.for_s + 40.0


def fill(folder: Path) -> Callable[[Swung], None]:
    """Files of a file system that is small."""

    def follow(value: Swung) -> None:
        room = os.statvfs(folder)
        total, filler = room.f_blocks * room.f_frsize, folder / "filler"
        used = total - room.f_bavail * room.f_frsize
        own = filler.stat().st_size if filler.exists() else 0
        more = max(0, own + int(value.level * total) - used)
        with filler.open("ab") as stream:
            if more < own:
                stream.truncate(more)
            else:
                stream.write(b"x" * (more - own))
        time.sleep(0.5)

    return follow


def hold(value: Swung) -> None:
    """Memory of this process, which is in the control group."""
    limit = int((GROUP / "memory.limit_in_bytes").read_text())
    used = int((GROUP / "memory.usage_in_bytes").read_text())
    cold = next(int(line.split()[1]) for line in (GROUP / "memory.stat").open() if line.startswith("inactive_file "))
    more = int(value.level * limit) - used + cold
    while more > MB:
        block = mmap.mmap(-1, MB)
        for place in range(0, MB, 4096):
            block[place] = 1
        _HELD.append(block)
        more -= MB
    while more < -MB and _HELD:
        _HELD.pop().close()
        more += MB
    time.sleep(0.5)


_HELD: list[mmap.mmap] = []


def swap_of(made: Path) -> Callable[[Swung], None]:
    real = Path("/proc/meminfo").read_text()

    def follow(value: Swung) -> None:
        total, used = 8_000_000, int(value.level / 1024)
        text = re.sub(r"SwapTotal:\s+\d+", f"SwapTotal: {total}", real)
        text = re.sub(r"SwapFree:\s+\d+", f"SwapFree: {total - used:12}", text)
        with made.open("r+b" if made.exists() else "wb") as stream:  # in place and of the same length: it is mounted
            stream.write(text.encode())
        time.sleep(0.5)

    return follow


def files(wanted: Path) -> Callable[[Swung], None]:
    def follow(value: Swung) -> None:
        wanted.write_text(str(round(value.level * FILES)))
        time.sleep(0.5)

    return follow


def tap(name: str) -> int:
    """A network device of ours, whose other end is the descriptor."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, 0x400454CA, struct.pack("16sH14x", name.encode(), 0x0002 | 0x1000))
    subprocess.run(["ip", "link", "set", name, "up"], check=True)
    subprocess.run(["ethtool", "-s", name, "speed", "10", "duplex", "full"], check=True)
    return end


def packets(name: str, size: int, per_s: Callable[[float], float], end: int | None) -> Callable[[Swung], None]:
    """``end``: read so that nothing is dropped."""
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    link.bind((name, 0))
    frame = b"\xff" * 12 + b"\x88\xb5" + bytes(size - 14)

    last, due = time.monotonic(), 0.0

    def follow(value: Swung) -> None:
        nonlocal last, due
        now = time.monotonic()
        due, last = min(due + per_s(value.level) * (now - last), per_s(value.level)), now
        while due >= 1.0:
            due -= 1.0
            with contextlib.suppress(OSError):
                link.send(frame)
            if end is not None:
                with contextlib.suppress(BlockingIOError):
                    os.read(end, 65536)
        time.sleep(0.05)

    return follow


def lossy() -> Callable[[Swung], None]:
    """TCP connections over a loopback that loses a part: where it arrives, as the sender would be told of it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def drain(link: socket.socket) -> None:
        while link.recv(1 << 16):
            pass

    def accept() -> None:
        while True:
            threading.Thread(target=drain, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    links = [socket.create_connection(listener.getsockname()) for _ in range(24)]
    for each in links:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        each.setblocking(False)
    rule = "INPUT -i lo -p tcp -m statistic --mode random --probability {} -j DROP".split()
    loss, before, until = 0.05, network_counts(), 0.0

    def follow(value: Swung) -> None:
        nonlocal loss, before, until
        if time.monotonic() >= until:
            counts, until = network_counts(), time.monotonic() + 1.0
            again = (counts.again - before.again) / max(1, counts.segments - before.segments)
            loss, before = min(max(loss + value.level - again, 0.001), 0.5), counts
            subprocess.run(["iptables", "-F", "INPUT"], check=True)
            subprocess.run(["iptables", "-A", *[word.format(f"{loss:.4f}") for word in rule]], check=True)
        for each in links:
            with contextlib.suppress(BlockingIOError):
                each.send(b"x" * 200)
        time.sleep(0.02)

    return follow


def inside(place: Path, asked: list[str]) -> None:
    """In namespaces of our own: moves the values of one real run, and counts what it said."""
    disk, shm, made, wanted = place / "disk", Path("/dev/shm"), place / "meminfo", place / "files"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "disk", str(disk)], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "shm", str(shm)], check=True)
    subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "groups", "/sys/fs/cgroup"], check=True)  # the other /sys hides them
    GROUP.parent.mkdir()
    subprocess.run(["mount", "-t", "cgroup", "-o", "memory", "memory", str(GROUP.parent)], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    wanted.write_text("0")
    values = {}
    makers: dict[str, Callable[[], Callable[[Swung], None]]] = {
        "host_memory_share": lambda: hold,
        "disk_share": lambda: fill(disk),
        "shm_share": lambda: fill(shm),
        "files_share": lambda: files(wanted),
        "swap": lambda: swap_of(made),
        "net_share": lambda: packets("tap0", 1500, lambda level: level * 1_250_000 / 1500, tap("tap0")),
        "net_drops": lambda: _dropping(),
        "net_retransmits": lossy,
    }
    for reading in asked:
        values[reading] = Swung(ROWS[reading], makers[reading]())
    if "swap" in asked:
        time.sleep(1.0)
        subprocess.run(["mount", "--bind", str(made), "/proc/meminfo"], check=True)
    (place / "train.py").write_text(JOB)
    for each in values.values():
        each.level = each.well
    time.sleep(5.0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    command = [sys.executable, "-m", "keepstep", "run", "--no-check", "--no-spares", "-n", "1"]
    command += ["--run-dir", str(disk / "runs"), "--", sys.executable, "train.py", str(wanted)]
    with (place / "terminal.log").open("wb") as log:
        job = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
    time.sleep(10.0)
    began = time.monotonic()
    while not all([not each.at(time.monotonic() - began) for each in values.values()]):
        time.sleep(0.25)
    job.send_signal(signal.SIGTERM)
    job.wait(60)
    (run,) = (disk / "runs").iterdir()
    history = open_history(run)
    spread = {}
    for reading, value in values.items():
        begun = [began, began + value.row.for_s + MORE_S]
        begin, end = (time.time() - time.monotonic() + each for each in begun)
        subject: int | str = 0 if READINGS[reading].of == "rank" else history.hosts[0]
        points = history.series(reading, subject, begin, end, int(end - begin))
        spread[reading] = [min(each.mean for each in points), max(each.mean for each in points)]
    (place / "spread.json").write_text(json.dumps(spread))


def _dropping() -> Callable[[Swung], None]:
    tap("tap1")
    subprocess.run(["ip", "link", "set", "tap1", "txqueuelen", "2"], check=True)
    return packets("tap1", 60, lambda level: level, None)


def main() -> None:
    parser = argparse.ArgumentParser()
    able = [each for each in ROWS if READINGS[each].of != "gpu" and each != "device_memory_share"]
    parser.add_argument("--readings", default=",".join(able))
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    asked = given.readings.split(",")
    if given.inside is not None:
        inside(given.inside, asked)
        return
    GROUP.mkdir()
    os.environ["KEEPSTEP_SWINGS"] = GROUP.name.rpartition("-")[2]
    (GROUP / "memory.limit_in_bytes").write_text(str(600 * MB))
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        words = ["unshare", "-mn", sys.executable, "-m", "benchmarks.threshold_swings"]
        words += ["--readings", given.readings, "--inside", temporary]
        subprocess.run(
            words, check=True, preexec_fn=lambda: (GROUP / "cgroup.procs").write_text(str(os.getpid())) and None
        )
        said, spread = (place / "terminal.log").read_text(), json.loads((place / "spread.json").read_text())
    GROUP.rmdir()
    lines = " ".join(said.replace("\nkeepstep: ", "\0keepstep: ").split()).split("\0")
    for reading in asked:
        own = [line for line in lines if f", {READINGS[reading].read}: " in line]
        ends = [line for line in own if ", no longer " in line]
        unit = READINGS[reading].unit
        words = f"{len(ends)} end; it swung from {in_unit(spread[reading][0], unit)} to "
        print(f"{reading:20} {len(own) - len(ends)} alert, {words}{in_unit(spread[reading][1], unit)}", flush=True)
        for line in own:
            print(f"    {line}", flush=True)
    for line in lines:
        if not any(f", {READINGS[reading].read}: " in line for reading in asked):
            print(f"  else: {line[:300]}")


if __name__ == "__main__":
    main()

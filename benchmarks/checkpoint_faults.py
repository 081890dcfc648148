# SPDX-License-Identifier: Apache-2.0
"""Flipped bits in checkpoints, and kills while they are saved: what is loaded, with the guard and without it.

Bits are flipped from outside, by plain writes to the files, with their size and times put back. One process loads many
damaged checkpoints in turn, through the guard's hooks, as a user's program does. Kills strike a program that does
nothing but save; then what `keepstep check checkpoint` says of each checkpoint is held against a real load.

    python -m benchmarks.checkpoint_faults --flips 200 --kills 10

``--jobs`` lets several programs be killed side by side; with ``--results``, what each showed is added to a file, and a
series that was cut short goes on where it was.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import queue
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from keepstep.check.checkpoints import look, named
from keepstep.store.ledger.checkpoint_files import checkpoints_in, parts_of
from keepstep.store.ledger.file_sums import CRC, PARITIES, sums_of
from keepstep.store.ledger.verify import latest_good

JOB = Path(__file__).parent / "checkpoint_jobs" / "job.py"
FORMATS = {
    "torch": ("torch.save", "DCP", "safetensors"),
    "tensorflow": ("TF checkpoint", "Keras .keras", "Keras .weights.h5"),
    "jax": ("Orbax",),
}
APART = 8 * 1021
"""In bytes: a row of the ledger's sums."""
IN_PLACE = "torch.save-in-place"
AT_ONCE = 5
"""Kills of one program's saves."""
PATIENCE_S = 300.0
SAID = "is damaged"
RATIO_BAR, SPEED_BAR = 1.5, 1.0
BIG_KB, SMALL_SAVES = 500_000 // 2, 1_000  # model and optimizer: each has as many


class Ended(RuntimeError):
    """A process of the job is gone, or does not answer."""


class Process:
    """One rank of the job."""

    def __init__(self, framework: str, folder: Path, kilobytes: int, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(JOB), framework, str(folder), str(kilobytes)],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self.heard: list[str] = []

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def tell(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """The next answer; the lines before it are ``heard``."""
        self.heard = []
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise Ended("it does not answer") from None
            if line is None:
                raise Ended("".join(self.heard[-20:]))
            if line.startswith("ANSWER "):
                return line[7:].strip()
            self.heard.append(line)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """As a program ends: the guard writes down what it has not yet."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()


def start(framework: str, folder: Path, *, guard: bool, kilobytes: int, world: int = 1) -> list[Process]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTEP")}
    env |= {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    env |= {"KEEPSTEP": "on", "KEEPSTEP_COMPANION": "off"} if guard else {"KEEPSTEP": "off"}
    if world > 1:
        env |= {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        Process(framework, folder, kilobytes, env | ({"RANK": str(rank)} if world > 1 else {})) for rank in range(world)
    ]
    for each in ranks:
        each.answer()
    return ranks


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(ranks: list[Process], verb: str, name: str, *rest: str) -> tuple[str, str]:
    """What rank 0 answers, and what any said before it. Only sharded checkpoints are of all ranks."""
    asked = ranks if name == "DCP" else ranks[:1]
    for each in asked:
        each.tell(verb, name, *rest)
    answers = [each.answer() for each in asked]
    return answers[0], "".join(line for each in asked for line in each.heard)


class Flip:
    """One bit of a file, from outside, size and times put back; and back again. ``pair``: the same bit of two words,
    one set and one not, as far apart as words whose changes could cancel each other out in a sum."""

    def __init__(self, path: Path, start: float = 0.0, *, pair: bool = False) -> None:
        """Somewhere after this share of the file."""
        self._path, self._info = path, path.stat()
        size = self._info.st_size
        at, self._bit = random.randrange(int(size * start), size), 1 << random.randrange(8)
        self._at = [at]
        if pair:
            data = path.read_bytes()
            others = [each for each in range(at % APART, size, APART) if (data[each] ^ data[at]) & self._bit]
            self._at += sorted(others, key=lambda each: abs(each - at))[:1]
        self._turn()

    def _turn(self) -> None:
        with self._path.open("r+b") as stream:
            for at in self._at:
                stream.seek(at)
                byte = stream.read(1)[0]
                stream.seek(at)
                stream.write(bytes([byte ^ self._bit]))
        os.utime(self._path, ns=(self._info.st_atime_ns, self._info.st_mtime_ns))

    def back(self) -> None:
        self._turn()

    def __str__(self) -> str:
        return f"{self._path.name}, bytes {self._at}, bit {self._bit}"


def files_of(folder: Path) -> list[Path]:
    """The files of the one checkpoint there, without TensorFlow's list of checkpoints."""
    (one,) = checkpoints_in(folder)
    return [each for each in parts_of(one) if each.stat().st_size]


def drawn(files: list[Path], turn: int) -> Flip:
    """In turn: any file of the checkpoint, any byte of it, the end of its last large file (there is the last rank's
    shard, and the optimizer's state), and two bytes at once."""
    sizes = [each.stat().st_size for each in files]
    if turn % 4 == 2:
        return Flip([each for each, size in zip(files, sizes, strict=True) if size >= max(sizes) / 10][-1], 0.5)
    return Flip(random.choices(files, sizes if turn % 4 else None)[0], pair=turn % 4 == 3)


def flips(framework: str, formats: tuple[str, ...], count: int, kilobytes: int) -> list[str]:
    folder = Path(tempfile.mkdtemp(prefix="keepstep-checkpoints-"))
    world = 2 if framework == "torch" else 1
    ranks = start(framework, folder, guard=True, kilobytes=kilobytes, world=world)
    for name in formats:
        said, _ = ask(ranks, "save", name)
        assert said == "saved 1", said
    for each in ranks:
        each.end()
    counts: dict[tuple[str, bool], Counter[str]] = {}
    for guard in (True, False):
        ranks = start(framework, folder, guard=guard, kilobytes=kilobytes, world=world)
        for name in formats:
            random.seed(f"{name} {count}")
            counted = counts[name, guard] = Counter()
            whole, before = ask(ranks, "load", name)
            if whole != "whole 1" or SAID in before:
                raise RuntimeError(f"{name}: the undamaged one: {whole} {before}")
            for turn in range(count):
                flip = drawn(files_of(folder / name), turn)
                try:
                    answer, heard = ask(ranks, "load", name)
                except Ended:
                    answer, heard = "refused crashed", ""
                    for each in ranks:
                        each.kill()
                    ranks = start(framework, folder, guard=guard, kilobytes=kilobytes, world=world)
                flip.back()
                counted["refused" if answer.startswith("refused") else "loaded"] += 1
                counted["said"] += SAID in heard
                if not answer.startswith("refused"):
                    counted["wrong"] += answer != "whole 1"
                    counted["silent"] += SAID not in heard
                    if guard and SAID not in heard:
                        print(f"    silent with the guard: {name}: {flip}", flush=True)
        for each in ranks:
            each.end()
    shutil.rmtree(folder)
    rows = []
    for name in formats:
        on, off = counts[name, True], counts[name, False]
        without = f"{off['refused']} | {off['silent']} ({off['wrong']})"
        rows.append(f"| {name} | {count} | {without} | {on['said']} | {on['silent']} |")
    return rows


def kills(framework: str, formats: tuple[str, ...], count: int, kilobytes: int) -> Counter[str]:
    folder = Path(tempfile.mkdtemp(prefix="keepstep-kills-"))
    world = 2 if framework == "torch" else 1
    counted: Counter[str] = Counter()
    (loader,) = start(framework, folder, guard=False, kilobytes=kilobytes)
    number = 1
    for _ in range(count):
        ranks = start(framework, folder, guard=True, kilobytes=kilobytes, world=world)
        for each in ranks:
            each.tell("saves", str(number), *formats)
        began = time.monotonic()
        for each in ranks:
            number = int(each.answer().removeprefix("saved ")) + 1
        took = time.monotonic() - began
        time.sleep(random.uniform(0, 2 * took))
        for each in random.sample(ranks, len(ranks)):
            each.kill()
        counted["kills"] += 1
        number += 100
        for name in formats:
            _after_kill(folder / name, name, loader, counted)
    loader.end()
    shutil.rmtree(folder)
    return counted


def many_kills(frameworks: Sequence[str], count: int, kilobytes: int, jobs: int, kept: Path | None) -> list[str]:
    """The rows of the table. Each program is killed a few times; what came of it is a line of the file ``kept``."""
    results: list[dict[str, Any]] = []
    if kept is not None and kept.exists():
        results = [json.loads(line) for line in kept.open()]
    todo = []
    for framework in frameworks:
        left = count - sum(each.get("kills", 0) for each in results if each["framework"] == framework)
        todo += [(framework, min(AT_ONCE, left - done)) for done in range(0, left, AT_ONCE)]

    def one(framework: str, few: int) -> dict[str, Any]:
        formats = FORMATS[framework] + ((IN_PLACE,) if framework == "torch" else ())
        return {"framework": framework, **kills(framework, formats, few, kilobytes)}

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(one, *each) for each in todo]):
            results.append(done.result())
            if kept is not None:
                with kept.open("a") as stream:
                    stream.write(json.dumps(results[-1]) + "\n")
    rows = []
    for framework in frameworks:
        counted: Counter[str] = Counter()
        for each in results:
            if each["framework"] == framework:
                counted.update({name: many for name, many in each.items() if name != "framework"})
        rows.append(
            f"| {framework} | {counted['kills']} | {counted['seen']} | {counted['unloadable']} | "
            f"{counted['bad called good']} | {counted['whole called bad']} | "
            f"{counted['latest is whole']} of {counted['latest']} |"
        )
    return rows


def _after_kill(folder: Path, name: str, loader: Process, counted: Counter[str]) -> None:
    def is_whole(path: Path) -> bool:
        answer, _ = ask([loader], "load", name, path.name)
        return answer.startswith("whole")

    for verdict in look(named([str(folder)])):
        counted["seen"] += 1
        whole, good = is_whole(verdict.path), verdict.state.is_good
        counted["unloadable"] += not whole
        counted["bad called good"] += good and not whole
        counted["whole called bad"] += whole and not good
        if good != whole:
            print(
                f"    {name}: {verdict.path.name} is {verdict.state.name}: {verdict.words}; loads: {whole}", flush=True
            )
    latest = latest_good(folder)
    counted["latest"] += 1
    if latest is not None and is_whole(latest):
        counted["latest is whole"] += 1
    else:
        print(f"    {name}: latest_good is {latest}: {sorted(each.name for each in folder.iterdir())}", flush=True)


def speeds(turns: int) -> list[str]:
    """A large file's load with and without the guard in turns, the sums alone, and many small saves."""
    folder = Path(tempfile.mkdtemp(prefix="keepstep-speed-"))
    with_guard = start("torch", folder, guard=True, kilobytes=BIG_KB)
    without = start("torch", folder, guard=False, kilobytes=BIG_KB)
    name = "torch.save"
    ask(without, "save", name, "plain.pt")
    ask(with_guard, "save", name, "big.pt")
    for each in with_guard:
        each.end()  # it has recorded it
    with_guard = start("torch", folder, guard=True, kilobytes=BIG_KB)
    took: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for turn in range(turns + 1):
        for guard, ranks in ((True, with_guard), (False, without)):
            answer, heard = ask(ranks, "time", name, "big.pt")
            if turn and SAID not in heard:  # the first warms up
                took[guard].append(seconds(answer))
    for ranks in (with_guard, without):
        ranks[0].end()
    big = folder / name / "big.pt"
    per_core = {}
    with big.open("rb") as stream:
        for by in (CRC, PARITIES):
            began = time.thread_time()
            for _ in range(turns):
                sums_of(stream.fileno(), by=by, imports=True)
            per_core[by] = turns * big.stat().st_size / (time.thread_time() - began) / 1e9
    small = {}
    for guard in (False, True):
        (rank,) = start("torch", folder, guard=guard, kilobytes=1)
        rank.tell("many", name, "x.pt", str(SMALL_SAVES))
        small[guard] = seconds(rank.answer())
        rank.end()
    shutil.rmtree(folder)
    rows = []
    for place, what in enumerate(("time", "processor time")):
        plain, verified = (statistics.median(each[place] for each in took[guard]) for guard in (False, True))
        best = min(each[place] for each in took[True]) / min(each[place] for each in took[False])
        rows.append(
            f"| load of {BIG_KB * 2 / 1e6:.1f} GB, warm, {what} | {plain:.2f} s plain, {verified:.2f} s verified: "
            f"{verified / plain:.2f} times ({best:.2f} by the best of {turns}) | <= {RATIO_BAR} |"
        )
        pair = f"{small[False][place]:.2f} s without, {small[True][place]:.2f} s with"
        rows.append(f"| {SMALL_SAVES:,} small torch.save, {what} | {pair} | |")
    for by, speed in per_core.items():
        rows.append(f"| sums by {by}, one core, processor time | {speed:.2f} GB/s | >= {SPEED_BAR} |")
    return rows


def seconds(answer: str) -> tuple[float, float]:
    """By the clock, and of the processor."""
    time_s, processor_s = answer.removeprefix("took ").split()
    return float(time_s), float(processor_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=200, help="over all formats (200)")
    parser.add_argument("--kills", type=int, default=10, help="of each framework (10)")
    parser.add_argument("--turns", type=int, default=7, help="of each measurement of speed (7); 0: none")
    parser.add_argument("--kilobytes", type=int, default=2_000, help="of a model (2000)")
    parser.add_argument("--only", choices=FORMATS, action="append", help="these frameworks")
    parser.add_argument("--jobs", type=int, default=1, help="programs side by side that are killed (1)")
    parser.add_argument("--results", type=Path, help="a file to which each program's kills are added, and that is read")
    asked = parser.parse_args()
    known = {name: formats for name, formats in FORMATS.items() if name in (asked.only or FORMATS)}
    for framework, module in (("tensorflow", "tensorflow"), ("jax", "orbax")):
        if framework in known and importlib.util.find_spec(module) is None:
            print(f"{module} is not installed: {', '.join(known.pop(framework))} left out")
    if asked.flips:
        each = max(1, asked.flips // sum(len(formats) for formats in known.values()))
        print("| format | flips | alone: refused | loaded silently (wrong values) | guard: said | silent |")
        print("|---|---|---|---|---|---|")
        for framework, formats in known.items():
            print("\n".join(flips(framework, formats, each, asked.kilobytes)), flush=True)
    if asked.kills:
        print("\n| saves of | kills | seen | do not load | bad called good | whole called bad | latest_good loads |")
        print("|---|---|---|---|---|---|---|")
        print("\n".join(many_kills(tuple(known), asked.kills, asked.kilobytes, asked.jobs, asked.results)), flush=True)
    if asked.turns:
        print("\n| speed | | bar |\n|---|---|---|")
        print("\n".join(speeds(asked.turns)))


if __name__ == "__main__":
    main()

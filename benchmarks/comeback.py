# SPDX-License-Identifier: Apache-2.0
"""How long a training is gone after a fault: from the kill of a rank to the next step that all ranks have done.

    python -m benchmarks.comeback [--rounds 3] [--hang] [--sleep] [torch] [tensorflow] [jax]

PyTorch under keepstep, torchrun and NVRx's ft_launcher; TensorFlow and JAX under keepstep and a plain restart (a loop
that ends all ranks when one dies and starts them again at once). All of them train the same job, are hit in the same
way (SIGKILL to rank 1, SIGSTOP
for the hang, or a time.sleep in rank 1 that nothing proves to be a hang) well into their training, and are measured in
turns, so whatever else the machine does affects all alike. ft_launcher comes from PyPI
into an environment of its own, .venv-nvrx, which borrows torch from this one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from keepstep.sources.host.ports import free_ports

HERE = Path(__file__).parent
NVRX = HERE.parent / ".venv-nvrx"
NVRX_NEEDS = ("psutil", "pyyaml", "packaging", "defusedxml", "nvidia-ml-py", "setproctitle", "protobuf", "grpcio")
RANKS = 2
STEPS = 100_000
WELL_INTO = 60
"""Steps after which a fault strikes."""
PATIENCE_S = 180.0
GONE_S = 90.0
KILL, STOP, SLEEP = "kill", "hang", "sleep"
HEARTBEAT_S = 10
"""What a person would have to tell ft_launcher."""


@dataclass(frozen=True)
class Way:
    """One way to run a job. ``command(job, folder)``; ``plain``: by the loop in this file."""

    name: str
    command: Callable[[list[str], Path], list[str]]
    ready: str = ""
    """What it prints when it is prepared for a fault."""


def keepstep(job: list[str], folder: Path) -> list[str]:
    own = [sys.executable, "-m", "keepstep", "run", "--run-dir", str(folder / "runs"), "-n", str(RANKS)]
    return [*own, "--", sys.executable, *job]


def torchrun(job: list[str], folder: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={RANKS}",
        "--max-restarts=3",
        *job,
    ]


def ft_launcher(job: list[str], folder: Path) -> list[str]:
    options = ["--standalone", f"--nproc-per-node={RANKS}", "--max-restarts=3", "--monitor-interval=0.1"]
    options += [
        f"--ft-rank-heartbeat-timeout={HEARTBEAT_S}",
        "--ft-initial-rank-heartbeat-timeout=60",
        "--ft-workload-check-interval=1",
    ]
    return [str(NVRX / "bin" / "ft_launcher"), *options, *job]


def plain(job: list[str], folder: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.comeback", "--loop", *job]


WAYS = {
    "keepstep": Way("keepstep run", keepstep, ready="warm spares wait"),
    "torchrun": Way("torchrun", torchrun),
    "ft_launcher": Way("ft_launcher", ft_launcher),
    "plain": Way("plain restart", plain),
}
PEERS = {"torch": ("torchrun", "ft_launcher"), "tensorflow": ("plain",), "jax": ("plain",)}


def measure(framework: str, way: Way, fault: str = KILL) -> float | None:
    """Seconds from the fault to the next step; None when the training did not come back in time."""
    folder = Path(tempfile.mkdtemp(prefix="keepstep-comeback-"))
    job = [str(HERE / "comeback_jobs" / f"{framework}_job.py"), str(folder), str(STEPS)]
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            way.command(job, folder),
            cwd=HERE.parent,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    known: set[int] = set()
    try:
        end = time.monotonic() + PATIENCE_S
        while min(len(each) for each in _steps(folder)) < WELL_INTO or way.ready not in (folder / "out").read_text(
            errors="replace"
        ):
            if time.monotonic() > end or process.poll() is not None:
                raise RuntimeError(f"{way.name} did not train: {(folder / 'out').read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        time.sleep(1.0)
        before = _steps(folder)
        known = {pid for each in before for _, pid in each}
        struck = before[1][-1][1]
        at = time.time()
        if fault == SLEEP:
            (folder / "sleep").touch()
        else:
            os.kill(struck, signal.SIGKILL if fault == KILL else signal.SIGSTOP)
        end = time.monotonic() + GONE_S
        while time.monotonic() < end:
            later = [[when for when, pid in each if pid not in known] for each in _steps(folder)]
            if all(later):
                return max(each[0] for each in later) - at
            time.sleep(0.05)
        return None
    finally:
        _end(process, known | {pid for each in _steps(folder) for _, pid in each})
        shutil.rmtree(folder, ignore_errors=True)


def _steps(folder: Path) -> list[list[tuple[float, int]]]:
    """When each rank ended each step, and in which process."""
    found: list[list[tuple[float, int]]] = []
    for rank in range(RANKS):
        found.append([])
        with contextlib.suppress(OSError):
            for line in (folder / f"steps-{rank}").read_text().splitlines():
                words = line.split()
                if len(words) == 3:
                    found[-1].append((float(words[0]), int(words[1])))
    return found


def _end(process: subprocess.Popen[bytes], ranks: set[int]) -> None:
    """What was started here, by its own id."""
    for pid in ranks:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=20)
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pid in ranks:
        with contextlib.suppress(OSError):
            if (
                str(HERE) in Path(f"/proc/{pid}/cmdline").read_text()
                or "keepstep" in Path(f"/proc/{pid}/cmdline").read_text()
            ):
                os.kill(pid, signal.SIGKILL)


def loop(job: list[str]) -> int:
    """The plain restart: all ranks again, at once, when one has died."""
    while True:
        ports = free_ports(RANKS + 1)
        ranks = []
        for rank in range(RANKS):
            workers = [f"127.0.0.1:{port}" for port in ports[1:]]
            env = {
                **os.environ,
                "TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}),
            }
            env |= {
                "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{ports[0]}",
                "NUM_PROCESSES": str(RANKS),
                "PROCESS_ID": str(rank),
            }
            env |= {
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(ports[0]),
                "WORLD_SIZE": str(RANKS),
                "RANK": str(rank),
            }
            ranks.append(subprocess.Popen([sys.executable, *job], env=env))
        while all(each.poll() is None for each in ranks):
            time.sleep(0.02)
        failed = any(each.poll() not in (None, 0) for each in ranks)
        for each in ranks:
            each.kill()
            each.wait()
        if not failed:
            return 0


def prepare_nvrx() -> str | None:
    """Install ft_launcher, once; why not, where that fails."""
    if (NVRX / "bin" / "ft_launcher").exists():
        return None
    site = next(path for path in sys.path if path.endswith("site-packages"))
    try:
        subprocess.run([sys.executable, "-m", "venv", str(NVRX)], check=True, capture_output=True)
        inner = next((NVRX / "lib").glob("python*/site-packages"))
        (inner / "torch_from_elsewhere.pth").write_text(site + "\n")
        pip = [str(NVRX / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run([*pip, "nvidia-resiliency-ext"], check=True, capture_output=True)
        for name in NVRX_NEEDS:  # those that are not here already; it does without some of them
            subprocess.run([*pip, name], check=False, capture_output=True)
        subprocess.run([str(NVRX / "bin" / "ft_launcher"), "--help"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(NVRX, ignore_errors=True)
        return f"{type(error).__name__}: {getattr(error, 'stderr', b'') or error}"[:300]
    return None


def compare(framework: str, rounds: int, fault: str) -> list[str]:
    """Rows of the table: each way in turns, so many times."""
    names = ["keepstep", *PEERS[framework]]
    if fault != KILL:
        names = [name for name in names if name == "keepstep" or (name == "ft_launcher" and fault == STOP)]
    if "ft_launcher" in names and (why := prepare_nvrx()) is not None:
        print(f"ft_launcher: not measured: {why}", flush=True)
        names.remove("ft_launcher")
    times: dict[str, list[float | None]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            taken = measure(framework, WAYS[name], fault)
            times[name].append(taken)
            print(
                f"  {framework} {fault} {name}: {'never' if taken is None else f'{taken:.2f} s'}",
                file=sys.stderr,
                flush=True,
            )
    own = _middle(times["keepstep"])
    rows = []
    for name in names:
        shown = ", ".join("never" if each is None else f"{each:.1f}" for each in times[name])
        middle = _middle(times[name])
        ratio = (
            ""
            if name == "keepstep" or own is None
            else "keepstep alone came back"
            if middle is None
            else f"{own / middle:.2f}"
        )
        rows.append(
            f"| {framework}, {fault} | {WAYS[name].name} | "
            f"{'never' if middle is None else f'{middle:.1f} s'} | {shown} | {ratio} |"
        )
    return rows


def _middle(times: list[float | None]) -> float | None:
    """Of those that came back."""
    found = [each for each in times if each is not None]
    return median(found) if found else None


def main() -> int:
    if sys.argv[1:2] == ["--loop"]:
        return loop(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("frameworks", nargs="*", default=[], help="torch, tensorflow, jax (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hang", action="store_true", help="also stop a rank instead of killing it (torch)")
    parser.add_argument(
        "--sleep", action="store_true", help="only let a rank sleep, which no stack proves to be a hang"
    )
    asked = parser.parse_args()
    signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(128 + number)
    )  # what was started is ended on the way out
    load = os.getloadavg()[0]
    print(
        f"From the fault to the next training step, {RANKS} ranks on {os.cpu_count()} cores (load "
        f"{load:.1f}), {asked.rounds} rounds\n"
    )
    print("| fault | run by | seconds (median) | each | keepstep's part of it |")
    print("|---|---|---|---|---|")
    for framework in asked.frameworks or PEERS:
        for fault in (SLEEP,) if asked.sleep else (KILL, STOP) if asked.hang and framework == "torch" else (KILL,):
            for row in compare(framework, asked.rounds, fault):
                print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

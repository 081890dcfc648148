# SPDX-License-Identifier: Apache-2.0
"""A cluster of simulated hosts, and the check run on all of them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from keepstep_lab import hosts as lab

Check = Callable[..., "Ended"]
STRIPPED = ("SLURM", "OMPI", "KEEPSTEP", "PMI", "TF_CONFIG", "RANK", "WORLD_SIZE", "MASTER_", "http", "HTTP")


RUN = "import runpy, sys; sys.argv[0] = 'keepstep'; runpy.run_module('keepstep', run_name='__main__')"


@dataclass
class Ended:
    """The result of a check on all hosts."""

    report: dict[str, Any]
    statuses: list[int]
    outputs: list[str]

    @property
    def rules(self) -> list[str]:
        return [finding["rule"] for finding in self.report["findings"]]

    @property
    def titles(self) -> list[str]:
        return [finding["title"] for finding in self.report["findings"]]

    def command(self, number: int = 0, fix: int = 0) -> str:
        """The command of a fix, as printed."""
        return str(self.report["findings"][number]["fixes"][fix]["command"])


class Cluster:
    """Simulated hosts; ``check`` runs the network part on all of them, one TensorFlow worker or torch rank on each."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count = count
        self.hosts = lab.Hosts(count, folder, dict(os.environ))

    def check(
        self,
        *,
        torch: bool = False,
        what: tuple[str, ...] = ("network", "--wait", "30"),
        words: tuple[str, ...] = (),
        clocks: dict[int, float] | None = None,
        **addresses: str,
    ) -> Ended:
        workers = [addresses.get(f"worker{n}", f"{lab.name(n)}:2222") for n in range(self.count)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(STRIPPED)}
        processes = []
        for n in range(self.count):
            task = {"type": "worker", "index": n}
            env = {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": task})}
            if torch:
                env = {
                    "RANK": str(n),
                    "WORLD_SIZE": str(self.count),
                    "MASTER_ADDR": lab.name(0),
                    "MASTER_PORT": "29500",
                }
            shifted = f"import time; now = time.time; time.time = lambda: now() + {(clocks or {}).get(n, 0)}; {RUN}"
            command = [*self.hosts.inside(n), sys.executable, "-c", shifted]
            command += ["check", *what, "--json", *words]
            processes.append(subprocess.Popen(command, env={**clean, **env}, stdout=subprocess.PIPE, text=True))
        outputs = [process.communicate(timeout=180)[0] for process in processes]
        return Ended(json.loads(outputs[0]), [process.returncode for process in processes], outputs)


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def until(condition: Callable[[], object], limit: float = 60.0) -> None:
    """Wait for a condition, not for seconds."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """As many simulated hosts as the test's parameter says, by default three."""
    if lab.missing():
        pytest.skip(str(lab.missing()))
    made = Cluster(getattr(request, "param", 3), tmp_path)
    try:
        yield made
    finally:
        made.hosts.close()

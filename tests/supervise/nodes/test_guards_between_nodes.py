# SPDX-License-Identifier: Apache-2.0
"""Guards of two nodes, each with a folder of its own, agree through the relay: real ranks of torch, no agents."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepstep.supervise.nodes.evidence.parcels import write_node
from keepstep.supervise.nodes.evidence.relay import Relay, audience
from keepstep.supervise.show.diagnosis import explain
from tests.supervise.starting import OURS

pytestmark = pytest.mark.frameworks("torch")
LIMIT_S = 180.0
POLL_S = 0.2
SCRIPT = """
import os, time
import torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4 + rank * WIDER))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
print("finished", flush=True)
"""


def run_apart(tmp_path: Path, *, wider: int) -> list[int]:
    """Both ranks until they end, each in its node's folder; keys are carried as agents and leader do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "train.py").write_text(SCRIPT.replace("WIDER", str(wider)))
    clean = {name: value for name, value in os.environ.items() if name not in OURS}
    ranks, relays = [], []
    for rank in (0, 1):
        node = tmp_path / "attempt" / f"node{rank}"
        node.parent.mkdir(exist_ok=True)
        write_node(node, host=f"host-{rank}", address=None, ranks=[rank])
        (node / "guard").mkdir()
        exchange = tmp_path / f"exchange{rank}"
        exchange.mkdir()
        relays.append(Relay(exchange))
        env = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        env |= {"MASTER_PORT": str(port), "KEEPSTEP": "on", "KEEPSTEP_DIR": str(node / "guard")}
        env |= {"KEEPSTEP_EXCHANGE": str(exchange), "KEEPSTEP_SUPERVISOR": str(os.getpid())}
        env |= {"KEEPSTEP_RANK": str(rank), "KEEPSTEP_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
        with (node / f"rank{rank}.log").open("wb") as log:
            ranks.append(
                subprocess.Popen(
                    [sys.executable, "-c", "import keepstep.guard, runpy; runpy.run_path('train.py')"],
                    cwd=tmp_path,
                    env={**clean, **env},
                    stdout=log,
                    stderr=log,
                )
            )
    end = time.monotonic() + LIMIT_S
    while any(each.poll() is None for each in ranks) and time.monotonic() < end:
        time.sleep(POLL_S)
        for node, relay in enumerate(relays):
            keys = relay.new()
            relays[1 - node].take([each for each in keys if node == 1 or audience(each[0]) == "all"])
    for each in ranks:
        each.kill()
    return [each.wait() for each in ranks]


def test_ranks_on_two_nodes_with_different_models_are_stopped_before_they_hang(tmp_path: Path) -> None:
    codes = run_apart(tmp_path, wider=1)
    logs = [(tmp_path / "attempt" / f"node{rank}" / f"rank{rank}.log").read_text() for rank in (0, 1)]
    assert all(codes), logs
    assert all("OutOfStep" in log for log in logs), logs
    report, _ = explain(tmp_path / "attempt")
    assert report.root is not None and report.root.cause.family == "sync"
    assert report.hosts == ((0, "host-0"), (1, "host-1"))
    boxes = sorted(path.name for path in (tmp_path / "attempt").rglob("*.box"))
    assert [re.match(r"rank(\d)-", name)[1] for name in boxes] == ["0", "1"]  # type: ignore[index]


@pytest.mark.long
def test_ranks_on_two_nodes_that_agree_train_and_finish(tmp_path: Path) -> None:
    assert run_apart(tmp_path, wider=0) == [0, 0]
    notes = [path.read_text() for path in (tmp_path / "attempt").rglob("*.notes.jsonl")]
    assert len(notes) == 2 and not any("PeerSilent" in each or "ContractBroken" in each for each in notes)

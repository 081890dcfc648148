# SPDX-License-Identifier: Apache-2.0
"""How processes call themselves at the beginning of their logs."""

from __future__ import annotations

import pytest

from keepstep.parse.scan.lines.introduction import introduced, introduced_processes
from keepstep.parse.scan.lines.prefix import Prefixes


@pytest.mark.parametrize(
    "line",
    [
        "[2026-07-25 09:00:00] node b RANK=1 LOCAL_RANK=0 WORLD_SIZE=2",
        "I0507 train.py:118] JAX process: 1 / 4",
        "hello from rank 1",
        "process_index=1, 8 local devices",
        "I am worker 1",
        "global rank 1 is ready",
        "Setting up process group for: env:// [rank=1, world_size=2]",
    ],
)
def test_a_process_introduces_itself(line: str) -> None:
    assert introduced(f"starting\n{line}\nstep 1 of 100\n".encode(), Prefixes(())) == (1, 2, line)


@pytest.mark.parametrize(
    "text",
    [
        "rank 0 of 4 is ready\nrank 1 of 4 is ready\n",
        "DataLoader worker 1 of 4\n",
        "    init_process_group(rank=1, world_size=2)\n",
        "lost connection to rank 1 of 4\n",
        "step 1 of 4\n",
        "LOCAL_RANK=1\n",
    ],
)
def test_what_does_not_say_who_writes(text: str) -> None:
    assert introduced(text.encode(), Prefixes(())) is None


def test_a_process_that_calls_itself_by_two_ranks_has_none() -> None:
    lines = ["(worker pid=11) rank 0 of 4 is ready", "(worker pid=12) rank 1 of 4, then rank=2, world_size=4"]
    found = introduced_processes("\n".join(lines).encode(), Prefixes(lines * 4))
    assert [(writer.pid, rank) for _, writer, rank in found] == [(11, 0)]

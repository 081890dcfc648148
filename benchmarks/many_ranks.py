# SPDX-License-Identifier: Apache-2.0
"""How long `why` takes on the logs of thousands of ranks, one of which raised while all others timed out.

``python -m benchmarks.many_ranks [RANKS ...]``; each log has about 35 kB.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS, LAST_OF_CULPRIT = 430, 400
TRACEBACK = """Traceback (most recent call last):
  File "/opt/app/train.py", line 88, in <module>
    main()
  File "/opt/app/model.py", line 12, in forward
    return self.table[batch['missing']]
KeyError: 'missing'
"""


def log(rank: int, ranks: int, culprit: int) -> str:
    """What one rank of a PyTorch job prints until its collective times out, or it raises."""
    some = random.Random(rank)
    lines = [f"[2026-05-04 10:00:00,{rank % 1000:03d}][rank{rank}][INFO] world_size={ranks} rank={rank} backend=nccl"]
    for step in range(LAST_OF_CULPRIT if rank == culprit else STEPS):
        minute, second = divmod(int(step * 1.5), 60)
        at = f"2026-05-04 10:{minute:02d}:{second:02d},{some.randrange(1000):03d}"
        speed = some.randrange(9000, 9999)
        lines.append(f"[{at}][rank{rank}][INFO] step {step} loss {some.random():.4f} lr 3.0e-04 tokens/s {speed}")
    if rank == culprit:
        return "\n".join(lines) + "\n" + TRACEBACK
    lines.append(
        f"[rank{rank}]:[E504 10:22:11.{some.randrange(10**6):06d} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=4021, OpType=ALLREDUCE, NumelIn=1048576, "
        "NumelOut=1048576, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", type=int, nargs="*", default=[512, 2048, 10_000])
    print("| logs | seconds | memory of the largest process | named |\n|---|---|---|---|")
    for ranks in parser.parse_args().ranks:
        with tempfile.TemporaryDirectory() as folder:
            culprit = ranks // 3
            for rank in range(ranks):
                Path(folder, f"rank{rank}.log").write_text(log(rank, ranks, culprit))
            began = time.monotonic()
            command = [sys.executable, "-m", "keepstep", "why", "--json", "--no-kernel-log", folder]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)["findings"]
            took = time.monotonic() - began
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        named = "the culprit" if found and found[0]["ranks"] == [culprit] else "WRONG"
        print(f"| {ranks:,} | {took:.1f} | {most:.0f} MB | {named} |", flush=True)


if __name__ == "__main__":
    main()

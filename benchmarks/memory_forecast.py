# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check memory` forecasts for programs in the idiom of others, against what a GPU then measures.

    PYTHONPATH=src python -m benchmarks.memory_forecast [--device h200] [--json FILE]

Programs of others, fetched and not kept here, are in ``benchmarks/memory_strangers`` (its ``series.py`` says how).
Needs torch alone. Without a GPU only the forecasts are printed. The programs are in ``benchmarks/memory_programs``;
nothing in keepstep was tuned to their sizes before the first measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.memory_strangers import series
from keepstep.check.memory.devices import device_named
from keepstep.check.memory.forecast import forecast
from keepstep.check.memory.try_script import try_script
from keepstep.cluster.launch_line import LaunchLine

PROGRAMS = Path(__file__).parent / "memory_programs"
CASES = {
    "plain loop, Adam, dropout": "mlp.py",
    "GPT float32, AdamW": "gpt.py --batch-size 8",
    "GPT autocast bf16, dropout": "gpt.py --precision autocast --batch-size 24 --dropout 0.1",
    "GPT bf16, fused, accumulate 4": "gpt.py --precision bfloat16 --batch-size 8 --accumulate 4 --fused",
    "GPT checkpointed, autocast": "gpt.py --precision autocast --checkpoint --batch-size 32 --layers 24",
    "GPT own attention, float32": "gpt.py --plain-attention --batch-size 8",
    "residual net, SGD": "convnet.py",
    "residual net, fp16 scaler": "convnet.py --amp --batch-size 192",
    "encoder, DDP of one rank": "encoder_ddp.py",
}
LIMIT_S = 240.0
MEASURE = """
import json, runpy, sys
path = sys.argv[1]
sys.argv = sys.argv[1:]
runpy.run_path(path, run_name="__main__")
import torch
free, total = torch.cuda.mem_get_info()
reserved = torch.cuda.memory_reserved()
seen = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "total": total}
seen |= {"beside": total - free - reserved, "name": torch.cuda.get_device_name()}
print("MEASURED " + json.dumps(seen))
"""
ONE_RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}


def measured(words: list[str]) -> dict[str, Any] | None:
    """The same program on the GPU here; None without one, or if it fails."""
    command = [sys.executable, "-c", MEASURE, str(PROGRAMS / words[0]), *words[1:]]
    env = {**os.environ, **ONE_RANK, "MASTER_PORT": "29511"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=LIMIT_S)
    for line in done.stdout.splitlines():
        if line.startswith("MEASURED "):
            found: dict[str, Any] = json.loads(line.removeprefix("MEASURED "))
            return found
    print(done.stderr[-1500:], file=sys.stderr)
    return None


def has_gpu() -> bool:
    asks = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", asks], capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--json", help="also write the numbers here")
    parser.add_argument("--strangers", choices=("forecast", "measure", "limits", "compare"), help="programs of others")
    parser.add_argument("--programs", type=Path, default=Path(".strangers"), help="where they were fetched to")
    parser.add_argument("--jobs", type=int, default=1, help="measure so many at once")
    parser.add_argument("files", nargs="*", help="to compare: forecasts, measurements")
    asked = parser.parse_args()
    if asked.strangers:
        series.main(asked, device_named(asked.device))
        return
    device, gpu, rows, errors = device_named(asked.device), has_gpu(), [], []
    print(f"{'MiB':32}{'forecast':>19}{'measured':>19}{'error':>14}{'time':>8}")
    print(f"{'':32}{'alloc.  reserved':>19}{'alloc.  reserved':>19}{'alloc. res.':>14}")
    for name, text in CASES.items():
        if asked.only not in name:
            continue
        words, begun = text.split(), time.monotonic()
        line = LaunchLine(python=sys.executable, script=str(PROGRAMS / words[0]), arguments=tuple(words[1:]), ranks=1)
        tried = try_script(line, device, 1, LIMIT_S)
        took = time.monotonic() - begun
        if tried.seen.get("ended") != "steps":
            print(f"{name:32} {tried.why or tried.seen.get('error')}", *tried.said[-3:], sep="\n    ")
            continue
        made = forecast(tried.seen, device, 1)
        real = measured(words) if gpu else None
        row = {"case": name, "allocated": made.allocated, "reserved": made.reserved, "low": made.low, "high": made.high}
        row |= {"parts": dict(made.parts), "lines": made.lines, "took_s": took, "measured": real}
        rows.append(row)
        line_ = f"{name:32}{made.allocated >> 20:>9,}{made.reserved >> 20:>10,}"
        if real is not None:
            off = [made.allocated / real["allocated"] - 1, made.reserved / real["reserved"] - 1]
            errors.append(abs(off[1]))
            line_ += f"{real['allocated'] >> 20:>9,}{real['reserved'] >> 20:>10,}{off[0]:>+7.1%}{off[1]:>+7.1%}"
            line_ += f"{took:>7.1f}s  beside {real['beside'] >> 20:,} of {real['total'] >> 20:,}"
        else:
            line_ += f"{'':33}{took:>7.1f}s"
        print(line_, flush=True)
    if errors:
        print(f"error of the reserved peak: median {statistics.median(errors):.1%}, worst {max(errors):.1%}")
    if asked.json:
        Path(asked.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

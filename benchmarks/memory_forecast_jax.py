# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check memory` forecasts for JAX programs, against what is then measured.

    PYTHONPATH=src python -m benchmarks.memory_forecast_jax [--device h200] [--json FILE] [--cpu]

Needs jax and numpy alone. With a GPU the measure is `peak_bytes_in_use` of the device. With ``--cpu`` smaller programs
run on the CPU, and the measure is the peak of the resident set less what it was before the program: another
compiler's plan, so this says that the order of magnitude is right, not more. Nothing was tuned to these programs.
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

from keepstep.check.memory.devices import device_named
from keepstep.check.memory.forecast_of_programs import forecast_of_programs
from keepstep.check.memory.try_script import try_script
from keepstep.cluster.launch_line import LaunchLine

PROGRAMS = Path(__file__).parent / "memory_programs_jax"
CASES = {
    "GPT float32, scanned": "gpt.py",
    "GPT float32, unrolled": "gpt.py --unrolled",
    "GPT float32, not donated": "gpt.py --not-donated",
    "GPT float32, remat": "gpt.py --remat --batch-size 16",
    "GPT bf16, scanned": "gpt.py --dtype bfloat16 --batch-size 16",
    "GPT bf16, unrolled, remat": "gpt.py --dtype bfloat16 --unrolled --remat --batch-size 16",
    "GPT bf16, jax.nn attention": "gpt.py --dtype bfloat16 --fused-attention --batch-size 16",
    "residual net float32": "convnet.py --batch-size 256",
    "residual net bf16": "convnet.py --dtype bfloat16 --batch-size 512",
    "wide layers, two programs": "mlp.py",
}
ON_CPU = {
    "GPT float32, unrolled": "gpt.py --unrolled --layers 4 --width 256 --heads 8 --length 512 --vocabulary 8000",
    "GPT float32, remat": "gpt.py --remat --layers 8 --width 256 --heads 8 --length 512 --vocabulary 8000",
    "residual net float32": "convnet.py --batch-size 16 --size 128 --width 32",
    "wide layers, two programs": "mlp.py --width 1024 --layers 6 --batch-size 4096",
}
LIMIT_S = 280.0
MEASURE = """
import json, resource, runpy, sys
import jax
jax.numpy.zeros(3).block_until_ready()
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
device = jax.devices()[0]
stats = device.memory_stats() or {}
seen = {"peak": stats.get("peak_bytes_in_use"), "limit": stats.get("bytes_limit"), "kind": device.device_kind}
seen["resident"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
seen["jax"] = jax.__version__
print("MEASURED " + json.dumps(seen))
"""


def measured(words: list[str], on_cpu: bool) -> dict[str, Any] | None:
    """The same program for real; None if it fails or takes too long."""
    command = [sys.executable, "-c", MEASURE, str(PROGRAMS / words[0]), *words[1:]]
    env = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **({"JAX_PLATFORMS": "cpu"} if on_cpu else {})}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    for line in done.stdout.splitlines():
        if line.startswith("MEASURED "):
            found: dict[str, Any] = json.loads(line.removeprefix("MEASURED "))
            return found
    print(done.stderr[-1500:], file=sys.stderr)
    return None


def has_gpu() -> bool:
    asks = "import jax; raise SystemExit(jax.default_backend() != 'gpu')"
    return subprocess.run([sys.executable, "-c", asks], capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--cpu", action="store_true", help="measure small programs on the CPU")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--json", help="also write the numbers here")
    asked = parser.parse_args()
    device, rows, errors = device_named(asked.device), [], []
    measures = asked.cpu or has_gpu()
    print(f"{'MiB':30}{'arrays':>8}{'forecast':>10}{'low':>8}{'high':>8}{'measured':>10}{'error':>8}{'time':>8}")
    for name, text in (ON_CPU if asked.cpu else CASES).items():
        if asked.only not in name:
            continue
        words, begun = text.split(), time.monotonic()
        line = LaunchLine(python=sys.executable, script=str(PROGRAMS / words[0]), arguments=tuple(words[1:]))
        tried = try_script(line, device, 1, LIMIT_S)
        took = time.monotonic() - begun
        if tried.seen.get("ended") != "steps":
            print(f"{name:30} {tried.why or tried.seen.get('error')}", *tried.said[-3:], sep="\n    ")
            continue
        made = forecast_of_programs(tried.seen, device, 1)
        real = measured(words, asked.cpu) if measures else None
        row = {"case": name, "forecast": made.allocated, "low": made.low, "high": made.high, "lines": made.lines}
        rows.append({**row, "parts": dict(made.parts), "took_s": took, "measured": real, "jax": tried.seen["jax"]})
        held = dict(made.parts).get("arrays held", 0)
        shown = f"{name:30}{held >> 20:>8,}{made.allocated >> 20:>10,}{made.low >> 20:>8,}{made.high >> 20:>8,}"
        if real is not None:
            truth = real["resident"] if asked.cpu else real["peak"]
            errors.append(made.allocated / truth - 1)
            shown += f"{truth >> 20:>10,}{errors[-1]:>+8.1%}"
        else:
            shown += f"{'':18}"
        print(f"{shown}{took:>7.1f}s", flush=True)
    if errors:
        sizes = [abs(each) for each in errors]
        print(f"error: median {statistics.median(sizes):.1%}, worst {max(sizes):.1%}")
    if asked.json:
        Path(asked.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""How fast PyTorch's fingerprints read parameters, against the memory's bandwidth, and how often they are affordable.

The same sums as in the guard, over tensors of a transformer's shapes, on the GPU where there is one. The bandwidth is
that of a copy within the device's memory: the bytes that it reads and those that it writes.

    python -m benchmarks.fingerprint_speed --gigabytes 4
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

from keepstep.guard.adapters.torch.numbers.sums import Sums
from keepstep.guard.agree.fingerprints import MOST_SHARE

BAR = 0.7
TURNS = 9
LAYERS = ((4096, 4096), (4096, 4096), (11008, 4096), (4096, 11008), (4096,), (4096,))


def seconds(torch: Any, device: str, call: Callable[[], Any]) -> tuple[float, float]:
    """Medians: on the device, and of the host until the call returns."""
    taken, host = [], []
    for turn in range(TURNS + 2):
        if device == "cuda":
            torch.cuda.synchronize()
            began, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
        at = time.perf_counter()
        call()
        until = time.perf_counter()
        if device == "cuda":
            done.record()
            torch.cuda.synchronize()
        if turn > 1:  # the first ones warm up
            host.append(until - at)
            taken.append(began.elapsed_time(done) / 1e3 if device == "cuda" else until - at)
    return statistics.median(taken), statistics.median(host)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.5, help="of parameters (0.5)")
    asked = parser.parse_args()
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else f"processor, {torch.get_num_threads()} threads"
    size = int(asked.gigabytes * 1e9)
    print(f"torch {torch.__version__}, {name}\n")
    one = torch.empty(size // 2, dtype=torch.uint8, device=device).random_()
    other = torch.empty_like(one)
    copy_s, _ = seconds(torch, device, functools.partial(other.copy_, one))
    bandwidth = 2 * one.nbytes / copy_s / 1e9
    del one, other
    print("| parameters | tensors | by | GB/s | copy, GB/s | share | bar | on the device | host | affordable every |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in (torch.float32, torch.bfloat16):
        tensors: list[Any] = []
        while sum(each.nbytes for each in tensors) < size:
            tensors += [torch.randn(shape, device=device).to(kind) for shape in LAYERS]
        total = sum(each.nbytes for each in tensors)
        sums = Sums(torch)
        for by_column in (False, True):
            taken_s, host_s = seconds(torch, device, functools.partial(sums.of, tensors, by_column=by_column))
            rate = total / taken_s / 1e9
            every_s = max(taken_s, host_s) / MOST_SHARE
            print(
                f"| {total / 1e9:.2f} GB {str(kind).rpartition('.')[2]} | {len(tensors)} | "
                f"{'columns' if by_column else 'rows'} | {rate:,.0f} | {bandwidth:,.0f} | {rate / bandwidth:.0%} | "
                f">= {BAR:.0%} | {taken_s * 1e3:.2f} ms | {host_s * 1e3:.2f} ms | {every_s:.1f} s |"
            )


if __name__ == "__main__":
    main()

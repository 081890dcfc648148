# SPDX-License-Identifier: Apache-2.0
"""What `nvidia-smi topo -m` and `nvidia-smi nvlink -s` print: which link joins two GPUs, and what an NVLink gives."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU(\d{1,4})")
_HEAD = re.compile(r"GPU (\d{1,4}):")
_RATE = re.compile(r"\s*Link \d{1,3}: (\d{1,6}(?:\.\d{1,6})?) GB/s")


def links_of_gpus(text: str) -> dict[tuple[int, int], str]:
    """``NV18``, ``PIX``, ``SYS`` ... by the numbers of two GPUs."""
    found: dict[tuple[int, int], str] = {}
    columns: list[int] = []
    for line in _ESCAPE.sub("", text).splitlines():
        words = line.split()
        numbers = [int(each[1]) for word in words if (each := _GPU.fullmatch(word))]
        if numbers and not columns:
            columns = numbers
        elif numbers and _GPU.match(line):
            for other, word in zip(columns, words[1:], strict=False):
                if word != "X":
                    found[numbers[0], other] = word
    return found


def nvlink_rates(text: str) -> dict[int, float]:
    """Bytes a second of one NVLink of each GPU: of its slowest that is up."""
    found: dict[int, float] = {}
    gpu = None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            gpu = int(head[1])
        elif gpu is not None and (rate := _RATE.match(line)):
            each = float(rate[1]) * 1e9
            found[gpu] = min(each, found.get(gpu, each))
    return found

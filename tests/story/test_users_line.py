# SPDX-License-Identifier: Apache-2.0
"""A message inside a traceback is told with the user's own line, whichever rule reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.explained import findings

LIBRARY = "/opt/venv/lib/python3.11/site-packages/torch/cuda/__init__.py"
MESSAGES = {
    "ENV001": "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
    "RES001": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "79.15 GiB of which 1.11 GiB is free.",
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_the_reason_has_the_line(tmp_path: Path, message: str) -> None:
    log = f"""Traceback (most recent call last):
  File "/home/me/train.py", line 60, in <module>
    main()
  File "/home/me/train.py", line 51, in main
    model = model.to("cuda")
  File "{LIBRARY}", line 412, in _lazy_init
    torch._C._cuda_init()
{message}
"""
    root = findings(tmp_path, rank0=log)[0]
    assert "train.py:51, in main()" in f"{root.title} {root.because}"


def test_without_a_traceback_there_is_no_line(tmp_path: Path) -> None:
    root = findings(tmp_path, rank0=MESSAGES["ENV001"])[0]
    assert root.rule == "ENV001" and ".py" not in f"{root.title} {root.because}"

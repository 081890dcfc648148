# SPDX-License-Identifier: Apache-2.0
"""What torch_xla's processes say."""

from __future__ import annotations

import pytest

from keepstep.model.facts.platform import TpuInitFailed
from keepstep.parse.tools.xla import torch_xla as table


@pytest.mark.parametrize(("module", "count"), [("torch_xla/_internal/pjrt", 1), ("pool/start", 0)])
def test_a_pool_of_no_processes_is_a_host_without_devices(module, count, read):
    text = f"""  File "/usr/lib/python3.10/site-packages/{module}.py", line 169, in run_multiprocess
    with concurrent.futures.ProcessPoolExecutor(
  File "/usr/lib/python3.10/concurrent/futures/process.py", line 611, in __init__
    raise ValueError("max_workers must be greater than 0")
ValueError: max_workers must be greater than 0
"""
    assert [type(fact) for fact in read(table, text)] == [TpuInitFailed] * count

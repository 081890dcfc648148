# SPDX-License-Identifier: Apache-2.0
"""Objects that ranks send each other and cannot read."""

from __future__ import annotations

import pytest

from keepstep.model.facts.sync import CollectiveMismatch
from keepstep.parse.tools.torch import object_collectives
from tests.parse.reading import reader

read = reader(object_collectives)

LOADING = '  File "/srv/torch/distributed/distributed_c10d.py", line 2309, in _tensor_to_object\n'
CODE = "    return _unpickler(io.BytesIO(buf)).load()\n"
SIZING = '  File "/srv/torch/distributed/distributed_c10d.py", line 2650, in broadcast_object_list\n    object_tensor = torch.empty(\n'


@pytest.mark.parametrize(
    "text",
    [
        LOADING + CODE + "EOFError: Ran out of input",
        CODE + "           ^^^^^\n  EOFError: Ran out of input",
        LOADING + CODE + "_pickle.UnpicklingError: invalid load key, '\\x00'.",
        LOADING + CODE + "[rank1]: _pickle.UnpicklingError: pickle data was truncated",
        SIZING
        + "RuntimeError: Trying to create tensor with negative dimension -4611686018427387904: [-4611686018427387904]",
        SIZING + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.",
    ],
)
def test_what_is_no_object_or_no_size_shows_ranks_out_of_step(text):
    assert [type(fact) for fact in read(text)] == [CollectiveMismatch]


@pytest.mark.parametrize(
    "text",
    [
        LOADING + CODE + "ModuleNotFoundError: No module named 'mine'",
        SIZING + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        SIZING + "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1, unhandled cuda error",
    ],
)
def test_other_ends_of_such_calls_do_not(text):
    assert read(text) == []

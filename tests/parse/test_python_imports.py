# SPDX-License-Identifier: Apache-2.0
"""Modules that do not fit each other or this CPU."""

from __future__ import annotations

import pytest

from keepstep.model.facts.environment import SymbolMissing
from keepstep.parse.tools.python import imports as table


@pytest.mark.parametrize(
    ("said", "count"), [("TypeError: __init__() got an unexpected keyword argument 'syntax'", 1), ("ImportError: x", 0)]
)
def test_a_module_of_protobufs_compiler_that_raises_meets_another_runtime(said, count, read):
    text = f'  File "/site-packages/tensorflow/core/framework/tensor_shape_pb2.py", line 22, in <module>\n    serialized_pb=_b("")\n{said}\n'
    assert read(table, text) == [SymbolMissing(library="protobuf")] * count

# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled at run time: shared caches, and compilers that do not fit."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import CudaMismatch, LibraryMissing, UnsupportedCombination
from keepstep.core.facts.sync import SharedStateRace
from keepstep.parse.tools.system import linker
from keepstep.parse.tools.torch import compiled_kernels
from tests.parse.reading import reader

read = reader(compiled_kernels)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "torch._inductor.exc.InductorError: ImportError: /root/.triton/cache/XU5D/cuda_utils.cpython-310.so: cannot read file data: Stale file handle",
            SharedStateRace,
        ),
        ("ImportError: /home/u/.triton/cache/abc/cuda_utils.so: file too short", SharedStateRace),
        ("OSError: /tmp/torchinductor_u/ab/cab.so: invalid ELF header", SharedStateRace),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/root/.triton/cache/5eba/triton_.cubin.tmp.pid_93828_100098'",
            SharedStateRace,
        ),
        (
            "OSError: [Errno 16] Device or resource busy: '/root/.triton/cache/tmp/cuda_utils.so' -> '/root/.triton/cache/cuda_utils.so'",
            SharedStateRace,
        ),
        (
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nJSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            SharedStateRace,
        ),
        (
            "torch._inductor.exc.InductorError: JSONDecodeError: Extra data: line 1 column 184 (char 183)",
            SharedStateRace,
        ),
        (
            "ImportError: cannot import name 'AttrsDescriptor' from 'triton.backends.compiler' (/x/compiler.py)",
            CudaMismatch,
        ),
        ("AttributeError: module 'triton.language' has no attribute 'reduce'", CudaMismatch),
        ("RuntimeError: 0 active drivers ([]). There should only be one.", CudaMismatch),
        (
            "RuntimeError: Found Tesla P100-PCIE-16GB which is too old to be supported by the triton GPU compiler, which is used as the backend.",
            CudaMismatch,
        ),
        (
            "torch._dynamo.exc.Unsupported: CollectiveFunctionRewriteVariable can't support async_op=True for <function all_gather_into_tensor>",
            UnsupportedCombination,
        ),
        ("RuntimeError: Cannot find a working triton installation. More information", LibraryMissing),
        ("RuntimeError: Failed to find C compiler. Please specify via CC environment variable.", LibraryMissing),
    ],
)
def test_the_words_give_the_fact(text, kind):
    assert any(isinstance(fact, kind) for fact in read(text))


@pytest.mark.parametrize(
    "text",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: '/opt/lib/triton/backends/nvidia/bin/ptxas'",
        "ImportError: cannot import name 'Trainer' from 'transformers' (/x/__init__.py)",
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nTypeError: unsupported operand",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "OSError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
    ],
)
def test_other_words_give_nothing(text):
    assert read(text) == []


def test_a_cached_kernel_is_no_missing_library():
    assert reader(linker)("ImportError: /home/u/.triton/cache/abc/cuda_utils.so: file too short") == []

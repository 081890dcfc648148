# SPDX-License-Identifier: Apache-2.0
"""Modules that do not fit each other or this CPU."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import CpuInstructionMissing, LibraryMissing, SymbolMissing, VersionConflict
from keepstep.parse.tools.python import imports as table

WORDINGS = [
    (
        "ValueError: numpy.ndarray size changed, may indicate binary incompatibility. Expected 88 from C header, got 80 from PyObject",
        SymbolMissing,
        {"library": "numpy.ndarray"},
    ),
    (
        "RuntimeError: module compiled against API version 0xe but this version of numpy is 0xd",
        SymbolMissing,
        {"library": "numpy"},
    ),
    ("TypeError: Descriptors cannot not be created directly.", SymbolMissing, {"library": "protobuf"}),
    (
        "TypeError: Descriptors should not be created directly, but only retrieved",
        SymbolMissing,
        {"library": "protobuf"},
    ),
    (
        "Detected incompatible Protobuf Gencode/Runtime versions when loading a.proto",
        SymbolMissing,
        {"library": "protobuf"},
    ),
    (
        "TypeError: __new__() got an unexpected keyword argument 'serialized_options'",
        SymbolMissing,
        {"library": "protobuf"},
    ),
    (
        "ImportError: cannot import name 'runtime_version' from 'google.protobuf'",
        SymbolMissing,
        {"library": "protobuf"},
    ),
    (
        "The TensorFlow library was compiled to use AVX instructions, but these aren't available on your machine.",
        CpuInstructionMissing,
        {"detail": "AVX"},
    ),
    ("RuntimeError: Version mismatch: The cluster was started with:", VersionConflict, {}),
    (
        "One possible root cause is the client and server binaries are not built with the same version.",
        VersionConflict,
        {"component": "TensorFlow"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeWarning: numpy.ufunc size changed, may indicate binary incompatibility. Expected 192 from C header, got 216 from PyObject",
        "Your CPU supports instructions that this TensorFlow binary was not compiled to use: AVX2 FMA",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


FURTHER = [
    (
        "Error: mkl-service + Intel(R) MKL: MKL_THREADING_LAYER=INTEL is incompatible with libgomp.so.1 library.",
        SymbolMissing,
        {"library": "libgomp.so.1"},
    ),
    (
        "OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.",
        SymbolMissing,
        {},
    ),
    (
        "RuntimeError: operator torchvision::nms does not exist",
        SymbolMissing,
        {"library": "torchvision"},
    ),
    (
        "ModuleNotFoundError: No module named 'amp_C'",
        LibraryMissing,
        {"name": "amp_C"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


FURTHER_NEAR = [
    "ModuleNotFoundError: No module named 'my_project'",
]


@pytest.mark.parametrize("text", FURTHER_NEAR)
def test_a_further_near_miss_says_nothing(text, read):
    assert read(table, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "TypeError: code() takes at most 15 arguments (16 given)",
        "TypeError: code expected at most 16 arguments, got 18",
        "SystemError: unknown opcode",
        "ValueError: bad marshal data (unknown type code)",
    ],
)
def test_a_function_pickled_by_another_python_tells_of_two_versions(text, read, holds):
    assert holds(read(table, text), VersionConflict)


@pytest.mark.parametrize(
    ("said", "count"), [("TypeError: __init__() got an unexpected keyword argument 'syntax'", 1), ("ImportError: x", 0)]
)
def test_a_module_of_protobufs_compiler_that_raises_meets_another_runtime(said, count, read):
    text = f'  File "/site-packages/tensorflow/core/framework/tensor_shape_pb2.py", line 22, in <module>\n    serialized_pb=_b("")\n{said}\n'
    assert read(table, text) == [SymbolMissing(library="protobuf")] * count

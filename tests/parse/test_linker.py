# SPDX-License-Identifier: Apache-2.0
"""The dynamic loader's words."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import GpuLibrariesMissing, LibraryMissing, SymbolMissing
from keepstep.parse.tools.system import linker as table

WORDINGS = [
    (
        "python: Relink `/lib/libsystemd.so.0' with `/lib/librt.so.1' for IFUNC symbol `clock_gettime'",
        SymbolMissing,
        {"symbol": "clock_gettime", "library": "libsystemd.so.0"},
    ),
    ("(unable to get root cause for java.lang.NoClassDefFoundError)", LibraryMissing, {"name": "Hadoop's classes"}),
    ("  (0) Not found: ./bin/ptxas not found", LibraryMissing, {"name": "ptxas", "fatal": True}),
    (
        "OP_REQUIRES failed at xla_ops.cc:590 : UNAVAILABLE: No PTX compilation provider is available. Neither ptxas/nvlink nor",
        LibraryMissing,
        {"fatal": True},
    ),
    (
        "InternalError: libdevice not found at ./libdevice.10.bc [Op:__inference_train_function_1]",
        LibraryMissing,
        {"name": "libdevice.10.bc"},
    ),
    (
        "orted: error while loading shared libraries: libopen-rte.so.40: cannot open shared object file: No such file",
        LibraryMissing,
        {"name": "libopen-rte.so.40", "fatal": True},
    ),
    (
        "OSError: libcudart.so.12: cannot open shared object file: No such file or directory",
        LibraryMissing,
        {"name": "libcudart.so.12", "fatal": True},
    ),
    (
        "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file",
        LibraryMissing,
        {"fatal": False},
    ),
    (
        "NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory",
        LibraryMissing,
        {"fatal": False},
    ),
    (
        "ImportError: /usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /opt/x.so)",
        SymbolMissing,
        {"symbol": "GLIBCXX_3.4.29", "library": "x.so"},
    ),
    (
        "ImportError: /x/fused_adam.so: undefined symbol: _ZN3c104cuda",
        SymbolMissing,
        {"symbol": "_ZN3c104cuda", "library": "fused_adam.so"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "dlopen of libfoo.so succeeded",
        "n:1:2 [1] NCCL INFO dlvsym failed on mlx5dv_reg_dmabuf_mr - libmlx5.so: undefined symbol: mlx5dv_reg_dmabuf_mr, version MLX5_1.25",
        "W redzone_allocator.cc:312] Not found: ./bin/ptxas not found",
        "NCCL WARN Failed to open libibverbs.so[.1]",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


def test_gpu_libraries_that_tensorflow_gave_up_are_told(read):
    text = "gpu_device.cc:1592] Cannot dlopen some GPU libraries. Please make sure the missing libraries"
    assert any(isinstance(fact, GpuLibrariesMissing) for fact in read(table, text))


def test_a_library_that_memory_did_not_suffice_for_is_not_missing():
    text = (
        "ImportError: DLL load failed while importing _x: The paging file is too small for this operation to complete."
    )
    assert not [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def test_a_library_that_tensorflow_wants_on_windows_is_named(read):
    text = (
        "ImportError: Could not find 'cudart64_90.dll'. TensorFlow requires that this DLL be installed in a directory"
    )
    assert [fact.name for fact in read(table, text)] == ["cudart64_90.dll"]

# SPDX-License-Identifier: Apache-2.0
"""Libraries, drivers and versions that do not fit."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.core.finding import Finding


def findings(folder: Path, **logs: str) -> tuple[Finding, ...]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report.findings


def root(folder: Path, **logs: str) -> str | None:
    found = findings(folder, **logs)
    return found[0].cause.value if found else None


STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))

SEGFAULT = (
    "[box:7] *** Process received signal ***\n"
    "[box:7] Signal: Segmentation fault (11)\n"
    "[box:7] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x3efd0)[0x7f1b4c72ff20]\n"
    "[box:7] [ 1] /opt/site-packages/%s(+0x7a1d0)[0x7f1a0e81ac00]\n"
    "[box:7] [ 2] /opt/site-packages/tensorflow/python/../libtensorflow_framework.so.1(_ZN3Run+0x4d)[0x7f1a5d20835d]\n"
    "[box:7] *** End of error message ***\n"
)


def test_an_extension_that_crashes_under_the_framework_does_not_fit_it(tmp_path):
    assert root(tmp_path, log=SEGFAULT % "horovod/tensorflow/mpi_lib.so") == "env.abi_or_cpu_instruction"


def test_a_crash_inside_the_framework_is_not_said_to_be_the_abi(tmp_path):
    assert root(tmp_path, log=SEGFAULT % "tensorflow/libtensorflow_cc.so.2") != "env.abi_or_cpu_instruction"


def test_a_missing_symbol_of_an_extension_is_its_abi(tmp_path):
    text = "ImportError: /x/fused_adam.so: undefined symbol: _ZN3c104cuda20CUDACachingAllocator9allocatorE\n"
    assert root(tmp_path, log=text) == "env.abi_or_cpu_instruction"


def test_a_missing_symbol_of_a_cuda_library_is_a_cuda_mismatch(tmp_path):
    text = "ImportError: /x/libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12\n"
    assert root(tmp_path, log=text) == "env.framework_cuda_mismatch"


def test_an_old_driver_is_a_cuda_mismatch(tmp_path):
    text = "Cuda failure common.cu:891 'CUDA driver version is insufficient for CUDA runtime version'\n"
    assert root(tmp_path, log=text) == "env.framework_cuda_mismatch"


def test_a_library_that_is_only_tried_is_no_finding(tmp_path):
    text = "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file\n"
    assert root(tmp_path, log=text + STEPS) is None


def test_a_missing_library_is_named(tmp_path):
    text = "orted: error while loading shared libraries: libopen-rte.so.40: cannot open shared object file: No such file\n"
    found = findings(tmp_path, log=text)
    assert found[0].cause.value == "env.missing_shared_library"
    assert "libopen-rte.so.40" in found[0].title


def test_an_illegal_instruction_is_the_cpu(tmp_path):
    text = "E1 api.py:1002] failed (exitcode: -4) local_rank: 1 (pid: 6031) of binary: /usr/bin/python\n"
    assert root(tmp_path, log=text) == "env.abi_or_cpu_instruction"


def test_versions_that_refuse_each_other_are_told(tmp_path):
    text = "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.12.0\n"
    assert root(tmp_path, log=text) == "env.version_mismatch_between_nodes"

# SPDX-License-Identifier: Apache-2.0
"""Incompatible libraries, drivers and versions."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding


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
    text = (
        "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared "
        "object file\n"
    )
    assert root(tmp_path, log=text + STEPS) is None


def test_a_missing_library_is_named(tmp_path):
    text = (
        "orted: error while loading shared libraries: libopen-rte.so.40: cannot open shared object file: No such file\n"
    )
    found = findings(tmp_path, log=text)
    assert found[0].cause.value == "env.missing_shared_library"
    assert "libopen-rte.so.40" in found[0].title


def test_an_illegal_instruction_is_the_cpu(tmp_path):
    text = "E1 api.py:1002] failed (exitcode: -4) local_rank: 1 (pid: 6031) of binary: /usr/bin/python\n"
    assert root(tmp_path, log=text) == "env.abi_or_cpu_instruction"


def test_versions_that_refuse_each_other_are_told(tmp_path):
    text = "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.12.0\n"
    assert root(tmp_path, log=text) == "env.version_mismatch_between_nodes"


LACKS = """warmup version 1.4.2
Traceback (most recent call last):
  File "/srv/app/train.py", line 29, in main
    scale = warmup.scale(step)
AttributeError: module 'warmup' has no attribute 'scale'
"""


def test_a_rank_that_lacks_a_name_of_a_package_of_another_version_is_told(tmp_path):
    assert root(tmp_path, rank0="warmup version 2.1.0\n", rank1=LACKS) == "env.version_mismatch_between_nodes"


def test_the_same_version_everywhere_leaves_it_to_the_program(tmp_path):
    assert root(tmp_path, rank0="warmup version 1.4.2\n", rank1=LACKS) == "user.code_exception"


def test_versions_of_any_package_that_differ_are_no_finding_by_themselves(tmp_path):
    assert root(tmp_path, rank0="tokenizer version 2.1.0\n", rank1="tokenizer version 1.4.2\n") is None


def test_one_rank_of_several_with_another_version_of_a_package_is_a_warning(tmp_path):
    same = "tokenizer version 2.1.0\nstep 1 loss 2.3\n"
    found = findings(tmp_path, rank0=same, rank1=same.replace("2.1.0", "1.4.2"), rank2=same)
    assert [(f.cause.value, f.ranks, f.severity.value) for f in found] == [
        ("env.version_mismatch_between_nodes", (1,), "warning")
    ]


def test_a_rank_without_a_version_or_with_two_of_them_says_nothing_about_the_others(tmp_path):
    same = "tokenizer version 2.1.0\nstep 1 loss 2.3\n"
    assert root(tmp_path, rank0=same, rank1=same.replace("2.1.0", "1.4.2"), rank2="step 1 loss 2.3\n") is None
    assert root(tmp_path, rank0=same, rank1=same, rank2=same + "tokenizer version 1.4.2\n") is None


def test_hadoop_s_classes_are_named_to_libhdfs_and_not_to_the_loader(tmp_path):
    found = findings(tmp_path, log="(unable to get root cause for java.lang.NoClassDefFoundError)\n")

    assert [fix.command for fix in found[0].fixes] == ["export CLASSPATH=$(hadoop classpath --glob)"]


def test_a_compiler_of_cuda_is_not_looked_for_by_the_loader(tmp_path):
    found = findings(tmp_path, log="tensorflow.errors_impl.NotFoundError: ./bin/ptxas not found\n")

    assert all("ldconfig" not in (fix.command or "") for fix in found[0].fixes)


def test_a_log_that_ends_with_a_driver_that_did_not_start_is_told_as_a_warning(tmp_path):
    found = findings(tmp_path, log="E cuda_driver.cc:328] failed call to cuInit: UNKNOWN ERROR (303)\n")

    assert [(each.rule, each.severity.value) for each in found] == [("ENV001", "warning")]


def test_a_driver_that_did_not_start_is_nothing_where_training_goes_on(tmp_path):
    log = "E cuda_driver.cc:328] failed call to cuInit: UNKNOWN ERROR (303)\n"

    assert not findings(tmp_path, log=log + STEPS)


_CUBLAS = (
    "2022-12-27 15:27:14.6: E tensorflow/stream_executor/cuda/cuda_blas.cc:428] failed to run cuBLAS routine: "
    "CUBLAS_STATUS_EXECUTION_FAILED\n"
)
_GEMM = (
    "tensorflow.python.framework.errors_impl.InternalError: Blas GEMM launch failed : a.shape=(4096, 2), "
    "b.shape=(2, 128)\n"
)


def test_a_first_kernel_of_cublas_that_fails_does_not_fit_the_gpu(tmp_path):
    assert root(tmp_path, log=_CUBLAS + _GEMM) == "env.framework_cuda_mismatch"


def test_a_kernel_of_cublas_that_ran_before_fits_the_gpu(tmp_path):
    steps = "".join(f"INFO:tensorflow:global step {n}: loss = 1.5 (1.2 sec/step)\n" for n in range(100, 108))
    assert root(tmp_path, log=steps + _CUBLAS + _GEMM) != "env.framework_cuda_mismatch"


MISFIT = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/e/site-packages/torch/_inductor/runtime/triton_heuristics.py", line 375, in _precompile_config\n'
    "[rank0]:     ASTSource(\n"
    '[rank0]:   File "/e/site-packages/triton/compiler/compiler.py", line 63, in __init__\n'
    "[rank0]:     assert isinstance(k, tuple)\n"
    "[rank0]: AssertionError\n"
)


def test_a_call_of_the_compiler_that_triton_refuses_is_of_another_version(tmp_path):
    (first, *_) = findings(tmp_path, log=MISFIT)
    assert (first.rule, first.cause.value, first.ranks) == ("ENV006", "env.framework_cuda_mismatch", (0,))


def test_an_own_kernel_that_triton_refuses_is_the_program(tmp_path):
    assert (
        root(tmp_path, log=MISFIT.replace("torch/_inductor/runtime/triton_heuristics.py", "mine/kernels.py"))
        == "user.code_exception"
    )


DOUBTED = (
    "2018-03-23 11:55:55.959752: E tensorflow/stream_executor/cuda/cuda_dnn.cc:385] could not create cudnn "
    "handle: CUDNN_STATUS_NOT_INITIALIZED\n"
    "2018-03-23 11:55:55.959905: E tensorflow/stream_executor/cuda/cuda_dnn.cc:393] possibly insufficient "
    "driver version: 384.69.0\n"
    "2018-03-23 11:55:55.959929: F tensorflow/core/kernels/conv_ops.cc:717] Check failed: "
    "stream->parent()->GetConvolveAlgorithms( &algorithms)\n"
    "Aborted (core dumped)\n"
)
NO_MEMORY = (
    "2018-03-23 11:55:50.416159: E tensorflow/stream_executor/cuda/cuda_driver.cc:936] failed to allocate "
    "9.36G (10054249472 bytes) "
    "from device: CUDA_ERROR_OUT_OF_MEMORY\n"
)


def test_a_driver_that_cudnn_doubts_is_too_old_unless_memory_was_lacking_or_it_had_trained(tmp_path):
    for number, (before, wanted) in enumerate([("", True), (NO_MEMORY, False), (STEPS, False)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert (root(folder, log=before + DOUBTED) == "env.framework_cuda_mismatch") is wanted, before


NO_CONTEXT = (
    "2024-02-02 10:00:00.111111: E external/xla/xla/stream_executor/cuda/cuda_driver.cc:268] failed call "
    "to cuDevicePrimaryCtxRetain: "
    "CUDA_ERROR_OUT_OF_MEMORY: out of memory; total memory reported: 16945512448\n"
)
NO_BACKEND = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in <module>\n'
    "    jax.devices()\n"
    "RuntimeError: Unable to initialize backend 'cuda': INTERNAL: no supported devices found for platform CUDA\n"
)


def test_a_gpu_whose_memory_is_taken_is_not_said_to_misfit_jax(tmp_path):
    for number, (before, wanted) in enumerate([("", "env.framework_cuda_mismatch"), (NO_CONTEXT, "resource.gpu_oom")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert root(folder, log=before + NO_BACKEND) == wanted


SKIPPED = (
    "2024-02-02 10:00:00.111111: W external/local_xla/xla/stream_executor/gpu/asm_compiler.cc:1] note\n"
    "2024-02-02 10:00:01.000001: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not "
    "load dynamic library 'libcudnn.so.8'; "
    "dlerror: libcudnn.so.8: cannot open shared object file: No such file or directory\n"
    "2024-02-02 10:00:01.000002: W tensorflow/core/common_runtime/gpu/gpu_device.cc:1850] Cannot dlopen "
    "some GPU libraries. Please make sure the "
    "missing libraries mentioned above are installed properly if you would like to use GPU.\n"
    "Skipping registering GPU devices...\n"
)
NEEDED = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 10, in <module>\n'
    "    run()\n"
    "tensorflow.python.framework.errors_impl.InvalidArgumentError: Cannot assign a device for operation x: "
    "Operation was explicitly assigned to "
    "/device:GPU:0 but available devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ]. Make sure "
    "the device specification refers to a valid device.\n"
)


def test_gpu_libraries_that_are_missing_end_only_what_needs_a_gpu(tmp_path):
    (tmp_path / "on").mkdir()
    (tmp_path / "needs").mkdir()
    on, needs = findings(tmp_path / "on", log=SKIPPED + STEPS), findings(tmp_path / "needs", log=SKIPPED + NEEDED)
    assert not [each for each in on if each.severity.value == "fatal"]
    assert needs[0].cause.value == "env.missing_shared_library" and needs[0].severity.value == "fatal"


NO_DEVICE_OF_TENSORFLOW = (
    "tensorflow.python.framework.errors_impl.InternalError: no supported devices found for platform CUDA\n"
)


def test_nor_is_one_said_to_misfit_tensorflow(tmp_path):
    for number, (before, wanted) in enumerate([("", "env.framework_cuda_mismatch"), (NO_CONTEXT, "resource.gpu_oom")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert root(folder, log=before + NO_DEVICE_OF_TENSORFLOW) == wanted


MADE_NO_HANDLE = (
    "RuntimeError: jaxlib/cusolver.cc:51: operation cusolverDnCreate(&handle) failed: cuSolver internal error\n"
)
RAISED = 'Traceback (most recent call last):\n  File "qr.py", line 4, in <module>\n    q, r = jnp.linalg.qr(a)\n'
TRIED = (
    "2021-10-19 12:49:58.203647: W dso_loader.cc:64] Could not load dynamic library 'libcusolver.so.11'; dlerror: "
    "libcusolver.so.11: cannot open shared object file: No such file or directory\n"
)


def test_a_library_that_was_tried_in_vain_and_then_makes_no_handle_is_missing(tmp_path):
    assert root(tmp_path, log=TRIED + RAISED + MADE_NO_HANDLE) == "env.missing_shared_library"


def test_a_library_that_makes_no_handle_when_a_program_is_built_does_not_fit(tmp_path):
    assert root(tmp_path, log=RAISED + MADE_NO_HANDLE) == "env.framework_cuda_mismatch"


OLD_COMPILER = (
    "W asm_compiler.cc:231] Falling back to the CUDA driver for PTX compilation; ptxas does not support CC 9.0\n"
)


def test_a_log_that_ends_with_a_compiler_too_old_for_the_gpu_tells_of_it(tmp_path):
    assert root(tmp_path, log=OLD_COMPILER) == "env.framework_cuda_mismatch"


def test_a_compiler_too_old_for_the_gpu_is_no_matter_where_training_goes_on(tmp_path):
    assert root(tmp_path, log=OLD_COMPILER + STEPS) is None

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.model.facts.process import FatalSignal, NativeAbort
from keepstep.parse.formats.crash_report import BLOCKS, LAST_WORDS, SIGNATURES
from keepstep.parse.scan.knowledge import build
from keepstep.parse.scan.logscan import LogScan


def facts(text: str) -> list[object]:
    scan = LogScan(build(SIGNATURES, BLOCKS, LAST_WORDS))
    return [s.fact for s in scan.scan([text.encode()]) if type(s.fact).__name__ not in ("StreamEnded", "ErrorSaid")]


@pytest.mark.parametrize(
    ("text", "signal", "pid", "innermost"),
    [
        (
            "*** SIGSEGV received at time=1651234567 on cpu 12 ***\n"
            "PC: @     0x7f8c12345678  (unknown)  (unknown)\n"
            "    @     0x7f8c99990390      32  (unknown)\n"
            "    @     0x7f8c99990400     512  tensorflow::Foo::Compute()\n"
            "    @ ... and at least 4 more frames\n",
            "SIGSEGV",
            None,
            "???",
        ),
        (
            '*** Aborted at 1572533344 (unix time) try "date -d @1572533344" if you are using GNU date ***\n'
            "PC: @     0x7f5c9a1d5390 caffe2::Run()\n"
            "*** SIGSEGV (@0x8) received by PID 27 (TID 0x7f5c) from PID 8; stack trace: ***\n"
            "    @     0x7f5c9a1d5390 caffe2::Run()\n",
            "SIGSEGV",
            27,
            "caffe2::Run()",
        ),
        (
            "*** SIGSEGV (@(nil)), see go/stacktraces#s15 received by PID 160 (TID 3418) on cpu 100; stack trace: ***\n"
            "PC: @     0x7f1c7e14b584  (unknown)  torch_xla::tensor_methods::all_reduce()\n"
            "    @     0x7f1c7e01262f        256  pybind11::cpp_function::dispatcher()\n",
            "SIGSEGV",
            160,
            "???",
        ),
        (
            "*** Signal 11 (SIGSEGV) (0x8) received by PID 123 (pthread TID 0x7f) (linux TID 123), stack trace: ***\n"
            "    @ 0x00000000004 foo::bar()\n",
            "SIGSEGV",
            123,
            "foo::bar()",
        ),
        (
            "[gpu3:224  :0:224] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x18)\n"
            "==== backtrace (tid:    224) ====\n"
            " 0  /opt/ucx/lib/libucs.so.0(ucs_handle_error+0x2e4) [0x7f2723508654]\n"
            " 1  /venv/lib/python3.10/site-packages/torch/lib/libtorch_cpu.so(_ZN2at5indexE+0x1) [0x7f27]\n",
            "SIGSEGV",
            None,
            "ucs_handle_error",
        ),
        (
            "!!!!!!! Segfault encountered !!!!!!!\n"
            '  File "<unknown>", line 0, in __kernel_rt_sigreturn\n'
            '  File "./torch/csrc/foo.cpp", line 0, in c10d::Reducer::mark()\n',
            "SIGSEGV",
            None,
            "__kernel_rt_sigreturn",
        ),
        (
            "==4242==ERROR: AddressSanitizer: SEGV on unknown address 0x000000000008 (pc 0x7f sp 0x7f)\n"
            "    #0 0x7f3b12 in smooth(double*, int) (/job/libmyops.so+0x1119)\n",
            "SIGSEGV",
            4242,
            "smooth(double*, int)",
        ),
        (
            "#  SIGSEGV (0xb) at pc=0x00007f5d1f2b3c4d, pid=991, tid=0x00007f5c\n#\n# Problematic frame:\n"
            "# C  [libhdfs.so+0x1f3c]  hdfsPread+0x1c\n",
            "SIGSEGV",
            991,
            "hdfsPread+0x1c",
        ),
    ],
)
def test_crash_handlers_name_signal_process_and_stack(text: str, signal: str, pid: int | None, innermost: str) -> None:
    crash = next(f for f in facts(text) if isinstance(f, FatalSignal))
    assert (crash.signal, crash.pid, crash.frames[0].function) == (signal, pid, innermost)
    assert all(f.is_native for f in crash.frames)


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        (
            "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: misaligned address\n",
            "c10::Error: CUDA error: misaligned address",
            "std::terminate",
        ),
        ("terminate called after throwing an instance of 'int'\n", "int", "std::terminate"),
        ("terminate called without an active exception\n", "terminate called without an active exception", None),
        ("LLVM ERROR: out of memory\n", "out of memory", None),
        (
            "2019-08-01 10:00:00.123456: F tensorflow/stream_executor/cuda/cuda_dnn.cc:516] Check failed: a == b (3 vs. 0)\n",
            "Check failed: a == b (3 vs. 0)",
            "tensorflow/stream_executor/cuda/cuda_dnn.cc:516",
        ),
        ("F0607 10:10:14.749000   1234 foo.cc:12] Check failed: x > 0\n", "Check failed: x > 0", "foo.cc:12"),
        ("F0000 00:00:1794706860.548906   14522 port.cc:153] no devices\n", "no devices", "port.cc:153"),
        (
            "*** Error in `/usr/bin/python': invalid fastbin entry (free): 0x00007fafdd048f30 ***\n"
            "======= Backtrace: =========\n/lib64/libc.so.6(+0x7d023)[0x7fb1035cd023]\n",
            "invalid fastbin entry (free)",
            None,
        ),
    ],
)
def test_aborts_tell_what_and_where(text: str, what: str, where: str | None) -> None:
    abort = next(f for f in facts(text) if isinstance(f, NativeAbort))
    assert (abort.what, abort.where) == (what, where)


@pytest.mark.parametrize(
    "line",
    [
        "I0607 10:10:14.749000   1234 foo.cc:12] Check passed",
        "2019-08-01 10:00:00.1: I tensorflow/core/platform/cpu_feature_guard.cc:142] Your CPU supports AVX2",
        "E0607 10:10:14.749000   1234 foo.cc:12] Check failed: retrying",
        "dgl._ffi.base.DGLError: [10:00:00] /opt/dgl/src/array.cc:12: Check failed: a == b",
        "*** SIGTERM received at time=1651234567 on cpu 12 ***",
        "uuid F0607AB1 and address 0xF0101 in the listing",
    ],
)
def test_lines_of_healthy_runs_are_no_crash(line: str) -> None:
    assert facts(line + "\n") == []


def test_the_frame_of_a_report_of_the_jvm_is_read_without_its_head() -> None:
    report = (
        "# Problematic frame:\n# C  [_pywrap_tensorflow_internal.so+0x8d2d59e]  tensorflow::data::Reader::Make(int)\n"
    )

    found = [fact for fact in facts(report) if isinstance(fact, NativeAbort)]

    assert [fact.where for fact in found] == ["_pywrap_tensorflow_internal.so"]


def test_the_report_of_tensorflow_is_read() -> None:
    report = (
        "*** Received signal 7 ***\n*** BEGIN MANGLED STACK TRACE ***\n"
        "/opt/venv/lib/python3.10/site-packages/tensorflow/libtensorflow_framework.so.2(+0x1793d31)[0x7fbf52976d31]\n"
        "*** END MANGLED STACK TRACE ***\n"
    )

    (struck,) = (fact for fact in facts(report) if isinstance(fact, FatalSignal))

    assert struck.signal == "SIGBUS"
    assert [frame.library for frame in struck.frames] == ["libtensorflow_framework.so.2"]


def test_a_request_to_stop_is_no_crash_of_tensorflow() -> None:
    assert facts("*** Received signal 15 ***\n") == []

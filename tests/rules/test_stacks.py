# SPDX-License-Identifier: Apache-2.0
"""Rules on stacks, cores and flight recorders, on small hand-made evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

import keepstep.rules
from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import RankDoing
from keepstep.model.facts.process import (
    ExceptionRaised,
    FatalSignal,
    Frame,
    NativeAbort,
    ProcessExited,
    ProcessSeen,
    StackDump,
)
from keepstep.model.facts.sync import NothingRecorded, RecordedCollective
from keepstep.model.finding import Confidence, Finding
from keepstep.model.identity import Rank
from keepstep.model.report import Report, Verdict
from keepstep.model.rule import rules_in
from keepstep.signals.stacks import Whose, whose
from keepstep.signals.waits import WaitKind, waits_in
from keepstep.sources.files.flight_recorder_dumps import read_flight_recorder
from keepstep.story.engine import diagnose

SITE = "/venv/lib/python3.11/site-packages"
DUMPS = Path(__file__).parents[1] / "data" / "flight_recorder"


def py(path: str, function: str = "step", line: int = 10) -> Frame:
    return Frame(function=function, file=path, line=line)


def native(path: str, function: str = "fn") -> Frame:
    return Frame(function=function, file=path, library=path.rpartition("/")[2])


def interpreter(function: str) -> Frame:
    return native("/usr/lib/libpython3.11.so.1.0", function)


SLEEP = (native("/usr/lib/libc.so.6", "clock_nanosleep"), native("/usr/lib/libpython3.11.so.1.0", "time_sleep"))
ALL_REDUCE = (
    native("/usr/lib/libc.so.6", "__futex_abstimed_wait_common64"),
    native(f"{SITE}/torch/lib/libtorch_cpu.so", "c10d::Work::wait(std::chrono::duration<long>)"),
    py(f"{SITE}/torch/distributed/distributed_c10d.py", "all_reduce", 3252),
)
BARRIER = (*ALL_REDUCE[:2], py(f"{SITE}/torch/distributed/distributed_c10d.py", "barrier", 4000))
LEAVING = (*ALL_REDUCE[:2], py(f"{SITE}/torch/distributed/distributed_c10d.py", "destroy_process_group", 2000))


def of(fact: Fact, rank: int | None = None, line: int | None = None, source: str = "run.log") -> Evidence[Fact]:
    who = Rank(index=rank) if rank is not None else None
    return Evidence(fact=fact, origin=Origin(source=source, line=line), rank=who, quote="")


def report(*items: Evidence[Fact]) -> Report:
    found = diagnose(EvidenceSet(items=items), rules_in(keepstep.rules))
    assert found.crashed == ()
    return found


def root(*items: Evidence[Fact]) -> Finding:
    finding = report(*items).root
    assert finding is not None
    return finding


# whose code


@pytest.mark.parametrize(
    ("frame", "owner"),
    [
        (py("/job/train.py"), Whose.USER),
        (py(f"{SITE}/torch/nn/modules/module.py"), Whose.FRAMEWORK),
        (py(f"{SITE}/pandas/io/parquet.py"), Whose.LIBRARY),
        (py("/usr/lib/python3.11/threading.py"), Whose.PYTHON),
        (py("<frozen importlib._bootstrap>"), Whose.PYTHON),
        (py("/src/pytorch/torch/nn/parallel/distributed.py"), Whose.FRAMEWORK),
        (native("/job/libmyops.so", "smooth"), Whose.USER),
        (native("/job/build/my_ext.cpython-311-x86_64-linux-gnu.so"), Whose.USER),
        (native(f"{SITE}/torch/lib/libtorch_cpu.so"), Whose.FRAMEWORK),
        (native(f"{SITE}/nvidia/nccl/lib/libnccl.so.2"), Whose.FRAMEWORK),
        (native(f"{SITE}/pyarrow/libarrow.so.1500"), Whose.LIBRARY),
        (native("/usr/lib/x86_64-linux-gnu/libc.so.6", "strlen"), Whose.SYSTEM),
        (native("/usr/bin/python3.11", "main"), Whose.PYTHON),
        (Frame(function="tensorflow::Foo::Compute()", library=""), Whose.FRAMEWORK),
    ],
)
def test_a_frame_belongs_to_somebody(frame: Frame, owner: Whose) -> None:
    assert whose(frame) is owner


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ((*ALL_REDUCE, py("/job/train.py")), WaitKind.COLLECTIVE),
        ((*LEAVING, py("/job/train.py")), WaitKind.LEAVING),
        ((*SLEEP, py("/job/train.py")), WaitKind.SLEEP),
        ((py("/usr/lib/python3.11/threading.py", "wait"), py("/job/train.py")), WaitKind.LOCK),
        ((py(f"{SITE}/torch/utils/data/dataloader.py", "_try_get_data"), py("/job/train.py")), WaitKind.INPUT),
        ((py(f"{SITE}/jax/_src/distributed.py", "shutdown"),), WaitKind.LEAVING),
        ((py(f"{SITE}/torch/distributed/rpc/api.py", "rpc_sync"), py("/job/train.py")), WaitKind.ANSWER),
        ((py(f"{SITE}/torch/distributed/rpc/__init__.py", "init_rpc"), py("/job/train.py")), WaitKind.MEETING),
        (
            (
                py("/usr/lib/python3.11/cmd.py", "cmdloop"),
                py("/usr/lib/python3.11/pdb.py", "interaction"),
                py("/job/train.py"),
            ),
            WaitKind.PERSON,
        ),
        ((py(f"{SITE}/debugpy/public_api.py", "wait_for_client"), py("/job/train.py")), WaitKind.PERSON),
        (
            (
                interpreter("_io_FileIO_readinto_impl"),
                interpreter("_textiowrapper_readline"),
                interpreter("PyFile_GetLine"),
                py("/job/train.py"),
            ),
            WaitKind.PERSON,
        ),
        (
            (
                interpreter("my_fgets"),
                interpreter("PyOS_StdioReadline"),
                interpreter("PyOS_Readline"),
                py("/job/train.py"),
            ),
            WaitKind.PERSON,
        ),
        (
            (interpreter("_io_FileIO_readinto_impl"), interpreter("_textiowrapper_readline"), py("/job/train.py")),
            WaitKind.FILE,
        ),
        ((py(f"{SITE}/tensorflow/python/eager/execute.py", "quick_execute"), py("/job/train.py")), WaitKind.COLLECTIVE),
    ],
)
def test_frames_tell_what_a_thread_waits_in(frames: tuple[Frame, ...], kind: WaitKind) -> None:
    wait = waits_in(frames)
    assert wait is not None and wait.kind is kind


def test_what_lies_beyond_the_users_line_is_not_what_it_waits_for() -> None:
    assert waits_in((py("/job/train.py", "compute"), *ALL_REDUCE)) is None


# crashes


def test_a_crash_in_the_users_library_is_the_users() -> None:
    frames = (
        native("/usr/lib/libc.so.6", "memcpy"),
        native("/job/libmyops.so", "smooth"),
        py("/job/train.py", "prepare", 3),
    )
    finding = root(of(FatalSignal(signal="SIGSEGV", pid=7, frames=frames), 2))
    assert (finding.cause, finding.ranks, finding.confidence) == (Cause.USER_NATIVE_CRASH, (2,), Confidence.ESTABLISHED)
    assert "smooth (libmyops.so)" in finding.title and "train.py:3" in finding.title


def test_a_ctypes_call_belongs_to_the_line_that_made_it() -> None:
    frames = (py("/usr/lib/python3.11/ctypes/__init__.py", "string_at", 519), py("/job/train.py", "step", 6))
    finding = root(of(FatalSignal(signal="SIGSEGV", frames=frames), 1))
    assert finding.cause is Cause.USER_NATIVE_CRASH
    assert "train.py:6, in step()" in finding.title


def test_a_crash_inside_the_framework_is_the_frameworks() -> None:
    frames = (native(f"{SITE}/torch/lib/libtorch_cpu.so", "at::native::add"), py("/job/train.py", "step", 6))
    finding = root(of(FatalSignal(signal="SIGSEGV", frames=frames), 1))
    assert (finding.cause, finding.confidence) == (Cause.FRAMEWORK_BUG_SEGFAULT, Confidence.SUPPORTED)


@pytest.mark.parametrize(
    "struck", [(py("/usr/lib/python3.11/dataclasses.py", "_init_fn", 485),), (interpreter("_PyEval_EvalFrameDefault"),)]
)
def test_a_package_that_only_called_python_is_not_surely_to_blame(struck: tuple[Frame, ...]) -> None:
    """A `kill -FPE` was reported as a bug of the package whose Python lines happened to run."""
    frames = (*struck, py(f"{SITE}/accelerate/utils/dataclasses.py", "__init__", 60), py("/job/train.py"))
    finding = root(of(FatalSignal(signal="SIGFPE", frames=frames), 1))
    assert finding.confidence is Confidence.HYPOTHESIS
    assert "a signal from another process looks the same" in finding.because


WAITED = (
    native("/usr/lib/libc.so.6", "raise"),
    native("/usr/lib/libc.so.6", "__restore_rt"),
    native("/usr/lib/libc.so.6", "__futex_abstimed_wait_common64"),
    native(f"{SITE}/torch/lib/libtorch_cpu.so", "c10d::Work::wait(std::chrono::duration<long>)"),
    py(f"{SITE}/torch/distributed/distributed_c10d.py", "all_reduce", 3252),
    py("/job/train.py", "step", 22),
)


def test_a_signal_that_hit_a_thread_in_a_system_call_came_from_outside() -> None:
    found = report(of(FatalSignal(signal="SIGSEGV", pid=7, frames=WAITED), 1)).root
    assert found is not None and (found.rule, found.ranks) == ("UNK004", (1,))
    assert found.title == "rank 1 did not crash: it was sent SIGSEGV; nothing shows by whom"
    assert "__futex_abstimed_wait_common64, called from train.py:22" in found.because


def test_a_fault_in_the_framework_under_the_same_handler_is_a_crash() -> None:
    frames = (*WAITED[:2], native(f"{SITE}/torch/lib/libtorch_cpu.so", "at::native::add"), *WAITED[4:])
    found = report(of(FatalSignal(signal="SIGSEGV", pid=7, frames=frames), 1)).root
    assert found is not None and found.rule == "FRW003"


def test_python_lines_that_wait_prove_no_crash_of_the_framework() -> None:
    found = report(of(FatalSignal(signal="SIGSEGV", pid=7, frames=WAITED[4:]), 1)).root
    assert found is not None and (found.rule, found.confidence) == ("FRW003", Confidence.HYPOTHESIS)
    assert "a signal from another process looks the same" in found.because


def test_a_segfault_without_frames_is_a_guess_that_names_the_rank() -> None:
    finding = root(of(ProcessExited(reporter="torchrun", signal="SIGSEGV", rank=3, first=True)))
    assert (finding.cause, finding.ranks, finding.confidence) == (
        Cause.FRAMEWORK_BUG_SEGFAULT,
        (3,),
        Confidence.HYPOTHESIS,
    )


def test_an_unknown_extension_on_a_users_line_points_to_the_user() -> None:
    struck = FatalSignal(
        signal="SIGSEGV", frames=(py("/job/train.py"),), extensions=("numpy.core._x", "torch._C", "my_ops")
    )
    finding = root(of(struck, 0))
    assert (finding.cause, finding.confidence) == (Cause.USER_NATIVE_CRASH, Confidence.HYPOTHESIS)
    assert "perhaps in my_ops" in finding.title


@pytest.mark.parametrize(
    "extensions",
    [
        (
            "h5py.h5",
            "jaxlib.guard",
            "charset_normalizer.md",
            "requests.packages.charset_normalizer.md",
            "requests.packages.chardet.cd",
        ),
        ("yaml._yaml", "msgpack._cmsgpack", "google._upb._message", "h5py._errors", "_cyutility", "_csparsetools"),
        (
            "grpc._cython.cygrpc",
            "__triton_launcher",
            "fused_adam",
            "flash_attn_2_cuda",
            "PIL._imaging",
            "_cffi_backend",
        ),
        ("one", "two.x", "three", "four"),
    ],
)
def test_loaded_extensions_that_may_be_anybodys_are_not_named(extensions: tuple[str, ...]) -> None:
    struck = FatalSignal(signal="SIGSEGV", frames=(py("/job/train.py"),), extensions=extensions)
    finding = root(of(struck, 0))
    assert (finding.cause, finding.confidence) == (Cause.USER_NATIVE_CRASH, Confidence.HYPOTHESIS)
    assert "native code at train.py:10, in step()" in finding.title
    assert not any(name in finding.title + finding.because for name in extensions)


@pytest.mark.parametrize(
    "extensions", [(), ("torch._C", "numpy.core._x"), ("jaxlib.cpu_feature_guard", "numpy.core._x")]
)
def test_a_framework_that_is_called_without_a_python_line_of_its_own_may_have_crashed(
    extensions: tuple[str, ...],
) -> None:
    struck = FatalSignal(signal="SIGSEGV", frames=(py("/job/train.py"),), extensions=extensions)
    finding = root(of(struck, 0))
    assert (finding.cause, finding.confidence) == (Cause.FRAMEWORK_BUG_SEGFAULT, Confidence.HYPOTHESIS)


def test_an_abort_at_a_line_of_the_program_that_printed_nothing_is_the_programs_own() -> None:
    aborted = FatalSignal(signal="SIGABRT", frames=(py("/job/train.py"),), extensions=("torch._C",))
    finding = root(of(aborted, 0))
    assert (finding.cause, finding.confidence) == (Cause.USER_NATIVE_CRASH, Confidence.HYPOTHESIS)
    assert "(SIGABRT) in train.py:10, in step()" in finding.title and "os.abort()" in finding.fixes[0].do
    shown = (native("libc.so.6", "abort"), native("libpython3.11.so.1.0", "os_abort_impl"), py("/job/train.py"))
    finding = root(of(FatalSignal(signal="SIGABRT", frames=shown), 0))
    assert (finding.cause, finding.confidence) == (Cause.USER_NATIVE_CRASH, Confidence.ESTABLISHED)
    assert "os.abort() at train.py:10, in step()" in finding.title
    said = NativeAbort(what="c10::Error: out of range")
    assert root(of(said, 0, 5), of(aborted, 0)).cause is Cause.FRAMEWORK_BUG_SEGFAULT


def test_a_library_of_the_framework_that_the_kernel_names_weighs_more_than_the_line() -> None:
    struck = FatalSignal(signal="SIGSEGV", frames=(py("/job/train.py"),), extensions=("h5py.h5",))
    kernel = FatalSignal(signal="SIGSEGV", library="libtensorflow_cc.so.2")
    finding = root(of(struck, 0, 5), of(kernel, 0))
    assert (finding.cause, finding.confidence) == (Cause.FRAMEWORK_BUG_SEGFAULT, Confidence.SUPPORTED)
    assert "train.py:10" in finding.title


CTYPES = (
    native("/usr/lib/libc.so.6", "__memmove_avx512_unaligned_erms"),
    native("/usr/lib/libffi.so.8", "ffi_call"),
    native("/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so", "_ctypes_callproc"),
    native("/usr/lib/libpython3.11.so.1.0", "_PyObject_MakeTpCall"),
    native("/usr/lib/libpython3.11.so.1.0", "_PyEval_EvalFrameDefault"),
    native("/usr/lib/libpython3.11.so.1.0", "Py_RunMain"),
)


@pytest.mark.parametrize("core_first", [True, False])
def test_native_frames_of_a_core_and_python_lines_of_a_log_are_put_together(core_first: bool) -> None:
    core = of(FatalSignal(signal="SIGSEGV", pid=7, frames=CTYPES), 1, source="core.7")
    log = of(FatalSignal(signal="SIGSEGV", frames=(py("/job/ops.py", "mix", 29),)), 1, 13)
    finding = root(*((core, log) if core_first else (log, core)))
    assert (finding.cause, finding.confidence) == (Cause.USER_NATIVE_CRASH, Confidence.ESTABLISHED)
    assert "a ctypes call at ops.py:29, in mix()" in finding.title
    assert "core.7" in finding.because and "run.log" in finding.because


def test_native_frames_of_a_thread_without_python_are_not_put_together_with_python_lines() -> None:
    inside = native(f"{SITE}/tensorflow/libtensorflow_cc.so.2", "tensorflow::Foo::Compute()")
    core = of(FatalSignal(signal="SIGSEGV", frames=(inside, native("/usr/lib/libc.so.6", "start_thread"))), 1)
    log = of(FatalSignal(signal="SIGSEGV", frames=(py("/job/train.py", "main", 5),)), 1, 13)
    finding = root(core, log)
    assert (finding.cause, finding.confidence) == (Cause.FRAMEWORK_BUG_SEGFAULT, Confidence.SUPPORTED)
    assert "train.py" not in finding.title


def test_native_frames_that_were_cut_inside_the_framework_still_say_so() -> None:
    core = of(FatalSignal(signal="SIGSEGV", frames=(native(f"{SITE}/tensorflow/libtensorflow_cc.so.2", "??"),)), 1)
    log = of(FatalSignal(signal="SIGSEGV", frames=(py("/job/train.py", "main", 5),)), 1, 13)
    finding = root(core, log)
    assert (finding.cause, finding.confidence) == (Cause.FRAMEWORK_BUG_SEGFAULT, Confidence.SUPPORTED)
    assert "libtensorflow_cc.so.2" in finding.title and "train.py:5" in finding.title


@pytest.mark.parametrize(
    "what",
    [
        "c10::DistBackendError: [Rank 1] NCCL watchdog thread terminated with exception: "
        "Watchdog caught collective timeout",
        "Terminating process because the JAX distributed service detected fatal errors",
        "gloo::IoException: Connection closed by peer",
    ],
)
def test_an_abort_that_only_echoes_another_rank_is_no_crash(what: str) -> None:
    found = report(of(NativeAbort(what=what), 1, 10), of(FatalSignal(signal="SIGABRT"), 1, 12))
    assert not [f for f in found.findings if f.cause in (Cause.FRAMEWORK_BUG_SEGFAULT, Cause.USER_NATIVE_CRASH)]


def test_a_crash_after_an_exception_of_the_same_rank_is_its_end_not_its_cause() -> None:
    raised = ExceptionRaised(type="ValueError", message="bad label", frames=(py("/job/train.py"),))
    found = report(of(raised, 1, 5), of(ProcessExited(reporter="shell", signal="SIGSEGV"), 1, 9))
    assert found.root is not None and found.root.cause is Cause.USER_CODE_EXCEPTION


def test_the_same_crash_on_several_ranks_is_one_finding() -> None:
    frames = (native(f"{SITE}/torch/lib/libtorch_cpu.so", "at::native::add"),)
    found = report(*(of(FatalSignal(signal="SIGSEGV", frames=frames), n) for n in range(3)))
    mine = [f for f in found.findings if f.cause is Cause.FRAMEWORK_BUG_SEGFAULT]
    assert [f.ranks for f in mine] == [(0, 1, 2)]


# live


def live(rank: int, *frames: Frame, world: int = 2, **seen: object) -> list[Evidence[Fact]]:
    values = {
        "state": "S",
        "still": True,
        "switches": 0,
        "cpu_s": 0.0,
        "watched_s": 4.2,
        "job": "h:1",
        "world": world,
        **seen,
    }
    pid = 100 + rank
    source = f"pid {pid}"
    process = ProcessSeen(pid=pid, command="python train.py", **values)  # type: ignore[arg-type]
    items: list[Fact] = [process]
    if frames:
        items.append(StackDump(frames=frames, pid=pid, current=True, living=True))
    return [of(fact, rank, source=source) for fact in items]


TRAIN = py("/job/train.py", "step", 22)


def test_the_rank_that_sleeps_while_the_others_wait_is_named() -> None:
    items = [
        *live(0, *ALL_REDUCE, TRAIN, world=3),
        *live(1, *SLEEP, TRAIN, world=3),
        *live(2, *ALL_REDUCE, TRAIN, world=3),
    ]
    found = report(*items)
    assert found.verdict is Verdict.HUNG
    assert found.root is not None
    assert (found.root.cause, found.root.ranks) == (Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, (1,))
    assert found.root.confidence is Confidence.ESTABLISHED
    assert "time.sleep at train.py:22" in found.root.title and "ranks 0 and 2 waited in all_reduce" in found.root.title


ASKS = (
    native("/usr/lib/libc.so.6", "__futex_abstimed_wait_common64"),
    native(f"{SITE}/torch/lib/libtorch_python.so", "torch::jit::PythonFutureWrapper::wait()"),
    py(f"{SITE}/torch/distributed/rpc/api.py", "rpc_sync", 842),
    py("/job/train.py", "main", 28),
)
ENDS_RPC = (
    py("/usr/lib/python3.11/threading.py", "wait"),
    py(f"{SITE}/torch/distributed/rpc/api.py", "_wait_all_workers", 200),
    py(f"{SITE}/torch/distributed/rpc/api.py", "shutdown", 350),
    py("/job/train.py", "main", 30),
)


def answering(rank: int, *inner: Frame) -> Evidence[Fact]:
    frames = (*inner, py("/job/train.py", "add", 8), py(f"{SITE}/torch/distributed/rpc/internal.py", "_run_function"))
    return of(StackDump(frames=frames, pid=100 + rank, living=True), rank, source=f"pid {100 + rank}")


def test_ranks_that_call_each_other_with_a_lock_held_are_named_though_their_carriers_poll() -> None:
    lock = interpreter("lock_PyThread_acquire_lock")
    items = [
        *live(0, *ENDS_RPC, world=3, cpu_s=4.0),
        *live(1, *ASKS, world=3, cpu_s=4.0),
        answering(1, lock),
        *live(2, *ASKS, world=3, cpu_s=4.0),
        answering(2, lock),
    ]
    found = report(*items)
    assert found.verdict is Verdict.HUNG and found.root is not None
    assert found.root.ranks == (1, 2)
    assert "stuck in a lock at train.py:8, in add()" in found.root.title
    assert "its own call waits at train.py:28, in main()" in found.root.title


@pytest.mark.parametrize("answers", [True, False])
def test_ranks_that_wait_for_an_answer_that_is_being_computed_do_not_hang(answers: bool) -> None:
    """By Python that runs on the parameter server, or by native code, which no Python thread shows."""
    items = [*live(0, *ENDS_RPC, world=2, cpu_s=4.0), *([answering(0)] if answers else []), *live(1, *ASKS, world=2)]
    assert report(*items).verdict is not Verdict.HUNG


def test_a_rank_at_a_debuggers_prompt_is_told_to_whoever_can_answer_it() -> None:
    prompt = (
        interpreter("_io_FileIO_readinto_impl"),
        py("/usr/lib/python3.11/cmd.py", "cmdloop"),
        py("/usr/lib/python3.11/pdb.py", "interaction"),
    )
    finding = root(*live(0, *ALL_REDUCE, TRAIN), *live(1, *prompt, TRAIN))
    assert finding.ranks == (1,) and "stuck in a debugger's prompt at train.py:22" in finding.title
    assert "breakpoint()" in finding.fixes[0].do


def test_ranks_that_wait_for_their_device_wait_for_the_rank_that_is_held_up() -> None:
    device = native("/usr/lib/libcuda.so.1", "cuStreamSynchronize")
    finding = root(*live(0, device, TRAIN, cpu_s=4.1), *live(1, *SLEEP, TRAIN))
    assert (finding.ranks, finding.confidence) == ((1,), Confidence.SUPPORTED)


def test_ranks_that_all_wait_for_their_devices_are_in_a_long_step() -> None:
    device = native("/usr/lib/libcuda.so.1", "cuStreamSynchronize")
    assert report(*live(0, device, TRAIN), *live(1, device, TRAIN)).findings == ()


def test_a_rank_that_computes_on_a_crowded_host_is_not_stuck() -> None:
    working = live(0, native("/usr/lib/libblas.so", "sgemm"), TRAIN, state="R", cpu_s=1.4)
    assert report(*working, *live(1, *ALL_REDUCE, TRAIN)).root is None


def test_a_child_that_was_forked_into_the_framework_is_what_its_parent_waits_for() -> None:
    lock = py("/usr/lib/python3.11/threading.py", "wait")
    child = (
        py("/venv/site-packages/tensorflow/python/eager/execute.py", "quick_execute"),
        py("/job/data.py", "augment", 7),
        py("/usr/lib/python3.11/multiprocessing/popen_fork.py", "_launch"),
    )
    helper = of(StackDump(frames=child, pid=900, living=True), 1, source="pid 900 (child of 101)")
    found = root(*live(0, *ALL_REDUCE, TRAIN), *live(1, lock, TRAIN), helper)
    assert found.cause is Cause.SYNC_MULTIPLE_THREADS_OR_FORK
    assert found.ranks == (1,) and "data.py:7" in found.title


def test_a_stopped_rank_is_named_with_the_way_to_free_it() -> None:
    finding = root(*live(0, *ALL_REDUCE, TRAIN), *live(1, TRAIN, state="T"))
    assert (finding.ranks, finding.confidence) == ((1,), Confidence.ESTABLISHED)
    assert "SIGSTOP" in finding.title
    assert finding.fixes[0].command == "kill -CONT 101"


def test_a_rank_in_uninterruptible_io_is_named() -> None:
    finding = root(
        *live(0, *ALL_REDUCE, TRAIN), *live(1, py("/job/train.py", "load"), state="D", waits_in="nfs_wait_bit")
    )
    assert finding.ranks == (1,)
    assert "nfs_wait_bit" in finding.title


def test_ranks_in_different_collectives_are_a_mismatch() -> None:
    finding = root(*live(0, *ALL_REDUCE, TRAIN), *live(1, *BARRIER, py("/job/train.py", "save", 40)))
    assert finding.cause is Cause.SYNC_COLLECTIVE_MISMATCH
    assert "all_reduce at train.py:22" in finding.title and "barrier at train.py:40" in finding.title


def test_a_rank_that_already_leaves_has_made_fewer_steps() -> None:
    finding = root(*live(0, *ALL_REDUCE, TRAIN), *live(1, *LEAVING, py("/job/train.py", "main", 50)))
    assert (finding.cause, finding.ranks) == (Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, (1,))


def test_a_rank_without_a_process_is_missed() -> None:
    finding = root(*live(0, *ALL_REDUCE, TRAIN, world=3), *live(1, *ALL_REDUCE, TRAIN, world=3))
    assert (finding.ranks, finding.confidence) == ((2,), Confidence.HYPOTHESIS)


@pytest.mark.parametrize(
    ("waiting", "odd"),
    [
        ({}, {"still": False}),
        ({"still": False}, {}),
        ({}, {"cpu_s": 4.0, "switches": 40}),
        ({"switches": 900, "cpu_s": 1.0}, {"switches": 800}),
        ({"still": None}, {"still": None}),
    ],
)
def test_a_job_that_moves_is_not_called_hung(waiting: dict[str, object], odd: dict[str, object]) -> None:
    found = report(*live(0, *ALL_REDUCE, TRAIN, **waiting), *live(1, *SLEEP, TRAIN, **odd))
    assert found.findings == ()


def test_processes_of_different_jobs_are_not_compared() -> None:
    assert (
        report(*live(0, *ALL_REDUCE, TRAIN, world=1, job="a"), *live(1, *SLEEP, TRAIN, world=1, job="b")).findings == ()
    )


# flight recorder


def dumps(folder: str, *ranks: int) -> list[Evidence[Fact]]:
    items: list[Evidence[Fact]] = []
    for rank in ranks or (0, 1):
        name = f"comm_lib_trace_rank_{rank}"
        found, coverage = read_flight_recorder(DUMPS / folder / name, name, None)
        assert coverage[0].state.value == "checked"
        items += found
    return items


def test_a_real_stuck_pair_shows_who_is_behind() -> None:
    finding = root(*dumps("behind"))
    assert (finding.cause, finding.ranks) == (Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, (1,))
    assert "all_reduce #6" in finding.title


def test_a_real_mismatched_pair_shows_both_operations() -> None:
    finding = root(*dumps("mismatch"))
    assert finding.cause is Cause.SYNC_COLLECTIVE_MISMATCH
    assert "all_reduce" in finding.title and "broadcast" in finding.title


def test_real_different_sizes_show_both_sizes() -> None:
    finding = root(*dumps("size"))
    assert finding.cause is Cause.SYNC_COLLECTIVE_MISMATCH
    assert "[[4]]" in finding.title and "[[6]]" in finding.title


def test_a_dump_that_is_missing_is_told_as_a_guess() -> None:
    finding = root(*dumps("behind", 0))
    assert (finding.ranks, finding.confidence) == ((1,), Confidence.HYPOTHESIS)


@pytest.mark.parametrize("left", [(5,), ()])
def test_on_a_real_mesh_the_rank_whose_dump_is_empty_or_missing_is_a_guess(left: tuple[int, ...]) -> None:
    """Nobody lists the members, but the other groups of this axis have one more."""
    lost = [
        e for rank in left for e in read_flight_recorder(DUMPS / "mesh" / f"comm_lib_trace_rank_{rank}", "", None)[0]
    ]
    (finding,) = report(*dumps("mesh", 0, 1, 2, 3, 4, 6, 7), *lost).findings
    assert (finding.ranks, finding.confidence) == ((5,), Confidence.HYPOTHESIS)
    assert ("cannot be read" if left else "left no dump") in finding.title


def entry(rank: int, seq: int, op: str = "all_reduce", group: str = "0", **values: object) -> Evidence[Fact]:
    return of(RecordedCollective(group=group, seq=seq, op=op, **{"state": "completed", **values}), rank)  # type: ignore[arg-type]


def test_finished_dumps_of_a_healthy_run_give_nothing() -> None:
    assert report(*(entry(r, n) for r in range(2) for n in range(5)), entry(0, 5)).findings == ()


def test_a_rank_that_waits_in_another_group_is_not_the_one_to_blame() -> None:
    items = [entry(0, 7, state="started", members=(0, 1)), entry(1, 6, members=(0, 1))]
    items += [entry(1, 3, group="tp", state="started", members=(1, 2)), entry(2, 2, group="tp", members=(1, 2))]
    assert root(*items).ranks == (2,)


def on_a_mesh(state: dict[int, str]) -> list[Evidence[Fact]]:
    """16 ranks of a real shape: tensor groups of 4, data groups of 4; all have scheduled all, by rank how far they
    came."""
    tensor = [tuple(range(first, first + 4)) for first in range(0, 16, 4)]
    data = [tuple(range(first, 16, 4)) for first in range(4)]
    items = [entry(r, 9, group=f"tp{g}", members=g) for g in tensor for r in g]
    return items + [entry(r, 3, group=f"dp{g}", members=g, state=state.get(r, "started")) for g in data for r in g]


def test_two_devices_that_never_began_what_all_were_handed_are_both_named() -> None:
    findings = report(*on_a_mesh({5: "scheduled", 14: "scheduled"})).findings
    assert [f.ranks for f in findings] == [(5, 14)]
    assert findings[0].title == (
        "rank 5 did not start all_reduce #3, in which ranks 1, 9 and 13 waited; "
        "and rank 14 did not start all_reduce #3, in which ranks 2, 6 and 10 waited"
    )


def test_an_empty_dump_is_one() -> None:
    items = [entry(0, 1, state="started", members=(0, 1)), of(NothingRecorded(), 1)]
    (finding,) = report(*items).findings
    assert (finding.ranks, finding.confidence) == ((1,), Confidence.SUPPORTED)
    assert "did not join all_reduce #1" in finding.title


def transfer(rank: int, src: int, dst: int, number: int, state: str = "started") -> Evidence[Fact]:
    op = f"send {src}->{dst}" if rank == src else f"recv {dst}<-{src}"
    return entry(rank, number, op, group="pp", state=state, members=(src, dst), between=(src, dst))


def test_a_pipeline_waits_for_the_stage_that_stopped() -> None:
    """0 waits to send to 1, which waits to send to 2; 3 waits for 2; 2 only received."""
    items = [transfer(0, 0, 1, 1), transfer(1, 0, 1, 0, "completed"), transfer(1, 1, 2, 1), transfer(3, 2, 3, 1)]
    items += [transfer(2, 1, 2, 0, "completed"), transfer(2, 2, 3, 0, "completed")]
    findings = report(*items).findings
    assert {f.ranks for f in findings} == {(2,)}
    assert "rank 2 did not join send 1->2, in which rank 1 waited" in findings[0].title


def test_a_send_and_its_recv_are_no_mismatch() -> None:
    items = [transfer(0, 0, 1, 1), transfer(1, 0, 1, 1)]
    assert not [f for f in report(*items).findings if f.cause is Cause.SYNC_COLLECTIVE_MISMATCH]


def test_two_stages_that_send_to_each_other_wait_in_a_circle() -> None:
    findings = report(transfer(0, 0, 1, 1), transfer(1, 1, 0, 1)).findings
    assert [f.ranks for f in findings] == [(0, 1)] and "wait for each other" in findings[0].title


def test_ranks_that_enter_two_groups_in_different_orders_wait_for_each_other() -> None:
    items = [entry(0, 4, group="a", state="started", members=(0, 1)), entry(1, 3, group="a", members=(0, 1))]
    items += [entry(1, 8, group="b", state="started", members=(0, 1)), entry(0, 7, group="b", members=(0, 1))]
    finding = root(*items)
    assert finding.ranks == (0, 1) and "wait for each other" in finding.title


def test_the_rank_that_does_not_finish_what_the_others_finished_is_named() -> None:
    items = [entry(r, 7, members=(0, 1, 2), state="started" if r == 1 else "completed") for r in range(3)]
    items += [entry(r, 8, members=(0, 1, 2), state="scheduled" if r == 1 else "started") for r in range(3)]
    assert root(*items).ranks == (1,)


def test_operations_whose_sizes_may_differ_are_not_compared_by_size() -> None:
    items = [entry(r, 1, "all_to_all_single", sizes=f"[[{r}]]", state="started") for r in range(2)]
    assert report(*items).findings == ()


def seen_alive(rank: int, *frames: Frame, **doing: int | str) -> list[Evidence[Fact]]:
    """One rank of a live job that never moved, with what its black box says."""
    pid = 100 + rank
    seen = ProcessSeen(pid=pid, command="python train.py", state="S", switches=0, still=True, job="run", watched_s=2.0)
    facts: list[Fact] = [seen, StackDump(frames=frames, pid=pid, current=True, living=True)]
    facts.append(RankDoing(phase=str(doing["phase"]), steps=int(doing["steps"]), pid=pid))
    return [Evidence(fact=fact, origin=Origin(source=f"pid {pid}"), rank=Rank(index=rank)) for fact in facts]


SLEEPS = Frame(function="time_sleep", file="/lib/libpython3.11.so.1.0", library="libpython3.11.so.1.0")


@pytest.mark.parametrize(("steps", "named"), [(40, (1,)), (41, ())])
def test_a_sleeping_rank_is_named_where_only_boxes_show_that_the_other_waits_for_it(
    steps: int, named: tuple[int, ...]
) -> None:
    other = seen_alive(0, py("/srv/train.py", "<module>", 15), phase="compute", steps=40)
    sleeper = seen_alive(1, SLEEPS, py("/srv/train.py", "<module>", 14), phase="input", steps=steps)
    found = diagnose(EvidenceSet(items=(*other, *sleeper)), rules_in(keepstep.rules))
    assert (found.root.ranks if found.root is not None else ()) == named
    if found.root is not None:
        assert found.verdict is Verdict.HUNG and found.root.confidence is Confidence.SUPPORTED
        assert "time.sleep at train.py:14" in found.root.title and "rank 0 waited at train.py:15" in found.root.title

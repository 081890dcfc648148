# SPDX-License-Identifier: Apache-2.0
"""Stacks: whose code each frame is, and what a thread waits in. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from keepstep.core.facts.process import Frame


class Whose(Enum):
    """To whom the code of a frame belongs."""

    USER = "the user's own code"
    FRAMEWORK = "the framework"
    LIBRARY = "an installed library"
    PYTHON = "Python itself"
    SYSTEM = "the system"


_FRAMEWORKS = (
    r"torch|torchvision|torchaudio|torch_xla|torchtext|tensorflow|tensorflow_\w+|keras|tf_keras|jax|jaxlib|flax|optax"
    r"|horovod|deepspeed|apex|megatron\w*|transformer_engine|flash_attn\w*|xformers|triton|nvidia|cupy|libtpu|ray|accelerate"
    r"|lightning|pytorch_lightning|bitsandbytes|vllm|paddle|mxnet|onnxruntime|fairscale|torchrec|fbgemm_gpu|jax_cuda\d*\w*"
)
_INSTALLED = re.compile(r"(?:site|dist)-packages/(?P<package>[^/]+)")
_FRAMEWORK_NAME = re.compile(rf"^(?:{_FRAMEWORKS})(?:\.|-|_C|$)")
_FRAMEWORK_LIB = re.compile(
    r"^(?:libtorch\w*|libc10\w*|_C\.|libtensorflow\w*|_pywrap_\w+|libxla\w*|_jax\.|libjax\w*|xla_extension|xla_cuda\w*|libtpu"
    r"|libnccl\w*|librccl\w*|libcud(?:a|nn|art)\w*|libcu(?:blas|fft|sparse|solver|rand)\w*|libnv\w+|libhip\w*|libmiopen\w*"
    r"|librocblas\w*|libhsa\w*|libgloo\w*|mpi_lib|libhorovod|libtriton\w*|libshm\.|libcaffe2\w*|libmpi\b|libopen-\w+|libucp|libuct\b|libucm\b"
    r"|libnvidia\w*|libfabric|libibverbs|libonnxruntime|libpaddle\w*|libgomp-\w+|libiomp5|libmkl\w*|libdnnl\w*|libnccl-net)"
)
_FRAMEWORK_SYMBOL = re.compile(
    r"^(?:p?nccl|rccl|TF_|TFE_|THP|THCP)[A-Z]\w*|^(?:\w+ )?(?:tensorflow|tsl|xla|jax|jaxlib|torch|c10d?|at|caffe2|gloo|horovod|nccl\w*|stream_executor|Eigen|mlir|grpc(?:_core)?|tensorpipe)::"
    r"|^_ZNK?(?:St\w+)?(?:10tensorflow|3xla|5torch|3c10|4c10d|2at|6caffe2|4gloo|7horovod|3tsl)"
)
_SYSTEM_LIB = re.compile(
    r"^(?:libc[.\-]|libpthread|ld-|ld\.|libstdc\+\+|libgcc_s|libm[.\-]|libdl|librt|linux-vdso|\[vdso\]|libutil|libffi|libasan|libtsan"
    r"|libjemalloc|libtcmalloc|libunwind|libucs\b|libasound|libz\.|libnsl|libSegFault|libc\+\+)"
)
_PYTHON_LIB = re.compile(r"^(?:libpython|python[\d.]*(?:$|-)|_ctypes\.|pypy|faulthandler)")
_PYTHON_SYMBOL = re.compile(
    r"^(?:_?Py[A-Z_]\w*|_PyEval\w*|py(?:main|run)_\w+|cfunction_\w+|method_vectorcall\w*|faulthandler_\w+|builtin_\w+)"
)
_STDLIB = re.compile(
    r"(?:^|/)lib(?:64)?/python\d(?:\.\d+)?t?/(?!(?:site|dist)-packages/)|^<frozen |^<string>$|^<stdin>$|(?:^|/)python\d+\.zip/"
    r"|(?:^|/)(?:debugpy|pydevd|ipykernel|IPython)/"
)
_SOURCE_TREE = re.compile(
    r"/(?:torch/(?:nn|distributed|autograd|utils|cuda|optim|_\w+|fx|jit|multiprocessing)|tensorflow/(?:python|core)|jax/(?:_src|interpreters"
    r"|lib|experimental)|jaxlib|horovod/(?:torch|tensorflow|common|runner|run)|deepspeed/(?:runtime|launcher|comm)|keras/src)/"
)
_SYSTEM_PLACE = re.compile(r"^/(?:usr/)?(?:local/)?lib(?:32|64|x32)?/(?!python)")
_HANDLERS = re.compile(
    r"FailureSignalHandler|FatalSignalHandler|SignalHandler|signal_handler|sigaction|__restore_rt|sigreturn|killpg|^raise$|gsignal|^abort$"
    r"|__GI_raise|__GI_abort|pthread_kill|__assert_fail|__libc_message|malloc_printerr|^std::terminate|__cxa_throw|_Unwind_"
    r"|google::LogMessage|LogMessageFatal|absl::.*(?:Log|Die|Fail)|tsl::internal::LogMessage|fatal_error|Backtrace|StackTrace"
    r"|__verbose_terminate_handler|__cxa_rethrow|opal_backtrace|mca_base_\w+handler|orte_\w*signal|ucs_handle_error|ucs_debug"
)


def base_name(path: str | None) -> str:
    """The last part of a path."""
    return (path or "").rsplit("/", 1)[-1]


def package_of(frame: Frame) -> str | None:
    """The installed package that a frame belongs to, if its path says."""
    match = _INSTALLED.search(frame.file or "")
    return match["package"] if match else None


def whose(frame: Frame) -> Whose:
    """To whom a frame's code belongs, by its path, library and symbol."""
    return _whose_native(frame) if frame.is_native else _whose_python(frame)


def _whose_python(frame: Frame) -> Whose:
    path = frame.file or ""
    match = _INSTALLED.search(path)
    if match:
        return Whose.FRAMEWORK if _FRAMEWORK_NAME.match(match["package"]) else Whose.LIBRARY
    if _STDLIB.search(path) or (path.startswith("<") and path.endswith(">")):
        return Whose.PYTHON
    if not path:
        return Whose.PYTHON
    return Whose.FRAMEWORK if _SOURCE_TREE.search(path) else Whose.USER


def _whose_native(frame: Frame) -> Whose:
    name = base_name(frame.library)
    path = frame.file if frame.file and base_name(frame.file) == name else frame.library or ""
    if _PYTHON_LIB.match(name) or _PYTHON_SYMBOL.match(frame.function):
        return Whose.PYTHON
    if _SYSTEM_LIB.match(name):
        return Whose.SYSTEM
    match = _INSTALLED.search(path)
    if match:
        of_framework = _FRAMEWORK_NAME.match(match["package"]) or _FRAMEWORK_LIB.match(name)
        return Whose.FRAMEWORK if of_framework else Whose.LIBRARY
    if _FRAMEWORK_LIB.match(name) or _FRAMEWORK_SYMBOL.search(frame.function):
        return Whose.FRAMEWORK
    if "/lib-dynload/" in path:
        return Whose.PYTHON
    if ".so" not in name or name.startswith("[") or _SYSTEM_PLACE.match(path):
        return Whose.SYSTEM
    return Whose.USER


def is_handler(frame: Frame) -> bool:
    """Whether a native frame only reports or raises the crash."""
    return frame.is_native and _HANDLERS.search(frame.function) is not None


def innermost_user(frames: Iterable[Frame]) -> Frame | None:
    """The user's innermost Python line of a stack (innermost frame first)."""
    return next((f for f in frames if not f.is_native and whose(f) is Whose.USER), None)


def innermost_python(frames: Iterable[Frame]) -> Frame | None:
    return next((f for f in frames if not f.is_native), None)


def place(frame: Frame) -> str:
    """``train.py:88 in step``; for a native frame ``fn (libfoo.so)``."""
    if frame.is_native:
        known = frame.function not in ("", "???", "??")
        name = _shorter(frame.function) if known else "an unnamed function"
        return f"{name} ({base_name(frame.library)})" if frame.library else name
    where = base_name(frame.file) or "?"
    line = f":{frame.line}" if frame.line else ""
    return f"{where}{line} in {frame.function}" if frame.function else f"{where}{line}"


def _shorter(symbol: str) -> str:
    """A C++ symbol without its template arguments, parameters and return type."""
    if symbol.startswith("_ZN"):
        return _demangled(symbol)
    kept: list[str] = []
    depth = 0
    text = symbol.replace("(anonymous namespace)::", "").replace("operator()", "operator").replace("->", "")
    for char in text:
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth = max(0, depth - 1)
        elif not depth:
            kept.append(char)
    words = "".join(kept).replace(" const", "").split()
    bare = words[-1].strip(":&*") if words else ""
    bare = bare or symbol
    return bare if len(bare) <= 60 else "..." + bare[-57:]


def _demangled(symbol: str) -> str:
    """The leading names of a mangled C++ symbol: enough to search for."""
    names: list[str] = []
    at = 4 if symbol.startswith("_ZNK") else 3
    while match := re.match(r"\d{1,3}", symbol[at : at + 3]):
        at += len(match[0])
        names.append(symbol[at : at + int(match[0])])
        at += int(match[0])
    return "::".join(name for name in names if name != "_GLOBAL__N_1") or symbol[:60]


class Kind(Enum):
    """What kind of thing a thread waits for."""

    COLLECTIVE = "a collective"
    LEAVING = "the end of the others"
    MEETING = "the start of the others"
    SLEEP = "a sleep"
    LOCK = "a lock"
    INPUT = "input data"
    FILE = "a file or socket"
    CHILDREN = "child processes"
    DEVICE = "the device"


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread waits in; ``name`` is the operation in plain words."""

    kind: Kind
    name: str

    @property
    def vague(self) -> bool:
        """Whether a healthy long step spends its time there, too."""
        return self.name in _VAGUE


_STEP, _BACKWARD = "a tf.function step", "the gradient all-reduce of backward"
_VAGUE = (_STEP, _BACKWARD)

# Innermost first; the first frame (from the inside) that any row matches decides the wait,
# except that a collective further out wins over a lock, sleep or read that carries it out.
_WAITS: tuple[tuple[Kind, str | None, re.Pattern[str], re.Pattern[str] | None], ...] = tuple(
    (kind, name, re.compile(function), re.compile(file) if file else None)
    for kind, name, function, file in (
        (
            Kind.MEETING,
            "init_process_group",
            r"^(?:init_process_group|_new_process_group_helper|_store_based_barrier)$",
            r"torch/distributed",
        ),
        (Kind.MEETING, "jax.distributed.initialize", r"^initialize$", r"jax/_src/distributed\.py"),
        (
            Kind.MEETING,
            "MultiWorkerMirroredStrategy start",
            r"^_initialize_multi_worker|^connect_to_cluster$|^ensure_initialized$",
            r"tensorflow/",
        ),
        (Kind.LEAVING, "destroy_process_group", r"^(?:destroy_process_group|_shutdown_backend)$", r"torch/distributed"),
        (Kind.LEAVING, "the shutdown barrier", r"^(?:shutdown|clean_up)$", r"jax/_src/(?:distributed|api)\.py"),
        (
            Kind.LEAVING,
            "the shutdown barrier",
            r"ShutdownTask|ShutdownBarrier|ShutdownInternal|CoordinationServiceAgent.*Shutdown",
            None,
        ),
        (
            Kind.COLLECTIVE,
            None,
            r"^(?P<op>all_reduce|all_gather\w*|_all_gather_base|reduce_scatter\w*|broadcast\w*|barrier|monitored_barrier"
            r"|all_to_all\w*|gather\w*|scatter\w*|reduce|send|recv|isend|irecv|batch_isend_irecv|recv_object_list|send_object_list)$",
            r"torch/distributed/(?:distributed_c10d|_functional_collectives|c10d_logger|nn/functional)|torch_xla/core/",
        ),
        (
            Kind.COLLECTIVE,
            None,
            r"^(?P<op>allreduce\w*|allgather\w*|broadcast\w*|synchronize|alltoall|join|barrier)\w*$",
            r"horovod/",
        ),
        (
            Kind.COLLECTIVE,
            "sync_global_devices",
            r"^(?:sync_global_devices|process_allgather|broadcast_one_to_all|assert_equal)$",
            r"jax/",
        ),
        (Kind.COLLECTIVE, "a coordination-service barrier", r"WaitAtBarrier|wait_at_barrier", None),
        (
            Kind.COLLECTIVE,
            _BACKWARD,
            r"^(?:_?run_backward|_engine_run_backward|backward)$",
            r"torch/autograd|torch/_tensor\.py",
        ),
        (
            Kind.COLLECTIVE,
            "the parameter check of DistributedDataParallel",
            r"^_verify_param_shape_across_processes$|^_sync_module_states\w*$",
            r"torch/",
        ),
        (Kind.COLLECTIVE, "CollectiveReduce", r"tensorflow::(?:Ring|Nccl)Reducer::", None),
        (Kind.COLLECTIVE, "CollectiveGather", r"tensorflow::(?:Ring|Nccl)Gatherer::", None),
        (Kind.COLLECTIVE, "CollectiveBcast", r"tensorflow::(?:HierarchicalTree|Nccl)Broadcaster::", None),
        (Kind.COLLECTIVE, None, r"(?P<op>Collective(?:Reduce|Gather|Bcast|AllToAll|ReduceScatter)\w*)", None),
        (
            Kind.COLLECTIVE,
            _STEP,
            r"^(?:quick_execute|TFE_Py_Execute\w*|call_flat|_call_flat|call_function|execute)$",
            r"tensorflow/python/eager",
        ),
        (
            Kind.COLLECTIVE,
            None,
            r"c10d::\w*::?(?P<op>allreduce|broadcast|allgather|barrier|reduce_scatter|alltoall|recv|send)",
            None,
        ),
        (
            Kind.COLLECTIVE,
            None,
            r"gloo::(?P<op>allreduce|barrier|broadcast|allgather\w*|reduce_scatter|alltoall\w*|gather|scatter|recv\w*)",
            None,
        ),
        (
            Kind.COLLECTIVE,
            None,
            r"(?P<op>nccl(?:AllReduce|Broadcast|AllGather|ReduceScatter|Send|Recv)|ncclCommInitRank\w*)",
            None,
        ),
        (
            Kind.COLLECTIVE,
            "a collective of the compiled program",
            r"xla::.*(?:AllReduce|AllGather|Collective|Rendezvous)",
            None,
        ),
        (
            Kind.DEVICE,
            "the wait for an array",
            r"^(?:_value|block_until_ready|_single_device_array_to_np_array_did_copy|__float__|__array__)$",
            r"jax/_src/array\.py",
        ),
        (
            Kind.DEVICE,
            "the wait for an array",
            r"AwaitBuffersReady|BlockUntilReady|ToLiteralSync|PjRt\w*Future.*Await|xla::Py(?:Array|ClientBuffer)\w*::.*[Aa]wait",
            None,
        ),
        (Kind.DEVICE, "the wait for a tensor", r"^_?numpy(?:_internal)?$", r"tensorflow/python/framework/ops\.py"),
        (Kind.DEVICE, "torch.cuda.synchronize", r"^synchronize$", r"torch/cuda/"),
        (Kind.DEVICE, "the GPU", r"^cu(?:da)?(?:Stream|Device|Ctx|Event)Synchronize|^cuMemcpy", None),
        (
            Kind.INPUT,
            "the wait for a DataLoader batch",
            r"^(?:_get_data|_try_get_data|_next_data|__next__)$",
            r"torch/utils/data/",
        ),
        (
            Kind.INPUT,
            "the wait for a tf.data batch",
            r"^(?:_next_internal|__next__|get_next\w*|iterator_get_next\w*)$",
            r"tensorflow/python/(?:data|ops/gen_dataset|distribute/input)",
        ),
        (Kind.INPUT, "the wait for a batch", r"^__next__$", r"grain/|petastorm/|webdataset/|nvidia/dali|datasets/"),
        (
            Kind.CHILDREN,
            "its child processes",
            r"^(?:join|start_processes|_join\w*)$",
            r"torch/multiprocessing/spawn\.py",
        ),
        (
            Kind.CHILDREN,
            "its child processes",
            r"^(?:wait|poll|join|_wait|waitpid|communicate|_try_wait|_communicate|run|call)$",
            r"multiprocessing/(?:popen_\w+|process)\.py|subprocess\.py",
        ),
        (
            Kind.CHILDREN,
            "its child processes",
            r"^(?:_invoke_run|_monitor_workers|launch_agent)$",
            r"torch/distributed/",
        ),
        (
            Kind.LOCK,
            "a wait for a lock, queue or thread",
            r"^(?:wait|wait_for|acquire|result|get|put|join|_wait_for_tstate_lock)$",
            r"(?:^|/)(?:threading|queue|concurrent/futures/_base|multiprocessing/(?:synchronize|queues|managers|pool))\.py",
        ),
        (
            Kind.LOCK,
            "a lock",
            r"^(?:lock_PyThread_acquire_lock\w*|rlock_acquire\w*|acquire_timed|PyThread_acquire_lock\w*|_multiprocessing_SemLock_acquire\w*|flock\w*|fcntl_(?:flock|lockf)\w*)",
            None,
        ),
        (Kind.SLEEP, "time.sleep", r"^(?:time_sleep|pysleep|(?:__)?(?:clock_)?nanosleep\S*|sleep)\b", None),
        (
            Kind.FILE,
            "a socket",
            r"^(?:recv|recv_into|accept|connect|readinto|create_connection|getaddrinfo|do_handshake|sock_\w+|select|poll)$",
            r"(?:^|/)(?:socket|ssl|http/client|selectors|multiprocessing/connection|urllib/request)\.py|urllib3/|requests/|botocore/",
        ),
        (
            Kind.FILE,
            "a socket",
            r"^(?:sock_recv\w*|sock_accept\w*|select_poll\w*|select_epoll\w*|select_select\w*)",
            None,
        ),
        (
            Kind.FILE,
            "a file",
            r"^(?:_io_\w+|os_(?:open|read|write|fsync|stat|listdir|fdatasync)\w*|fileio_\w+|_Py_(?:read|write|open)\w*|posix_\w+)",
            None,
        ),
    )
)
_CARRIED = {Kind.LOCK, Kind.SLEEP, Kind.FILE, Kind.DEVICE}
_AWAITING = {Kind.COLLECTIVE, Kind.LEAVING, Kind.MEETING}


def waits_in(frames: Iterable[Frame]) -> Wait | None:
    """What the thread waits in, as far as the names of its frames tell (innermost first).

    Looked for from the inside to the user's own line: what lies beyond that line is where
    the user came from, not what the thread waits for.
    """
    inner: Wait | None = None
    for frame in frames:
        found = _wait_of(frame)
        if found is not None:
            if found.kind in _AWAITING or found.kind is Kind.INPUT or found.kind is Kind.CHILDREN:
                return found
            if inner is None or (inner.kind in _CARRIED and found.kind is Kind.DEVICE):
                inner = found
        if not frame.is_native and whose(frame) is Whose.USER:
            break
    return inner


def _wait_of(frame: Frame) -> Wait | None:
    for kind, name, function, file in _WAITS:
        if file is not None and not (frame.file and file.search(frame.file)):
            continue
        match = function.search(frame.function)
        if match:
            return Wait(kind, name or match["op"])
    return None


def awaits_others(wait: Wait | None) -> bool:
    """Whether a wait ends only when other ranks come."""
    return wait is not None and wait.kind in _AWAITING

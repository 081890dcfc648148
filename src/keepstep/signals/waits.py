# SPDX-License-Identifier: Apache-2.0
"""What a thread waits for, by the names of its frames. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.process import Frame
from keepstep.signals.stacks import LONGEST_SYMBOL, Whose, whose


class WaitKind(Enum):
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
    PERSON = "somebody's answer"


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread waits for; ``name`` is the operation in plain words."""

    kind: WaitKind
    name: str

    @property
    def vague(self) -> bool:
        """Whether a healthy long step also spends its time there."""
        return self.name in _VAGUE


_STEP, _BACKWARD = "a tf.function step", "the gradient all-reduce of backward"
_VAGUE = (_STEP, _BACKWARD)

# Innermost first; the first frame (from the inside) that any row matches decides the wait,
# except that a collective further out wins over a lock, sleep or read that carries it out.
_WAITS: tuple[tuple[WaitKind, str | None, re.Pattern[str], re.Pattern[str] | None], ...] = tuple(
    (kind, name, lazy_pattern(function, most=LONGEST_SYMBOL), lazy_pattern(file) if file else None)
    for kind, name, function, file in (
        (
            WaitKind.MEETING,
            "init_process_group",
            r"^(?:init_process_group|_new_process_group_helper|_store_based_barrier)$",
            r"torch/distributed",
        ),
        (WaitKind.MEETING, "jax.distributed.initialize", r"^initialize$", r"jax/_src/distributed\.py"),
        (
            WaitKind.MEETING,
            "MultiWorkerMirroredStrategy start",
            r"^_initialize_multi_worker|^connect_to_cluster$|^ensure_initialized$",
            r"tensorflow/",
        ),
        (
            WaitKind.LEAVING,
            "destroy_process_group",
            r"^(?:destroy_process_group|_shutdown_backend)$",
            r"torch/distributed",
        ),
        (WaitKind.LEAVING, "the shutdown barrier", r"^(?:shutdown|clean_up)$", r"jax/_src/(?:distributed|api)\.py"),
        (
            WaitKind.LEAVING,
            "the shutdown barrier",
            r"ShutdownTask|ShutdownBarrier|ShutdownInternal|CoordinationServiceAgent.*Shutdown",
            None,
        ),
        (
            WaitKind.COLLECTIVE,
            "keepstep's comparison of the ranks' plans",
            r"^(?:agree|wait)$",
            r"keepstep/guard/(?:session|contract|peers)\.py",
        ),
        (
            WaitKind.COLLECTIVE,
            None,
            r"^(?P<op>all_reduce|all_gather\w*|_all_gather_base|reduce_scatter\w*|broadcast\w*|barrier"
            r"|monitored_barrier"
            r"|all_to_all\w*|gather\w*|scatter\w*|reduce|send|recv|isend|irecv|batch_isend_irecv"
            r"|recv_object_list|send_object_list)$",
            r"torch/distributed/(?:distributed_c10d|_functional_collectives|c10d_logger|nn/functional)|torch_xla/core/",
        ),
        (
            WaitKind.COLLECTIVE,
            None,
            r"^(?P<op>(?:allreduce|allgather|broadcast)\w*$|(?:synchronize|alltoall|join|barrier)(?=\w*$))",
            r"horovod/",
        ),
        (
            WaitKind.COLLECTIVE,
            "sync_global_devices",
            r"^(?:sync_global_devices|process_allgather|broadcast_one_to_all|assert_equal)$",
            r"jax/",
        ),
        (WaitKind.COLLECTIVE, "a coordination-service barrier", r"WaitAtBarrier|wait_at_barrier", None),
        (
            WaitKind.COLLECTIVE,
            _BACKWARD,
            r"^(?:_?run_backward|_engine_run_backward|backward)$",
            r"torch/autograd|torch/_tensor\.py",
        ),
        (
            WaitKind.COLLECTIVE,
            "the parameter check of DistributedDataParallel",
            r"^_verify_param_shape_across_processes$|^_sync_module_states\w*$",
            r"torch/",
        ),
        (
            WaitKind.COLLECTIVE,
            "DDP's broadcast of buffers",
            r"^(?:_sync_buffers|_sync_module_buffers|_default_broadcast_coalesced|_distributed_broadcast_coalesced)$",
            r"torch/nn/parallel/distributed\.py",
        ),
        (
            WaitKind.COLLECTIVE,
            "a reduce of tf.distribute",
            r"^(?:_all_reduce_per_replica_values|_?(?:batch_)?(?:reduce|gather)_implementation)$",
            r"tensorflow/python/distribute/cross_device_ops",
        ),
        (WaitKind.COLLECTIVE, "CollectiveReduce", r"tensorflow::(?:Ring|Nccl)Reducer::", None),
        (WaitKind.COLLECTIVE, "CollectiveGather", r"tensorflow::(?:Ring|Nccl)Gatherer::", None),
        (WaitKind.COLLECTIVE, "CollectiveBcast", r"tensorflow::(?:HierarchicalTree|Nccl)Broadcaster::", None),
        (WaitKind.COLLECTIVE, None, r"(?P<op>Collective(?:Reduce|Gather|Bcast|AllToAll|ReduceScatter)\w*)", None),
        (
            WaitKind.COLLECTIVE,
            _STEP,
            r"^(?:quick_execute|TFE_Py_Execute\w*|call_flat|_call_flat|call_function|execute)$",
            r"tensorflow/python/eager",
        ),
        (
            WaitKind.COLLECTIVE,
            None,
            r"c10d::\w*::?(?P<op>allreduce|broadcast|allgather|barrier|reduce_scatter|alltoall|recv|send)",
            None,
        ),
        (
            WaitKind.COLLECTIVE,
            None,
            r"gloo::(?P<op>allreduce|barrier|broadcast|allgather\w*|reduce_scatter|alltoall\w*|gather|scatter|recv\w*)",
            None,
        ),
        (
            WaitKind.COLLECTIVE,
            None,
            r"(?P<op>nccl(?:AllReduce|Broadcast|AllGather|ReduceScatter|Send|Recv)|ncclCommInitRank\w*)",
            None,
        ),
        (
            WaitKind.COLLECTIVE,
            "a collective of the compiled program",
            r"xla::.*(?:AllReduce|AllGather|Collective|Rendezvous)",
            None,
        ),
        (
            WaitKind.DEVICE,
            "the wait for an array",
            r"^(?:_value|block_until_ready|_single_device_array_to_np_array_did_copy|__float__|__array__)$",
            r"jax/_src/array\.py",
        ),
        (
            WaitKind.DEVICE,
            "the wait for an array",
            r"AwaitBuffersReady|BlockUntilReady|ToLiteralSync|PjRt\w{0,60}Future.{0,300}Await|xla::Py(?:Array"
            r"|ClientBuffer)\w{0,60}::.{0,300}[Aa]wait"
            r"|xla::\w{0,60}(?:PjRt|Cpu|Gpu|Tpu)\w{0,60}Buffer::(?:~|Delete|Release)",
            None,
        ),
        (WaitKind.DEVICE, "the wait for a tensor", r"^_?numpy(?:_internal)?$", r"tensorflow/python/framework/ops\.py"),
        (WaitKind.DEVICE, "torch.cuda.synchronize", r"^synchronize$", r"torch/cuda/"),
        (WaitKind.DEVICE, "the GPU", r"^cu(?:da)?(?:Stream|Device|Ctx|Event)Synchronize|^cuMemcpy", None),
        (
            WaitKind.INPUT,
            "the wait for a DataLoader batch",
            r"^(?:_get_data|_try_get_data|_next_data|__next__)$",
            r"torch/utils/data/",
        ),
        (
            WaitKind.INPUT,
            "the wait for a tf.data batch",
            r"^(?:_next_internal|__next__|get_next\w*|iterator_get_next\w*)$",
            r"tensorflow/python/(?:data|ops/gen_dataset|distribute/input)",
        ),
        (WaitKind.INPUT, "the wait for a batch", r"^__next__$", r"grain/|petastorm/|webdataset/|nvidia/dali|datasets/"),
        (
            WaitKind.CHILDREN,
            "its child processes",
            r"^(?:join|start_processes|_join\w*)$",
            r"torch/multiprocessing/spawn\.py",
        ),
        (
            WaitKind.CHILDREN,
            "its child processes",
            r"^(?:wait|poll|join|_wait|waitpid|communicate|_try_wait|_communicate|run|call)$",
            r"multiprocessing/(?:popen_\w+|process)\.py|subprocess\.py",
        ),
        (
            WaitKind.CHILDREN,
            "its child processes",
            r"^(?:_invoke_run|_monitor_workers|launch_agent)$",
            r"torch/distributed/",
        ),
        (
            WaitKind.PERSON,
            "a debugger's prompt",
            r"^(?:interaction|_?cmdloop|_?do_wait_suspend|wait_for_client|_interact)$",
            r"(?:^|/)(?:i?pdb|pudb|rpdb|remote_pdb|debugpy|pydevd\w*|_pydevd_bundle|IPython)(?:/|\.py)",
        ),
        (
            WaitKind.PERSON,
            "input()",
            r"^(?:builtin_input\w*|PyFile_GetLine|PyOS_\w*Readline|call_readline|raw_input|_input_request)$",
            None,
        ),
        (
            WaitKind.LOCK,
            "a wait for a lock, queue or thread",
            r"^(?:wait|wait_for|acquire|result|get|put|join|_wait_for_tstate_lock)$",
            r"(?:^|/)(?:threading|queue|concurrent/futures/_base|multiprocessing/(?:synchronize|queues|managers"
            r"|pool))\.py",
        ),
        (
            WaitKind.LOCK,
            "a lock",
            r"^(?:lock_PyThread_acquire_lock\w*|rlock_acquire\w*|acquire_timed|PyThread_acquire_lock\w*"
            r"|_multiprocessing_SemLock_acquire\w*|flock\w*|fcntl_(?:flock|lockf)\w*)",
            None,
        ),
        (WaitKind.SLEEP, "time.sleep", r"^(?:time_sleep|pysleep|(?:__)?(?:clock_)?nanosleep\S*|sleep)\b", None),
        (
            WaitKind.FILE,
            "a socket",
            r"^(?:recv|recv_into|accept|connect|readinto|create_connection|getaddrinfo|do_handshake|sock_\w+"
            r"|select|poll)$",
            r"(?:^|/)(?:socket|ssl|http/client|selectors|multiprocessing/connection|urllib/request)\.py|urllib3/"
            r"|requests/|botocore/",
        ),
        (
            WaitKind.FILE,
            "a socket",
            r"^(?:sock_recv\w*|sock_accept\w*|select_poll\w*|select_epoll\w*|select_select\w*)",
            None,
        ),
        (
            WaitKind.FILE,
            "a file",
            r"^(?:_io_\w+|os_(?:open|read|write|fsync|stat|listdir|fdatasync)\w*|fileio_\w+|_Py_(?:read|write"
            r"|open)\w*|posix_\w+)",
            None,
        ),
    )
)
_CARRIED = {WaitKind.LOCK, WaitKind.SLEEP, WaitKind.FILE, WaitKind.DEVICE}
_AWAITING = {WaitKind.COLLECTIVE, WaitKind.LEAVING, WaitKind.MEETING}


def waits_in(frames: Iterable[Frame]) -> Wait | None:
    """What the thread waits for, as far as the names of its frames show (innermost first).

    Searched from the inside to the user's own line: what lies beyond that line is where the user came from, not what
    the thread waits for.
    """
    inner: Wait | None = None
    for frame in frames:
        found = _wait_of(frame)
        if found is not None:
            if found.kind in _AWAITING or found.kind in (WaitKind.INPUT, WaitKind.CHILDREN, WaitKind.PERSON):
                return found
            if inner is None or (inner.kind in _CARRIED and found.kind is WaitKind.DEVICE):
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
    """Whether a wait ends only when other ranks arrive."""
    return wait is not None and wait.kind in _AWAITING

# SPDX-License-Identifier: Apache-2.0
"""The names that matter in distributed programs: which of them give a rank, and which calls all ranks must make."""

from __future__ import annotations

_PREFIXES = (
    ("tensorflow.compat.v2.", "tensorflow."),
    ("tensorflow.python.keras.", "keras."),
    ("tensorflow.keras.", "keras."),
    ("tf_keras.", "keras."),
    ("keras.api.", "keras."),
    ("keras.src.", "keras."),
    ("tensorflow.distribute.experimental.", "tensorflow.distribute."),
    ("torch.distributed.distributed_c10d.", "torch.distributed."),
    ("torch.distributed.fsdp.fully_sharded_data_parallel.", "torch.distributed.fsdp."),
    ("torch.distributed._composable.fsdp.", "torch.distributed.fsdp."),
    ("torch.distributed._composable.fully_shard", "torch.distributed.fsdp.fully_shard"),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.utils.data.distributed.", "torch.utils.data."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.cuda.amp.", "torch.amp."),
    ("pytorch_lightning.", "lightning."),
    ("lightning.pytorch.", "lightning."),
    ("horovod.tensorflow.keras.", "horovod."),
    ("horovod.tensorflow.", "horovod."),
    ("horovod.torch.", "horovod."),
    ("horovod.keras.", "horovod."),
    ("jax._src.", "jax."),
    ("jax.tree_util.tree_map", "jax.tree.map"),
    ("jax.tree_map", "jax.tree.map"),
    ("orbax.checkpoint.checkpoint_manager.", "orbax.checkpoint."),
    ("orbax.checkpoint.checkpointer.", "orbax.checkpoint."),
    ("orbax.checkpoint.checkpointers.", "orbax.checkpoint."),
)
_STARTS = frozenset(prefix.partition(".")[0] for prefix, _ in _PREFIXES)


def canonical(name: str) -> str:
    """One spelling for what libraries offer under several."""
    if name.partition(".")[0] in _STARTS:
        for prefix, short in _PREFIXES:
            if name.startswith(prefix):
                return canonical(short + name[len(prefix) :])
    return name


RANK_CALLS = frozenset(
    {
        "torch.distributed.get_rank",
        "torch.distributed.get_node_local_rank",
        "torch.distributed.get_group_rank",
        "horovod.rank",
        "horovod.local_rank",
        "horovod.cross_rank",
        "jax.process_index",
        "jax.host_id",
        "xm.get_ordinal",
        "torch_xla.core.xla_model.get_ordinal",
        "torch_xla.runtime.global_ordinal",
    }
)
"""Calls whose result is a rank."""
RANK_NAMES = frozenset(
    {
        "rank",
        "local_rank",
        "global_rank",
        "world_rank",
        "node_rank",
        "process_index",
        "process_id",
        "proc_id",
        "host_id",
        "task_index",
        "task_id",
        "worker_index",
        "shard_index",
        "local_process_index",
        "get_rank",
        "get_local_rank",
        "get_global_rank",
        "get_world_rank",
        "get_ordinal",
        "gpu_id",
        "gpu_rank",
    }
)
"""Variables, attributes, keys and helper functions that hold a rank wherever they come from."""
_BEFORE_RANK = frozenset(
    [
        "ddp",
        "dist",
        "mpi",
        "hvd",
        "my",
        "this",
        "cur",
        "current",
        "process",
        "worker",
        "host",
        "torch",
        "slurm",
        "dist_local",
        "ddp_local",
    ]
)


def is_rank_name(name: str) -> bool:
    """Whether a thing of that name holds a rank among all: not one within a group, and not that of a matrix."""
    name = name.lower()
    return name in RANK_NAMES or (name.endswith("_rank") and name[:-5] in _BEFORE_RANK)


MAIN_NAMES = frozenset(
    {
        "is_main_process",
        "is_local_main_process",
        "is_main",
        "is_master",
        "is_master_process",
        "is_main_rank",
        "is_rank_zero",
        "is_rank0",
        "is_rank_0",
        "is_global_zero",
        "is_world_process_zero",
        "is_local_process_zero",
        "is_chief",
        "is_first_rank",
        "is_coordinator",
        "is_primary",
        "is_primary_process",
        "is_leader",
        "is_root",
        "master_process",
        "main_process",
        "is_lead_host",
        "is_first_process",
    }
)
"""What is true on the first rank only."""
RANK_VARIABLES = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "GLOBAL_RANK",
        "NODE_RANK",
        "GROUP_RANK",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "PMI_RANK",
        "PROCESS_ID",
        "JAX_PROCESS_ID",
        "JOB_COMPLETION_INDEX",
        "TPU_WORKER_ID",
        "HOROVOD_RANK",
    }
)
ALONE_NAMES = frozenset(
    {
        "is_initialized",
        "is_available",
        "distributed",
        "is_distributed",
        "use_ddp",
        "ddp",
        "multi_gpu",
        "multiprocessing_distributed",
        "is_dist_avail_and_initialized",
        "is_dist_initialized",
        "is_torch_distributed",
        "use_distributed",
        "do_distributed",
    }
)
"""What is true where there are several processes, which is the case we look at."""

PARALLEL_RANKS = (
    "tensor",
    "pipeline",
    "model_parallel",
    "data_parallel",
    "context_parallel",
    "expert",
    "sequence_parallel",
    "stage",
    "tp_",
    "pp_",
    "dp_",
    "cp_",
    "ep_",
    "sp_",
    "mp_",
)
"""In the name of a rank within a group: those who differ in it may well belong to different groups."""

_TORCH = {
    name: "collective"
    for name in (
        "all_reduce",
        "all_reduce_coalesced",
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "all_gather_coalesced",
        "all_to_all",
        "all_to_all_single",
        "broadcast",
        "broadcast_object_list",
        "barrier",
        "monitored_barrier",
        "gather",
        "gather_object",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "scatter",
        "scatter_object_list",
    )
}
SHARDED = "torch.distributed.fsdp.FSDPModule"
"""What ``fully_shard`` makes of a model."""
WRAPPERS = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "deepspeed.initialize[0]",
        SHARDED,
    }
)
CHECKPOINTERS = frozenset(
    f"orbax.checkpoint.{name}"
    for name in ("CheckpointManager", "Checkpointer", "AsyncCheckpointer", "StandardCheckpointer", "PyTreeCheckpointer")
)
"""Objects of orbax whose methods meet all processes."""
COMPILERS = frozenset({"jax.jit", "jax.pmap", "jax.experimental.pjit.pjit"})
"""What makes a program for all devices of a function."""
SHARDING = ("jax.sharding", "jax.make_mesh", "jax.make_array_from", "jax.experimental.mesh_utils")
"""With these begins the name of what divides arrays among the devices of all processes."""
MAPS = frozenset({"jax.tree.map", "map"})
"""Calls that call the function that they are given."""
COLLECTIVES: dict[str, str] = {
    **{f"{SHARDED}.{name}": "forward" for name in ("__call__", "forward")},
    **{f"{SHARDED}.{name}": "collective" for name in ("unshard", "reshard")},
    **{
        f"lightning.{library}.{name}": "collective"
        for library in ("Fabric", "fabric.Fabric")
        for name in ("barrier", "all_gather", "all_reduce", "broadcast")
    },
    **{f"torch.distributed.{name}": kind for name, kind in _TORCH.items()},
    **{f"torch.distributed.nn.{name}": "collective" for name in ("all_reduce", "all_gather", "broadcast", "reduce")},
    **{
        f"horovod.{name}": "collective"
        for name in (
            "allreduce",
            "allreduce_",
            "allgather",
            "allgather_object",
            "alltoall",
            "barrier",
            "broadcast",
            "broadcast_",
            "broadcast_object",
            "broadcast_parameters",
            "broadcast_optimizer_state",
            "broadcast_variables",
            "grouped_allreduce",
            "join",
            "reducescatter",
        )
    },
    **{
        f"jax.experimental.multihost_utils.{name}": "collective"
        for name in (
            "sync_global_devices",
            "broadcast_one_to_all",
            "process_allgather",
            "assert_equal",
            "reached_preemption_sync_point",
        )
    },
    **{
        f"torch.distributed.checkpoint.{name}": "save"
        for name in ("save", "load", "async_save", "save_state_dict", "load_state_dict")
    },
    **{
        f"torch.distributed.checkpoint.state_dict.{name}": "save"
        for name in ("get_state_dict", "get_model_state_dict", "get_optimizer_state_dict", "set_state_dict")
    },
    **{
        f"torch.distributed.fsdp.FullyShardedDataParallel.{name}": "save"
        for name in ("state_dict", "optim_state_dict", "full_optim_state_dict", "sharded_optim_state_dict")
    },
    **{
        f"tensorflow.distribute.MultiWorkerMirroredStrategy.{name}": "collective"
        for name in ("run", "experimental_run_v2", "reduce", "gather")
    },
    **{f"{checkpointer}.{name}": "checkpoint" for checkpointer in CHECKPOINTERS for name in ("save", "restore")},
    "flax.training.checkpoints.save_checkpoint_multiprocess": "checkpoint",
    "torch.distributed.fsdp.FullyShardedDataParallel": "group",
    "torch.distributed.new_group": "group",
    "torch.distributed.new_subgroups": "group",
    "torch.distributed.split_group": "group",
    "torch.distributed.device_mesh.init_device_mesh": "group",
    "torch.distributed.init_device_mesh": "group",
    "torch.nn.parallel.DistributedDataParallel": "group",
    "torch.distributed.fsdp.fully_shard": "group",
    "torch.nn.parallel.DistributedDataParallel.__call__": "forward",
    "torch.nn.parallel.DistributedDataParallel.forward": "forward",
    "torch.distributed.fsdp.FullyShardedDataParallel.__call__": "forward",
    "torch.distributed.fsdp.FullyShardedDataParallel.forward": "forward",
    "torch.distributed.fsdp.FullyShardedDataParallel.clip_grad_norm_": "collective",
    "deepspeed.initialize": "group",
    "deepspeed.initialize[0].backward": "backward",
    "deepspeed.initialize[0].step": "backward",
    "deepspeed.initialize[0].save_checkpoint": "save",
    "deepspeed.initialize[0].load_checkpoint": "save",
    "deepspeed.initialize[0].save_16bit_model": "save",
    "accelerate.Accelerator.wait_for_everyone": "collective",
    "accelerate.Accelerator.gather": "collective",
    "accelerate.Accelerator.gather_for_metrics": "collective",
    "accelerate.Accelerator.gather_object": "collective",
    "accelerate.Accelerator.reduce": "collective",
    "accelerate.Accelerator.pad_across_processes": "collective",
    "accelerate.Accelerator.get_state_dict": "save",
    "accelerate.Accelerator.prepare": "group",
    "accelerate.utils.gather": "collective",
    "accelerate.utils.gather_object": "collective",
    "accelerate.utils.broadcast": "collective",
    "accelerate.utils.broadcast_object_list": "collective",
    "accelerate.utils.reduce": "collective",
}
"""Calls that all ranks must make, by kind."""
COLLECTIVE_METHODS = {
    "wait_for_everyone": "collective",
    "gather_for_metrics": "collective",
    "pad_across_processes": "collective",
    "sync_global_devices": "collective",
    "process_allgather": "collective",
    "broadcast_object_list": "collective",
    "all_gather_object": "collective",
}
"""Methods that say by their name alone that all ranks must call them, whatever the object."""
UNTOLD = frozenset(
    {
        *(
            "len",
            "range",
            "isinstance",
            "str",
            "int",
            "float",
            "list",
            "dict",
            "tuple",
            "set",
            "enumerate",
            "zip",
            "bool",
        ),
        *("getattr", "hasattr", "setattr", "super", "min", "max", "sum", "sorted", "type", "abs", "any", "all", "repr"),
        *("round", "iter", "next", "issubclass", "callable", "id", "hash", "vars", "format", "reversed", "frozenset"),
        *("ValueError", "TypeError", "RuntimeError", "NotImplementedError", "KeyError", "AssertionError", "Exception"),
    }
)
"""Calls about which no rule asks."""
EQUALISED = frozenset(
    {"broadcast", "broadcast_object_list", "all_reduce", "all_gather", "all_gather_object", "broadcast_"}
)
"""Collectives after which their first argument is the same on all ranks."""
OVER_A_GROUP = ("group", "process_group", "process_set", "async_op_group")
"""The arguments that restrict a collective to some ranks."""
EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit", "os.abort"})
SAME_VALUE = frozenset(
    {
        "int",
        "str",
        "float",
        "bool",
        "abs",
        "torch.compile",
        "tensorflow.function",
        "tqdm.tqdm",
        "tqdm.auto.tqdm",
        "iter",
        "list",
        "tuple",
    }
)
"""Calls that give back what they are given, as far as we ask."""
SAME_OBJECT = frozenset(
    {"to", "cuda", "cpu", "train", "eval", "half", "bfloat16", "double", "requires_grad_", "share_memory", "compile"}
)
"""Methods that return their own object."""
COUNTED = frozenset({"range", "len", "min", "max", "sum", "enumerate", "zip", "divmod", "round", "sorted", "reversed"})
"""Calls whose result differs by rank if an argument does."""
WORLD_NAMES = frozenset(
    {
        "world_size",
        "get_world_size",
        "num_processes",
        "process_count",
        "num_workers_total",
        "WORLD_SIZE",
        "num_nodes",
        "n_nodes",
        "nnodes",
        "ngpus",
        "n_gpu",
        "num_gpus",
        "num_hosts",
        "host_count",
        "size",
    }
)
"""How many there are: more than one, in the case we look at."""
MAIN_DECORATORS = frozenset(
    {
        "rank_zero_only",
        "on_main_process",
        "on_local_main_process",
        "main_process_only",
        "master_only",
        "main_only",
        "only_on_main",
        "rank0_only",
        "rank_zero",
        "only_rank_zero",
        "only_main_process",
        "chief_only",
        "only_main",
        "run_on_main",
        "on_main",
        "host0_only",
    }
)
"""Decorators of functions that only the first rank runs."""

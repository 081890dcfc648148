# SPDX-License-Identifier: Apache-2.0
"""The names that matter in distributed programs: one spelling for each, and which calls all ranks must make."""

from __future__ import annotations

from functools import lru_cache

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


@lru_cache(maxsize=1 << 14)
def canonical(name: str) -> str:
    """One spelling for what libraries offer under several."""
    if name.partition(".")[0] in _STARTS:
        for prefix, short in _PREFIXES:
            if name.startswith(prefix):
                return canonical(short + name[len(prefix) :])
    return name


_TORCH = {
    name: "collective"
    for name in """
        all_reduce all_reduce_coalesced all_gather all_gather_into_tensor all_gather_object all_gather_coalesced
        all_to_all all_to_all_single broadcast broadcast_object_list barrier monitored_barrier gather
        gather_object reduce reduce_scatter reduce_scatter_tensor scatter scatter_object_list
    """.split()
}
SHARDED = "torch.distributed.fsdp.FSDPModule"
"""What ``fully_shard`` makes of a model."""
PREPARED = frozenset(
    f"{prepares}{place}"
    for prepares in ("accelerate.Accelerator.prepare", "lightning.Fabric.setup", "lightning.fabric.Fabric.setup")
    for place in ("", *(f"[{index}]" for index in range(6)))
)
"""What a library gives back for a model, an optimizer or a loader. Only models can be called."""
WRAPPERS = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "deepspeed.initialize[0]",
        SHARDED,
        *PREPARED,
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
    **{f"{SHARDED}.{name}": "forward" for name in ("__call__", "forward", "generate")},
    **{f"{prepared}.__call__": "forward" for prepared in PREPARED},
    **{
        f"torch_xla.core.xla_model.{name}": "collective"
        for name in ("rendezvous", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "mesh_reduce")
    },
    "torch_xla.core.xla_model.optimizer_step": "backward",
    "torch_xla.core.xla_model.save": "save",
    **{
        f"mpi4py.MPI.COMM_WORLD.{name}": "collective"
        for lower in ("bcast", "gather", "allgather", "reduce", "allreduce", "scatter", "alltoall", "barrier")
        for name in (lower, lower.capitalize())
    },
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
        for name in """
            allreduce allreduce_ allgather allgather_object alltoall barrier broadcast broadcast_
            broadcast_object broadcast_parameters broadcast_optimizer_state broadcast_variables
            grouped_allreduce join reducescatter
        """.split()
    },
    **{
        f"jax.experimental.multihost_utils.{name}": "collective"
        for name in """
            sync_global_devices broadcast_one_to_all process_allgather assert_equal
            reached_preemption_sync_point
        """.split()
    },
    **{
        f"torch.distributed.checkpoint.{name}": "save"
        for name in ("save", "load", "async_save", "save_state_dict", "load_state_dict")
    },
    **{
        f"torch.distributed.fsdp.FullyShardedDataParallel.{name}": "save"
        for name in "state_dict optim_state_dict full_optim_state_dict sharded_optim_state_dict summon_full_params".split()
    },
    **{
        f"torch.distributed.checkpoint.state_dict.{name}": "save"
        for name in ("get_model_state_dict", "get_optimizer_state_dict", "get_state_dict")
    },
    "deepspeed.zero.GatheredParameters": "save",
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
    "torch.distributed.fsdp.FullyShardedDataParallel.generate": "forward",
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
    "consolidate_state_dict": "save",
}
"""Methods that say by their name alone that all ranks must call them, whatever the object."""
UNTOLD = frozenset(
    """
    len range isinstance str int float list dict tuple set enumerate zip bool
    getattr hasattr setattr super min max sum sorted type abs any all repr
    round iter next issubclass callable id hash vars format reversed frozenset
    ValueError TypeError RuntimeError NotImplementedError KeyError AssertionError Exception
    """.split()
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
    "int str float bool abs torch.compile tensorflow.function tqdm.tqdm tqdm.auto.tqdm iter list tuple".split()
)
"""Calls that give back what they are given, as far as we ask."""
SAME_OBJECT = frozenset(
    {"to", "cuda", "cpu", "train", "eval", "half", "bfloat16", "double", "requires_grad_", "share_memory", "compile"}
)
"""Methods that return their own object."""
COUNTED = frozenset(
    """
    range len min max sum enumerate zip divmod round sorted reversed abs int float bool torch.tensor torch.as_tensor
    """.split()
)
"""Calls whose result differs by rank if an argument does."""

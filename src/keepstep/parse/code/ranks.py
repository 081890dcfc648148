# SPDX-License-Identifier: Apache-2.0
"""The names that stand for a rank, for the first of them, or for how many there are."""

from __future__ import annotations

from functools import lru_cache

RANK_CALLS = frozenset(
    """
    torch.distributed.get_rank torch.distributed.get_node_local_rank torch.distributed.get_group_rank horovod.rank
    horovod.local_rank horovod.cross_rank jax.process_index jax.host_id xm.get_ordinal
    torch_xla.core.xla_model.get_ordinal torch_xla.runtime.global_ordinal
    """.split()
)
"""Calls whose result is a rank."""
OWN_CALLS = frozenset(
    """
    time.time time.monotonic time.perf_counter time.process_time time.time_ns time.monotonic_ns time.perf_counter_ns
    timeit.default_timer datetime.datetime.now datetime.datetime.utcnow torch.cuda.mem_get_info
    torch.cuda.memory_allocated torch.cuda.memory_reserved torch.cuda.max_memory_allocated
    torch.cuda.max_memory_reserved psutil.virtual_memory psutil.cpu_percent socket.gethostname platform.node os.getpid
    """.split()
)
"""Calls whose result is this process's own: clocks differ, and so do memory and hosts."""
CLOCKS = ("time.", "timeit.", "datetime.")
"""How those of them begin that tell the time."""
RANK_NAMES = frozenset(
    """
    rank local_rank global_rank world_rank node_rank process_index process_id proc_id host_id task_index task_id
    worker_index shard_index local_process_index get_rank get_local_rank get_global_rank get_world_rank get_ordinal
    gpu_id gpu_rank
    """.split()
)
"""Variables, attributes, keys and helper functions that hold a rank wherever they come from."""
_BEFORE_RANK = frozenset(
    "ddp dist mpi hvd my this cur current process worker host torch slurm dist_local ddp_local".split()
)


@lru_cache(maxsize=1 << 14)
def is_rank_name(name: str) -> bool:
    """Whether a thing of that name holds a rank among all: not one within a group, and not that of a matrix."""
    name = name.lower()
    return name in RANK_NAMES or (name.endswith("_rank") and name[:-5] in _BEFORE_RANK)


MAIN_NAMES = frozenset(
    """
    is_main_process is_local_main_process is_main is_master is_master_process is_main_rank is_rank_zero is_rank0
    is_rank_0 is_global_zero is_world_process_zero is_local_process_zero is_chief is_first_rank is_coordinator
    is_primary is_primary_process is_leader is_root master_process main_process is_lead_host is_first_process
    is_master_ordinal
    """.split()
)
"""What is true on the first rank only."""
RANK_VARIABLES = frozenset(
    """
    RANK LOCAL_RANK GLOBAL_RANK NODE_RANK GROUP_RANK SLURM_PROCID SLURM_LOCALID SLURM_NODEID OMPI_COMM_WORLD_RANK
    OMPI_COMM_WORLD_LOCAL_RANK PMI_RANK PROCESS_ID JAX_PROCESS_ID JOB_COMPLETION_INDEX TPU_WORKER_ID HOROVOD_RANK
    """.split()
)
ALONE_NAMES = frozenset(
    """
    is_initialized is_available distributed is_distributed use_ddp ddp multi_gpu multiprocessing_distributed
    is_dist_avail_and_initialized is_dist_initialized is_torch_distributed use_distributed do_distributed
    """.split()
)
"""What is true where there are several processes, which is the case we look at."""
WORLD_NAMES = frozenset(
    """
    world_size get_world_size num_processes process_count num_workers_total WORLD_SIZE num_nodes n_nodes nnodes
    ngpus n_gpu num_gpus num_hosts host_count size
    """.split()
)
"""How many there are: more than one, in the case we look at."""
MAIN_DECORATORS = frozenset(
    """
    rank_zero_only on_main_process on_local_main_process main_process_only master_only main_only only_on_main
    rank0_only rank_zero only_rank_zero only_main_process chief_only only_main run_on_main on_main host0_only
    """.split()
)
"""Decorators of functions that only the first rank runs."""

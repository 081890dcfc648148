# SPDX-License-Identifier: Apache-2.0
"""What frameworks offer in some of their modules and classes: a call of anything else there fails.

Made from TensorFlow 2.21 (``_api/v2`` and ``_api/v2/compat/v1``) and JAX 0.10, with older names that are known to have
been there. Names are in their one spelling: ``tensorflow.distribute`` is also what ``tf.distribute.experimental``
offers. A test compares the table with what is installed.
"""

from __future__ import annotations

_STRATEGY = frozenset(
    """
    run scope reduce gather group extended cluster_resolver num_replicas_in_sync distribute_datasets_from_function
    experimental_distribute_dataset experimental_distribute_datasets_from_function
    experimental_distribute_values_from_function experimental_local_results experimental_run_v2
    experimental_run experimental_make_numpy_dataset make_dataset_iterator make_input_fn_iterator unwrap
    update_config_proto configure colocate_vars_with broadcast
    experimental_assign_to_logical_device experimental_replicate_to_logical_devices
    experimental_split_to_logical_devices experimental_between_graph
    """.split()
)
"""What an object of any strategy has, in TensorFlow 1 or 2."""
NAMES: dict[str, frozenset[str]] = {
    "tensorflow.tpu": frozenset({"XLAOptions", "experimental"}),
    "tensorflow.distribute": frozenset(
        """
        CentralStorageStrategy CollectiveCommunication CollectiveHints CommunicationImplementation CommunicationOptions
        CrossDeviceOps DistributedDataset DistributedIterator DistributedValues HierarchicalCopyAllReduce InputContext
        InputOptions InputReplicationMode MirroredStrategy MultiWorkerMirroredStrategy NcclAllReduce OneDeviceStrategy
        ParameterServerStrategy PreemptionCheckpointHandler PreemptionWatcher ReduceOp ReductionToOneDevice
        ReplicaContext RunOptions Server Strategy StrategyExtended TPUStrategy TerminationConfig ValueContext
        cluster_resolver coordinator experimental experimental_set_strategy get_loss_reduction get_replica_context
        get_strategy has_strategy in_cross_replica_context partitioners rpc
        """.split()
    ),
    "tensorflow.distribute.cluster_resolver": frozenset(
        """
        ClusterResolver GCEClusterResolver KubernetesClusterResolver KubernetesExecutableLocation SimpleClusterResolver
        SlurmClusterResolver TFConfigClusterResolver TPUClusterResolver UnionResolver UnionClusterResolver
        """.split()
    ),
    "tensorflow.distribute.MirroredStrategy": _STRATEGY,
    "tensorflow.distribute.MultiWorkerMirroredStrategy": _STRATEGY,
    "tensorflow.distribute.TPUStrategy": _STRATEGY,
    "jax.distributed": frozenset({"initialize", "is_initialized", "shutdown"}),
}
"""By module or class: all that it has."""
ONLY_V1: dict[str, frozenset[str]] = {
    "tensorflow.tpu": frozenset(
        """
        CrossShardOptimizer PaddingSpec batch_parallel bfloat16_scope core cross_replica_sum initialize_system
        outside_compilation replicate rewrite shard shutdown_system
        """.split()
    )
}
"""What TensorFlow 1 had there, and TensorFlow 2 has only under ``tf.compat.v1``."""
_RESOLVER = "tensorflow.distribute.cluster_resolver."
KEYWORDS: dict[str, frozenset[str]] = {
    f"{_RESOLVER}SimpleClusterResolver": frozenset(
        "cluster_spec master task_type task_id environment num_accelerators rpc_layer".split()
    ),
    f"{_RESOLVER}TFConfigClusterResolver": frozenset("task_type task_id rpc_layer environment".split()),
    f"{_RESOLVER}SlurmClusterResolver": frozenset(
        "jobs port_base gpus_per_node gpus_per_task tasks_per_node auto_set_gpu rpc_layer".split()
    ),
    f"{_RESOLVER}TPUClusterResolver": frozenset(
        """
        tpu zone project job_name coordinator_name coordinator_address credentials service discovery_url
        """.split()
    ),
    "tensorflow.distribute.MirroredStrategy": frozenset({"devices", "cross_device_ops"}),
    "tensorflow.distribute.MultiWorkerMirroredStrategy": frozenset(
        {"cluster_resolver", "communication_options", "communication"}
    ),
}
"""By call: the arguments that it takes by name."""

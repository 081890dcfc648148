"""The TensorFlow recordings."""

from __future__ import annotations

from functools import partial

from lab.scenario import Scenario

LEGACY = {"TF_USE_LEGACY_KERAS": "1"}

mwms = partial(Scenario, framework="tensorflow", job="lab/jobs/tf_mwms.py")
fit = partial(Scenario, framework="tensorflow", job="lab/jobs/tf_keras_fit.py")
ps = partial(
    Scenario, framework="tensorflow", job="lab/jobs/tf_ps.py", ranks=3, roles=("chief", "worker", "ps")
)
on_worker_1 = {"strike_ranks": (1,), "root_ranks": (1,), "strike_step": 30}

HEALTHY = (
    mwms(
        "tf_healthy_mwms",
        env={"TF_CPP_MIN_LOG_LEVEL": "0"},
        note="A clean run of two workers with all of TF's chatter.",
    ),
    fit("tf_healthy_fit", env=LEGACY, note="tf_keras fit on two workers, which stops early by its callback."),
    ps(
        "tf_healthy_ps",
        limit=45,
        note="A clean parameter server run; worker and ps serve until they are ended.",
    ),
    mwms(
        "tf_healthy_records",
        fault="tf_records",
        note="Reads TFRecords to their end (End of sequence is normal), and writes checkpoints.",
    ),
    mwms(
        "tf_healthy_words",
        fault="harmless_words",
        strike_step=30,
        note="Prints '0 errors', 'nan_to_num enabled' and the like.",
    ),
)

FAILING = (
    mwms(
        "tf_segfault",
        cause="user.native_crash",
        also_accept=("framework.bug_segfault",),
        fault="native_segfault",
        launcher="shell",
        note="Worker 1 dies of SIGSEGV, its shell says so; worker 0 gets UNAVAILABLE from the collective.",
        **on_worker_1,
    ),
    fit(
        "tf_segfault_faulthandler",
        cause="user.native_crash",
        also_accept=("framework.bug_segfault",),
        fault="native_segfault",
        env=LEGACY | {"PYTHONFAULTHANDLER": "1"},
        note="Worker 1 dies of SIGSEGV inside tf_keras fit; faulthandler prints its stack.",
        **on_worker_1,
    ),
    mwms(
        "tf_key_error",
        cause="user.code_exception",
        fault="key_error",
        ranks=3,
        note="KeyError in the user's code of worker 1; the others' collectives fail.",
        **on_worker_1,
    ),
    fit(
        "tf_keras3_fit",
        cause="framework.unsupported_combination",
        note="Keras 3 fit under MultiWorkerMirroredStrategy: cannot convert a PerReplica value.",
    ),
    mwms(
        "tf_port_taken",
        cause="network.port_in_use",
        fault="port_taken",
        root_ranks=(0,),
        limit=45,
        note="The gRPC server of worker 0 cannot bind its port; worker 1 waits for it.",
    ),
    mwms(
        "tf_unresolvable_host",
        cause="network.unreachable_or_firewall",
        also_accept=("network.dns", "config.cluster_spec", "network.timeout_slow"),
        fault="unresolvable_host",
        args=("--register-timeout", "10"),
        limit=60,
        note="The address of worker 0 does not resolve; the logs only tell of a deadline at RegisterTask.",
    ),
    mwms(
        "tf_absent_chief_timeout",
        cause="network.unreachable_or_firewall",
        also_accept=("config.cluster_spec", "network.timeout_slow", "sync.deadlock_or_hang_waiting_rank"),
        fault="absent_peer",
        strike_ranks=(0,),
        args=("--register-timeout", "10"),
        limit=60,
        note="Worker 0 was never started: worker 1 gives up after its time-out.",
    ),
    mwms(
        "tf_absent_worker",
        cause="sync.deadlock_or_hang_waiting_rank",
        also_accept=(
            "network.unreachable_or_firewall",
            "config.cluster_spec",
            "config.world_size_mismatch",
            "network.timeout_slow",
        ),
        root_ranks=(1,),
        fault="absent_peer",
        strike_ranks=(1,),
        limit=30,
        note="Worker 1 was never started: worker 0 names it as the straggler and waits on.",
    ),
    mwms(
        "tf_absent_chief",
        cause="sync.deadlock_or_hang_waiting_rank",
        also_accept=("network.unreachable_or_firewall", "config.cluster_spec", "network.timeout_slow"),
        fault="absent_peer",
        strike_ranks=(0,),
        limit=30,
        note="Worker 0 was never started: worker 1 waits for it without a word (up to an hour by default).",
    ),
    mwms(
        "tf_width_mismatch",
        cause="data.shape_mismatch",
        also_accept=("sync.collective_mismatch",),
        fault="other_width",
        strike_ranks=(1,),
        args=("--timeout", "10"),
        limit=45,
        note="Worker 1 built a wider model: its collectives have other shapes.",
    ),
    mwms(
        "tf_dtype_mismatch",
        cause="data.dtype_mismatch",
        also_accept=("sync.collective_mismatch",),
        fault="double_precision",
        strike_ranks=(1,),
        args=("--timeout", "10"),
        limit=45,
        note="Worker 1 built its model in double precision.",
    ),
    mwms(
        "tf_fewer_steps",
        cause="data.sharding_uneven_or_empty",
        also_accept=("network.connection_reset_peer_died",),
        fault="fewer_steps",
        strike_ranks=(1,),
        root_ranks=(1,),
        limit=60,
        note="Worker 1 finishes after 50 steps and leaves; worker 0 goes on and loses it.",
    ),
    mwms(
        "tf_label_out_of_range",
        cause="data.label_out_of_range",
        fault="tf_label_out_of_range",
        strike_ranks=(1,),
        root_ranks=(1,),
        note="Worker 1 has a label of 10 with 10 classes.",
    ),
    mwms(
        "tf_truncated_record",
        cause="data.corrupt_or_truncated",
        fault="truncated_record",
        root_ranks=(1,),
        note="Worker 1's TFRecord file is cut off: 'truncated record'.",
    ),
    mwms(
        "tf_flipped_record",
        cause="data.corrupt_or_truncated",
        fault="flipped_record",
        root_ranks=(1,),
        note="One bit of worker 1's TFRecord file flipped: 'corrupted record'.",
    ),
    mwms(
        "tf_one_file",
        cause="data.sharding_uneven_or_empty",
        fault="one_record_file",
        note="One file for two workers with the FILE auto-shard policy.",
    ),
    mwms(
        "tf_other_checkpoint",
        cause="checkpoint.mismatch_keys_shapes",
        fault="other_tf_checkpoint",
        note="The checkpoint is of another model: shapes and objects do not fit.",
    ),
    mwms(
        "tf_other_weights",
        cause="checkpoint.mismatch_keys_shapes",
        fault="other_keras_weights",
        note="Keras load_weights of a wider model's file.",
    ),
    mwms(
        "tf_nan_loss",
        cause="numeric.nan_or_divergence",
        fault="huge_data",
        strike_ranks=(1,),
        args=("--check-numerics",),
        note="Worker 1's inputs are huge, all weights overflow; check_numerics stops at the loss.",
    ),
    mwms(
        "tf_full_disk",
        cause="resource.disk_full",
        fault="full_disk",
        root_ranks=(0,),
        checkpoint="ckpt",
        note="No space left on the checkpoints' disk when worker 0 saves.",
    ),
    mwms(
        "tf_no_config",
        cause="config.missing_rank_env",
        also_accept=("config.cluster_spec",),
        fault="no_rank_env",
        note="TF_CONFIG is not set.",
    ),
    mwms(
        "tf_malformed_config",
        cause="config.cluster_spec",
        fault="malformed_tf_config",
        root_ranks=(1,),
        limit=40,
        note="TF_CONFIG of worker 1 is not JSON; worker 0 waits for it.",
    ),
    mwms(
        "tf_index_out_of_range",
        cause="config.cluster_spec",
        fault="tf_index_out_of_range",
        root_ranks=(1,),
        limit=40,
        note="TF_CONFIG of worker 1 has index 2 in a cluster of two; worker 0 waits for it.",
    ),
    fit(
        "tf_no_scope",
        cause="sync.variable_outside_strategy_scope",
        fault="no_scope",
        env=LEGACY,
        note="The model was built outside strategy.scope().",
    ),
    mwms(
        "tf_sigkill",
        cause="network.connection_reset_peer_died",
        also_accept=("resource.host_oom_killed",),
        fault="kill_rank",
        ranks=3,
        strike_ranks=(2,),
        root_ranks=(2,),
        args=("--steps", "2000", "--epochs", "200"),
        note="Worker 2 gets SIGKILL: its log just ends, nothing says why; the others lose it.",
    ),
    ps(
        "tf_ps_killed",
        cause="worker.parameter_server_lost",
        also_accept=("network.connection_reset_peer_died",),
        fault="kill_rank",
        mark="step 60",
        strike_ranks=(2,),
        root_ranks=(2,),
        launcher="shell",
        limit=60,
        note="The only parameter server is killed (rank 2: chief is 0, worker 1); the chief loses it.",
    ),
    mwms(
        "tf_restarted_worker",
        cause="worker.restarted_or_incarnation_mismatch",
        also_accept=("network.connection_reset_peer_died",),
        fault="restart_rank",
        strike_ranks=(1,),
        root_ranks=(1,),
        args=("--steps", "2000", "--epochs", "200"),
        limit=60,
        note="Worker 1 is killed and started again; it joins a cluster that knows its old incarnation.",
    ),
    mwms(
        "tf_big_graph",
        cause="serialization.too_large_or_protobuf",
        fault="big_constant",
        ranks=1,
        root_ranks=(0,),
        note="A tf.function with more than 2 GB of constants.",
    ),
)

SCENARIOS = HEALTHY + FAILING

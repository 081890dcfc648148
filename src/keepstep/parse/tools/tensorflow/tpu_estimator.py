# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 1's TPUEstimator, TPU embeddings, and what a client and its TPU's host exchange."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, NotScheduled, RankVariableMissing, WorldSizeConflict
from keepstep.model.facts.data import EndOfData, ShapeMismatch
from keepstep.model.facts.environment import UnsupportedCombination, VersionConflict
from keepstep.model.facts.network import ConnectFailed, Why
from keepstep.model.facts.platform import MemberRestarted, TpuInitFailed
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.resource import DeviceMemoryExhausted, DiskFull
from keepstep.model.facts.sync import OutsideScope
from keepstep.model.facts.training import MessageTooLarge, ProgramTooLarge
from keepstep.parse.scan.signature import signature

_LOOP = r"Error recorded from (?:infeed|outfeed|training_loop|evaluation_loop|prediction_loop): "

SIGNATURES = (
    # What input_fn and model_fn gave
    signature(
        r"The (?P<left>\w{1,40}) to the model returned by input_fn must have (?P<right>static shape)", ShapeMismatch
    ),
    signature(
        r"in TPUEstimatorSpec\.predictions has (?P<left>dynamic shape) \(should be (?P<right>static)\)", ShapeMismatch
    ),
    signature(
        r"All tensors outfed from TPU should preserve batch size dimension, but got (?P<left>scalar)", ShapeMismatch
    ),
    signature(
        r"(?:Found gradient of shape (?P<left>\S{1,60}(?: \S{1,20}){0,4}) at path [^\n]{1,80}\. Expected shape|"
        r"Inconsistent shape founded for input feature)",
        ShapeMismatch,
        op="TPU embedding",
    ),
    signature(
        rf"{_LOOP}(?:From /job:\S{{1,80}}: |\d+ root error\(s\) found\. |\(0\) Out of range: )*End of sequence",
        EndOfData,
        what="exception",
    ),
    signature(
        r"Error occurred during infeed/outfeed\.[^\n]{0,240}\s{1,8}(?:From /job:\S{1,80}:\s)?End of sequence",
        EndOfData,
        what="exception",
    ),
    signature(r"^\s{0,16}End of sequence\s{1,20}\[\[", EndOfData, what="exception"),
    signature(r"Output shapes of then and else branches do not match", ShapeMismatch, op="branches of a condition"),
    signature(
        r"(?P<what>TPUEstimator\.(?:evaluate|predict) is only supported under three conditions)", UnsupportedCombination
    ),
    signature(
        r"(?P<what>`input_fn` returning `Dataset` +is not yet supported in per-Core input pipeline)",
        UnsupportedCombination,
    ),
    signature(r"(?P<what>Model parallelism only supports per host input for training)", UnsupportedCombination),
    signature(
        r"(?:NotImplementedError|RuntimeError|ValueError): (?P<what>Operation of type \w{1,60} \([^)\n]{1,120}\) is not supported on the TPU)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>could not find registered (?:transfer manager|computation placer) for platform \w{1,30}|"
        r"No compiler registered for platform:? \w{1,30})",
        UnsupportedCombination,
    ),
    signature(r"(?P<what>TPU is already initialized for embeddings\.)", UnsupportedCombination),
    signature(r"(?P<what>Serving on TPU is not yet supported)", UnsupportedCombination),
    signature(r"(?P<what>Dynamic input shapes are not supported with infeed queues)", UnsupportedCombination),
    signature(
        r"(?P<what>Assigned device '[^'\n]{1,120}TPU:\d+' does not have registered OpKernel support for \w{1,60})",
        UnsupportedCombination,
    ),
    signature(r"the (?P<what>metric) was not created in TPUStrategy scope", OutsideScope),
    # How many cores there are
    signature(r"`tpu_cores` can only be 1, 8 or \[<1-8>\]", WorldSizeConflict, what="TPU cores"),
    signature(
        r"TPUConfig\.num_cores_per_replica, is larger than the total num of TPU cores in the system\. "
        r"num_cores_per_replica: (?P<expected>\d+), num cores in the system: (?P<seen>\d+)",
        WorldSizeConflict,
        what="TPU cores",
    ),
    signature(
        r"TPUConfig\.num_shards is not set correctly\. According to TPU system metadata for Tensorflow master "
        r"\([^)\n]{0,80}\): num_replicas should be \((?P<expected>\d+)\), got \((?P<seen>\d+)\)",
        WorldSizeConflict,
        what="shards",
    ),
    signature(
        r"The num of cores in the system \((?P<seen>\d+)\) is not divisible by the num of cores \((?P<expected>\d+)\) required",
        WorldSizeConflict,
        what="TPU cores",
    ),
    # Where the TPU is
    signature(
        r"KeyError: [\"'](?P<what>COLAB_TPU_ADDR|TPU_NAME|TPU_ADDRESS|KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS)[\"']",
        lambda match: TpuInitFailed(what=f"no TPU is attached to this machine: {match['what']} is not set"),
    ),
    signature(
        r"(?:AssertionError|ValueError|RuntimeError|Exception): (?P<what>[^\n]{0,60}(?:Make sure to|Did you|please)[^\n]{0,40}"
        r"\bselect(?:ed)? (?:a )?TPU\b)",
        TpuInitFailed,
    ),
    signature(r"(?P<what>Not connected to a TPU runtime)", TpuInitFailed),
    signature(r"(?P<what>Failed to open the gRPC driver[^\n]{0,80})", TpuInitFailed),
    signature(
        r"KeyError: [\"'](?P<name>XRT_TPU_CONFIG|XRT_WORKERS|XRT_DEVICE_MAP|XRT_SHARD_WORLD_SIZE|TPU_PROCESS_ADDRESSES|"
        r"TPU_WORKER_ID|CLOUD_TPU_TASK_ID|TPU_WORKER_HOSTNAMES)[\"']",
        RankVariableMissing,
    ),
    signature(
        r"There is no more capacity in the zone \\?\"(?P<asked>[\w\-]{1,40})", NotScheduled, by="Cloud TPU", never=False
    ),
    signature(
        r"Quota limit '(?P<asked>TPU\w{1,80}|\w{0,40}TPU\w{1,80})' has been exceeded",
        NotScheduled,
        by="Cloud TPU",
        never=False,
    ),
    signature(r"(?P<what>No matching devices found for '[^'\n]{0,120}TPU(?:_SYSTEM)?:\d+)", TpuInitFailed),
    signature(
        r"xrt_computation_client\.cc:\d+ : Check failed: (?P<what>(?:parsed_device\.id <=? topology_proto|session\.Run\()[^\n]{0,200})",
        TpuInitFailed,
    ),
    signature(
        r"HttpError \d+ when requesting https://tpu\.googleapis\.com\S{0,200}(?P<what>[^\n]{0,160})", TpuInitFailed
    ),
    signature(
        r"(?P<what>`(?:TPU|XLA)Accelerator` can ?not run on your system since the accelerator is not available)",
        TpuInitFailed,
    ),
    signature(r"\[/usr/bin/ssh\] exited with return code \[(?P<code>[1-9]\d{0,2})\]", ProcessExited, reporter="gcloud"),
    # What is sent between a client and the TPU's host
    signature(
        r"The transfer size is larger than the protobuf limit", MessageTooLarge, what="the tensors of a host call"
    ),
    signature(r"Unable to parse tensor proto", MessageTooLarge, what="tensor"),
    signature(
        r"Error: [^\n]{0,80}Unable to find the relevant tensor remote_handle", lambda m: MemberRestarted(sure=False)
    ),
    signature(r"Resource (?P<member>(?:tpu_)?worker)/_AnonymousVar\d+/\S{1,60} does not exist", MemberRestarted),
    signature(
        r"Unexpected PJRT_\w{1,60} size: expected \d+, got \d+\. The plugin is likely built with",
        VersionConflict,
        component="the PJRT plugin",
    ),
    signature(r"unknown service tensorflow\.[\w.]{1,60}Service\b", VersionConflict, component="TensorFlow's server"),
    signature(r"Unsupported Mosaic version: (?P<there>\d+)", VersionConflict, component="Mosaic"),
    signature(r"(?P<what>allocation_size_words <= std::numeric_limits<\w+>::max\(\))", ProgramTooLarge),
    signature(
        r"TPU backend error: ResourceExhausted|RESOURCE_EXHAUSTED: TPU backend error", DeviceMemoryExhausted, kind="tpu"
    ),
    # Cloud Storage
    signature(r"Could not write to the internal temporary file", DiskFull),
    signature(
        r"Error: (?:From /job:\S{1,80}: )?All \d+ retry attempts failed\. The last failure: (?![^\n]{0,200}(?:libcurl code 6 |response code 4\d\d))",
        ConnectFailed,
        why=Why.FAILED,
        peer="Cloud Storage",
    ),
    signature(
        r"Error: Error executing an HTTP request: HTTP response code (?:429|50[0234])",
        ConnectFailed,
        why=Why.FAILED,
        peer="Cloud Storage",
    ),
    signature(r"(?P<what>TPU cores on each device is not the same)", TpuInitFailed),
    signature(
        r"num_cores_per_replica must be 1, 2, 4, 8[\d, ]{0,40}; got (?P<seen>\d+)",
        WorldSizeConflict,
        what="cores of a replica",
    ),
    signature(
        r"Error: (?P<detail>Both master and cluster are set|You cannot provide a ClusterResolver and session_config\.cluster_def"
        r"|Please specify a tpu_job_name as part of your TPUConfig)",
        ClusterSpecInvalid,
    ),
    signature(
        r"Error: (?P<what>InMemoryEvaluator supports only single machine|run_every_secs should not be set when using MultiWorkerMirroredStrategy"
        r"|Please use `tf\.compat\.v1\.distribute\.experimental\.ParameterServerStrategy` for parameter server strategy with estimator"
        r"|CrossShardOptimizer must be used for model training on TPUs|TPU_LEGACY client is no longer available)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>(?:No registered '|Cannot assign a device for operation '?)(?:\S{1,80}/)?(?:Configure|Initialize|WaitFor|Shutdown)\w{0,20}TPU)\w*",
        TpuInitFailed,
    ),
    signature(
        r"(?P<what>\w{1,40}) is not valid when TPUEmbedding object is not created under a TPUStrategy", OutsideScope
    ),
)

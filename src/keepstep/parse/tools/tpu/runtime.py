# SPDX-License-Identifier: Apache-2.0
"""libtpu, the TPU runtime and Cloud TPU: memory, busy devices, set-up, health.

XLA's ``Ran out of memory in memory space hbm`` is printed alike by TensorFlow, JAX and
torch_xla, because libtpu words it. The out-of-memory texts of GPUs are elsewhere.
"""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.model.facts.environment import SymbolMissing, UnsupportedCombination, VersionConflict
from keepstep.model.facts.network import PeerAwaited
from keepstep.model.facts.platform import Preempted, TpuBusy, TpuInitFailed, TpuUnhealthy
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature

_SIZE = r"[\d.]+ ?[KMGTPE]?i?B?"

SIGNATURES = (
    signature(
        r"Check failed: loopback6_ok[^\n]{0,60}|does not have an IPv6 loopback \(::1\) interface",
        TpuInitFailed,
        what="libtpu needs an IPv6 loopback interface, which the host or container does not have",
    ),
    signature(
        r"(?P<expected>\d+x\d+(?:x\d+)?) host topology with \d+ missing hosts, but (?P<seen>\d+) hosts in total",
        WorldSizeConflict,
        what="hosts of the TPU slice",
    ),
    signature(r"PosixErrorSpace::Device or resource busy|ioctl failed[^\n]{0,120}Device or resource busy", TpuBusy),
    signature(
        r"Permission denied:? '?/dev/(?:accel|vfio)[\w/]{0,12}|(?:[Cc]ouldn't|[Ff]ailed to) open device: /dev/(?:accel|vfio)[\w/]{0,12}[^\n]{0,40}Permission denied",
        TpuInitFailed,
        what="the user may not open the TPU device",
    ),
    # memory of the chip
    signature(
        rf"Ran out of memory in memory space hbm(?:[^\n]{{0,120}}?Used (?P<requested>{_SIZE}) of (?P<capacity>{_SIZE}) hbm)?",
        DeviceMemoryExhausted,
        kind="tpu",
    ),
    signature(rf"Exceeded hbm capacity by {_SIZE}", DeviceMemoryExhausted, kind="tpu"),
    signature(
        rf"Attempting to (?:reserve|allocate) (?P<requested>{_SIZE})(?:[^\n]{{0,60}}?)\. That was not possible\.",
        DeviceMemoryExhausted,
        kind="tpu",
    ),
    signature(r"Attempting to reserve (?P<requested>\S+) at the bottom of memory", DeviceMemoryExhausted, kind="tpu"),
    signature(
        rf"Error (?:loading program|allocating device buffer): Attempting to (?:reserve|allocate) (?P<requested>{_SIZE})",
        DeviceMemoryExhausted,
        kind="tpu",
    ),
    signature(
        rf"unlikely to have enough (?:device )?memory\. Requires (?P<requested>{_SIZE}), has (?P<capacity>{_SIZE}) available",
        DeviceMemoryExhausted,
        kind="tpu",
    ),
    signature(
        r"Failed to allocate request for (?P<requested>\S+) \(\d+B\) on device ordinal",
        lambda m: DeviceMemoryExhausted(
            requested=m["requested"], kind="tpu" if "tpu" in m.string.lower() or "hbm" in m.string.lower() else "gpu"
        ),
    ),
    signature(
        r"\bE(?:1000|0100|0101): ?(?:Compile|Run) ?[Tt]ime ?[^\n]{0,40}?(?:O[Oo][Mm]|Allocation ?Failure)",
        DeviceMemoryExhausted,
        kind="tpu",
    ),
    signature(r"(?:Detected failure |status: |due to )?(?P<what>SLICE_FAILURE_\w{3,60})", TpuUnhealthy),
    signature(
        r"Bad hardware status: (?:0x[0-9a-fA-F]+|[A-Z][\w ]{3,60})", TpuUnhealthy, what="the program on it was stopped"
    ),
    signature(r"(?P<what>Session master detected TPU session error from worker [\w.\-]{1,100}(?::\d+)?)", TpuUnhealthy),
    signature(
        r"(?P<what>Driver must be Open to DMA map|(?:^|[\s:(])Driver not open\b)",
        lambda m: TpuUnhealthy(what="its driver was closed while it was in use"),
    ),
    # Estimator's thread that asks for the TPU's state failed on the answer
    signature(
        r"preempted_hook\.py\", line \d+, in run",
        TpuUnhealthy,
        what="its state could not be asked for while it trained",
    ),
    # held by another process
    signature(r"TPU is already in use by process with pid (?P<pid>\d+)", TpuBusy),
    signature(r"TPU is already in use by (?!process with pid)[^\n]{0,80}", TpuBusy),
    signature(r"libtpu\.so (?:is )?already in use", TpuBusy),
    signature(r"open\(/dev/(?:accel|vfio/)\d*\): Device or resource busy", TpuBusy),
    signature(r"Couldn't open (?:device: )?/dev/(?:accel|vfio)[^\n]{0,200}Device or resource busy", TpuBusy),
    signature(r"Device or resource busy[^\n]{0,200}/dev/(?:accel|vfio)", TpuBusy),
    signature(r"Internal error when accessing libtpu multi-process lockfile", TpuBusy),
    signature(r"libtpu_lockfile", TpuBusy),
    # could not be set up
    signature(r"TPU initialization failed: (?P<what>[^\n]{0,240})", TpuInitFailed),
    signature(r"Failed to initialize (?:the )?TPU(?: system| platform)?(?P<what>[^\n]{0,200})", TpuInitFailed),
    signature(
        r"TPU (?:system|platform) (?:has not been|is not|was not) initialized(?P<what>[^\n]{0,200})", TpuInitFailed
    ),
    signature(r"(?P<what>No ba16c7433 device found)", TpuInitFailed),
    signature(r"(?P<what>Failed to (?:get|find) (?:global )?TPU topology[^\n]{0,160})", TpuInitFailed),
    signature(
        r"(?P<what>(?:Couldn't|Could not|Failed to) (?:open|find|map) (?:iommu group|/dev/accel|device: /dev/accel)[^\n]{0,120})",
        TpuInitFailed,
    ),
    signature(r"(?P<what>Failed to establish SliceBuilder grpc channel[^\n]{0,120})", TpuInitFailed),
    signature(r"(?P<what>Invalid --\w*slice_builder_worker_addresses[^\n]{0,160})", TpuInitFailed),
    # libtpu, on a list of addresses in its variables (TPU_PROCESS_ADDRESSES) that does not fit the slice
    signature(r"(?P<detail>Expected \d+ worker addresses, got \d+)", ClusterSpecInvalid),
    signature(r"(?P<what>[Uu]nexpected worker (?:hostname|address)[^\n]{0,160})", TpuInitFailed),
    signature(r"(?P<what>TPU cores on each host is not same)", TpuInitFailed),
    signature(r"(?P<what>No TPU devices? (?:were|was) found)", TpuInitFailed),
    signature(r"(?P<what>Cannot find any TPU cores in the system[^\n]{0,120})", TpuInitFailed),
    signature(r"(?P<what>Requested backend tpu(?:_driver)?, but it failed to initialize[^\n]{0,160})", TpuInitFailed),
    signature(r"(?P<what>Backend 'tpu' failed to initialize[^\n]{0,160})", TpuInitFailed),
    signature(r"RuntimeError: Unable to initialize backend '(?:tpu|TPU)': (?P<what>[^\n]{0,240})", TpuInitFailed),
    signature(
        r"Unable to initialize backend '(?:tpu|TPU)': (?P<what>[^\n]{0,300}?)\((?:set JAX_PLATFORM|you may need to uninstall)",
        TpuInitFailed,
    ),
    signature(r"(?P<what>Unable to initialize backend 'tpu': DEADLINE_EXCEEDED[^\n]{0,160})", TpuInitFailed),
    signature(r"(?P<what>TPU backend initialization is taking more than [\d.]+ seconds)", TpuInitFailed),
    signature(r"(?P<what>TPUs? (?:are|is) not (?:found|available)[^\n]{0,80})", TpuInitFailed),
    signature(r"(?P<what>Failed to connect to remote server at address: grpc://\S{1,80})", TpuInitFailed),
    signature(r"(?P<what>Fail to initialize TPU system with master \([^)\n]{0,80}\))", TpuInitFailed),
    signature(r"(?P<what>Could not lookup TPU metadata from name '[^'\n]{0,80}')", TpuInitFailed),
    signature(r"(?P<what>Please provide a TPU Name to connect to)", TpuInitFailed),
    signature(r"(?P<what>Could not infer TPU job name)", TpuInitFailed),
    signature(r"(?P<what>Timed out waiting for TPU \S{1,80} to become healthy)", TpuInitFailed),
    signature(r"(?P<what>TPUs? not found in the cluster)", TpuInitFailed),
    signature(
        r"No OpKernel was registered to support Op '(?P<op>(?:Configure|Initialize|WaitFor|Set|Shutdown)\w*TPU\w*)'",
        lambda m: TpuInitFailed(what=f"no TPU is attached to this process: nothing runs {m['op']}"),
    ),
    signature(
        r"TPU \"?[\w.\-]{1,80}\"? is not yet ready; state: \"(?!PREEMPTED|TERMINATED|STOPPED)(?P<what>\w+)\"",
        TpuInitFailed,
    ),
    signature(
        r"(?P<what>TensorFlow version \S{1,30} is not available on Cloud TPU|Tensorflow version \S{1,30} is not available on Cloud TPU)",
        TpuInitFailed,
    ),
    signature(r"(?P<what>JAX TPU support not installed)", TpuInitFailed),
    signature(r"(?P<what>computation footprint \[[\d ]{1,40}\] does not fit in TPU topology shape)", TpuInitFailed),
    signature(
        r"(?P<what>(?:EnvironmentError|OSError|RuntimeError): (?:libtpu not found|Failed to get TPU metadata|Failed to parse TPU version from metadata|Could not find IP of host running process 0))",
        TpuInitFailed,
    ),
    signature(r"(?P<what>Creating meshes for TPU >v3 requires one device per chip[^\n]{0,80})", TpuInitFailed),
    signature(r"(?P<symbol>Tpu\w{1,80}) not available in this library", SymbolMissing, library="libtpu"),
    # Mesh TensorFlow
    signature(r"physical and logical shapes must have the same product", WorldSizeConflict, what="devices of the mesh"),
    signature(
        r"`mesh_shape` must be a vector of size \d with positive entries", VersionConflict, component="TensorFlow"
    ),
    signature(r"(?P<what>Failed to connect to client mesh master)", TpuInitFailed),
    signature(
        r"Waiting to connect to client mesh master \(\d+ seconds\)(?: (?P<address>\S+))?",
        lambda match: PeerAwaited(peer="the mesh master", peer_rank=0),
    ),
    signature(r"(?P<what>The TPU worker may not be ready \(still scheduling\)[^\n]{0,60})", TpuInitFailed),
    # ill
    signature(r"(?P<what>[Cc]ore halted unexpectedly[^\n]{0,160})", TpuUnhealthy),
    signature(r"(?P<what>Accelerator device halted prematurely[^\n]{0,160})", TpuUnhealthy),
    signature(r"(?P<what>TPU \S{1,80} is not HEALTHY[^\n]{0,80})", TpuUnhealthy),
    signature(r"(?P<what>(?:UNHEALTHY_TENSORFLOW|UNHEALTHY_MAINTENANCE|DEPRECATED_UNHEALTHY_\w+))", TpuUnhealthy),
    signature(r"(?P<what>ShutdownHook: lame workers found[^\n]{0,160})", TpuUnhealthy),
    signature(r"(?P<what>!!!! FATAL ERROR !!!! for \[/dev/(?:accel|vfio)[^\n]{0,120})", TpuUnhealthy),
    signature(r"(?P<what>Received Error Interrupt! fatal: true)", TpuUnhealthy),
    signature(r"(?P<what>all pending programs will fail, and results may be corrupted)", TpuUnhealthy),
    signature(r"(?P<what>Halt is unexpected, all pending programs will fail)", TpuUnhealthy),
    signature(r"(?P<what>An unknown (?:TPU )?error has occurred, contact your next level of support)", TpuUnhealthy),
    signature(
        r"(?P<what>Megascale[^\n]{0,40}(?:hang detected|detected (?:a )?(?:hang|error|unhealthy)|fatal)[^\n]{0,120})",
        TpuUnhealthy,
    ),
    signature(r"(?P<what>The program continuator has halted unexpectedly[^\n]{0,100})", TpuUnhealthy),
    signature(
        r"(?P<what>TPU(?:PollingThread)? found TPU \S{1,80} in state \w+, and health (?:UNHEALTHY\w*|TIMEOUT))",
        TpuUnhealthy,
    ),
    # a file system of the client that the TPU's host does not see
    signature(r"(?P<what>File system scheme '\[local\]' not implemented[^\n]{0,120})", UnsupportedCombination),
    # gcloud compute tpus tpu-vm ssh --worker=all
    signature(
        r"##### Command execution on worker (?P<rank>\d+) failed with exit status (?P<code>\d+)",
        ProcessExited,
        reporter="gcloud",
    ),
    # taken away
    signature(
        r"TPU \"?[\w.\-]{1,80}\"? is not yet ready; state: \"(?P<reason>PREEMPTED|TERMINATED|STOPPED)",
        Preempted,
        by="Cloud TPU",
    ),
    signature(
        r"found TPU \S{1,80} in state (?P<reason>PREEMPTED|TERMINATED|STOPPED|DELETING|STOPPING)",
        Preempted,
        by="Cloud TPU",
    ),
    signature(
        r"TPU [^\n]{0,80}(?:has been|was|is) (?P<reason>preempted|PREEMPTED|terminated for maintenance)",
        Preempted,
        by="Cloud TPU",
    ),
    signature(
        r"Found TPU in state (?P<reason>PREEMPTED|TERMINATED|STOPPED|DELETING|STOPPING)", Preempted, by="Cloud TPU"
    ),
)

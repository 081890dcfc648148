# SPDX-License-Identifier: Apache-2.0
"""Words about the system below a run: libraries, the cluster, devices."""

from __future__ import annotations

from keepstep.model.cause import Cause
from keepstep.rules.last_resort.row import row

OF_SYSTEMS = (
    # environment
    row(
        Cause.ENV_MISSING_SHARED_LIBRARY,
        "a missing library",
        w3=r"""
            cannot open shared object file|(?:could not|cannot|failed to|unable to) (?:load|open|find
              |locate) (?:dynamic |shared |native )?(?:library|dylib)|error while loading shared libraries
            \bdlopen\b.{0,80}|DLL load failed
              |lib\w+\.so[.\d]*\b.{0,60}\b(?:not found|no such file|missing|cannot|could not)
              |(?:could not|cannot|unable to|failed to) (?:load|open|find) \S*lib\w+\.so
            is it installed\?|image not found|library not (?:found|loaded)|(?:has|have) not been (?:built|installed)
              |extension .{1,60} (?:not been built|could not be loaded)
        """,
        w2=r"""
            \b\w*\.so\b.{0,40}no such file|No module named(?! .{1,90} is not a package)|command not found
              |executable .{0,60}not found|not installed|file system scheme .{1,30} not implemented|CUDA_HOME
              |missing (?:package|dependency|library)
            could not find (?:the )?(?:library|executable|compiler|nvcc|ninja|cuda)\b
              |\bninja\b.{0,40}(?:required|not found)
        """,
    ),
    row(
        Cause.ENV_ABI_OR_CPU_INSTRUCTION,
        "binaries that do not match each other or the processor",
        w3=r"""
            undefined symbol|symbol lookup error|symbol not found|GLIBC(?:XX)?_[\d.]+|CXXABI_[\d.]+
              |version `\S+' not found|binary incompatib\w+|size changed, may indicate
            illegal (?:hardware )?instruction|\bSIGILL\b|was compiled to use (?:AVX|SSE|FMA)|(?<!\[)\bABI\b
              |compiled (?:against|with|using) (?:API|a different|NumPy|an? (?:older|newer))
            _ARRAY_API not found|multiarray failed to import|wrong ELF class|invalid ELF header|cannot be run in numpy
              |compiled using numpy
            \boperator \w+::\w+ does not exist|link[- ]time reference|not defined in file lib
              |ImportError:.{0,80}: symbol
        """,
    ),
    row(
        Cause.ENV_FRAMEWORK_CUDA_MISMATCH,
        "a mismatch of CUDA, its driver and the GPU",
        w3=r"""
            no kernel image|driver version is insufficient|driver (?:on your system )?is too old
              |(?:forward compatibility|unsupported display driver|UNSUPPORTED_PTX|unsupported toolchain)
            not compiled with (?:CUDA|GPU|NCCL|ROCm|cuDNN)|compute capabilit(?:y|ies)\b|\bsm_\d\d\b
              |invalid device function|no CUDA GPUs|no CUDA-capable
            (?:CUDA|cuDNN|cuBLAS|NCCL|driver|ROCm)\b.{0,60}\b(?:version|runtime)\b.{0,60}\b(?:mismatch|incompatib\w+
              |require[sd]?|newer|older|insufficient|minimum|does not match|built)
            (?:built|compiled) (?:with|against|for) (?:CUDA|cuDNN|a different version of CUDA)
              |CUDA backend failed to initialize|failed to initialize (?:NVML|cuDNN|CUDA|cuBLAS)
            (?:could not|unable to|failed to) (?:create|initialize|load|open) (?:cudnn|cublas|cuda
              |cusolver) ?(?:handle|library|context)?|CUDNN_STATUS_(?:NOT_INITIALIZED|VERSION_MISMATCH|ARCH_MISMATCH
              |SUBLIBRARY\w*)
            could not select device driver|nvidia-container-cli|kernel image is invalid
              |ptx\b.{0,60}(?:version|unsupported)|DNN library (?:initialization failed|is not found)
            nvidia-smi has failed|couldn'?t communicate with the NVIDIA driver|no (?:visible )?GPU devices
              |CUDA_ERROR_(?:NO_DEVICE|SYSTEM_DRIVER_MISMATCH|NO_BINARY_FOR_GPU|INVALID_PTX)
        """,
        w2=r"""
            \bcuInit\b|cudaGetDeviceCount|\b(?:nvidia|cuda|gpu) driver\b|CUDA (?:initialization|setup)
              |\bcuDNN\b.{0,40}(?:fail|initialize)|\bptxas\b
        """,
        w1=r"\b(?:CUDA|cuDNN|cuBLAS|driver)\b",
    ),
    row(
        Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES,
        "mismatched versions",
        w3=r"""
            version mismatch|mismatch(?:ed)? (?:of |in )?versions?
              |different (?:\w+ )?versions?\b.{0,60}\b(?:node|rank|worker|process|host|cluster)
              |versions? (?:differ|do(?:es)? not match|are different)
            unsupported pickle protocol|unknown service|was started with:.{0,40}(?:Ray|Python)
              |(?:is|are) not the same version
            requires version\b|is version .{1,30} but
        """,
        w2=r"""
            \bincompatible (?:\w+ )?versions?\b|code\(\) (?:takes|argument)
              |not (?:registered|known) (?:in|to) (?:the )?binary running
        """,
    ),
    # configuration
    row(
        Cause.CONFIG_CLUSTER_SPEC,
        "a wrong cluster description",
        w3=r"""
            cluster[_ ]?spec|TF_CONFIG|task_type|task(?: index)? \d+ was not defined in job|not defined in job
              |job .{1,30} (?:not|was never) (?:defined|found) in (?:the )?cluster
            could not satisfy (?:explicit )?device specification|no devices matching|not a valid (?:task|job)|hostfile
              |machinefile|duplicate task|already connected|not in the (?:cluster|host ?list)
            ready_for_local_init_op|waiting for model to be ready
              |rendezvous (?:endpoint|backend|configuration)\b.{0,80}\b(?:must|invalid|not)
              |(?:(?:invalid|malformed|bad) (?:port|endpoint|url|hostname|host:port)|(?:invalid|malformed) address)\b
              |port (?:number|must)\b.{0,80}\b(?:must|between|integer|range|invalid|from 0)
            \b(?:argument|missing|invalid|required|expected|specify|pass|add|set)\b.{0,40} --(?:master[-_](?:addr
              |port)|nnodes|nproc[-_]\w+|node[-_]rank|rdzv[-_]\w+|main[-_]process\w*|machine[-_]rank)\b
              |not enough slots available
        """,
        w2=r"""
            \bslots\b.{0,60}\b(?:not|available|requested|enough)|\bunknown device\b|\bORTE\b|\bPRRTE\b|\borted\b
              |plm_rsh|ssh\b.{0,40}\b(?:denied|fail\w*|verification)
        """,
    ),
    row(
        Cause.CONFIG_LOCALHOST_ADDRESS,
        "an address that leads back to the host itself",
        w3=r"""
            (?:failed to connect|connection refused|unreachable|timed out).{0,120}\b(?:127\.0\.[01]\.1|localhost
              |\[::1\])|\b(?:127\.0\.[01]\.1|localhost)\b.{0,80}\b(?:refused|failed|timed out|unreachable)
        """,
    ),
    row(
        Cause.CONFIG_MISSING_RANK_ENV,
        "missing or wrong rank variables",
        w3=r"""
            environment variable\b.{0,60}\b(?:expected|not set|missing|required|must be|undefined|not defined)
              |(?:MASTER_ADDR|MASTER_PORT|WORLD_SIZE|LOCAL_RANK|(?-i:\bRANK)|COORDINATOR_ADDRESS|SLURM_\w+|OMPI_\w+
              |PMI\w*)\b.{0,60}\b(?:expected|not set|missing|not (?:found|defined)|required|undefined|unset|None)
            (?:missing|expected|unset|set the) (?:\w+ ){0,3}(?:MASTER_ADDR|MASTER_PORT|WORLD_SIZE|LOCAL_RANK
              |(?-i:RANK))\b|(?:coordinator_address|num_processes|process_id|init_method|local_rank) (?:should
              |must) be (?:defined|set|given|specified|provided)
            process group has not been initialized|default process group(?! twice| with a|'s bound)
              |(?:not|n't) (?:been )?(?:called|initialized).{0,20}init_process_group|missing XLA configuration
              |PMI\w* (?:server|support|library)?.{0,40}\b(?:not|fail)
            rank .{0,20}not (?:set|specified|provided)|KeyError: ['"](?:LOCAL_|NODE_|GROUP_|GLOBAL_)?RANK['"]
              |KeyError: ['"](?:WORLD_SIZE|MASTER_\w+|SLURM_\w+|OMPI_\w+|PMI_\w+)['"]|(?:rank|endpoint) is absent
              |horovod has not been initialized
        """,
    ),
    row(
        Cause.CONFIG_WORLD_SIZE_MISMATCH,
        "a wrong number of processes or devices",
        w3=r"""
            world[_ ]size\b.{0,80}\b(?:must|not|differ\w*|mismatch|expected|divisible|equal|but|is not|!=|less|greater
              |should)|(?:must|not|divisible|equal|match|mismatch)\b.{0,60}\bworld[_ ]?size
            (?:number|num|total|count) of (?:\w+ )?(?:processes|gpus|ranks|devices|nodes|tasks|workers|replicas
              |participants|cores|shards|hosts)\b.{0,80}\b(?:must|not|mismatch|divisible|less|more|exceed\w*|but
              |different|expected|does|is|should)
            invalid device ordinal|more (?:processors|processes|ranks|tasks|nodes) requested
              |requested .{0,40}\b(?:gpus?|devices|nodes)\b.{0,60}\bbut\b|duplicate (?:gpu|rank|ordinal)
              |num_shards is not set
            (?:tensor|pipeline|data|context|expert
              |model)[_ -](?:model[_ -])?parallel\w*(?:[_ -]size)?\b.{0,60}\b(?:must
              |not(?! (?:initiali[sz]ed|configured|set|enabled|used))|divisible|!=)|parallel (?:dims|degrees?
              |size)|divisible by .{0,60}\b(?:parallel\w*|world|gpus?|processes|ranks|nodes|stages?|[tpvecd]p_size
              |tp ?\* ?dp)\b|\b(?:num_)?(?:layers|heads|experts)\b.{0,60}\bdivisible by .{0,40}\b(?:\w*stages?
              |\w*ranks?|[tpvecd]p\w*)\b|(?:available|total|desired) GPUs\b
            joining a group with size|(?<!have )(?<!has )(?<!with )(?<!tensor )\brank\b.{0,20}(?:>=|<|out of range
              |is (?:invalid|larger|not less)).{0,20}(?:size
              |\d)|unexpected task registered|local_rank .{0,40}(?:out of|exceed|>=)
        """,
        w2=r"""
            \b(?:nproc|nnodes|ntasks|num_gpus|num_processes|num_workers(?! ?(?:option|[>=]=? ?0|must be|should be))
              |gpus per node|devices=\d)\b|placement group bundle|different number of (?!leading|leaves|dimensions
              |elements|columns|rows|arguments|channels|keys|layers|tensors|param|values|items|outputs|inputs|tokens
              |features|classes)
        """,
    ),
    # devices
    row(
        Cause.HARDWARE_GPU_FAULT_XID_ECC,
        "a GPU fault",
        w4=r"""
            \bXid\b|uncorrectable|\bECC\b|fallen off the bus|GPU is lost|gpu (?:has )?(?:hung|lost|reset)
              |memory access fault by GPU|hardware (?:error|exception|fault)|row remap|double[- ]bit|\bNVRM\b
              |HW exception|GPU node-\d|requires? (?:a )?reset|CUDA_ERROR_HARDWARE
        """,
    ),
    row(
        Cause.HARDWARE_NVLINK_PCIE_P2P,
        "a fault of the links between GPUs",
        w3=r"""
            \bNV(?:Link|Switch)\b|fabric ?manager|peer access|peer-to-peer|\bP2P\b(?!/)
              |\bPCIe\b.{0,60}(?:error|fail|AER)|\bIMEX\b|system not yet initialized|TOO_MANY_PEERS|cuda ?IPC
              |ipc ?(?:open|handle)\w*|\bACS\b|\bIOMMU\b
        """,
    ),
    row(
        Cause.HARDWARE_TPU_UNHEALTHY,
        "an unhealthy TPU",
        w4=r"""
            \bUNHEALTHY_\w+|(?:TPU|health)\b.{0,60}\bUNHEALTHY|not HEALTHY|core halted|device halted
              |halt(?:ed)? (?:is )?unexpected|accelerator device halted|tpu (?:is )?(?:unhealthy|down|lost)
              |tpu_program_termination|driver must be open|maintenance event|real_program_continuator
        """,
    ),
    row(
        Cause.HARDWARE_NIC_FAULT,
        "a network card fault",
        w4=r"""
            catastrophic error|link (?:is )?down|cable error
              |\bport (?:module\b.{0,60}\b(?:error|unplugged)|error|is down)|async event\b.{0,60}(?:error|down|fatal)
              |\bNIC\b.{0,40}(?:fail|fault|reset|down)|carrier lost|no carrier
        """,
    ),
    row(
        Cause.HARDWARE_MACHINE_FAULT,
        "a machine fault",
        w4=r"""
            machine check|\bMCE\b|hardware error|kernel panic|watchdog: BUG|soft lockup|hard lockup|input/output error
              |\bEIO\b|errno:? 5\b|node (?:fail\w*|is not (?:ready|responding)|down|NotReady|lost)|NODE_FAIL
              |read-only file system|remote i/o error|\[Errno 14\] bad address
              |transport endpoint (?:is not connected|shutdown): '?/|instance (?:was )?terminat\w+|Disk I/O
              |nvme\w*.{0,40}(?:error|timeout|fail)
        """,
    ),
    # TPU
    row(
        Cause.TPU_DEVICE_BUSY_IN_USE,
        "a TPU that is in use",
        w4=r"""
            TPU (?:is )?already in use|libtpu (?:is )?already|accel\d*\b.{0,60}\b(?:busy|in use)
              |device or resource busy|/tmp/libtpu_lockfile|TPU\b.{0,40}\b(?:busy|in use|held by)
        """,
    ),
    row(
        Cause.TPU_INITIALIZATION_FAILURE,
        "a TPU that did not start",
        w3=r"""
            unable to initialize backend 'tpu
              |tpu (?:system )?(?:has )?(?:not been|initialization|failed to|not )\s*(?:initialized|fail\w*|initialize
              |found|ready)|(?:no|cannot find any) TPU|TPU devices? (?:were )?(?:not )?found|TPU (?:topology|name
              |worker|driver|platform|mesh)\b.{0,80}\b(?:fail\w*|not|unable|invalid|provide|ready)
            (?:fail\w*|not|unable|provide|find) .{0,60}\bTPU (?:topology|name|worker|driver|platform|system|devices?)
              |tpu_driver|SliceBuilder|mesh master|xrt_\w+|client mesh|/dev/(?:accel|vfio)\w*|iommu group
              |ConfigureDistributedTPU|accelerator_type|libtpu
        """,
        w1=r"\bTPU\b",
    ),
)

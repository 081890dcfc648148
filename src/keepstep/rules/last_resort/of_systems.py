# SPDX-License-Identifier: Apache-2.0
"""Words that speak of the system under a run: memory, network, libraries, the cluster, devices."""

from __future__ import annotations

from keepstep.core.cause import Cause
from keepstep.rules.last_resort.row import row

OF_SYSTEMS = (
    # memory
    row(
        Cause.RESOURCE_GPU_OOM,
        "memory of a GPU",
        w3=r"""
            \b(?:cuda|hip|gpu|device|cudnn|nccl|xpu|npu)\b(?!.{0,60}task \d+: ).{0,60}\bout[ _]of[ _]memory
            \b(?:cudaMalloc|hipMalloc|cuMemAlloc|bfc|gpu_\d+_bfc)\w*\b.{0,80}\b(?:fail|out of memory|ran out|OOM)
            OOM when allocating tensor
            failed to allocate\b.{0,60}\b(?:from|on) device
            (?:CUDA|CUBLAS|CUSOLVER|CUFFT|CUSPARSE|HIP\w*)_(?:ERROR_OUT_OF_MEMORY|STATUS_ALLOC_FAILED|ERROR_OutOfMemory)
            \bOutOfMemoryError\b(?!.{0,80}(?:node|killed|java))
            \b(?:video|device|gpu|npu|xpu|graphics|vram|hbm) memory\b.{0,30}\b(?:allocation fail\w*|exhausted|insufficient|is full|not enough)|Memory_Allocation_Failure|\b(?:rt|aclrt|ze|cu|hip)\w*(?:Malloc|MemAlloc)\w*\b.{0,40}\bfail
        """,
        w2=r"""
            tried to allocate [\d.]+ ?[MG]i?B
            (?<!\d: )\bout of memory\b(?!.{0,40}(?:hbm|vmem|killed|cgroup|host|node))
            RESOURCE_EXHAUSTED.{0,40}\b(?:out of memory|failed to allocate|allocat)
        """,
        w1=r"""
            \b(?:GPU|CUDA|NPU|device|VRAM)\b.{0,40}\bmemory\b
            \ballocat(?:e|ing|ion|or)\b
        """,
    ),
    row(
        Cause.RESOURCE_TPU_HBM_OOM,
        "memory of a TPU",
        w3=r"""
            \bhbm\b.{0,80}\b(?:exceed|out of|ran out|not possible|capacity|memory)
            (?:ran out of memory|exceeded|attempting to (?:allocate|reserve)).{0,120}\bhbm
        """,
        w2=r"""
            attempting to (?:allocate|reserve) [\d.]+[KMG]. That was not possible
            \bTPU\b.{0,80}\bout of memory
        """,
    ),
    row(
        Cause.RESOURCE_HOST_OOM_KILLED,
        "memory of the host",
        w3=r"""
            oom[-_ ]?kill|task \d+: out of memory
            \b(?:killed|evicted|terminated)\b.{0,80}\b(?:out of memory|memory (?:limit|pressure|usage|threshold)|low on memory|exceeding memory)
            \b(?:low on (?:resource: )?memory|memory (?:usage )?(?:limit|threshold)|memory cgroup|memory pressure)\b
            cannot allocate memory|\bENOMEM\b|std::bad_alloc|\bMemoryError\b|java\.lang\.OutOfMemoryError|errno:? 12\b
            DefaultCPUAllocator: (?:can't|not enough)|not enough memory: you tried|unable to allocate .{0,40}\b(?:array|[GMT]iB)
        """,
        w2=r"""
            (?:exit(?:ed)?|return(?:ed)?)[ _](?:with )?(?:\w+ )?(?:code|status)[ :=(]*(?:137|-9)\b
            \b(?:signal[: ]+9|SIGKILL|Signal\(9\))\b(?!.{0,40}(?:sent|sending|to children))
            ^(?:\S+ ){0,3}Killed\b
            \b(?:host|system|physical|virtual|pinned) (?:memory|RAM)\b
        """,
        w1=r"""
            \bkilled\b
        """,
    ),
    row(
        Cause.RESOURCE_SHM,
        "shared memory",
        w3=r"""
            /dev/shm|\bshm_open|\bshmget|\bshmat\b|shared memory (?:object|segment|file)|insufficient shared memory|out of shared memory
            unable to (?:open|write to|create|mmap) (?:file )?</?torch_\d+
            killed by signal: bus error|\bshared memory\b.{0,60}\b(?:fail|error|full|insufficient|limit|space|denied|exist)
            \b(?:fail\w*|error|unable|cannot|could not)\b.{0,60}\bshared memory\b
        """,
        w2=r"\bbus error\b|\bSIGBUS\b|\bsignal:? 7\b",
        w1=r"\bshm\b",
    ),
    row(
        Cause.RESOURCE_DISK_FULL,
        "a full disk or quota",
        w3=r"""
            no space left|disk (?:is )?full|(?:disk |file )?quota (?:was |is )?exceeded|\bENOSPC\b|\bEDQUOT\b|StorageFull|errno:? (?:28|122)\b|os error 28\b
            (?:not enough|insufficient|out of|no|low on) (?:free )?(?:disk|storage)(?: space)?|over (?:its |the )?(?:disk )?quota
        """,
        w2=r"""
            \bephemeral[- ](?:local )?storage\b|StreamWriter failed writing|file write failed|code: 28\b|could not append to the internal temporary file|unexpected pos \d+ vs \d+|inline_container\.cc.{0,80}unexpected pos
            \b(?:disk|storage|filesystem)\b.{0,40}\b(?:full|exceed|exhaust)
        """,
    ),
    row(
        Cause.RESOURCE_FD_OR_PROCESS_LIMIT,
        "a limit of open files or processes",
        w3=r"""
            too many open files|\bEMFILE\b|\bENFILE\b|errno:? 24\b|received 0 items of ancdata|\bnofile\b
            can'?t start new thread|unable to (?:start|create) (?:new )?(?:native )?thread|pthread_create(?: failed)?.{0,60}(?:unavailable|EAGAIN|11)
            \bfork\b.{0,60}\bresource temporarily unavailable|fork: retry|thread (?:create|creation) failed|max_?readers|ReadersFull
            \bulimit\b|RLIMIT_\w+
        """,
        w2=r"""
            resource temporarily unavailable|\bEAGAIN\b|too many (?:processes|threads|files|semaphores)
        """,
    ),
    row(
        Cause.RESOURCE_CONTENTION,
        "devices or slots that others hold",
        w3=r"""
            \bdevices?(?:\(s\))? (?:is/are |are |is )?busy or unavailable|CUDA_ERROR_DEVICE_UNAVAILABLE|exclusive[- ]process|compute[- ]exclusive
            insufficient (?:nvidia\.com/gpu|cpu|memory|google\.com/tpu|resources)|FailedScheduling|\d+/\d+ nodes are available|unschedulable|pending demands
            \b(?:not enough|insufficient|no available|no free|waiting for|lack of|acquire) (?:\w+ ){0,3}(?:slots|resources|executors|gpus|node types|reservations)
            timed out waiting for (?:\w+ ){0,3}(?:slots|spark tasks|reservations|resources|executors|placement)
        """,
        w2=r"placement group\b|\bresource requests?\b|\bqueued\b.{0,60}\bresources\b|already (?:in use|used|allocated) by another process",
    ),
    row(
        Cause.RESOURCE_MEMORY_LEAK,
        "memory that grows",
        w3=r"memory leak|leak(?:s|ing|ed) memory|memory (?:keeps|usage) (?:growing|increasing|grows|increases)",
    ),
    # network
    row(
        Cause.NETWORK_PORT_IN_USE,
        "a port that is taken",
        w3=r"""
            address already in use|\bEADDRINUSE\b|errno:? 98\b|port (?:\d+ )?(?:is )?(?:already )?(?:in use|taken|occupied|used)
            (?:failed|unable|cannot|could not) to (?:bind|listen)\b.{0,80}\bport|could not start grpc server|no address added out of total
        """,
        w1=r"\bbind(?:ing)?\b",
    ),
    row(
        Cause.NETWORK_DNS,
        "a host name that does not resolve",
        w3=r"""
            name or service not known|temporary failure in name resolution|\bgetaddrinfo\b|\bgaierror\b|no address associated with hostname|nodename nor servname
            (?:dns|name|host(?:name)?) (?:resolution|lookup)\b.{0,40}\b(?:fail|error)|(?:could not|cannot|can't|unable to|failed to) (?:resolve|look ?up|find address)(?!.{0,60}\b(?:modules?|imports?|types?|class|dependenc\w+|references?|conflicts?|offset|process group)\b)
            \b(?:unknown|unresolvable|invalid) host(?:name)?\b|hostname .{0,60}(?:not found|not resolved|cannot be|could not be)|host not found|\bNXDOMAIN\b|C-ares status
        """,
        w1=r"\bDNS\b|\bresolv(?:e|er|ing)\b",
    ),
    row(
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        "hosts that do not reach each other",
        w3=r"""
            permission denied \(publickey|ssh exited with exit code 255|host key verification failed|not reachable via ssh|\bssh\b.{0,80}\b(?:status|code) 255\b
            no route to host|(?:network|host) is unreachable|\bE(?:HOSTUNREACH|NETUNREACH)\b|connection refused|\bECONNREFUSED\b
            failed to connect to (?:all addresses|remote host|remote server|server|the (?:master|coordinator|store|leader)|any of)
            (?:unable|failed|could not|cannot) to connect|could not connect|unable to (?:reach|contact|communicate)|NoValidAddressesFound|cannot (?:reach|connect|be reached)
            \btrying to connect\b.{0,60}|connect(?:ion)? (?:to .{1,80} )?(?:timed[ -]out|timeout)|\bfirewall\b|CreateSession still waiting
            still waiting for response from worker
        """,
        w2=r"""
            not reachable|(?<!be )unreachable(?!d? code|!)|(?:check|verify) (?:the )?(?:network )?connectivity|timed out waiting for (?:tasks|processes|workers|nodes|hosts) to (?:start|connect|join)|\bconnect(?:ing)?\b.{0,60}\b(?:fail\w*|timed? ?-?out|refused)
            failed to pick subchannel|socket has timed out|connection attempts? failed|daemons?\b.{0,60}\b(?:unable|failed|not)\b
            \b(?:rendezvous|store|barrier)\b.{0,60}\b(?:connect\w*)\b
        """,
        w1=r"\b(?:socket|connect(?:ion)?|address|endpoint)\b",
    ),
    row(
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        "a peer that went away",
        w3=r"""
            connection (?:was )?(?:reset|closed|aborted) by|reset by peer|broken pipe|\bE(?:CONNRESET|PIPE)\b|socket closed|peer (?:closed|died|lost|disconnected|gone)
            remote process (?:has )?(?:exited|died|terminated)|failure of the peer|connection (?:lost|closed)|lost (?:the )?connection|closed the connection|remote end closed
            another (?:task|process|rank|worker) (?:has )?(?:died|failed|exited)|heartbeat (?:timeout|missed)|missing heartbeats?|endpoint read failed|errno:? (?:32|104)\b
        """,
        w2=r"(?<!is )\bUnavailable(?:Error)?\b(?! because)|\bpeers?\b.{0,40}\b(?:fail\w*|lost|dead|gone|exited)\b|worker (?:\w+ )?(?:died|lost|gone|disconnected)",
    ),
    row(
        Cause.NETWORK_TIMEOUT_SLOW,
        "answers that came too late",
        w2=r"deadline[ _]exceeded|operation timed out|\bETIMEDOUT\b|errno:? 110\b|connection timed out|RPC.{0,80}tim(?:ed|e)[ -]?out|read timed out",
        w1=r"\btim(?:ed|e)[ -]?out\b",
    ),
    row(
        Cause.NETWORK_WRONG_INTERFACE,
        "a network interface",
        w3=r"""
            no (?:socket |network |usable |suitable )?interfaces? (?:was |were )?found|unable to find (?:address|interface|a set of common)|cannot assign requested address|\bEADDRNOTAVAIL\b
            (?:invalid|unknown|no such|wrong) (?:network )?(?:interface|device)\b.{0,40}(?:eth|en\w|ib|lo|docker|\w*IFNAME)|(?<![A-Z])[A-Z]+_SOCKET_IFNAME|btl_tcp_if|oob_tcp_if
            common .{0,30}interfaces|IFNAME
        """,
        w2=r"\binterfaces?\b.{0,60}\b(?:not|no|fail\w*|invalid|unable)\b|docker0|virbr0",
    ),
    row(
        Cause.NETWORK_RDMA_IB,
        "RDMA or InfiniBand",
        w3=r"""
            \bibv_\w+|\bmlx[45]_?\w*|\bNET/(?:IB|OFI)\b|\brdma\w*|\binfiniband\b|\bverbs\b|\bucx\b|\bUCX\b|\bucp_\w+|\bucs_\w+|\buct_\w+|\bOFI\b|libfabric|\bfi_\w+\(|\bEFA\b|\bRoCE\w*
            \bopenib\b|\bGID\b|\bIB_\w+|\bnv_peer_mem\b|\bnvidia_peermem\b|\bGDR(?:DMA|copy)?\b|queue pair|\bQP\d*\b|completion with (?:error|status)|vendor err
            transport retry (?:count|counter) exceeded|work completion|memory registration|\bmemlock\b|\bsharp\w*\b.{0,40}(?:fail|error)|\bpsm2?\b|\bHFI\b|\bhcoll\b
        """,
    ),
    row(
        Cause.NETWORK_MTU,
        "packet sizes",
        w3=r"\bMTU\b|message too long|\bEMSGSIZE\b|fragmentation needed|jumbo frame",
    ),
    # environment
    row(
        Cause.ENV_MISSING_SHARED_LIBRARY,
        "a library that is missing",
        w3=r"""
            cannot open shared object file|(?:could not|cannot|failed to|unable to) (?:load|open|find|locate) (?:dynamic |shared |native )?(?:library|dylib)|error while loading shared libraries
            \bdlopen\b.{0,80}|DLL load failed|lib\w+\.so[.\d]*\b.{0,60}\b(?:not found|no such file|missing|cannot|could not)|(?:could not|cannot|unable to|failed to) (?:load|open|find) \S*lib\w+\.so
            is it installed\?|image not found|library not (?:found|loaded)|(?:has|have) not been (?:built|installed)|extension .{1,60} (?:not been built|could not be loaded)
        """,
        w2=r"""
            \b\w*\.so\b.{0,40}no such file|No module named(?! .{1,90} is not a package)|command not found|executable .{0,60}not found|not installed|file system scheme .{1,30} not implemented|CUDA_HOME|missing (?:package|dependency|library)
            could not find (?:the )?(?:library|executable|compiler|nvcc|ninja|cuda)\b|\bninja\b.{0,40}(?:required|not found)
        """,
    ),
    row(
        Cause.ENV_ABI_OR_CPU_INSTRUCTION,
        "binaries that do not fit each other or the processor",
        w3=r"""
            undefined symbol|symbol lookup error|symbol not found|GLIBC(?:XX)?_[\d.]+|CXXABI_[\d.]+|version `\S+' not found|binary incompatib\w+|size changed, may indicate
            illegal (?:hardware )?instruction|\bSIGILL\b|was compiled to use (?:AVX|SSE|FMA)|(?<!\[)\bABI\b|compiled (?:against|with|using) (?:API|a different|NumPy|an? (?:older|newer))
            _ARRAY_API not found|multiarray failed to import|wrong ELF class|invalid ELF header|cannot be run in numpy|compiled using numpy
            \boperator \w+::\w+ does not exist|link[- ]time reference|not defined in file lib|ImportError:.{0,80}: symbol
        """,
    ),
    row(
        Cause.ENV_FRAMEWORK_CUDA_MISMATCH,
        "CUDA, its driver or the GPU's architecture",
        w3=r"""
            no kernel image|driver version is insufficient|driver (?:on your system )?is too old|(?:forward compatibility|unsupported display driver|UNSUPPORTED_PTX|unsupported toolchain)
            not compiled with (?:CUDA|GPU|NCCL|ROCm|cuDNN)|compute capabilit(?:y|ies)\b|\bsm_\d\d\b|invalid device function|no CUDA GPUs|no CUDA-capable
            (?:CUDA|cuDNN|cuBLAS|NCCL|driver|ROCm)\b.{0,60}\b(?:version|runtime)\b.{0,60}\b(?:mismatch|incompatib\w+|require[sd]?|newer|older|insufficient|minimum|does not match|built)
            (?:built|compiled) (?:with|against|for) (?:CUDA|cuDNN|a different version of CUDA)|CUDA backend failed to initialize|failed to initialize (?:NVML|cuDNN|CUDA|cuBLAS)
            (?:could not|unable to|failed to) (?:create|initialize|load|open) (?:cudnn|cublas|cuda|cusolver) ?(?:handle|library|context)?|CUDNN_STATUS_(?:NOT_INITIALIZED|VERSION_MISMATCH|ARCH_MISMATCH|SUBLIBRARY\w*)
            could not select device driver|nvidia-container-cli|kernel image is invalid|ptx\b.{0,60}(?:version|unsupported)|DNN library (?:initialization failed|is not found)
            nvidia-smi has failed|couldn'?t communicate with the NVIDIA driver|no (?:visible )?GPU devices|CUDA_ERROR_(?:NO_DEVICE|SYSTEM_DRIVER_MISMATCH|NO_BINARY_FOR_GPU|INVALID_PTX)
        """,
        w2=r"\bcuInit\b|cudaGetDeviceCount|\b(?:nvidia|cuda|gpu) driver\b|CUDA (?:initialization|setup)|\bcuDNN\b.{0,40}(?:fail|initialize)|\bptxas\b",
        w1=r"\b(?:CUDA|cuDNN|cuBLAS|driver)\b",
    ),
    row(
        Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES,
        "versions that differ",
        w3=r"""
            version mismatch|mismatch(?:ed)? (?:of |in )?versions?|different (?:\w+ )?versions?\b.{0,60}\b(?:node|rank|worker|process|host|cluster)|versions? (?:differ|do(?:es)? not match|are different)
            unsupported pickle protocol|unknown service|was started with:.{0,40}(?:Ray|Python)|(?:is|are) not the same version
            requires version\b|is version .{1,30} but
        """,
        w2=r"\bincompatible (?:\w+ )?versions?\b|code\(\) (?:takes|argument)|not (?:registered|known) (?:in|to) (?:the )?binary running",
    ),
    # configuration
    row(
        Cause.CONFIG_CLUSTER_SPEC,
        "the description of the cluster",
        w3=r"""
            cluster[_ ]?spec|TF_CONFIG|task_type|task(?: index)? \d+ was not defined in job|not defined in job|job .{1,30} (?:not|was never) (?:defined|found) in (?:the )?cluster
            could not satisfy (?:explicit )?device specification|no devices matching|not a valid (?:task|job)|hostfile|machinefile|duplicate task|already connected|not in the (?:cluster|host ?list)
            ready_for_local_init_op|waiting for model to be ready|rendezvous (?:endpoint|backend|configuration)\b.{0,80}\b(?:must|invalid|not)|(?:(?:invalid|malformed|bad) (?:port|endpoint|url|hostname|host:port)|(?:invalid|malformed) address)\b|port (?:number|must)\b.{0,80}\b(?:must|between|integer|range|invalid|from 0)
            \b(?:argument|missing|invalid|required|expected|specify|pass|add|set)\b.{0,40} --(?:master[-_](?:addr|port)|nnodes|nproc[-_]\w+|node[-_]rank|rdzv[-_]\w+|main[-_]process\w*|machine[-_]rank)\b|not enough slots available
        """,
        w2=r"\bslots\b.{0,60}\b(?:not|available|requested|enough)|\bunknown device\b|\bORTE\b|\bPRRTE\b|\borted\b|plm_rsh|ssh\b.{0,40}\b(?:denied|fail\w*|verification)",
    ),
    row(
        Cause.CONFIG_LOCALHOST_ADDRESS,
        "addresses of the host itself",
        w3=r"(?:failed to connect|connection refused|unreachable|timed out).{0,120}\b(?:127\.0\.[01]\.1|localhost|\[::1\])|\b(?:127\.0\.[01]\.1|localhost)\b.{0,80}\b(?:refused|failed|timed out|unreachable)",
    ),
    row(
        Cause.CONFIG_MISSING_RANK_ENV,
        "variables that tell a rank who it is",
        w3=r"""
            environment variable\b.{0,60}\b(?:expected|not set|missing|required|must be|undefined|not defined)|(?:MASTER_ADDR|MASTER_PORT|WORLD_SIZE|LOCAL_RANK|(?-i:\bRANK)|COORDINATOR_ADDRESS|SLURM_\w+|OMPI_\w+|PMI\w*)\b.{0,60}\b(?:expected|not set|missing|not (?:found|defined)|required|undefined|unset|None)
            (?:missing|expected|unset|set the) (?:\w+ ){0,3}(?:MASTER_ADDR|MASTER_PORT|WORLD_SIZE|LOCAL_RANK|(?-i:RANK))\b|(?:coordinator_address|num_processes|process_id|init_method|local_rank) (?:should|must) be (?:defined|set|given|specified|provided)
            process group has not been initialized|default process group(?! twice| with a|'s bound)|(?:not|n't) (?:been )?(?:called|initialized).{0,20}init_process_group|missing XLA configuration|PMI\w* (?:server|support|library)?.{0,40}\b(?:not|fail)
            rank .{0,20}not (?:set|specified|provided)|KeyError: ['"](?:LOCAL_|NODE_|GROUP_|GLOBAL_)?RANK['"]|KeyError: ['"](?:WORLD_SIZE|MASTER_\w+|SLURM_\w+|OMPI_\w+|PMI_\w+)['"]|(?:rank|endpoint) is absent|horovod has not been initialized
        """,
    ),
    row(
        Cause.CONFIG_WORLD_SIZE_MISMATCH,
        "the number of processes or devices",
        w3=r"""
            world[_ ]size\b.{0,80}\b(?:must|not|differ\w*|mismatch|expected|divisible|equal|but|is not|!=|less|greater|should)|(?:must|not|divisible|equal|match|mismatch)\b.{0,60}\bworld[_ ]?size
            (?:number|num|total|count) of (?:\w+ )?(?:processes|gpus|ranks|devices|nodes|tasks|workers|replicas|participants|cores|shards|hosts)\b.{0,80}\b(?:must|not|mismatch|divisible|less|more|exceed\w*|but|different|expected|does|is|should)
            invalid device ordinal|more (?:processors|processes|ranks|tasks|nodes) requested|requested .{0,40}\b(?:gpus?|devices|nodes)\b.{0,60}\bbut\b|duplicate (?:gpu|rank|ordinal)|num_shards is not set
            (?:tensor|pipeline|data|context|expert|model)[_ -](?:model[_ -])?parallel\w*(?:[_ -]size)?\b.{0,60}\b(?:must|not(?! (?:initiali[sz]ed|configured|set|enabled|used))|divisible|!=)|parallel (?:dims|degrees?|size)|divisible by .{0,60}\b(?:parallel\w*|world|gpus?|processes|ranks|nodes|stages?|[tpvecd]p_size|tp ?\* ?dp)\b|\b(?:num_)?(?:layers|heads|experts)\b.{0,60}\bdivisible by .{0,40}\b(?:\w*stages?|\w*ranks?|[tpvecd]p\w*)\b|(?:available|total|desired) GPUs\b
            joining a group with size|(?<!have )(?<!has )(?<!with )(?<!tensor )\brank\b.{0,20}(?:>=|<|out of range|is (?:invalid|larger|not less)).{0,20}(?:size|\d)|unexpected task registered|local_rank .{0,40}(?:out of|exceed|>=)
        """,
        w2=r"\b(?:nproc|nnodes|ntasks|num_gpus|num_processes|num_workers(?! ?(?:option|[>=]=? ?0|must be|should be))|gpus per node|devices=\d)\b|placement group bundle|different number of (?!leading|leaves|dimensions|elements|columns|rows|arguments|channels|keys|layers|tensors|param|values|items|outputs|inputs|tokens|features|classes)",
    ),
    # devices
    row(
        Cause.HARDWARE_GPU_FAULT_XID_ECC,
        "a fault of a GPU",
        w4=r"\bXid\b|uncorrectable|\bECC\b|fallen off the bus|GPU is lost|gpu (?:has )?(?:hung|lost|reset)|memory access fault by GPU|hardware (?:error|exception|fault)|row remap|double[- ]bit|\bNVRM\b|HW exception|GPU node-\d|requires? (?:a )?reset|CUDA_ERROR_HARDWARE",
    ),
    row(
        Cause.HARDWARE_NVLINK_PCIE_P2P,
        "the links between GPUs",
        w3=r"\bNV(?:Link|Switch)\b|fabric ?manager|peer access|peer-to-peer|\bP2P\b(?!/)|\bPCIe\b.{0,60}(?:error|fail|AER)|\bIMEX\b|system not yet initialized|TOO_MANY_PEERS|cuda ?IPC|ipc ?(?:open|handle)\w*|\bACS\b|\bIOMMU\b",
    ),
    row(
        Cause.HARDWARE_TPU_UNHEALTHY,
        "a TPU that is not healthy",
        w4=r"\bUNHEALTHY_\w+|(?:TPU|health)\b.{0,60}\bUNHEALTHY|not HEALTHY|core halted|device halted|halt(?:ed)? (?:is )?unexpected|accelerator device halted|tpu (?:is )?(?:unhealthy|down|lost)|tpu_program_termination|driver must be open|maintenance event|real_program_continuator",
    ),
    row(
        Cause.HARDWARE_NIC_FAULT,
        "a fault of a network card",
        w4=r"catastrophic error|link (?:is )?down|cable error|\bport (?:module\b.{0,60}\b(?:error|unplugged)|error|is down)|async event\b.{0,60}(?:error|down|fatal)|\bNIC\b.{0,40}(?:fail|fault|reset|down)|carrier lost|no carrier",
    ),
    row(
        Cause.HARDWARE_MACHINE_FAULT,
        "a fault of the machine",
        w4=r"machine check|\bMCE\b|hardware error|kernel panic|watchdog: BUG|soft lockup|hard lockup|input/output error|\bEIO\b|errno:? 5\b|node (?:fail\w*|is not (?:ready|responding)|down|NotReady|lost)|NODE_FAIL|read-only file system|remote i/o error|\[Errno 14\] bad address|transport endpoint (?:is not connected|shutdown): '?/|instance (?:was )?terminat\w+|Disk I/O|nvme\w*.{0,40}(?:error|timeout|fail)",
    ),
    # TPU
    row(
        Cause.TPU_DEVICE_BUSY_IN_USE,
        "a TPU that is in use",
        w4=r"TPU (?:is )?already in use|libtpu (?:is )?already|accel\d*\b.{0,60}\b(?:busy|in use)|device or resource busy|/tmp/libtpu_lockfile|TPU\b.{0,40}\b(?:busy|in use|held by)",
    ),
    row(
        Cause.TPU_INITIALIZATION_FAILURE,
        "a TPU that did not start",
        w3=r"""
            unable to initialize backend 'tpu|tpu (?:system )?(?:has )?(?:not been|initialization|failed to|not )\s*(?:initialized|fail\w*|initialize|found|ready)|(?:no|cannot find any) TPU|TPU devices? (?:were )?(?:not )?found|TPU (?:topology|name|worker|driver|platform|mesh)\b.{0,80}\b(?:fail\w*|not|unable|invalid|provide|ready)
            (?:fail\w*|not|unable|provide|find) .{0,60}\bTPU (?:topology|name|worker|driver|platform|system|devices?)|tpu_driver|SliceBuilder|mesh master|xrt_\w+|client mesh|/dev/(?:accel|vfio)\w*|iommu group|ConfigureDistributedTPU|accelerator_type|libtpu
        """,
        w1=r"\bTPU\b",
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""Words about what a run used up: memory, disks, limits, devices."""

from __future__ import annotations

from keepstep.model.cause import Cause
from keepstep.rules.last_resort.row import row

OF_RESOURCES = (
    row(
        Cause.RESOURCE_GPU_OOM,
        "a shortage of GPU memory",
        w3=r"""
            \b(?:cuda|hip|gpu|device|cudnn|nccl|xpu|npu)\b(?!.{0,60}task \d+: ).{0,60}\bout[ _]of[ _]memory
            \b(?:cudaMalloc|hipMalloc|cuMemAlloc|bfc|gpu_\d+_bfc)\w*\b.{0,80}\b(?:fail|out of memory|ran out|OOM)
            OOM when allocating tensor
            failed to allocate\b.{0,60}\b(?:from|on) device
            (?:CUDA|CUBLAS|CUSOLVER|CUFFT|CUSPARSE|HIP\w*)_(?:ERROR_OUT_OF_MEMORY|STATUS_ALLOC_FAILED|ERROR_OutOfMemory)
            \bOutOfMemoryError\b(?!.{0,80}(?:node|killed|java))
            \b(?:video|device|gpu|npu|xpu|graphics|vram|hbm) memory\b.{0,30}\b(?:allocation fail\w*|exhausted
              |insufficient|is full|not enough)|Memory_Allocation_Failure|\b(?:rt|aclrt|ze|cu|hip)\w*(?:Malloc
              |MemAlloc)\w*\b.{0,40}\bfail
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
        "a shortage of TPU memory",
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
        "a shortage of host memory",
        w3=r"""
            oom[-_ ]?kill|task \d+: out of memory
            \b(?:killed|evicted|terminated)\b.{0,80}\b(?:out of memory|memory (?:limit|pressure|usage|threshold)
              |low on memory|exceeding memory)
            \b(?:low on (?:resource: )?memory|memory (?:usage )?(?:limit|threshold)|memory cgroup|memory pressure)\b
            cannot allocate memory|\bENOMEM\b|std::bad_alloc|\bMemoryError\b|java\.lang\.OutOfMemoryError|errno:? 12\b
            DefaultCPUAllocator: (?:can't|not enough)|not enough memory: you tried
              |unable to allocate .{0,40}\b(?:array|[GMT]iB)
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
        "a shortage of shared memory",
        w3=r"""
            /dev/shm|\bshm_open|\bshmget|\bshmat\b|shared memory (?:object|segment|file)|insufficient shared memory
              |out of shared memory
            unable to (?:open|write to|create|mmap) (?:file )?</?torch_\d+
            killed by signal: bus error|\bshared memory\b.{0,60}\b(?:fail|error|full|insufficient|limit|space|denied
              |exist)
            \b(?:fail\w*|error|unable|cannot|could not)\b.{0,60}\bshared memory\b
        """,
        w2=r"\bbus error\b|\bSIGBUS\b|\bsignal:? 7\b",
        w1=r"\bshm\b",
    ),
    row(
        Cause.RESOURCE_DISK_FULL,
        "a full disk or quota",
        w3=r"""
            no space left|disk (?:is )?full|(?:disk |file )?quota (?:was |is )?exceeded|\bENOSPC\b|\bEDQUOT\b
              |StorageFull|errno:? (?:28|122)\b|os error 28\b
            (?:not enough|insufficient|out of|no|low on) (?:free )?(?:disk|storage)(?: space)?
              |over (?:its |the )?(?:disk )?quota
        """,
        w2=r"""
            \bephemeral[- ](?:local )?storage\b|StreamWriter failed writing|file write failed|code: 28\b
              |could not append to the internal temporary file|unexpected pos \d+ vs \d+
              |inline_container\.cc.{0,80}unexpected pos
            \b(?:disk|storage|filesystem)\b.{0,40}\b(?:full|exceed|exhaust)
        """,
    ),
    row(
        Cause.RESOURCE_FD_OR_PROCESS_LIMIT,
        "a limit on open files or processes",
        w3=r"""
            too many open files|\bEMFILE\b|\bENFILE\b|errno:? 24\b|received 0 items of ancdata|\bnofile\b
            can'?t start new thread|unable to (?:start|create) (?:new )?(?:native )?thread
              |pthread_create(?: failed)?.{0,60}(?:unavailable|EAGAIN|11)
            \bfork\b.{0,60}\bresource temporarily unavailable|fork: retry|thread (?:create|creation) failed
              |max_?readers|ReadersFull
            \bulimit\b|RLIMIT_\w+
        """,
        w2=r"""
            resource temporarily unavailable|\bEAGAIN\b|too many (?:processes|threads|files|semaphores)
        """,
    ),
    row(
        Cause.RESOURCE_CONTENTION,
        "devices or slots that are in use",
        w3=r"""
            \bdevices?(?:\(s\))? (?:is/are |are |is )?busy or unavailable|CUDA_ERROR_DEVICE_UNAVAILABLE
              |exclusive[- ]process|compute[- ]exclusive
            insufficient (?:nvidia\.com/gpu|cpu|memory|google\.com/tpu|resources)|FailedScheduling
              |\d+/\d+ nodes are available|unschedulable|pending demands
            \b(?:not enough|insufficient|no available|no free|waiting for|lack of|acquire) (?:\w+ ){0,3}(?:slots
              |resources|executors|gpus|node types|reservations)
            timed out waiting for (?:\w+ ){0,3}(?:slots|spark tasks|reservations|resources|executors|placement)
        """,
        w2=r"""
            placement group\b|\bresource requests?\b|\bqueued\b.{0,60}\bresources\b
              |already (?:in use|used|allocated) by another process
        """,
    ),
    row(
        Cause.RESOURCE_MEMORY_LEAK,
        "a memory leak",
        w3=r"memory leak|leak(?:s|ing|ed) memory|memory (?:keeps|usage) (?:growing|increasing|grows|increases)",
    ),
)

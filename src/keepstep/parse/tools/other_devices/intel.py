# SPDX-License-Identifier: Apache-2.0
"""Intel accelerators: oneCCL, Level Zero and the unified runtime of XPU devices, and Gaudi's Synapse."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, RankVariableMissing
from keepstep.model.facts.environment import CudaMismatch, InternalFault, LibraryMissing, UnsupportedCombination
from keepstep.model.facts.network import RdmaTrouble, RendezvousTimeout
from keepstep.model.facts.platform import DeviceFault, PeerAccessFault
from keepstep.model.facts.resource import Contention, DeviceMemoryExhausted, HostAllocationFailed, LimitReached
from keepstep.parse.scan.signature import signature

_ONECCL = (
    signature(
        r"atl_ofi\w*\.cpp:\d+ \w+: (?P<what>can't find suitable provider|can ?not open network providers|can't init provider \S+)",
        lambda m: RdmaTrouble(what=f"oneCCL: {m['what']}"),
    ),
    signature(
        r"\|CCL_ERROR\| [^\n]{0,80}(?:KVS get error: timeout|connection timeout|kvs_get_value[^\n]{0,40}timeout)",
        lambda m: RendezvousTimeout(where="oneCCL's key-value store"),
    ),
    signature(
        r"failed to get local_idx/count from ATL|to get local_idx/count from ATL, set CCL_ZE_IPC_EXCHANGE=sockets",
        RankVariableMissing,
        name="CCL_LOCAL_RANK",
    ),
    signature(
        r"\|CCL_ERROR\| [^\n]{0,80}condition can_use_internal_kvs\(\) failed",
        lambda m: UnsupportedCombination(what="oneCCL over MPI in processes that MPI did not start"),
    ),
    signature(
        r"fi_getinfo error: ret -?\d+, providers|fi_getinfo error, prov_name |can't create providers for name \S|topo filter: can not find network providers",
        RdmaTrouble,
        what="oneCCL: libfabric offers no provider",
    ),
    signature(
        r"atl_(?:ofi|mpi)\w*\.cpp:\d+ \w+: EXCEPTION: (?:failed to initialize ATL|init transport failed)",
        RdmaTrouble,
        what="oneCCL could not start its transport",
    ),
    signature(
        r"\|CCL_ERROR\| [^\n]{0,80}(?P<what>fi_cq_readerr: err: [^\n]{1,60}|unexpected av_insert results[^\n]{0,40})",
        lambda m: RdmaTrouble(what=f"oneCCL: {m['what']}"),
    ),
    signature(
        r"could not open the library: (?P<name>lib\S{2,80}\.so\S{0,20})|could not (?:load|initialize) (?:the )?(?:library|api)[^\n]{0,20}: (?P<other>lib\S{2,80})",
        lambda m: LibraryMissing(name=m["name"] or m["other"]),
    ),
    signature(
        r"\|CCL_ERROR\| [^\n]{0,120}local_idx >= 0 && local_idx < local_count failed|PMIx_Init failed: PMIX_ERR_UNREACH",
        RankVariableMissing,
        name="CCL_LOCAL_RANK",
    ),
    signature(
        r"ze error at zeMem\w{0,12}Ipc\w{1,20}, code: \w|\|CCL_ERROR\| [^\n]{0,80}(?:unable to open ipc_handle|null IPC buffer is received)",
        PeerAccessFault,
        what="one XPU cannot open another's memory",
    ),
    signature(
        r"error while creating (?:worker|\w+) thread #\d+ pthread_create returns (?P<code>\d+)",
        lambda m: (
            ClusterSpecInvalid(
                detail="oneCCL's worker threads were given cores that this process may not use (CCL_WORKER_AFFINITY)"
            )
            if m["code"] == "22"
            else LimitReached(limit="threads")
        ),
    ),
    signature(r"CCL cannot allocate bytes: (?P<requested>\d+)[^\n]{0,20}out of memory", HostAllocationFailed),
    signature(r"ze_data was not initialized", CudaMismatch, what="oneCCL sees no Level Zero device"),
)

_XPU = (
    signature(
        r"(?:UR_RESULT|ZE_RESULT)_ERROR_OUT_OF_(?:DEVICE_MEMORY|RESOURCES)|PI_ERROR_OUT_OF_RESOURCES|PI_ERROR_MEM_OBJECT_ALLOCATION_FAILURE",
        DeviceMemoryExhausted,
    ),
    signature(
        r"(?:UR_RESULT|ZE_RESULT)_ERROR_DEVICE_LOST|PI_ERROR_DEVICE_LOST",
        DeviceFault,
        what="the runtime lost the device",
    ),
    signature(
        r"No XPU devices are available|PI_ERROR_DEVICE_NOT_FOUND",
        CudaMismatch,
        what="no XPU is visible to this process",
    ),
)

_GAUDI = (
    signature(
        r"synStatus=(?:synStatus )?\d+ \[(?:Device already acquired|Device (?:is )?busy)\]",
        Contention,
        what="the Gaudi device was held by another process",
    ),
    signature(
        r"synStatus=(?:synStatus )?\d+ \[(?:Device not found|No device found|Driver not loaded)\]|synStatus=(?:synStatus )?\d+ \[Generic failure\] Device acquire failed",
        CudaMismatch,
        what="no Gaudi device could be acquired",
    ),
    signature(
        r"synStatus=(?:synStatus )?\d+ \[(?:Out of device memory|Out of memory)\]|MODULE:PT_DEVMEM[^\n]{0,40}Allocation failed for size",
        DeviceMemoryExhausted,
    ),
    signature(
        r"synStatus=(?:synStatus )?\d+ \[Device (?:reset|lost)\]|habanalabs [^\n]{0,60}(?:hard reset|Going to reset device)",
        DeviceFault,
        what="the Gaudi device was reset",
    ),
)

_GAUDI_COMPILER = (
    signature(
        r"Graph compile failed\. synStatus=|Failed to load tpc kernel for node: \S",
        InternalFault,
        what="Gaudi's graph compiler failed",
    ),
)

SIGNATURES = (*_ONECCL, *_XPU, *_GAUDI, *_GAUDI_COMPILER)

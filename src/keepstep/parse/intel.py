# SPDX-License-Identifier: Apache-2.0
"""Intel accelerators: oneCCL, Level Zero and the unified runtime of XPU devices, and Gaudi's Synapse."""

from __future__ import annotations

from keepstep.core.facts.config import RankVariableMissing
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.core.facts.network import RdmaTrouble, RendezvousTimeout
from keepstep.core.facts.platform import DeviceFault
from keepstep.core.facts.resource import Contention, DeviceMemoryExhausted
from keepstep.parse.signature import signature

_ONECCL = (
    signature(
        r"atl_ofi\w*\.cpp:\d+ \w+: (?P<what>can't find suitable provider|can ?not open network providers|can't init provider \S+)",
        lambda m: RdmaTrouble(what=f"oneCCL: {m['what']}"),
        anchors=("|CCL_ERROR| atl_ofi",),
    ),
    signature(
        r"\|CCL_ERROR\| [^\n]{0,80}(?:KVS get error: timeout|connection timeout|kvs_get_value[^\n]{0,40}timeout)",
        lambda m: RendezvousTimeout(where="oneCCL's key-value store"),
        anchors=("|CCL_ERROR| ",),
    ),
    signature(
        r"failed to get local_idx/count from ATL|to get local_idx/count from ATL, set CCL_ZE_IPC_EXCHANGE=sockets",
        RankVariableMissing,
        name="CCL_LOCAL_RANK",
        anchors=("to get local_idx/count from ATL",),
    ),
    signature(
        r"\|CCL_ERROR\| [^\n]{0,80}condition can_use_internal_kvs\(\) failed",
        lambda m: UnsupportedCombination(what="oneCCL over MPI in processes that MPI did not start"),
        anchors=("condition can_use_internal_kvs",),
    ),
    signature(r"ze_data was not initialized", CudaMismatch, what="oneCCL sees no Level Zero device"),
)

_XPU = (
    signature(
        r"(?:UR_RESULT|ZE_RESULT)_ERROR_OUT_OF_(?:DEVICE_MEMORY|RESOURCES)|PI_ERROR_OUT_OF_RESOURCES|PI_ERROR_MEM_OBJECT_ALLOCATION_FAILURE",
        DeviceMemoryExhausted,
        anchors=("_RESULT_ERROR_OUT_OF_", "PI_ERROR_OUT_OF_RESOURCES", "PI_ERROR_MEM_OBJECT_ALLOCATION_FAILURE"),
    ),
    signature(
        r"(?:UR_RESULT|ZE_RESULT)_ERROR_DEVICE_LOST|PI_ERROR_DEVICE_LOST",
        DeviceFault,
        what="the runtime lost the device",
        anchors=("_RESULT_ERROR_DEVICE_LOST", "PI_ERROR_DEVICE_LOST"),
    ),
    signature(
        r"No XPU devices are available|PI_ERROR_DEVICE_NOT_FOUND",
        CudaMismatch,
        what="no XPU is visible to this process",
        anchors=("No XPU devices are available", "PI_ERROR_DEVICE_NOT_FOUND"),
    ),
)

_GAUDI = (
    signature(
        r"synStatus=\d+ \[(?:Device already acquired|Device (?:is )?busy)\]",
        Contention,
        what="the Gaudi device was held by another process",
        anchors=("synStatus=",),
    ),
    signature(
        r"synStatus=\d+ \[(?:Device not found|No device found|Driver not loaded)\]|synStatus=\d+ \[Generic failure\] Device acquire failed",
        CudaMismatch,
        what="no Gaudi device could be acquired",
        anchors=("synStatus=",),
    ),
    signature(
        r"synStatus=\d+ \[(?:Out of device memory|Out of memory)\]|MODULE:PT_DEVMEM[^\n]{0,40}Allocation failed for size",
        DeviceMemoryExhausted,
        anchors=("synStatus=", "MODULE:PT_DEVMEM"),
    ),
    signature(
        r"synStatus=\d+ \[Device (?:reset|lost)\]|habanalabs [^\n]{0,60}(?:hard reset|Going to reset device)",
        DeviceFault,
        what="the Gaudi device was reset",
        anchors=("synStatus=", "habanalabs "),
    ),
)

SIGNATURES = (*_ONECCL, *_XPU, *_GAUDI)

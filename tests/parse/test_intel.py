# SPDX-License-Identifier: Apache-2.0
"""Intel's oneCCL, XPU runtime and Gaudi."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, RankVariableMissing
from keepstep.core.facts.environment import CudaMismatch, InternalFault, LibraryMissing
from keepstep.core.facts.network import RdmaTrouble, RendezvousTimeout
from keepstep.core.facts.platform import PeerAccessFault
from keepstep.core.facts.resource import Contention, DeviceMemoryExhausted, LimitReached
from keepstep.parse.tools.other_devices import intel

CCL = "2025:05:23-19:04:20:(168955) |CCL_ERROR| "

SAID = [
    (CCL + "atl_ofi.cpp:237 init: can't find suitable provider", RdmaTrouble),
    (CCL + "atl_ofi_helper.cpp:1635 atl_ofi_open_nw_provs: can not open network providers", RdmaTrouble),
    (
        CCL + "pmi_resizable_simple_internal.cpp:319 kvs_get_value: KVS get error: timeout limit (60 > 60)",
        RendezvousTimeout,
    ),
    ("to get local_idx/count from ATL, set CCL_ZE_IPC_EXCHANGE=sockets explicitly", RankVariableMissing),
    (
        "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        DeviceMemoryExhausted,
    ),
    ("RuntimeError: synStatus=20 [Device already acquired] Device acquire failed.", Contention),
    ("RuntimeError: synStatus=26 [Generic failure] Device acquire failed.", CudaMismatch),
    ("RuntimeError: Graph compile failed. synStatus=synStatus 26 [Generic failure].", InternalFault),
    (CCL + "atl_ofi_helper.cpp:1118 atl_ofi_get_prov_list: fi_getinfo error: ret -61, providers 0", RdmaTrouble),
    (CCL + "atl_ofi_helper.cpp:907 atl_ofi_get_prov_list: can't create providers for name shm", RdmaTrouble),
    ("RuntimeError: oneCCL: atl_ofi_comm.cpp:79 atl_ofi_comm: EXCEPTION: init transport failed", RdmaTrouble),
    ("could not open the library: libze_loader.so", LibraryMissing),
    (CCL + "topo_manager.cpp:1 init: condition local_idx >= 0 && local_idx < local_count failed", RankVariableMissing),
    (
        CCL + "ze_call.cpp:43 do_call: ze error at zeMemOpenIpcHandle, code: ZE_RESULT_ERROR_INVALID_ARGUMENT",
        PeerAccessFault,
    ),
    (
        CCL + "base_thread.cpp:36 start: error while creating worker thread #0 pthread_create returns 22",
        ClusterSpecInvalid,
    ),
    (CCL + "base_thread.cpp:36 start: error while creating worker thread #0 pthread_create returns 11", LimitReached),
]


HARMLESS = [
    "2025:05:23-19:04:20:(168955) |CCL_WARN| value of CCL_ATL_TRANSPORT changed to be ofi (default:mpi)",
    "could not get local_idx/count from environment variables, trying to get them from ATL",
    "habanalabs 0000:29:00.0: Habana Labs Gaudi2E device detected",
]


@pytest.mark.parametrize("text, kind", SAID)
def test_the_words_give_the_fact(text, kind, read, holds):
    assert holds(read(intel, text), kind)


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_words_give_nothing(text, read):
    assert read(intel, text) == []

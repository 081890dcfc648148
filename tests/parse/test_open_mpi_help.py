# SPDX-License-Identifier: Apache-2.0
"""What Open MPI's help texts say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.core.facts.environment import LibraryMissing, UnsupportedCombination, VersionConflict
from keepstep.core.facts.network import (
    AddressMisled,
    ConnectFailed,
    InterfaceMissing,
    NameUnresolved,
    PeerLost,
    RdmaTrouble,
)
from keepstep.core.facts.resource import LimitReached, OomKilled
from keepstep.core.facts.sync import CollectiveMismatch
from keepstep.parse.tools.mpi import open_mpi_help as table

WORDINGS = [
    (
        "A requested component was not found, or was unable to be opened.  This\nmeans that this component is not installed\n\nHost:      n1\n"
        "Framework: btl\nComponent: ofi\n",
        LibraryMissing,
        {"name": "Open MPI's component btl/ofi"},
    ),
    ("No components were able to be opened in the pml framework.", LibraryMissing, {}),
    (
        'The singleton application was not able to find the executable "orted" in\nyour PATH or in the directory',
        LibraryMissing,
        {"name": "orted"},
    ),
    (
        "Open MPI detected an inbound MPI TCP connection request from a peer\nthat appears to be part of this MPI job",
        AddressMisled,
        {},
    ),
    (
        "The InfiniBand retry count between two MPI processes has been\nexceeded.  ",
        RdmaTrouble,
        {},
    ),
    ("Open MPI failed an OFI Libfabric library call (fi_endpoint).  This is highly", RdmaTrouble, {}),
    ("A critical communication path was lost to:", PeerLost, {}),
    ("A process has exceeded the specified limit on memory usage:", OomKilled, {}),
    (
        "A compressed message was received by the Open MPI run time system (PMIx) that could\nnot be decompressed.",
        VersionConflict,
        {},
    ),
    (
        "ORTE does not know how to route a message to the specified daemon\nlocated on the indicated node:",
        ConnectFailed,
        {},
    ),
    (
        "mpirun was unable to launch the specified application as it could not change to the\nspecified working directory:",
        ClusterSpecInvalid,
        {},
    ),
    ('Detected mismatched split_type and/or info "mpi_hw_resource_type" values', CollectiveMismatch, {}),
    (
        "Open MPI's mpirun command was unable to find an underlying prterun\ncommand to execute.",
        LibraryMissing,
        {"name": "prterun"},
    ),
    (
        "The user requested CUDA support with the --mca mpi_cuda_support 1 flag\nbut the library was not compiled",
        UnsupportedCombination,
        {},
    ),
    ("MXM was unable to create an endpoint. Please make sure that the network link is", RdmaTrouble, {}),
    ("Failed to create a queue pair (QP):", RdmaTrouble, {}),
    (
        "At least one of the requested hosts is not included in the current\nallocation.",
        ClusterSpecInvalid,
        {},
    ),
    ("Open RTE was unable to open the hostfile:\n    hosts.txt", ClusterSpecInvalid, {}),
    (
        "A request was made to bind to that would result in binding more\nprocesses than cpus on a resource:",
        WorldSizeConflict,
        {},
    ),
    (
        "Error: system limit exceeded on number of pipes that can be open",
        LimitReached,
        {"limit": "pipes"},
    ),
    ("An unexpected version of PMIx was loaded:", VersionConflict, {"component": "PMIx"}),
    (
        'The application appears to have been direct launched using "aprun",\nbut OMPI was not built with ALPS PMI support',
        UnsupportedCombination,
        {},
    ),
    (
        "The specified list of networks to be excluded for TCP out-of-band communications\nresulted in no networks being available",
        InterfaceMissing,
        {},
    ),
    (
        "MPID_nem_tcp_init(373).............: gethostbyname failed, node7 (errno 0)",
        NameUnresolved,
        {"host": "node7"},
    ),
    (
        "[mpiexec@a] HYDU_sock_connect (sock.c:70): unable to get host address for node8 (1)",
        NameUnresolved,
        {"host": "node8"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "mpirun --mca btl ofi --hostfile hosts.txt python train.py",
        "A requested component was not found",
        "[n1:1] mca: base: components_open: component rsh open function successful",
        "The requested number of processes exceeds the allocated number of slots: we will continue",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []

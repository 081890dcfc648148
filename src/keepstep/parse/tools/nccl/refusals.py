# SPDX-License-Identifier: Apache-2.0
"""What NCCL of versions 2.4 to 2.30 refuses, or does not find: devices, transports, networks, libraries, memory.

Each is a warning (``NCCL WARN ...``), which PyTorch and JAX print again under ``Last error:`` on a line of its own.
What it says of connections is in ``nccl/messages``, of InfiniBand in ``network/rdma``.
"""

from __future__ import annotations

from keepstep.core.facts.config import ClusterSpecInvalid, DeviceShared, WorldSizeConflict
from keepstep.core.facts.environment import CudaMismatch, InternalFault, LibraryMissing, UnsupportedCombination
from keepstep.core.facts.network import RdmaTrouble
from keepstep.core.facts.platform import PeerAccessFault
from keepstep.core.facts.resource import HostAllocationFailed, LimitReached
from keepstep.core.facts.sync import CollectiveMismatch
from keepstep.parse.scan.signature import signature

_WARN = r"(?:NCCL WARN |^\s*)"

SIGNATURES = (
    signature(
        r"Invalid config \w{1,40} attribute value -2147483648\b",
        CudaMismatch,
        what="the NCCL that was loaded is older than the one that the framework was built for",
    ),
    signature(
        r"NCCL operation nccl\w{3,30}\([^\n]{0,500}\) failed: invalid argument[^\n]{0,80}log entry \(may be unrelated\) ''",
        UnsupportedCombination,
        what="two copies of NCCL in one process (TensorFlow for GPUs beside JAX): one made the communicator, the other refused it",
    ),
    signature(
        r"(?:NCCL WARN |Error: )(?:Error: )?corrupted comm object detected",
        InternalFault,
        what="NCCL was handed a communicator that is not, or no longer, its own",
    ),
    # ranks and devices
    signature(
        _WARN + r"[Ii]nvalid device count (?:\((?P<seen>-?\d+)\) requested|requested ?: (?P<count>-?\d+))",
        lambda m: WorldSizeConflict(seen=m["seen"] or m["count"], what="devices of a communicator"),
    ),
    signature(
        _WARN
        + r"(?:[Ii]nvalid device (?P<seen>-?\d+) \((?:totalnDev|ndev|of)=?\s?(?P<expected>\d+)|rank (?P<rank>\d+) exceeds ndev=(?P<ndev>\d+))",
        lambda m: WorldSizeConflict(seen=m["seen"] or m["rank"], expected=m["expected"] or m["ndev"], what="a device"),
    ),
    signature(
        _WARN + r"\w{2,40} ?: invalid root (?P<seen>-?\d+) \(root should be in the 0\.\.(?P<expected>\d+) range\)",
        WorldSizeConflict,
        what="the root of a collective",
    ),
    signature(
        _WARN + r"improper usage of ncclCommInitRank: nId = (?P<seen>\d+), nranks=(?P<expected>\d+)",
        WorldSizeConflict,
        what="ids and ranks of a communicator",
    ),
    signature(
        _WARN
        + r"nLocals = (?P<seen>\d+) should be a divis[eo]r of the number of ranks in node \d+ = (?P<expected>\d+)",
        WorldSizeConflict,
        what="ranks of a node",
    ),
    signature(
        r"communicator has multiple ranks using the same NVML device",
        DeviceShared,
    ),
    # addresses and settings
    signature(
        r"Net ?: (?P<detail>No valid (?:<IPv4_or_hostname>:<port>|\[IPv6\]:port) pair found)",
        ClusterSpecInvalid,
    ),
    signature(
        _WARN
        + r"(?P<detail>TOPO/NET ?: Could not force merge NICs \S{1,80}|TOPO/NET ?: Only matched \d+ devices, \d+ requested from \S{1,80}"
        r"|Specified fused NIC \S{1,80} which has too many devices|Rank \d+ requires NIC \d+ but that NIC is not available for rank \d+"
        r"|XML (?:Import|Export) Channel ?: (?:dev|rank) \w+ not found|Invalid NCCL_COMM_BLOCKING value -?\d+"
        r"|'?NCCL_WORK_FIFO_DEPTH=\d+'? is too small|Unrecognized (?:element|prefix) token \"[^\"\n]{0,40}\" when parsing"
        r"|TOPO/NET ?: Tried to merge too many NICs)",
        ClusterSpecInvalid,
    ),
    signature(
        _WARN
        + r"(?P<what>Error ?: network \S[^\n]{0,60} not found\.?|Error ?: Network returned 0 device|Failed to initialize any NET plugin)",
        RdmaTrouble,
    ),
    signature(
        r"NET/IB ?: (?P<what>Attempted to merge incompatible devices|OOO RQ is force enabled but \S[^\n]{0,80}"
        r"|Trying to use non-existent virtual device \d+|Can't make virtual NIC with 0 devices|Cannot use physical device \d+, max \d+"
        r"|Local mergedDev ?=?\S{1,60} has a different number of devices|Can't merge net devices with different link_layer"
        r"|could not find mr \w+ inside cache|req \d+/\d+ tag \w+ peer \S{1,60} posted incorrect receive info)",
        RdmaTrouble,
    ),
    signature(
        _WARN + r"(?P<what>Unable to use GIN: Peermem is not supported"
        r"|No RMA-capable devices found)",
        RdmaTrouble,
    ),
    # no way between two devices
    signature(
        _WARN
        + r"(?P<what>No transport found !|Error ?: Could not find transport to connect next group|(?:\[\d+\] Error|Rank \d+ has) no transport for \w+ peer \d+"
        r"|MNNVL is not supported on this system|P2P IPC handle is not supported)",
        PeerAccessFault,
    ),
    # its picture of the machine does not hold
    signature(
        _WARN + r"(?P<what>Error ?: ring \d+ does not (?:loop back to start|contain rank \d+)"
        r"|Failed to determine (?:intra(?: proc| node)?|local) ranks (?:rank|hostHash)[^\n]{0,40}|Internal error ?: tree already has [^\n]{0,30}"
        r"|Error ?: could not find CPU close to GPU \w+|No path computed to go from \S{1,20} to \S{1,20}|Could not find (?:node of type|rev link for) [^\n]{0,40}"
        r"|Could not find intermediate GPU between|P2p schedule creation has bugs|Proxy append (?:mismatch|out of bounds?|on running operation)"
        r"|Could not find any local path from gpu \d+ to net|ncclTopo(?:RankToIndex|DevToRank) could not find rank|Add (?:PCI Link|C2c) error ?: could not find"
        r"|Error ?: (?:too many XML (?:sub)?nodes|XML parser is limited to))",
        InternalFault,
    ),
    # where the machine does not show its PCI tree (WSL, some virtual machines and containers); INFO says the same of a NIC
    signature(
        _WARN + r"Could not find real path of (?P<what>/sys/class/pci_bus/\S{1,80})",
        lambda m: UnsupportedCombination(what=f"NCCL on a machine without {m['what']}"),
    ),
    # libraries and the driver
    signature(
        _WARN + r"Failed to find CUDA library (?:in )?(?P<name>\S{1,200}) \(NCCL_CUDA_PATH=",
        LibraryMissing,
    ),
    signature(
        _WARN + r"Failed to open (?P<name>libnvidia-ml\.so\.1)(?!\.)",
        LibraryMissing,
    ),
    signature(
        _WARN
        + r"(?P<what>CUDA Driver version found is \d+\. Minimum requirement is \d+|The installed CUDA driver is older than the minimum version \(R\d+\))",
        CudaMismatch,
    ),
    # memory and descriptors
    signature(
        _WARN + r"(?:Failed to (?:malloc|CUDA host alloc) (?P<requested>\d+) bytes|malloc of (?P<size>\d+) bytes failed"
        r"|[^\n]{0,80}?Unrecoverable error detected: malloc\(size=(?P<asked>\d+)\) returned null)",
        lambda m: HostAllocationFailed(requested=f"{m['requested'] or m['size'] or m['asked']} bytes"),
    ),
    signature(
        _WARN + r"UDS: (?:Socket creation error|Binding to socket \S{1,80} failed) ?: 24\b",
        LimitReached,
        limit="open files",
    ),
    # calls that do not fit each other
    signature(
        _WARN + r"Trying to (?:send|recv) to self without a matching (?:recv|send)",
        CollectiveMismatch,
        what="a send and a receive of the rank to itself",
    ),
    signature(
        _WARN + r"Elastic GIN: rank (?P<other_rank>\d+) [^\n]{0,80}all ranks must have identical segment",
        CollectiveMismatch,
        what="the memory that ranks registered",
    ),
    signature(
        _WARN + r"Data type supplied to user-created ncclRedOp_t does not match type given to reduction operation",
        CollectiveMismatch,
        what="the type of a reduction",
    ),
    signature(
        _WARN + r"(?P<what>Illegal to have some communicators in graph mode while others not"
        r"|Either none or all communicators in a ncclGroup\(\) can be CUDA graph captured|Blocking and nonblocking communicators are not allowed in the same group"
        r"|Streams given to a communicator within a NCCL group must either be all uncaptured"
        r"|NCCL does not support this CUDA version for CUDA graph feature|Too many async operations in progress, max is \d+"
        r"|Too many aggregated operations[^\n]{0,30} \(\d+ max\)|CUMEM(?: Host)? (?:is )?not supported prior to CUDA [\d.]+"
        r"|(?:Error ?: no|No) algorithm/protocol available|FP8 reduction support begins with sm\d+|Communicator does not support symmetric memory"
        r"|cudaArch \d+ dynamic smem \d+ exceeds device/fn maxSharedMem \d+"
        r"|Fusing NET devices from different NUMA domains is not supported|GIN is not supported[^\n]{0,60})",
        UnsupportedCombination,
    ),
)

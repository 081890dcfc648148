# SPDX-License-Identifier: Apache-2.0
"""THD: PyTorch's first distributed package (0.2 to 0.4, ``torch.distributed.deprecated`` in 1.0 and 1.1).

Its errors end in ``at .../torch/lib/THD/process_group/General.cpp:17``.
"""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, DuplicateMember, RankVariableMissing, WorldSizeConflict
from keepstep.model.facts.environment import CudaMismatch
from keepstep.model.facts.network import ConnectFailed, NameUnresolved, RendezvousTimeout, Why
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(r"more than one node have assigned same rank", DuplicateMember),
    signature(r"two processes \([^)\n]{0,120}\) reported a rank of (?P<member>\d+)", DuplicateMember),
    signature(
        r"worker's rank\((?P<seen>\d+)\) is out ?of ?range: \[0, (?P<expected>\d+)\]",
        WorldSizeConflict,
        what="a worker's rank",
    ),
    signature(
        r"failed to read the (?P<name>\w+) environmental variable; maybe you forgot to set it", RankVariableMissing
    ),
    signature(
        r"(?P<name>rank|world_size) is not set(?: but| -) it is required for `?(?:env|tcp|file)://", RankVariableMissing
    ),
    signature(r"(?P<name>rank|world_size) was not set in config", RankVariableMissing),
    signature(
        r"tcp:// method with non-multicast addresses requires manual rank assignment", RankVariableMissing, name="rank"
    ),
    signature(
        r"(?P<detail>(?:rank|world_size) specified both as an environmental variable and to the initializer)",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<detail>invalid master address, usage: IP:PORT)", ClusterSpecInvalid),
    signature(r"(?P<detail>WORLD_SIZE env variable cannot be 0)", ClusterSpecInvalid),
    signature(r"could not establish connection with other processes", ConnectFailed, why=Why.FAILED),
    signature(r"failed to initialize THD using given address", ConnectFailed, why=Why.FAILED),
    signature(
        r"waiting for processes to connect has timed out", RendezvousTimeout, where="the first meeting of all ranks"
    ),
    signature(r"RuntimeError: invalid init address|cannot find host to listen on", NameUnresolved),
    signature(
        r"backend is not available; try to recompile the THD package",
        CudaMismatch,
        what="this build of PyTorch lacks the communication backend",
    ),
)

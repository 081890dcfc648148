# SPDX-License-Identifier: Apache-2.0
"""Launchers that refuse what they were given: torchrun, torch.distributed, accelerate, Colossal-AI, the schedulers' variables."""

from __future__ import annotations

from keepstep.core.facts.config import ClusterSpecInvalid, DeviceShared, RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.core.facts.network import ConnectFailed, Why
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # torchrun's rendezvous
    signature(
        r"(?P<detail>The (?:port number|hostname) of the rendezvous endpoint '[^'\n]{0,120}' must be)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>The (?:minimum|maximum) number of (?:rendezvous )?nodes \(\d+\) must be greater than)",
        ClusterSpecInvalid,
    ),
    signature(r"rank is absent in RendezvousParameters", RankVariableMissing, name="--node-rank"),
    signature(r"endpoint is absent in RendezvousParameters", RankVariableMissing, name="--master-addr"),
    signature(r"Port is absent in endpoint: \S{0,80}\. Try launching with", RankVariableMissing, name="--master-port"),
    signature(r"(?P<detail>The rendezvous backend '[\w.-]{0,40}' is not registered)", ClusterSpecInvalid),
    signature(r"(?P<detail>The rendezvous backend name must be a non-empty string)", ClusterSpecInvalid),
    signature(
        r"(?P<detail>The rendezvous configuration (?:string must be in format|option '\w{1,40}' (?:must have a value|does not represent)))",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<detail>nnodes=\S{0,40} is not in \"?'?MIN:MAX)", ClusterSpecInvalid),
    signature(r"(?P<detail>Unsupported nproc_per_node value: [^\n]{0,40})", ClusterSpecInvalid),
    signature(r"(?P<detail>No rendezvous handler for (?!(?:env|tcp|file):)\w{0,20}:)", ClusterSpecInvalid),
    # its own ones are missing only where torch.distributed was left out of the build, as on Windows before 1.7
    signature(
        r"No rendezvous handler for (?:env|tcp|file):",
        UnsupportedCombination,
        what="a build of PyTorch without torch.distributed",
    ),
    signature(r"(?P<detail>port must have value from 0 to 65535 but was \S{1,20})", ClusterSpecInvalid),
    signature(r"(?P<detail>`?(?:rank|world_size)`? must be an integer\. [^\n]{0,40})", ClusterSpecInvalid),
    signature(
        r"(?P<detail>(?:argument|error:)[^\n]{0,20}--(?:nproc[-_]per[-_]node|nnodes|node[-_]rank|master[-_](?:addr|port))[^\n]{0,30}: (?:invalid|expected)[^\n]{0,80})",
        ClusterSpecInvalid,
    ),
    # an argument that was filled in from a variable that is not there: --rank $AZ_BATCHAI_TASK_INDEX
    signature(
        r"error: argument (?:-\w{1,3}/)?--(?P<name>(?:(?:global|local|node|machine|world)[-_]?)?rank|(?:world|cluster)[-_]?size"
        r"|num[-_](?:machines|processes|nodes|workers)|nnodes|nproc[-_]per[-_]node|process[-_]id|(?:task|worker|host)[-_](?:index|id)"
        r"|(?:master|main[-_]process)[-_](?:addr|ip|port)|dist[-_]url|init[-_]method)(?:/-{1,2}[\w-]{1,30}){0,2}: "
        r"(?:invalid \w{1,20} value: ['\"](?:\$[^'\"\n]{0,60}|None|null|\s*)['\"]|expected one argument)",
        RankVariableMissing,
    ),
    # Colossal-AI's launcher, which starts the other hosts by ssh: what its ssh said
    signature(
        r" on (?P<peer>\S{1,120}), is localhost: False, exception: (?:No authentication methods available|Authentication (?:failed|timeout)"
        r"|(?:\[Errno None\] )?Unable to connect to |Error reading SSH protocol banner|Invalid SSH banner|Server '[^'\n]{1,80}' not found"
        r"|Private key file is encrypted|(?:not a valid|no lines in) \w{1,12} private key file|encountered \w{1,12} key, expected"
        r"|Can't parse DEK-info in private key|Bad password or corrupt private key|Invalid key\b"
        r"|Host key for server|Bad host key from server|Negotiation failed|No existing session|Key-exchange timed out"
        r"|Incompatible ssh (?:peer|server)|SSH session not active|(?:Timeout opening|Unable to open) channel|Bad authentication type)",
        ConnectFailed,
        why=Why.FAILED,
    ),
    # the same ssh where the program itself lets its error through
    signature(
        r"paramiko\.ssh_exception\.(?:AuthenticationException|BadAuthenticationType|BadHostKeyException|NoValidConnectionsError"
        r"|PasswordRequiredException|SSHException): ",
        ConnectFailed,
        why=Why.FAILED,
    ),
    # its own group of processes
    signature(
        r"the process group: Default process group (?:is|has) not (?:been )?initialized|"
        r"Default process group (?:is|has) not (?:been )?initialized,? please (?:make sure to )?call init_process_group",
        RankVariableMissing,
        name="the process group",
    ),
    # variables that were passed on as they stand
    signature(
        r"invalid literal for int\(\) with base 10: ['\"](?P<name>\$\{?\w{2,40}\}?|\$\(\w[^'\"\n]{0,60}\))['\"]",
        RankVariableMissing,
    ),
    # devices
    signature(
        r"Device (?P<device>-?\d+) is not recognized, available devices are integers from 0 to \d+", DeviceShared
    ),
    signature(r"Invalid device string: ['\"](?P<device>(?:cuda|npu|xpu|hip):(?:None|-\d+|\$\w+)?)['\"]", DeviceShared),
    signature(r"ValueError: (?P<what>(?:Cuda|Xpu|npu|hpu) is not available)\.", CudaMismatch),
    signature(
        r"(?:requested|asked for|need|expected|specified) (?P<expected>\d+) (?:GPU|gpu|device)s?,? (?:but|while|and) (?:only )?(?:found |have |got |there (?:is|are) )?(?P<seen>\d+)\b",
        WorldSizeConflict,
        what="devices",
    ),
)

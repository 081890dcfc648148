# SPDX-License-Identifier: Apache-2.0
"""Colossal-AI: its launcher, parallel sizes and checkpoints."""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.network import ConnectFailed, Why
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"(?P<what>\w{2,40}) (?:should|must) be a (?:factor|divisor) of (?:the )?world[_ ]size", WorldSizeConflict
    ),
    signature(
        r"The dimension at index \d+ has value (?P<seen>\d+), but it is sharded over (?P<expected>\d+) devices",
        WorldSizeConflict,
        what="a sharded dimension",
    ),
    signature(
        r"[Cc]annot shard (?:the )?(?:dimension (?P<seen>\d+) into|\d+ dimension of tensor into) (?P<expected>\d+) partitions",
        WorldSizeConflict,
        what="a sharded dimension",
    ),
    signature(
        r"AnnealingLR: class input value (?P<detail>\S{1,60} and checkpoint ?value \S{1,60}) for", CheckpointMismatch
    ),
    signature(r"Invalid checkpoint path (?P<path>\S{1,300})\. Expected a file or a directory", CheckpointUnreadable),
    signature(
        r"Error: [^\n]{0,80}(?P<what>zero stage must be 0 or 1 when using pipeline parallelism"
        r"|[Ss]equence parallelism mode \S{1,40} (?:can only be used when|must be enabled when using) \w{2,40}( parallelism)?)",
        lambda m: UnsupportedCombination(what=m["what"]),
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
)

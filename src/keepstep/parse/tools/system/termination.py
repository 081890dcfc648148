# SPDX-License-Identifier: Apache-2.0
"""Requests to end: signals as programs, agents and clouds announce them, notices of spot machines."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.platform import Preempted
from keepstep.model.facts.process import TerminationRequested
from keepstep.parse.scan.signature import signature

_NAMES = {1: "SIGHUP", 2: "SIGINT", 10: "SIGUSR1", 12: "SIGUSR2", 15: "SIGTERM", 3: "SIGQUIT"}


def _numbered(match: re.Match[str]) -> Fact | None:
    name = _NAMES.get(int(match["number"]))
    if name is None:
        return None
    groups = match.groupdict()
    pid = groups.get("pid")
    return TerminationRequested(signal=name, pid=int(pid) if pid else None)


SIGNATURES = (
    # torch elastic: the agent itself was asked to end
    signature(r"Received (?:Signals\.)?(?P<number>\d+) death signal, shutting down workers", _numbered),
    signature(r"Received Signals\.(?P<signal>SIG\w+) death signal, shutting down workers", TerminationRequested),
    signature(r"Process (?P<pid>\d+) got signal: (?P<number>\d+)", _numbered),
    # programs with a handler of their own
    signature(r"[Rr]eceived (?:termination )?[Ss]ignal:? ?\(?(?P<number>15|1|2|10|12)\)?(?!\d)", _numbered),
    signature(r"[Ss]ignal handler called with signal:? (?P<number>15|1|2|10|12)(?!\d)", _numbered),
    signature(
        r"(?:[Rr]eceived|[Cc]aught|[Gg]ot|[Hh]andling|[Tt]rapped|[Ii]ntercepted)(?: (?:a|the"
        r"|signal))? ?:? ?(?P<signal>SIGTERM|SIGHUP|SIGUSR1|SIGUSR2)\b"
        r"(?![^\n]{0,20}handler (?:installed|registered))(?! from PID \d+ \()",  # the latter: systemd's own services
        TerminationRequested,
    ),
    signature(r"(?P<signal>SIGTERM|SIGUSR1|SIGUSR2) (?:was |has been )?(?:received|caught)\b", TerminationRequested),
    signature(r"Bypassing (?P<signal>SIGTERM)", TerminationRequested, by="scheduler"),
    signature(
        r"\*\*\* (?P<signal>SIGTERM) (?:\(@(?:0x[\da-f]+|\(nil\))\),? )?(?:see [^\n]{0,60}? )?received by PID (?P<pid>\d+)",
        TerminationRequested,
    ),
    # clouds
    signature(
        r"(?:[Ss]pot|[Pp]reemptible|[Ll]ow[- ][Pp]riority)(?: [Ii]nstance| VM| node| machine| TPU)?[^\n]{0,40}"
        r"(?:[Ii]nterruption|[Tt]ermination|[Pp]reemption|[Ee]viction)(?: (?:[Nn]otice|[Ww]arning"
        r"|[Nn]otification|signal|event))?[^\n]{0,30}(?:received|detected|issued|at|scheduled)\b",
        Preempted,
        by="the cloud",
        reason="spot machine reclaimed",
    ),
    signature(
        r"(?<!if the )(?:instance|VM|node|machine|worker|host) (?:was|has been|is being|will be) (?:preempted|reclaimed)(?!,? or\b)",
        Preempted,
        by="the cloud",
    ),
    signature(
        r"compute\.instances\.preempted|instance/preempted[^\n]{0,20}TRUE",
        Preempted,
        by="Google Cloud",
        reason="preemptible machine reclaimed",
    ),
    signature(
        r"\"action\": ?\"(?:terminate|stop)\", ?\"time\"|EC2 Spot (?:Instance )?interruption|BidEvictedEvent",
        Preempted,
        by="AWS",
        reason="spot machine reclaimed",
    ),
    signature(
        r"Server\.SpotInstance(?:Termination|Shutdown)|instance-terminated-(?:by-price|no-capacity"
        r"|capacity-oversubscribed)",
        Preempted,
        by="AWS",
        reason="spot machine reclaimed",
    ),
    signature(
        r"\"EventType\": ?\"Preempt\"|EventType: Preempt\b", Preempted, by="Azure", reason="spot machine reclaimed"
    ),
    signature(
        r"[Rr]eceived (?:a |the )?(?:termination|preemption) (?:notice|signal)(?! handler)",
        Preempted,
        by="the cloud",
        reason="notice of preemption",
    ),
    signature(
        r"(?:[Tt]ermination|[Pp]reemption) notice (?:was )?(?:received|detected|available)",
        Preempted,
        by="the cloud",
        reason="notice of preemption",
    ),
    signature(
        r"PreemptionCheckpointHandler: Starting saving a checkpoint|Clearing preemption error to save checkpoint",
        Preempted,
        by="the platform",
        reason="notice of preemption",
    ),
    signature(r"SIGTERM caught at", TerminationRequested, signal="SIGTERM"),
    signature(
        r"The system is going down for|systemd-shutdown\[\d*\]:|systemd-logind\[\d+\]: (?:System is )?(?:[Pp]owering off|[Rr]ebooting)",
        Preempted,
        by="the machine",
        reason="shut down",
    ),
    signature(
        r"Received reboot or shutdown|System is rebooting|System is powering down",
        Preempted,
        by="the machine",
        reason="shut down",
    ),
    signature(
        r"[Pp]reempted by (?:a )?(?:higher|another)[- ](?:priority )?(?:job|task|workload|pod|user)?",
        Preempted,
        by="the scheduler",
    ),
    signature(r"[Jj]ob (?:was |has been )?preempted\b", Preempted, by="the scheduler"),
    signature(
        r"(?:JOB|[Jj]ob)[^\n]{0,40} (?:exceeded|reached)[^\n]{0,20}(?:time limit|wall ?time|TIME LIMIT)",
        Preempted,
        by="the scheduler",
        reason="time limit",
    ),
    signature(
        r"TPU(?: node| VM)? \S* ?(?:was|has been) preempted|state(?:: | is )PREEMPTED\b",
        Preempted,
        by="Google Cloud",
        reason="preemptible TPU reclaimed",
    ),
)

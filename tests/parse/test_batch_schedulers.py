# SPDX-License-Identifier: Apache-2.0
"""Why a scheduler ended a job."""

from __future__ import annotations

import pytest

from keepstep.core.facts.platform import MachineFault, Preempted
from keepstep.core.facts.process import ProcessExited, TerminationRequested
from keepstep.core.facts.resource import LimitReached, OomKilled
from keepstep.parse.tools.slurm.other_schedulers import SIGNATURES


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        ("=>> PBS: job killed: ncpus 37.92 exceeded limit 36 (sum)", Preempted, {"by": "PBS"}),
        (
            "=>> PBS: job killed: node 3 (n012) requested job terminate, 'EOF' (code 1099)",
            MachineFault,
            {"node": "n012"},
        ),
        ("MOAB_INFO:  job exceeded wallclock limit", Preempted, {"by": "Moab", "reason": "time limit"}),
        ("job exceeded MEM usage hard limit (64523 > 64000)", OomKilled, {"by": "Moab"}),
        ("Job deleted at request of root@gpc-sched-ib0", Preempted, {"by": "PBS"}),
        ("Job deleted at request of anna@login1", TerminationRequested, {"by": "user"}),
        ("TERM_ADMIN: job killed by root or LSF administrator.", TerminationRequested, {"by": "scheduler"}),
        ("TERM_SWAP: job killed after reaching LSF swap usage limit.", OomKilled, {"by": "LSF"}),
        ("TERM_THREADLIMIT: job killed after reaching LSF thread limit.", LimitReached, {"limit": "processes"}),
        ("TERM_WINDOW: job killed after queue run window closed.", Preempted, {"by": "LSF"}),
        ("job 1234567.1 exceeded hard wallclock time - initiate terminate method", Preempted, {"by": "Grid Engine"}),
        (
            'job 5150 exceeds job hard limit "h_vmem" of queue "gpu.q@n1" (3 > limit:2) - sending SIGKILL',
            OomKilled,
            {"by": "Grid Engine"},
        ),
        ('job 5150 exceeds job hard limit "h_rt" of queue "gpu.q@n1"', Preempted, {"by": "Grid Engine"}),
        ("004 (123.000.000) 2024-05-01 10:00:00 Job was evicted.", Preempted, {"by": "HTCondor"}),
        (
            "TASK 7: worker_failed exit=0  duration=~1d1h  (Coscheduled sibling /anna/train_lm/3 failed)",
            ProcessExited,
            {"rank": 3, "first": True},
        ),
        (
            "Job has gone over memory limit of 8192 megabytes. Peak usage: 9000 megabytes.",
            OomKilled,
            {"limit": "8192 megabytes"},
        ),
        ("The job exceeded allowed execute duration of 3+00:00:00", Preempted, {"by": "HTCondor"}),
        ("0.1s: job.exception type=timeout severity=0 resource allocation expired", Preempted, {"by": "Flux"}),
    ],
)
def test_says(line, kind, fields):
    facts = [fact for each in SIGNATURES if (fact := each.read(line)) is not None]
    assert any(isinstance(f, kind) and all(getattr(f, k) == v for k, v in fields.items()) for f in facts), facts

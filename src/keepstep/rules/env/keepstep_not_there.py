# SPDX-License-Identifier: Apache-2.0
"""ENV008: a host was reached by ssh and lacks the keepstep command, or the working folder."""

from __future__ import annotations

from keepstep.model.facts import Fact, HostNotStarted, NodesMissing
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, rule, shorten

NOT_THERE = (126, 127)


@rule(id="ENV008", cause=Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES, needs=(HostNotStarted, NodesMissing))
def keepstep_not_there(seen: EvidenceSet) -> Findings:
    """A host was reached by ssh, and lacks the keepstep command or the working folder.

    ## What it looks like
    `bash: line 1: exec: keepstep: not found`, or `cd: /work/train: No such file or directory`, and ssh ends with status
    127 or 126.

    ## Why it happens
    keepstep is installed in an environment that a login without a terminal does not activate, or not at all. Or the
    working folder is not on that host.

    ## How we know
    ssh logged in, and the shell there ended with the status that means "no such command". The network is well.

    ## What to do
    Name the command that is there with `--remote`. The folder that it is in comes first in the PATH of the run there,
    so `python` is the one of the same environment.

    ## When this is wrong
    A program that is there ends with status 127 itself.
    """
    for each in seen.all(HostNotStarted):
        if each.fact.status in NOT_THERE:
            yield _found(each, f"keepstep was not found on {each.fact.host}", each.fact.said, each.fact.host)
    for missing in seen.all(NodesMissing):
        if missing.fact.absent:
            title = "a host has no keepstep command, or not the working folder, and nothing was started"
            yield _found(missing, title, missing.fact.why, missing.fact.why.partition(":")[0])


def _found(each: Evidence[Fact], title: str, said: str, host: str) -> Found:
    return Found(
        title=title,
        because=f"ssh reached it, and its shell says: {shorten(said) or 'nothing'}",
        evidence=(each,),
        fixes=(
            Fix(
                do="see what a login without a terminal finds there, in a shell without your environment",
                command=f"ssh {host} 'command -v keepstep python; pwd'",
            ),
            Fix(do="name the command of the environment there with `--remote /path/to/venv/bin/keepstep`"),
            Fix(do="or install it there", command=f"ssh {host} python3 -m pip install keepstep"),
        ),
    )

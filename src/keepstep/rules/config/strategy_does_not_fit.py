# SPDX-License-Identifier: Apache-2.0
"""CFG118: the cluster has parameter servers, and the script has no strategy for them."""

from __future__ import annotations

from keepstep.rules.api import Cause, ClusterSeen, EvidenceSet, Findings, Fix, Found, ScriptCalls, Severity, rule


@rule(id="CFG118", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(ScriptCalls,))
def strategy_does_not_fit(seen: EvidenceSet) -> Findings:
    """The cluster has parameter servers, and the script has no strategy for them.

    ## What it looks like
    TF_CONFIG lists `ps` tasks, but the script uses MultiWorkerMirroredStrategy, which rejects them.

    ## Why it happens
    The cluster description was made for another script.

    ## How we know
    The script names its strategy; the cluster lists its tasks.

    ## What to do
    Remove the `ps` tasks, or use ParameterServerStrategy.

    ## When this is wrong
    The script chooses its strategy at run time.
    """
    described = [
        e
        for e in seen.all(ClusterSeen)
        if e.fact.said_by == "TF_CONFIG" and any(m.startswith("ps:") for m in e.fact.members)
    ]
    for script in seen.all(ScriptCalls)[:1]:
        used = script.fact.strategies
        if (
            described
            and any("MultiWorker" in name for name in used)
            and not any("ParameterServer" in name for name in used)
        ):
            yield Found(
                title=f"TF_CONFIG has parameter servers, but {script.fact.script} uses {', '.join(used)}",
                because="that strategy accepts only workers and rejects a cluster with ps tasks",
                evidence=(described[0], script),
                severity=Severity.WARNING,
                fixes=(Fix(do="remove the ps tasks from TF_CONFIG, or use tf.distribute.ParameterServerStrategy"),),
            )

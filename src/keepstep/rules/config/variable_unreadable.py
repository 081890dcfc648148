# SPDX-License-Identifier: Apache-2.0
"""CFG101: the cluster description cannot be read."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Fault, Findings, Fix, VariableFaulty, rule
from keepstep.rules.config._exports import by_fault, faults, found


@rule(id="CFG101", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(VariableFaulty,))
def variable_unreadable(seen: EvidenceSet) -> Findings:
    """The cluster description cannot be read.

    ## What it looks like
    TF_CONFIG is set, but is not JSON: it has single quotes, a comma after the last entry, a template that was not
    filled in, or quotes around quotes. TensorFlow fails with a `JSONDecodeError` or, where its reader is lenient,
    ignores the variable and trains alone.

    ## Why it happens
    The variable was pasted from Python's `print`, written by hand, or quoted in turn by a shell, YAML and a template
    engine.

    ## How we know
    The JSON reader names the character where it stopped, and keepstep recognises the common mistakes.

    ## What to do
    Use the corrected text below where there is one, or let `keepstep check config --write` write the variable.

    ## When this is wrong
    Never for TensorFlow: it reads the variable with the same JSON reader.
    """
    for group in by_fault(faults(seen, Fault.NOT_JSON, Fault.NOT_AN_OBJECT, Fault.TOO_LARGE)):
        fact = group[0].fact
        where = f" (character {fact.column})" if fact.column else ""
        yield found(
            group,
            f"it needs {fact.wanted}{where}; TensorFlow would stop at once, or each process would train alone",
            Fix(
                do="or let keepstep write TF_CONFIG from the list of hosts",
                command="keepstep check config --write --hosts HOST1,HOST2",
            ),
        )

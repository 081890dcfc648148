# SPDX-License-Identifier: Apache-2.0
"""ENV004: processes of one run have different versions of what must agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.environment import VersionConflict, VersionSeen
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.rules.resource.lookup import OF_A_DEAD_RANK, once_a_line

_FIXES = (
    Fix(do="compare versions on every node", command="python -VV; pip freeze | sort | sha256sum"),
    Fix(do="use one image or lock file for all nodes, the driver and the cluster"),
)


@rule(
    id="ENV004",
    cause=Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES,
    needs=(VersionConflict, VersionSeen),
    explains=OF_A_DEAD_RANK,
)
def version_mismatch_between_nodes(seen: EvidenceSet) -> Iterator[Found]:
    """Processes of one run have different versions of what must be the same.

    ## What it looks like
    Ray's `Version mismatch: The cluster was started with`, TensorFlow's `client and server binaries are not
    built with the same version`, NCCL versions that differ, `unsupported pickle protocol`.

    ## Why it happens
    Nodes were set up at different times, an image has a moving tag, or the client was updated alone.

    ## How we know
    One side compared both versions and says so. Versions that merely were printed and differ are noted as a
    warning: they need not be why the run failed.

    ## What to do
    Run one image everywhere.

    ## When this is wrong
    Some components may differ without harm; then the note is only a note.
    """
    said = once_a_line(e for e in seen.all(VersionConflict) if not seen.survived(e))
    if said:
        fact = said[0].fact
        both = f" ({fact.here} here, {fact.there} there)" if fact.here and fact.there else ""
        yield Found(
            title=f"processes run different versions of {fact.component or 'what must agree'}{both}",
            because="two sides of the run compared their versions and refused each other",
            evidence=said,
            fixes=_FIXES,
        )
        return
    by_component: dict[str, dict[str, Evidence[VersionSeen]]] = defaultdict(dict)
    for each in seen.all(VersionSeen):
        by_component[each.fact.component].setdefault(each.fact.version, each)
    for component, versions in by_component.items():
        places = {(e.origin.source, e.origin.stream, e.who) for e in versions.values()}
        if len(versions) > 1 and len(places) > 1:
            yield Found(
                title=f"ranks run different versions of {component}: {', '.join(sorted(versions))}",
                because="the versions that ranks printed differ; they may not work together",
                evidence=tuple(versions.values()),
                severity=Severity.WARNING,
                confidence=Confidence.HYPOTHESIS,
                fixes=_FIXES,
            )

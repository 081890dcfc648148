# SPDX-License-Identifier: Apache-2.0
"""ENV004: processes of one run have different versions of something that must agree."""

from __future__ import annotations

from collections import Counter, defaultdict

from keepstep.model.facts import ExceptionRaised, StreamEnded, VersionConflict, VersionSeen
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Severity,
    lazy_pattern,
    ranks_of,
    rule,
)
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, once_a_line

MUST_AGREE = ("NCCL", "torch", "TensorFlow", "jax", "jaxlib", "JAX", "Horovod", "Keras")
"""For these any difference is worth a warning; for other packages only if every rank printed one version, most the same
one, or if an exception names it."""
_LACKS = lazy_pattern(
    r"module '(?P<of>\w{1,60})[\w.]*' has no attribute|cannot import name '\w{1,80}' from '(?P<in>\w{1,60})"
    r"|No module named '(?P<no>\w{1,60})\.|^(?P<call>\w{1,60})\.[\w.]{1,80}\(\) (?:got an unexpected|missing \d)"
)

_FIXES = (
    Fix(do="compare versions on every node", command="python -VV; pip freeze | sort | sha256sum"),
    Fix(do="use one image or lock file for all nodes, the driver and the cluster"),
)


@rule(
    id="ENV004",
    cause=Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES,
    needs=(VersionConflict, VersionSeen),
    explains=(*OF_A_DEAD_RANK, Cause.USER_CODE_EXCEPTION, Cause.NETWORK_UNREACHABLE_OR_FIREWALL),
)
def version_mismatch_between_nodes(seen: EvidenceSet) -> Findings:
    """Processes of one run have different versions of something that must be the same.

    ## What it looks like
    Ray's `Version mismatch: The cluster was started with`, TensorFlow's `client and server binaries are not
    built with the same version`, different NCCL versions, `unsupported pickle protocol`.

    ## Why it happens
    Nodes were set up at different times, an image tag moved, or only the client was updated.

    ## How we know
    One side compared both versions and says so; or a rank misses a name in a package, and the ranks printed different
    versions of that package. Versions that merely differ are a warning: they need not be the reason. Of packages
    other than the frameworks we report this only if every rank printed its version, and most of them the same.

    ## What to do
    Use one image everywhere.

    ## When this is wrong
    Some components may differ without harm; then the warning can be ignored.
    """
    said = once_a_line(e for e in seen.all(VersionConflict) if not seen.survived(e))
    if said:
        fact = said[0].fact
        both = f" ({fact.here} here, {fact.there} there)" if fact.here and fact.there else ""
        sure = any(e.fact.certain for e in said)
        yield Found(
            title=f"processes run different versions of {fact.component or 'something that must agree'}{both}",
            because="two sides of the run compared their versions and refused each other"
            if sure
            else "data from a peer could not be read, as happens when its version uses another layout",
            evidence=said,
            confidence=Confidence.ESTABLISHED if sure else Confidence.SUPPORTED,
            fixes=_FIXES,
        )
        return
    by_component: dict[str, dict[str, Evidence[VersionSeen]]] = defaultdict(dict)
    for each in seen.all(VersionSeen):
        by_component[each.fact.component].setdefault(each.fact.version, each)
    lacking = _lacking(seen, by_component)
    if lacking is not None:
        component, raised = lacking
        yield Found(
            title=f"ranks run different versions of {component}: {', '.join(sorted(by_component[component]))}",
            because=f"a rank misses a name in {component}, and the ranks printed different versions of it",
            evidence=(*raised, *by_component[component].values()),
            ranks=ranks_of(raised),
            confidence=Confidence.SUPPORTED,
            fixes=_FIXES,
        )
        return
    for component, versions in by_component.items():
        own = _of_each_rank(seen, component)
        if component not in MUST_AGREE and not _odd(own):
            continue
        places = {(e.origin.source, e.origin.stream, e.who) for e in versions.values()}
        if len(versions) > 1 and len(places) > 1:
            yield Found(
                title=f"ranks run different versions of {component}: {', '.join(sorted(versions))}",
                because="the ranks printed different versions, which may not work together",
                evidence=tuple(versions.values()),
                ranks=_odd(own),
                severity=Severity.WARNING,
                confidence=Confidence.HYPOTHESIS,
                fixes=_FIXES,
            )


def _of_each_rank(seen: EvidenceSet, component: str) -> dict[int, str]:
    """The version that each rank printed, if every rank of the run printed it, and no rank two."""
    found: dict[int, str] = {}
    for each in seen.all(VersionSeen):
        if each.fact.component != component:
            continue
        if each.who is None or found.setdefault(each.who, each.fact.version) != each.fact.version:
            return {}
    ranks = {e.who for e in seen.all(StreamEnded) if e.who is not None}
    return found if ranks <= set(found) and len(found) > 1 else {}


def _odd(own: dict[int, str]) -> tuple[int, ...]:
    """The few ranks with another version than most."""
    counts = Counter(own.values())
    usual, most = counts.most_common(1)[0] if counts else ("", 0)
    odd = tuple(sorted(rank for rank, version in own.items() if version != usual))
    return odd if len(odd) < most else ()


def _lacking(
    seen: EvidenceSet, by_component: dict[str, dict[str, Evidence[VersionSeen]]]
) -> tuple[str, tuple[Evidence[ExceptionRaised], ...]] | None:
    """A package with different versions on different ranks, and the exceptions of ranks that miss a name in it."""
    raised: dict[str, list[Evidence[ExceptionRaised]]] = defaultdict(list)
    for each in seen.all(ExceptionRaised):
        found = _LACKS.search(each.fact.message) if not each.fact.logged and not seen.survived(each) else None
        if found:
            raised[found["of"] or found["in"] or found["no"] or found["call"]].append(each)
    for component, told in raised.items():
        versions = by_component.get(component, {})
        if len({(e.origin.source, e.origin.stream, e.who) for e in versions.values()}) > 1 < len(versions):
            return component, tuple(told)
    return None

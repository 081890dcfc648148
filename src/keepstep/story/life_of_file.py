# SPDX-License-Identifier: Apache-2.0
"""Which life of a run a file holds, by its name: a folder per attempt, the log of the container before, a job. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact

_ATTEMPT = lazy_pattern(r"(?:^|[/._\-])(?:attempt|restart)[._\-]?(?P<number>\d{1,4})(?=[/._\-]|$)")
"""torchrun --log-dir: ``attempt_0/3/stderr.log``; and what scripts call their files."""
_KUBELET = lazy_pattern(
    r"(?:^|/)(?P<pod>[^/\s_]{1,63}_[^/\s_]{1,253}_[^/\s_]{1,63}/[^/\s]{1,63})/(?P<number>\d{1,5})\.log(?:$|[.\-])"
)
"""/var/log/pods/NAMESPACE_POD_UID/CONTAINER/RESTARTS.log. The kubelet keeps the last few."""
_PREVIOUS = lazy_pattern(r"[._\-]prev(?:ious)?(?=[._\-]|$)")
"""What `kubectl logs --previous` printed."""
_RUN = lazy_pattern(
    r"(?:^|[/._\-])(?:run|try|retry|launch|incarnation|life|generation|gen)[._\-]?(?P<number>\d{1,4})(?=[/._\-]|$)"
)
"""What people call the logs of one job that they started again. Times must show that it was so."""
_JOB = lazy_pattern(r"(?:^|/)slurm-(?P<job>\d{1,12})\.(?:out|err)$")

Ends = Callable[[Fact], bool]
_Sources = Mapping[str, Sequence[Evidence[Fact]]]


def life_by_name(sources: _Sources, ends: Ends) -> dict[str, int]:
    """For each source whose name says it, its life; empty if the names tell fewer than two lives apart.

    ``ends``: whether a fact is the end of a run.
    """
    for found in (_by_attempt(sources), _by_container(sources), _by_job(sources, ends), _by_run(sources, ends)):
        if len(set(found.values())) > 1:
            return found
    return {}


def job_of(source: str) -> int | None:
    """The Slurm job that wrote a file, by its name."""
    match = _JOB.search(source)
    return int(match["job"]) if match is not None else None


def _by_attempt(sources: _Sources) -> dict[str, int]:
    found = {source: _ATTEMPT.search(source) for source in sources}
    return {source: int(match["number"]) for source, match in found.items() if match is not None}


def _by_container(sources: _Sources) -> dict[str, int]:
    """Restarts of containers. None if a container that belongs to a rank restarted alone."""
    families: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for source in sources:
        kubelet, previous = _KUBELET.search(source), _PREVIOUS.search(source)
        if kubelet is not None:
            families[source[: kubelet.end("pod")]][int(kubelet["number"])].append(source)
        elif previous is not None:
            families[source[: previous.start()] + source[previous.end() :]][-1].append(source)
        else:
            families[source][0].append(source)
    members = {
        name: sorted(numbers)
        for name, numbers in families.items()
        if any(e.rank is not None for some in numbers.values() for source in some for e in sources[source])
        or len(numbers) > 1
    }
    most = max((len(numbers) for numbers in members.values()), default=0)
    if any(len(numbers) != most for numbers in members.values()):
        return {}
    return {
        source: numbers.index(number)
        for name, numbers in members.items()
        for number in numbers
        for source in families[name][number]
    }


def _by_job(sources: _Sources, ends: Ends) -> dict[str, int]:
    """Slurm's jobs, if each began after the one before it had ended."""
    jobs: dict[int, list[str]] = defaultdict(list)
    for source in sources:
        job = job_of(source)
        if job is not None:
            jobs[job].append(source)
    return _one_after_another(sources, jobs, ends)


def _by_run(sources: _Sources, ends: Ends) -> dict[str, int]:
    """Logs that are numbered as runs, if each began after the one before it had ended."""
    runs: dict[int, list[str]] = defaultdict(list)
    for source in sources:
        match = _RUN.search(source)
        if match is None:
            return {}
        runs[int(match["number"])].append(source)
    found = _one_after_another(sources, runs, ends)
    return found if [found.get(its[0]) for _, its in sorted(runs.items())] == list(range(len(runs))) else {}


def _one_after_another(sources: _Sources, jobs: Mapping[int, list[str]], ends: Ends) -> dict[str, int]:
    spans = []
    for job, its in jobs.items():
        times = [e.at for source in its for e in sources[source] if e.at is not None]
        if not times:
            return {}
        spans.append((min(times), max(times), job))
    spans.sort()
    if any(not any(ends(e.fact) for source in jobs[job] for e in sources[source]) for _, _, job in spans[:-1]):
        return {}  # it may still run
    if any(one[1] >= other[0] for one, other in pairwise(spans)):
        return {}
    return {source: number for number, (_, _, job) in enumerate(spans) for source in jobs[job]}

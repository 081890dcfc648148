# SPDX-License-Identifier: Apache-2.0
"""``keepstep check``: find what would kill the run, before it starts."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from keepstep.base.did_you_mean import did_you_mean
from keepstep.check.checkup import Checked, CheckRequest, check, judged
from keepstep.check.collectives.choose import plan_for
from keepstep.check.meeting.over_ssh import end_with_standard_input, over_ssh
from keepstep.check.meeting.packing import packed
from keepstep.check.parts import ON_ITS_OWN, PARTS, TAKES_PATHS
from keepstep.check.place import Collected
from keepstep.errors import UserError
from keepstep.model.facts.links import LinkProbed
from keepstep.sources.host.ssh import hosts_of


def check_verb(asked: argparse.Namespace) -> int:
    """Look, judge, print. Returns the exit status."""
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown and unknown[0] in TAKES_PATHS:
        part = unknown[0]
        raise UserError(f"`{part}` takes paths and options of its own", hint=f"write `keepstep check {part} PATH`")
    if unknown and unknown[0] in ON_ITS_OWN:
        raise UserError(f"`{unknown[0]}` is checked on its own", hint=f"write `keepstep check {unknown[0]}`")
    if unknown:
        parts = (*PARTS, *TAKES_PATHS, *ON_ITS_OWN)
        hint = did_you_mean(unknown[0], parts, f"the parts are {', '.join(parts)}")
        raise UserError(f"no such part: {unknown[0]}", hint=hint)
    if asked.write:
        return _write(asked)
    if asked.sample is not None and asked.sample < 1:
        raise UserError("--sample must be at least 1", hint=f"it is {asked.sample}; give a number of rounds")
    if asked.html:
        from keepstep.cli.print_report import refuse_to_overwrite

        refuse_to_overwrite(asked.html, asked.force)
    if asked.hosts and asked.member is None:
        checked = _over_ssh(asked)
        _tell(asked, checked)
        return checked.status
    return check(_asked(asked), tell=lambda checked: _tell(asked, checked)).status


def _tell(asked: argparse.Namespace, checked: Checked) -> None:
    """Print the report, and write the page if asked to."""
    if asked.evidence:
        print(json.dumps(packed(Collected(list(checked.seen.items), list(checked.seen.coverage)))), flush=True)
        return
    # only the process that prints needs these: hundreds may start at once on one machine
    from keepstep.base.redact import redacted
    from keepstep.cli.print_report import print_report, write_page
    from keepstep.render.link_matrix import render_link_matrix

    assert checked.report is not None
    report = redacted(checked.report)
    print_report(report, as_json=asked.json)
    if not asked.json:
        from keepstep.render.collective_table import render_collective_table

        print(render_collective_table(checked.seen), end="")
    links = [each for each in checked.seen.items if isinstance(each.fact, LinkProbed)]
    if links and not asked.json:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(
            render_link_matrix(redacted(tuple(links)), width=shutil.get_terminal_size().columns, colour=colour), end=""
        )
    sys.stdout.flush()
    if asked.html:
        from keepstep.render.html import render_preflight

        write_page(asked.html, render_preflight(report, links))


def _asked(asked: argparse.Namespace) -> CheckRequest:
    member = None
    if asked.member is not None:
        hosts = hosts_of(asked.hosts or "")
        if not 0 <= asked.member < len(hosts):
            raise UserError(f"--hosts has no host number {asked.member}")
        member = (asked.member, hosts)
        end_with_standard_input()
    return CheckRequest(
        parts=tuple(asked.parts) or tuple(PARTS),
        script=Path(asked.script) if asked.script else None,
        paths=tuple(Path(path) for path in asked.path),
        meet=asked.meet,
        wait=asked.wait,
        sample=asked.sample,
        member=member,
        collectives=plan_for(None) if asked.more else None,
    )


def _over_ssh(asked: argparse.Namespace) -> Checked:
    """The same check on every host, with the options that say what to look at."""
    words = [*asked.parts, *(["--wait", str(asked.wait)] if asked.wait is not None else [])]
    for path in asked.path:
        words += ["--path", path]
    words += ["--script", asked.script] if asked.script else []
    words += ["--with", asked.more] if asked.more else []
    words += ["--sample", str(asked.sample)] if asked.sample is not None else []
    return judged(over_ssh(hosts_of(asked.hosts), words, asked.remote))


def _write(asked: argparse.Namespace) -> int:
    """Print the variables of this rank, or of all ranks if no launcher says which one this is."""
    from keepstep.check.meeting.slurm_hosts import reachable
    from keepstep.cluster import understand
    from keepstep.cluster.write_variables import cluster_of, exports, with_ports

    if asked.hosts:
        cluster = cluster_of(
            list(hosts_of(asked.hosts)), per_host=asked.per_host, chief=asked.chief, ps=asked.ps, port=asked.port
        )
    else:
        understood = understand(os.environ)
        understood = reachable(understood, os.environ) if understood else None
        if understood is None or not all(task.host for task in understood.tasks):
            raise UserError(
                "the job's hosts are unknown: no launcher's variables name them",
                hint="run this under srun or mpirun, or in the job's pods, or give --hosts A,B,C",
            )
        cluster = with_ports(understood, asked.port)
    for task in cluster.tasks:
        if cluster.me in (None, task.rank):
            if cluster.me is None:
                print(f"# rank {task.rank} on {task.host}")
            print("\n".join(exports(cluster, task.rank)))
    return 0

# SPDX-License-Identifier: Apache-2.0
"""Slurm: srun starts one agent per node, or one per task; the lowest node that the controller still counts leads.

Agents need nothing but what Slurm tells each task: the step's nodes, and which of them this is. The port is derived
from job and step. The secret is KEEPSTEP_SECRET, or a file that the leader puts into the working folder.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keepstep.base.launchers import SLURM
from keepstep.base.safe_files import make_private, open_private
from keepstep.base.wording import count
from keepstep.cluster.slurm import expand_counts, expand_hosts
from keepstep.errors import UserError
from keepstep.sources.schedulers import slurm_controller, slurm_task
from keepstep.sources.schedulers.slurm_controller import JobNow
from keepstep.sources.schedulers.slurm_nodes import on_one_host
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.engines.slurm_leadership import SlurmOffice, nobody_takes_over
from keepstep.supervise.engines.slurm_start import warnings
from keepstep.supervise.engines.slurm_step import SRUN, is_batch, not_by_srun, number, tasks_of
from keepstep.supervise.nodes.connection import secret as secrets
from keepstep.supervise.nodes.connection.secret import Secret
from keepstep.supervise.nodes.node_settings import FIRST_S, Station
from keepstep.supervise.start.launch import launcher_of

if TYPE_CHECKING:
    from keepstep.supervise.nodes.lead.rendezvous import Gathering

SECRET_S = 30.0
"""Until the leader's file must be there: Slurm starts all tasks of a step at about the same time."""
EXPORT = "export KEEPSTEP_SECRET=$(openssl rand -hex 32)"
SIGTERM_STATUS = 143


def station(wanted: Wanted, env: Mapping[str, str]) -> Station:
    """Of this task. Raises :class:`UserError`."""
    if is_batch(env):
        raise not_by_srun(wanted)
    hosts = list(expand_hosts(env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or ""))
    tasks, me, node = tasks_of(env), number(env, SLURM.rank[0]), number(env, "SLURM_NODEID")
    if "SLURM_STEP_ID" not in env or tasks is None or me is None or node is None or not hosts:
        raise UserError("--on slurm is for the tasks of a job step", hint=f"{SRUN} -- COMMAND")
    several = tasks > len(hosts) or max(_per_node(env), default=1) > 1
    _refuse_what_does_not_fit(wanted, several, tasks, len(hosts))
    least, most = wanted.least_and_most(tasks)
    if most > tasks:
        what = "tasks" if several else "nodes"
        raise UserError(f"--nodes {wanted.nodes}, but the step has only {tasks} {what}", hint="ask Slurm for more: -N")
    run = f"slurm-{env.get('SLURM_JOB_ID', '')}.{env['SLURM_STEP_ID']}.{env.get('SLURM_RESTART_COUNT', '0')}"
    host = env.get("SLURMD_NODENAME") or hosts[min(node, len(hosts) - 1)]
    leads = host == hosts[0] and number(env, SLURM.local_rank[0]) in (0, None)
    secret, over = _secret(env, run, leads)
    from keepstep.check.meeting.meeting_point import derived_ports

    ports = derived_ports(f"run {run}")
    step = f"{env.get('SLURM_JOB_ID', '')}.{env['SLURM_STEP_ID']}"
    office = SlurmOffice(
        job=env.get("SLURM_JOB_ID", ""),
        restarts=number(env, "SLURM_RESTART_COUNT") or 0,
        hosts=tuple(hosts),
        host=host,
        eldest=number(env, SLURM.local_rank[0]) in (0, None),
        secret=secret,
        ports=ports,
        look=lambda other: slurm_task.look(step, other, note=_note(run, other), ports=ports, env=env),
        begin=partial(_make_note, _note(run, host)),
    )
    crew: list[Gathering] = []
    return Station(
        run=run,
        secret=secret,
        node=me if several else node,
        host=host,
        least=least,
        most=most,
        nodes=tasks,
        ports=ports,
        call=None if leads else office.call,
        address=office.address() if leads else None,
        per_node=1 if several else wanted.per_node,
        roles=wanted.roles,
        first_s=wanted.wait_s if wanted.wait_s is not None else FIRST_S,
        more_s=wanted.more_s,
        words=partial(_words, env, host, hosts, tasks, most),
        office=office,
        ready=lambda hub: office.begin(),
        over=over,
        attach=crew.append,
        at_end=lambda status: _end(env, wanted, run, status, lost=tasks - crew[-1].leader.parted if crew else 0),
    )


def _refuse_what_does_not_fit(wanted: Wanted, several: bool, tasks: int, nodes: int) -> None:
    for name, value in (("--meet", wanted.meet), ("--node-rank", wanted.node_rank), ("--hosts", wanted.hosts)):
        if value is not None:
            raise UserError(f"{name} is not needed under srun: Slurm says which node this is and where the others are")
    if not several:
        return
    each = f"Slurm starts {count(tasks, 'task')} on {count(nodes, 'node')}"
    if wanted.per_node is not None:
        raise UserError(
            f"{each}, and --per-node {wanted.per_node} would start as many ranks for each of them",
            hint="give srun --ntasks-per-node=1, or leave --per-node out: each task is then one rank",
        )
    launcher = launcher_of(list(wanted.command)) if wanted.command else None
    if launcher is not None:
        raise UserError(
            f"{launcher} starts the ranks of a node itself, but {each}", hint="give srun --ntasks-per-node=1"
        )


def _secret(env: Mapping[str, str], run: str, leads: bool) -> tuple[Secret, Callable[[], None] | None]:
    """The run's secret, and what removes its file at the end."""
    if (found := secrets.find(env)) is not None:
        return found, None
    path = Path(".keepstep") / f"{run}.secret"
    hint = f"put this line into the batch script, above srun: {EXPORT}"
    remove = partial(_remove, path)
    try:
        if not leads:
            return secrets.wait_for(path, SECRET_S), remove
        make_private(path.parent)
        remove()  # of a job with the same number, before Slurm was set up anew
        made = secrets.make()
        secrets.share(path, made)
        return made, remove
    except (OSError, UserError) as error:
        raise UserError(f"the nodes have no common secret: {error}", hint=hint) from error


def _note(run: str, host: str) -> Path:
    """A file that each agent has while it lives, for others to tell apart whether it was killed or ended by itself."""
    return Path(".keepstep").absolute() / f"{run}.{host}.agent"


def _make_note(path: Path) -> None:
    with contextlib.suppress(OSError):
        make_private(path.parent)
        os.close(open_private(path, os.O_WRONLY))
        atexit.register(_remove, path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _words(env: Mapping[str, str], host: str, hosts: Sequence[str], tasks: int, most: int) -> list[str]:
    """What the leader says at the start."""
    found = []
    lives = number(env, "SLURM_RESTART_COUNT") or 0
    if lives:
        found.append(
            f"Slurm has started this job again (SLURM_RESTART_COUNT={lives}): the script can resume from its checkpoint"
        )
    if tasks > most:
        found.append(
            f"the step has {count(tasks - most, 'node')} more than --nodes asks for, to replace one that fails"
        )
    if shared := on_one_host(hosts):
        found.append(f"if the leader is lost, the run ends: {nobody_takes_over(shared)}")
    return [*found, *warnings(env, host)]


def _end(env: Mapping[str, str], wanted: Wanted, run: str, status: int, *, lost: int) -> None:
    """The run is over, and the job may have to be requeued or cancelled. ``lost``: agents that did not see its end."""
    for path in Path(".keepstep").glob(f"{run}.*.agent"):  # of agents that were killed, where nodes share the folder
        _remove(path)
    job = env.get("SLURM_JOB_ID", "")
    now = slurm_controller.job_now(job)
    if status == SIGTERM_STATUS and wanted.requeue:
        _requeue(job, now)
    elif not isinstance(now, str) and now.batch_host is not None:
        _tell_about_the_script(job, now, now.batch_host, lost if status == 0 and wanted.status_file is None else 0)


def _tell_about_the_script(job: str, now: JobNow, host: str, lost: int) -> None:
    """What becomes of a batch job after its run. ``lost``: agents whose status srun passes on in place of the run's."""
    if host not in expand_hosts(now.nodes):
        print(
            f"keepstep: the run is over, but Slurm leaves job {job} running, because its script was lost with {host}; "
            f"end it with: scancel {job}",
            file=sys.stderr,
            flush=True,
        )
    elif lost:
        print(
            f"keepstep: the run ended well, but {count(lost, 'agent')} of it did not, and srun passes that on: Slurm "
            f"calls job {job} FAILED if its script ends with srun's status. With --status-file FILE, and "
            "`exit $(cat FILE)` as the script's last line, it is COMPLETED",
            file=sys.stderr,
            flush=True,
        )


def _requeue(job: str, now: JobNow | str) -> None:
    """Asked for by --requeue: when a signal ended the run before it was done, the job goes back into the queue."""
    if isinstance(now, str) or now.state != "RUNNING":
        why = now if isinstance(now, str) else f"Slurm says it is {now.state}"
        print(f"keepstep: job {job} is not requeued: {why}", file=sys.stderr)
        return
    trouble = slurm_controller.requeue(job)
    done = f"cannot be requeued: {trouble}" if trouble else "goes back into the queue (--requeue)"
    print(f"keepstep: job {job} {done}", file=sys.stderr, flush=True)


def _per_node(env: Mapping[str, str]) -> list[int]:
    return list(expand_counts(env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE") or ""))

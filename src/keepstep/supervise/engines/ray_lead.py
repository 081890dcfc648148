# SPDX-License-Identifier: Apache-2.0
"""Ray, with `--detach`: a named actor leads, and Ray starts it again on another node if that is lost.

The actor starts the leader, a process of its own, as :mod:`keepstep.supervise.engines.ray_actor` starts agents. A new
leader knows from Ray's store how far the run was. It makes a new secret, so agents of the old one cannot come to it;
their leases end, and it starts nothing before that.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keepstep.errors import UserError
from keepstep.model.facts.nodes import NodeLost
from keepstep.supervise.engines import ray, ray_cluster
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.engines.ray_cluster import first_line, ray_module
from keepstep.supervise.nodes.lead.leadership import Inherited
from keepstep.supervise.nodes.messages import NEVER
from keepstep.supervise.nodes.node_settings import Station

NAMESPACE = "keepstep"
MOST_RESTARTS = 20
ASK_S = 0.5
LEAVE_S = 20.0
"""How long the actor keeps the run's status for the launching process."""
NAME_VARIABLE, AGAIN_VARIABLE = "KEEPSTEP_RAY_NAME", "KEEPSTEP_RAY_AGAIN"
NO_RANKS = -1
"""In place of a node's number: the old leader had no ranks."""


def follow(words: Sequence[str], env: Mapping[str, str]) -> int:
    """Let an actor lead, print what it prints, pass signals on. Returns the run's status. Raises `UserError`."""
    module = ray_cluster.connect(env, show=True)
    name = f"run-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
    here = module.get_runtime_context().get_node_id()
    affinity = module.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=True)
    actor = (
        module.remote(LeaderHost)
        .options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=MOST_RESTARTS,
            max_task_retries=-1,
            max_concurrency=4,
            num_cpus=0,
            scheduling_strategy=affinity,
        )
        .remote(name, list(words), os.getcwd())
    )
    _say(f"the actor {name} leads, and the run goes on if this process is killed or its node is lost; to end the run:")
    end = f"import ray; ray.init('auto', namespace='{NAMESPACE}'); ray.get(ray.get_actor('{name}').end.remote(15))"
    _say(f'  python -c "{end}"')
    try:
        return _followed(module, actor)
    except Exception as error:  # whatever Ray raises
        raise UserError(f"Ray has lost the actor that led the run: {first_line(error)}") from error
    finally:
        with contextlib.suppress(Exception):
            module.kill(actor)
            module.shutdown()


def _followed(module: Any, actor: Any) -> int:
    """Until the run is over. Each signal that this process gets is passed on, as if it were the leader."""
    came: list[int] = []
    heard = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in heard}
    status = actor.wait.remote()
    try:
        while not module.wait([status], timeout=ASK_S)[0]:
            while came:
                actor.end.remote(came.pop(0))
        return int(module.get(status))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class LeaderHost:
    """The actor. Ray makes it anew, with the same arguments, where it was lost."""

    def __init__(self, name: str, words: list[str], cwd: str) -> None:
        module: Any = ray_module()
        context = module.get_runtime_context()
        if context.runtime_env.get("working_dir"):
            cwd = os.getcwd()  # Ray brought the job's files here
        self._name, self._words, self._cwd = name, words, cwd
        self._env = {**os.environ, NAME_VARIABLE: name, "RAY_ADDRESS": str(context.gcs_address)}
        self._process: subprocess.Popen[bytes] | None = None
        self._status: int | None = None
        self._asked_to_end = False
        self._over, self._told = threading.Event(), threading.Event()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it asks itself in a way that it has deprecated
            again = bool(context.was_current_actor_reconstructed)
        threading.Thread(target=self._lead, args=(again,), daemon=True).start()

    def __repr__(self) -> str:
        return f"leader on {socket.gethostname()}"  # what Ray puts before the lines that it prints

    def wait(self) -> int:
        """The status of the run."""
        self._over.wait()
        self._told.set()
        assert self._status is not None
        return self._status

    def end(self, number: int) -> None:
        """As if the leader had got this signal."""
        self._asked_to_end = True
        if self._process is not None:
            self._process.send_signal(number)

    def _lead(self, again: bool) -> None:
        status = self._lead_once(again)
        while status < 0 and not self._asked_to_end:  # killed: its node is well
            status = self._lead_once(True)
        self._status = 128 - status if status < 0 else status
        self._over.set()
        self._told.wait(LEAVE_S)
        with contextlib.suppress(Exception):  # else Ray would make this actor anew
            module: Any = ray_module()
            module.kill(module.get_actor(self._name, namespace=NAMESPACE), no_restart=True)

    def _lead_once(self, again: bool) -> int:
        try:
            if not Path(self._cwd).is_dir():
                raise OSError(f"there is no folder {self._cwd} on {socket.gethostname()}; give the job a working_dir")
            self._process = subprocess.Popen(
                [sys.executable, "-m", "keepstep", *self._words],
                cwd=self._cwd,
                env={**self._env, AGAIN_VARIABLE: "1" if again else ""},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            _say(f"the leader cannot be started here: {error}")
            return 2
        return self._process.wait()


def station(wanted: Wanted, env: Mapping[str, str]) -> Station:
    """Of the leader that the actor has started. Raises :class:`UserError`."""
    name = env.get(NAME_VARIABLE)
    if not name:
        raise UserError("--on ray_lead is what `keepstep run --on ray --detach` starts", hint="use --on ray --detach")
    heard = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)  # as Ray's workers do not hear Ctrl-C, nor would this child
    signal.signal(signal.SIGINT, signal.default_int_handler)
    found = ray.station(wanted, env, name=name)
    if not env.get(AGAIN_VARIABLE):
        return found
    before = ray_cluster.kept(name)
    attempt, host = before.get("attempt"), str(before.get("host") or "another node")
    return replace(
        found,
        first=False,
        newest=attempt if isinstance(attempt, int) else NEVER,
        past=_past(host, found.host) if isinstance(attempt, int) else None,
    )


def _past(host: str, here: str) -> Inherited:
    """What became of the old leader, as Ray sees its node."""
    seen = [each for each in ray_cluster.nodes(ray_module()) if each.host == host]
    if seen and not any(each.alive for each in seen):
        lost = NodeLost(host=host, node=NO_RANKS)
        return Inherited(lost=lost, began=time.time(), why=f"Ray counts it as dead ({seen[-1].why}); {here} leads now")
    lost = NodeLost(host=host, node=NO_RANKS, closed=True, why="the process that led is gone")
    return Inherited(lost=lost, began=time.time(), why=f"Ray has started the leader again on {here}")


def rest_of(arguments: Sequence[str]) -> list[str]:
    """This command line, for the leader that the actor starts."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [word for word in arguments[:end] if word != "--detach"]
    return [*options, "--on", "ray_lead", *arguments[end:]]


def _say(text: str) -> None:
    print(f"keepstep: {text}", file=sys.stderr, flush=True)

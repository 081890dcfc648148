# SPDX-License-Identifier: Apache-2.0
"""The agent's part in the checks: what its host looks like before a run, and the network once an attempt has failed.

All of it happens in a thread of its own, one request after the other: beats and the watch over ranks go on.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keepstep.base import foreign_json
from keepstep.model.identity import Rank
from keepstep.supervise.nodes import messages as said
from keepstep.supervise.start.launch import Job, launches
from keepstep.supervise.start.layout import Layout
from keepstep.supervise.start.script_check import script_of

FAST = ("config", "env", "resources")
IDLE_S = 60.0
"""Ports that the tournament opened are closed if its leader is silent for this long."""
WHO = "who"
OF_ENGINES = ("SLURM_", "PMI_", "PMIX_", "OMPI_", "KUBERNETES_", "RAY_")
"""Variables that describe this agent to its engine, not the ranks that it starts."""


@dataclass(frozen=True, kw_only=True)
class Post:
    """What this node is."""

    host: str
    env: Mapping[str, str]
    job_in: Callable[[Layout], Job]
    """The job of this node in such a layout."""


class Lookout:
    """Answers :class:`said.Look` and :class:`said.Probe`."""

    def __init__(self, post: Post, send: Callable[[said.Message], bool], *, ready: bool) -> None:
        """``ready``: a look will be asked for; begin with what takes longest."""
        self._post = post
        self._send = send
        self._asked: queue.SimpleQueue[said.Look | said.Probe | None] = queue.SimpleQueue()
        self._software: Any = None
        self._duty: Any = None
        self._thread: threading.Thread | None = None
        if ready:
            self._begin()

    def take(self, message: said.Look | said.Probe) -> None:
        """Answered in its turn."""
        self._asked.put(message)
        self._begin()

    def close(self) -> None:
        self._asked.put(None)
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="keepstep-lookout", daemon=True)
            self._thread.start()

    # --- the thread

    def _run(self) -> None:
        with contextlib.suppress(Exception):
            self._look_at_software()
        while True:
            try:
                message = self._asked.get(timeout=IDLE_S if self._duty is not None else None)
            except queue.Empty:
                self._drop_duty()
                continue
            if message is None:
                self._drop_duty()
                return
            self._send(self._looked(message) if isinstance(message, said.Look) else self._probed(message))

    def _look_at_software(self) -> None:
        """The same in all attempts, and the slowest part: hundreds of packages."""
        from keepstep.check.parts import look

        self._software = look(self._place(self._post.env, self._post.job_in(Layout())), ("env",))

    def _looked(self, asked: said.Look) -> said.Looked:
        from keepstep.base.redact import redacted
        from keepstep.check.meeting.packing import packed
        from keepstep.check.parts import look
        from keepstep.check.place import Collected

        found = Collected()
        try:
            job = self._post.job_in(asked.layout)
            found = look(self._place(self._env(job, asked.layout), job), ("config", "resources"))
            if self._software is None:
                self._look_at_software()
            found.take(self._software)
        except Exception as error:
            found.unavailable(f"{self._post.host}", f"the check itself failed: {type(error).__name__}: {error}")
        found.evidence = [redacted(each) for each in found.evidence]
        return said.Looked(attempt=asked.attempt, told=json.dumps(packed(found), default=str))

    def _env(self, job: Job, layout: Layout) -> Mapping[str, str]:
        """What the first rank of this node will have."""
        if not layout.seats:
            return self._post.env
        here = Path(job.cwd)
        first = launches(
            job, attempt=0, folder=here, exchange=here, token="", env=self._post.env, more={}, layout=layout
        )[0]
        return {name: value for name, value in first.env.items() if not name.startswith(OF_ENGINES)}

    def _place(self, env: Mapping[str, str], job: Job) -> Any:
        from keepstep.check.checkup import CheckRequest, place_of

        script = script_of(job.command, job.cwd)
        asked = CheckRequest(parts=FAST, script=job.cwd / script if script is not None else None, paths=(job.cwd,))
        place = place_of(asked, env)
        rank = replace(place.rank, node=self._post.host) if place.rank is not None else None
        return replace(place, host=self._post.host, rank=rank)

    def _probed(self, asked: said.Probe) -> said.Probed:
        try:
            request = foreign_json.loads(asked.asked)
            if not isinstance(request, dict):
                raise TypeError("a request is an object")
            told = self._who(request) if request.get("do") == WHO else self._do(request)
        except Exception as error:  # a check that breaks ends no run
            told = {"failed": f"{type(error).__name__}: {error}"}
        return said.Probed(attempt=asked.attempt, number=asked.number, told=json.dumps(told, default=str))

    def _who(self, request: dict[str, Any]) -> dict[str, Any]:
        """The first request of a tournament: a new token, and which host this is."""
        from keepstep.check.network.host_part import Duty, own_addresses
        from keepstep.check.place import Place
        from keepstep.sources.host.this_host import identity

        self._drop_duty()
        variables = {str(name): str(value) for name, value in dict(request["variables"]).items()}
        index = request["rank"]
        rank = Rank(index=int(index), node=self._post.host) if index is not None else None
        place = Place(env={**self._post.env, **variables}, host=self._post.host, rank=rank)
        self._duty = Duty(place, bytes.fromhex(str(request["token"])))
        return {"who": identity(), "addresses": list(own_addresses())}

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._duty is None:
            raise RuntimeError("no tournament was begun")
        told: dict[str, Any] = self._duty.do(request)
        if request["do"] == "stop":
            self._drop_duty()
        return told

    def _drop_duty(self) -> None:
        duty, self._duty = self._duty, None
        if duty is not None:
            with contextlib.suppress(Exception):
                duty.close()

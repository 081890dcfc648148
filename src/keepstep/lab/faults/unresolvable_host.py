# SPDX-License-Identifier: Apache-2.0
"""The address that all ranks were given has a host name that no resolver knows."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

HOST = "trainer-0.trainer-headless.ml.svc.cluster.local"


def prepare(run: Run) -> None:
    rank = (run.scenario.strike_ranks or (0,))[0]
    port = run.ports[rank]
    for env in run.env:
        if run.scenario.framework == "torch":
            env["MASTER_ADDR"] = HOST
        elif run.scenario.framework == "jax":
            env["COORDINATOR_ADDRESS"] = f"{HOST}:{port}"
        else:
            env["TF_CONFIG"] = env["TF_CONFIG"].replace(f"{run.address_of(rank)}:{port}", f"{HOST}:{port}")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    try:
        socket.getaddrinfo(HOST, run.ports[0])
    except socket.gaierror as error:
        return f"{HOST}: {error.strerror}"
    raise Unproven(f"{HOST} resolves here")

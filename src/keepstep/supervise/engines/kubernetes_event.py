# SPDX-License-Identifier: Apache-2.0
"""A failure as an event that `kubectl describe` shows: for ``--on-failure`` in a pod that may make events.

    keepstep run --on-failure 'python -m keepstep.supervise.engines.kubernetes_event' ...

It reads the report from standard input. The pod's variables say what the event is about, and the pod's own account,
as the kubelet mounts it, lets it in. Untried on a real cluster.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import ssl
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.wording import count, shorten

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LIMIT_S = 5.0
LONGEST = 1024
"""Kubernetes refuses longer messages."""
LARGEST = 64 << 20


class NotTold(Exception):
    """The event was not made; says why."""


def main(env: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> int:
    """Returns 0 once all events are made."""
    try:
        report = foreign_json.loads(sys.stdin.read(LARGEST))
        if not isinstance(report, dict):
            raise NotTold("standard input has no report")
        namespace = _text(account / "namespace")
        made = list(events(report, namespace, env))
        for each in made:
            _post(each, namespace, env, account)
    except (NotTold, OSError, ValueError, http.client.HTTPException) as error:
        print(f"no event was made: {error}")
        return 1
    print(f"made {count(len(made), 'event')}")
    return 0


def events(report: Mapping[str, Any], namespace: str, env: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """One about this pod, and one about its Job, as far as the variables name them."""
    about = [("v1", "Pod", env.get("POD_NAME"), env.get("POD_UID"))]
    about += [("batch/v1", "Job", env.get("JOB_NAME"), env.get("JOB_UID"))]
    if not env.get("POD_NAME"):
        raise NotTold("POD_NAME is not set: give it to the container (fieldRef: metadata.name)")
    at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    for version, kind, name, uid in about:
        if not name:
            continue
        involved = {"apiVersion": version, "kind": kind, "name": name, "namespace": namespace}
        yield {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name[:200]}.{secrets.token_hex(8)}", "namespace": namespace},
            "involvedObject": {**involved, **({"uid": uid} if uid else {})},
            "type": "Warning",
            "reason": "KeepstepFailure",
            "message": message(report),
            "source": {"component": "keepstep"},
            "reportingComponent": "keepstep",
            "reportingInstance": env["POD_NAME"],
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }


def message(report: Mapping[str, Any]) -> str:
    """The root cause and the decision."""
    found, run = report.get("findings"), report.get("run")
    root = found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}
    title = f"{root['title']} [{root.get('cause')}]" if "title" in root else "an attempt failed; the cause is unknown"
    said = [run[key] for key in ("action", "decision") if run.get(key)] if isinstance(run, dict) else []
    return shorten(f"{title}; decision: {': '.join(map(str, said))}" if said else title, LONGEST)


def _post(event: Mapping[str, Any], namespace: str, env: Mapping[str, str], account: Path) -> None:
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT_HTTPS") or "443"
    if not host or not port.isdecimal():
        raise NotTold("KUBERNETES_SERVICE_HOST is not set: this is no pod")
    trusted = ssl.create_default_context(cafile=str(account / "ca.crt"))
    api = http.client.HTTPSConnection(host, int(port), timeout=LIMIT_S, context=trusted)
    headers = {"Authorization": f"Bearer {_text(account / 'token')}", "Content-Type": "application/json"}
    try:
        api.request("POST", f"/api/v1/namespaces/{namespace}/events", json.dumps(event), headers)
        answer = api.getresponse()
        if answer.status != http.HTTPStatus.CREATED:
            raise NotTold(f"Kubernetes answered {answer.status} {answer.reason}: may this pod's account make events?")
    finally:
        api.close()


def _text(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(1 << 16).strip()


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The ``--on-failure`` hook: a command or a webhook gets the redacted report on a failure as JSON."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from keepstep.base.redact import redact, redacted
from keepstep.base.wording import shorten
from keepstep.model.codec import report_to_dict
from keepstep.model.report import Report

WEB = ("http://", "https://")


def document(report: Report, about: Mapping[str, Any]) -> str:
    """What the hook gets: the report's public document, and the run under ``"run"``. Without secrets."""
    found = report_to_dict(redacted(report))
    found["run"] = redacted(dict(about))
    return json.dumps(found, default=str)


def tell(target: str, report: Report, about: Mapping[str, Any], *, timeout_s: float = 10.0) -> str:
    """Tell ``target``: an http(s) address gets the JSON by POST, a command on its standard input. Never raises.

    ``about``: what else the document says (run folder, attempt, decision, exit status), under ``"run"``. A command also
    gets the cause and the folder as KEEPSTEP_CAUSE and KEEPSTEP_FOLDER. Returns one line that says how it went.
    """
    try:
        text = document(report, about).encode()
        if target.startswith(WEB):
            return f"--on-failure: {post(target, text, timeout_s)}"
        return f"--on-failure: {call(target, text, _variables(report, about), timeout_s)}"
    except Exception as error:  # the hook is the user's: whatever it does, the run continues
        return f"--on-failure failed: {shorten(redact(f'{type(error).__name__}: {error}'))}"


def _variables(report: Report, about: Mapping[str, Any]) -> dict[str, str]:
    cause = report.root.cause.value if report.root is not None else ""
    return {"KEEPSTEP_CAUSE": cause, "KEEPSTEP_FOLDER": str(about.get("folder", ""))}


def post(address: str, text: bytes, timeout_s: float) -> str:
    """Send JSON to an address. Returns how it went. Raises where nothing answers."""
    headers = {"Content-Type": "application/json", "User-Agent": "keepstep"}
    request = urllib.request.Request(address, data=text, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return f"the webhook answered {answer.status}"
    except urllib.error.HTTPError as error:
        return f"the webhook answered {error.code} ({shorten(redact(str(error.reason)), 80)})"


def call(command: str, text: bytes, variables: dict[str, str], timeout_s: float) -> str:
    """Through the shell, as the user typed it; in its own session, so all of it can be killed."""
    env = {**os.environ, **variables}
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        start_new_session=True,
    ) as process:
        name = shorten(redact(shlex.split(command)[0] if command.strip() else command), 60)
        try:
            said, _ = process.communicate(text, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return f"{name} was killed after {timeout_s:.0f} s"
    last = said.decode(errors="replace").strip().rpartition("\n")[2]
    return f"{name} exited with status {process.returncode}" + (f" ({shorten(redact(last), 120)})" if last else "")

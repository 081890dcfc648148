# SPDX-License-Identifier: Apache-2.0
"""Starts the tasks of a cluster on this machine, each with its TF_CONFIG, as TensorFlow's multi-worker tutorials do by
hand."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--chief", type=int, default=0)
    parser.add_argument("--worker", type=int, default=2)
    parser.add_argument("--ps", type=int, default=0)
    parser.add_argument("program")
    options = parser.parse_args()
    cluster = {
        role: [f"localhost:{free_port()}" for _ in range(getattr(options, role))] for role in ("chief", "worker", "ps")
    }
    cluster = {role: tasks for role, tasks in cluster.items() if tasks}
    processes = []
    for role, tasks in cluster.items():
        for index in range(len(tasks)):
            config = {"cluster": cluster, "task": {"type": role, "index": index}}
            env = {**os.environ, "TF_CONFIG": json.dumps(config)}
            processes.append(subprocess.Popen([sys.executable, options.program], env=env))
    if options.chief:  # the servers never end by themselves
        status = processes[0].wait()
        for process in processes[1:]:
            process.kill()
        return status
    return next((status for status in [process.wait() for process in processes] if status), 0)


if __name__ == "__main__":
    sys.exit(main())

"""Starts workers on this machine: `python launch.py --workers 2 -- --batch 10`."""

import argparse
import json
import os
import socket
import subprocess
import sys


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("rest", nargs="*")
    args = parser.parse_args()
    hosts = [f"127.0.0.1:{port}" for port in free_ports(args.workers)]
    running = []
    for index in range(args.workers):
        config = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}}
        env = {**os.environ, "TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "1"}
        running.append(subprocess.Popen([sys.executable, "train.py", *args.rest], env=env))
    codes = [each.wait() for each in running]
    sys.exit(max(codes, key=abs))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A training whose variables are on a parameter server. That is killed at step 5, and another one takes its place."""

from __future__ import annotations

import subprocess
import sys

import tensorflow as tf

import keepstep

SERVER = """
import sys, tensorflow as tf
sys.stdin.readline()
cluster = {"chief": [sys.argv[2]], "ps": [sys.argv[1]]}
server = tf.distribute.Server(cluster, job_name="ps", task_index=0, protocol="grpc")
print("up", flush=True)
sys.stdin.read()  # until the training ends, however it does
"""
PS, CHIEF, BACK = sys.argv[1:]
STEPS = 10


def waiting() -> subprocess.Popen[str]:
    """One that has not begun: two of them import TensorFlow at once."""
    command = [sys.executable, "-c", SERVER, PS, CHIEF]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def begin(server: subprocess.Popen[str]) -> None:
    server.stdin.write("\n")
    server.stdin.flush()
    server.stdout.readline()


def train() -> None:
    cluster = tf.train.ClusterSpec({"chief": [CHIEF], "ps": [PS]})
    tf.config.experimental_connect_to_cluster(cluster, job_name="chief")
    with tf.device("/job:ps/replica:0/task:0"):
        weight, step = tf.Variable(0.0), tf.Variable(0, dtype=tf.int64)
    saved = tf.train.Checkpoint(weight=weight, step=step)
    manager = tf.train.CheckpointManager(saved, "ckpt", max_to_keep=2)
    manager.restore_or_initialize()
    print("begins at", int(step), flush=True)
    while int(step) < STEPS:
        weight.assign_add(2.0)
        step.assign_add(1)
        if int(step) % 2 == 0:
            manager.save()
        if int(step) == 5 and servers[0].poll() is None:
            servers[0].kill()
            servers[0].wait()
            if BACK == "at once":
                begin(servers[1])
    print("ended with", float(weight), flush=True)


def train_or_bring_it_back() -> None:
    """Or the server comes back when the training has noticed."""
    try:
        train()
    except tf.errors.UnavailableError:
        if BACK == "later":
            begin(servers[1])
        raise


servers = [waiting(), waiting()]
begin(servers[0])
try:
    keepstep.retry(train_or_bring_it_back, pause_s=0.1)
finally:
    for each in servers:
        each.kill()
        each.wait()

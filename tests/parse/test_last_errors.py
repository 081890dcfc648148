# SPDX-License-Identifier: Apache-2.0
"""Which lines look like errors, whatever they say."""

from __future__ import annotations

import pytest

from keepstep.model.facts.process import Loudness
from keepstep.parse.scan.last_errors import loudness, read_errors


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("F0512 03:12:21.771 121 client.h:77] Terminating process because of fatal errors", Loudness.FATAL),
        ("2024-01-11 05:42:58.876681: F tensorflow/core/x.cc:12] Non-OK-status: it", Loudness.FATAL),
        ("terminate called after throwing an instance of 'c10::Error'", Loudness.FATAL),
        ("Aborted (core dumped)", Loudness.FATAL),
        ("fatal: the daemon went away", Loudness.FATAL),
        ("E0115 19:13:45.133721 8 some_service.cc:197] the thing gave up", Loudness.ERROR),
        ("[E ProcessGroupNCCL.cpp:475] [Rank 0] it ran for 1800700 ms, Timeout(ms)=1800000", Loudness.ERROR),
        ("[1] 2019-06-13 01:17:08.886805: E external/xla/x.cc:672] Execution of replica 0 failed", Loudness.ERROR),
        ("ERROR:neuron:compilation with 12 cores gave up", Loudness.ERROR),
        ("docker: Error response from daemon: no such device", Loudness.ERROR),
        ("node1:701:760 [0] NCCL WARN NET/Socket : message truncated : receiving 52 bytes", Loudness.ERROR),
        ("  Warning  Evicted   109s  kubelet   Pod storage usage is over the limit", Loudness.ERROR),
        ("ORTE was unable to reliably start one or more daemons.", Loudness.COMPLAINED),
        ("node1:701:760 [0] NCCL INFO transport/net.cc:1034 -> 5", Loudness.COMPLAINED),
        ("INFO:tensorflow:Error reported to Coordinator: <class 'InvalidArgumentError'>, x", Loudness.COMPLAINED),
        ("INFO:tensorflow:Error recorded from infeed: From /job:worker/replica:0/task:0:", Loudness.COMPLAINED),
        ("WARNING:tensorflow:Failed to connect to the master", Loudness.WARNED),
        ("I tensorflow/core/master.cc:221] CreateSession still waiting for response from worker", Loudness.WARNED),
    ],
)
def test_a_line_complains_by_its_level_or_its_words(text, level):
    assert loudness(text) is level


@pytest.mark.parametrize(
    "text",
    [
        "step 100 loss 0.3 training error: 0.05",
        "val_error 0.21",
        "mean absolute error = 0.1",
        "0 errors, 0 failed",
        "INFO finished with errors: 0",
        "2024-03-01 10:00:00.1: E external/xla/x.cc:9] Unable to register cuDNN factory: one has already been registered",
        "E0000 00:00:1794.8 12 cuda_platform.cc:52] failed call to cuInit: INTERNAL: UNKNOWN ERROR (303)",
        "ERROR:tb_plugin:could not load the projector plugin; continuing without it",
        "2026-11-15 ERROR rank=0 could not upload metrics, will retry at the next evaluation",
        "17/11/25 18:26:00 ERROR YarnBackend: application has already exited with state FINISHED!",
        "[ 900.1] pcieport 0000:40:01.1: PCIe Bus Error: severity=Corrected, type=Physical Layer",
        "Some weights were not initialized from the checkpoint and are newly initialized: ['classifier.bias']",
        '  File "/opt/train.py", line 3, in failed_to_load',
        "    raise ValueError('cannot load')",
        "frame #3: c10d::failed() + 0x56 (0x749e in libtorch.so)",
        "saved checkpoint to /out/error_analysis",
        "using the default timeout of 600 s",
    ],
)
def test_what_healthy_runs_print_too_is_no_error(text):
    assert loudness(text) is None


def test_a_message_goes_on_until_the_next_level():
    lines = ["INFO all is well", "ERROR the broker refused it", "  because of its mood", "INFO bye", "failed"]
    (first, said), (second, _) = read_errors(lines)
    assert (first, said.text, said.below) == (1, "ERROR the broker refused it\nbecause of its mood", 3)
    assert second == 4
    assert said.share == 0.6


def test_a_stream_without_errors_has_none():
    assert list(read_errors(["INFO a", "step 1 loss 2.0"])) == []
    assert list(read_errors([])) == []


def test_a_hostile_line_is_read_quickly():
    assert loudness("a " * 30_000 + "error") is None
    assert loudness("E" + " \t" * 30_000) in (None, Loudness.ERROR)

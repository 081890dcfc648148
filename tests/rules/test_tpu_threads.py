# SPDX-License-Identifier: Apache-2.0
"""TPU runs that ended, as their users paste them, and the cause that comes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths

_WAIT = (
    "2020-03-08 10:11:12.120012: I     512 tensorflow/compiler/xla/xla_client/mesh_service.cc:208] "
    "Waiting to connect to client mesh master (300 seconds) localhost:57343\n"
)
_STOPPED = (
    '^CTraceback (most recent call last):\n  File "train.py", line 640, in <module>\n    xmp.spawn(main)\n'
    '  File "/usr/lib/python3.6/multiprocessing/popen_fork.py", line 28, in poll\n'
    "    pid, sts = os.waitpid(self.pid, flag)\nKeyboardInterrupt\n"
)


def first(tmp_path: Path, text: str) -> str:
    log = tmp_path / "log.txt"
    log.write_text(text)
    return explain_paths([log]).report.findings[0].cause.value


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "ERROR:tensorflow:Error recorded from infeed: From /job:worker/replica:0/task:0:\nEnd of sequence\n"
            "\t [[node input_pipeline_task0/while/IteratorGetNext ]]\nINFO:tensorflow:infeed marked as finished\n",
            "data.out_of_range_end_of_sequence",
        ),
        (
            "tensorflow.python.framework.errors_impl.InternalError: Failed copying input tensor from "
            "/job:localhost/replica:0/task:0/device:CPU:0 to /job:worker/replica:0/task:0/device:CPU:0 in order to run "
            "TensorDataset: Unable to parse tensor proto\n",
            "serialization.too_large_or_protobuf",
        ),
        ("KeyError: 'COLAB_TPU_ADDR'\n", "tpu.initialization_failure"),
        (
            "Epoch: 100%|##########| 1/1 [02:18<00:00, 138.25s/it]\n" + _WAIT + _STOPPED,
            "sync.deadlock_or_hang_waiting_rank",
        ),
    ],
)
def test_a_tpu_thread_names_its_cause(tmp_path: Path, text: str, cause: str) -> None:
    assert first(tmp_path, text) == cause

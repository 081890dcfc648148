# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's status lines in the words of Python's exceptions."""

from __future__ import annotations

import pytest

from keepstep.parse.tools.tensorflow.status import as_raised


@pytest.mark.parametrize(
    ("text", "above", "said"),
    [
        ("  (0) Internal: Failed to call ThenRnnForward", "", "InternalError: Failed to call ThenRnnForward"),
        ("  (1) INVALID_ARGUMENT:  bad shape", "", "InvalidArgumentError: bad shape"),
        (
            "2020-01-16 10:26:44.3: W tensorflow/core/framework/op_kernel.cc:1655] OP_REQUIRES failed at cudnn_rnn_ops.cc:1517 :"
            " Internal: Failed to call ThenRnnForward",
            "",
            "InternalError: Failed to call ThenRnnForward",
        ),
        (
            "Failed to call DoRnnForward with model config",
            "Node: 'CudnnRNN'",
            "Error: Failed to call DoRnnForward with model config",
        ),
        (
            "InternalError: {{function_node __wrapped__CudnnRNN_device_/job:localhost}} Failed to call DoRnnForward",
            "",
            "InternalError: Failed to call DoRnnForward",
        ),
        (
            "  (0) Internal: {{function_node __inference_f_1}} Failed to call DoRnnForward",
            "",
            "InternalError: Failed to call DoRnnForward",
        ),
    ],
)
def test_a_status_line_is_said_as_an_exception(text: str, above: str, said: str) -> None:
    assert as_raised(text, above) == said


@pytest.mark.parametrize(
    "text",
    [
        "W tensorflow/core/framework/op_kernel.cc:1745] OP_REQUIRES failed at iterator_ops.cc:1 : Out of range: End of sequence",
        "InternalError: Failed to call DoRnnForward",
        "epoch 1 (0) done",
    ],
)
def test_another_line_stays_as_it_is(text: str) -> None:
    assert as_raised(text, "the line above") is None

# SPDX-License-Identifier: Apache-2.0
"""What launchers say when they refuse their arguments."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, DeviceShared, RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.network import ConnectFailed
from keepstep.parse.tools.programs import launch_refusals
from tests.parse.reading import reader

read = reader(launch_refusals)


@pytest.mark.parametrize(
    "text, kind",
    [
        (
            "ValueError: The port number of the rendezvous endpoint 'None:None' must be an integer between 0 and 65536.",
            ClusterSpecInvalid,
        ),
        (
            "ValueError: The hostname of the rendezvous endpoint 'a_b' must be a dot-separated list of labels",
            ClusterSpecInvalid,
        ),
        (
            "ValueError: rank is absent in RendezvousParameters.Try add --node-rank to the cmd request",
            RankVariableMissing,
        ),
        ("ValueError: Port is absent in endpoint: n1. Try launching with --master-port", RankVariableMissing),
        ("ValueError: port must have value from 0 to 65535 but was 70000.", ClusterSpecInvalid),
        ('RuntimeError: nnodes=a is not in "MIN:MAX" format', ClusterSpecInvalid),
        (
            "ValueError: The rendezvous backend 'foo' is not registered. Did you forget to call `register`?",
            ClusterSpecInvalid,
        ),
        ("ValueError: Unsupported nproc_per_node value: two", ClusterSpecInvalid),
        (
            "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
            RankVariableMissing,
        ),
        ("ValueError: invalid literal for int() with base 10: '${SLURM_PROCID}'", RankVariableMissing),
        ("ValueError: Device 4 is not recognized, available devices are integers from 0 to 3", DeviceShared),
        ("RuntimeError: Invalid device string: 'cuda:None'", DeviceShared),
        ("ValueError: Cuda is not available.", CudaMismatch),
        ("AssertionError: requested 8 GPUs but found 4", WorldSizeConflict),
        ("train.py: error: argument --rank: invalid int value: ''", RankVariableMissing),
        ("train.py: error: argument --local_rank/--local-rank: expected one argument", RankVariableMissing),
        ("train.py: error: argument -w/--world_size: invalid int value: '$WORLD_SIZE'", RankVariableMissing),
        (
            "Error: failed to run torchrun --nnodes=2 --node_rank=1 train.py on gpu-1648, is localhost: False, exception: No "
            "authentication methods available",
            ConnectFailed,
        ),
        *(
            (
                f"Error: failed to run torchrun --node_rank=1 train.py on 10.0.0.2, is localhost: False, exception: {said}",
                ConnectFailed,
            )
            for said in (
                "not a valid RSA private key file",
                "encountered RSA key, expected OPENSSH key",
                "Host key for server '10.0.0.2' does not match: got 'AAA', expected 'AAB'",
                "Incompatible ssh peer (no acceptable kex algorithm)",
                "Bad authentication type; allowed types: ['publickey']",
                "Authentication timeout.",
            )
        ),
        ("paramiko.ssh_exception.AuthenticationException: Authentication failed.", ConnectFailed),
    ],
)
def test_a_refusal_gives_its_fact(text, kind):
    assert [type(fact) for fact in read(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: invalid literal for int() with base 10: '12a'",
        "using 8 GPUs, and 4 workers each",
        "train.py: error: argument --rank: invalid int value: 'a'",
        "train.py: error: argument --lora_rank: invalid int value: ''",
        "CUDA is not available, training on CPU",
        "Error: failed to run torchrun train.py on 10.0.0.2, is localhost: False, exception: I/O operation on closed file",
        "Error: failed to run torchrun train.py on 10.0.0.2, is localhost: False, exception: Encountered a bad command exit code!",
    ],
)
def test_other_words_give_nothing(text):
    assert read(text) == []

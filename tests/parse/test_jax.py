# SPDX-License-Identifier: Apache-2.0
"""What JAX says of its processes."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, DuplicateMember, RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible
from keepstep.parse import jax as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


def test_every_pattern_compiles() -> None:
    assert all(each.pattern for each in table.SIGNATURES)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ValueError: coordinator_address should be defined.", "coordinator_address"),
        ("ValueError: Number of processes must be defined.", "num_processes"),
        ("KeyError: 'SLURM_NTASKS'", "SLURM_NTASKS"),
        ("KeyError: 'OMPI_COMM_WORLD_SIZE'", "OMPI_COMM_WORLD_SIZE"),
    ],
)
def test_a_missing_identity_is_named(text, name):
    assert one(text, RankVariableMissing).name == name


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "RuntimeError: jax.distributed.initialize() must be called before any JAX computations are executed.",
            ClusterSpecInvalid,
        ),
        ("ALREADY_EXISTS: Aborted connect attempt as there is a request from a newer incarnation.", DuplicateMember),
        (
            "compiling computation that requires 8 logical devices, but only 4 XLA devices are available (num_replicas=8)",
            WorldSizeConflict,
        ),
        (
            "IndivisibleError: Sharding implies that array axis 0 is partitioned 4 times, but the dimension size is 30 (full shape)",
            BatchNotDivisible,
        ),
    ],
)
def test_a_wrong_set_up_is_read(text, kind):
    assert one(text, kind)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeWarning: os.fork() was called. os.fork() is incompatible with multithreaded code, and JAX is multithreaded, "
        "so this will likely lead to a deadlock.",
        "KeyError: 'label'",
        "INFO: Starting JAX distributed service on [::]:51993",
    ],
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []

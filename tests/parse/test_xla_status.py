# SPDX-License-Identifier: Apache-2.0
"""A replica that failed, by XLA's word alone."""

from __future__ import annotations

from keepstep.model.facts.process import ExceptionRaised
from keepstep.parse.tools.xla import status as table

SAID = "E xla/pjrt/pjrt_stream_executor_client.cc:2140] Execution of replica 0 failed: INVALID_ARGUMENT: Donation requested for invalid buffer"


def test_the_status_stands_for_the_exception_that_is_not_there(read, holds):
    assert holds(read(table, SAID + "\n" + "-" * 40), ExceptionRaised, type="XlaRuntimeError")


def test_where_the_exception_follows_it_is_the_one_that_counts(read):
    assert (
        read(
            table,
            SAID + "\nTraceback (most recent call last):\njaxlib.xla_extension.XlaRuntimeError: INVALID_ARGUMENT: x",
        )
        == []
    )


def test_memory_that_ran_out_has_a_table_of_its_own(read):
    assert (
        read(
            table, "Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 bytes."
        )
        == []
    )

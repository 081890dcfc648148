# SPDX-License-Identifier: Apache-2.0
"""Messages too large, or not understood."""

from __future__ import annotations

import pytest

from keepstep.core.facts.training import MessageTooLarge
from keepstep.parse.tools.network import protobuf as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (
            "Cannot serialize protocol buffer of type tensorflow.GraphDef as the serialized size (2643020353bytes) would be",
            "2643020353",
        ),
        ("ValueError: GraphDef cannot be larger than 2GB.", "2GB"),
        ('details = "Received message larger than max (8672945 vs. 4194304)"', "8672945"),
        ("OverflowError: cannot serialize a bytes object larger than 4 GiB", "4 GiB"),
        ("struct.error: 'i' format requires -2147483648 <= number <= 2147483647", "2 GiB"),
        ("google.protobuf.message.DecodeError: Error parsing message", None),
    ],
)
def test_a_message_that_is_too_large_is_read(text, size):
    assert one(text, MessageTooLarge).size == size


@pytest.mark.parametrize(
    "text", ["protobuf 3.20.1 is installed", "message received by worker 1", "Loaded graph of 2GB"]
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "E0214 01:33:19.597505411   19893 proto_buffer_writer.h:83]   assertion failed: byte_count_ < total_size_",
        "XlaRuntimeError: UNKNOWN: Failed to serialize the HloModuleProto.",
        "  what():  CHECK failed: (output->ByteCount()) == (expected_endpoint): : Protocol message serialized to a size different"
        " from what was originally expected.  Perhaps it was modified by another thread during serialization?",
        "F0000 message_lite.cc:120] Byte size calculation and serialization were inconsistent.  This may indicate a bug in protocol",
        "The serialized model is larger than the 2GiB limit imposed by the protobuf library.",
    ],
)
def test_a_message_that_its_writer_refuses_is_read(text):
    assert one(text, MessageTooLarge)


def test_a_message_that_outgrew_its_size_while_it_was_written_is_read():
    text = (
        "[libprotobuf FATAL message_lite.cc:68] CHECK failed: (byte_size_before_serialization) == "
        "(byte_size_after_serialization): tensorflow.RunStepRequest was modified concurrently during serialization."
    )
    assert facts(text)

# SPDX-License-Identifier: Apache-2.0
"""Messages too large for, or not understood by, protocol buffers, gRPC and pickle."""

from __future__ import annotations

from keepstep.model.facts.training import MessageTooLarge
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Cannot serialize protocol buffer of type (?P<what>[\w.]+) as the serialized size \((?P<size>\d+) ?bytes\)",
        MessageTooLarge,
    ),
    signature(r"Cannot serialize protocol buffer of type (?P<what>[\w.]+)", MessageTooLarge),
    signature(
        r"(?P<what>GraphDef|SavedModel|MetaGraphDef|FunctionDef) cannot be larger than (?P<size>2 ?GB)", MessageTooLarge
    ),
    signature(
        r"Cannot create a tensor proto whose content is larger than (?P<size>2 ?GB)", MessageTooLarge, what="tensor"
    ),
    signature(r"(?P<what>[\w.]+) exceeded maximum protobuf size of (?P<size>2 ?GB)", MessageTooLarge),
    signature(r"exceeded maximum protobuf size of 2GB: (?P<size>\d+)", MessageTooLarge),
    signature(r"[Mm]essage (?P<what>[\w.]+) exceeds maximum protobuf size of (?P<size>2 ?GB)", MessageTooLarge),
    signature(
        r"(?:Received|Sent) message larger than max \((?P<size>\d+) vs\.? \d+\)", MessageTooLarge, what="gRPC message"
    ),
    signature(
        r"received (?:trailing metadata|initial metadata|message) size exceeds limit",
        MessageTooLarge,
        what="gRPC message",
    ),
    signature(
        r"Cannot allocate buffer larger than kint32max for StringOutputStream", MessageTooLarge, what="protocol buffer"
    ),
    signature(r"Error parsing message(?: with type '(?P<what>[\w.]+)')?", MessageTooLarge),
    signature(r"google\.protobuf\.message\.(?P<what>DecodeError|EncodeError)", MessageTooLarge),
    signature(
        r"Failed to serialize proto|Failed to parse (?:the )?(?:GraphDef|proto from|SavedModel|MetaGraphDef)",
        MessageTooLarge,
        what="protocol buffer",
    ),
    signature(
        r"Failed to serialize (?:the )?(?P<what>HloModuleProto|HLO module|DeviceAssignmentProto|message)\b",
        MessageTooLarge,
    ),
    signature(r"Could not serialize module proto", MessageTooLarge, what="HloModuleProto"),
    signature(r"assertion failed: byte_count_ <=? total_size_", MessageTooLarge, what="gRPC message"),
    signature(
        r"serialized size \(\d+ ?bytes\) would be larger than the limit", MessageTooLarge, what="protocol buffer"
    ),
    signature(
        r"[Ss]erialized (?P<what>graph|model|program|executable|proto) (?:size )?(?:exceeds|is larger than)(?: the)? 2 ?Gi?B",
        MessageTooLarge,
    ),
    signature(
        r"larger than the 2 ?GiB limit imposed by the protobuf library",
        MessageTooLarge,
        what="protocol buffer",
        size="2 GiB",
    ),
    signature(
        r"(?P<what>[\w.]+) was modified concurrently during serialization|\(byte_size_before_serialization\)",
        MessageTooLarge,
    ),
    signature(
        r"Protocol message serialized to a size different from what was|Byte size calculation and serialization were inconsistent",
        MessageTooLarge,
        what="protocol message",
    ),
    signature(r"CHECK failed: \(?\w+\.size\(\)\)? <= \(?(?P<size>kint32max)", MessageTooLarge, what="protocol buffer"),
    signature(
        r"OverflowError: (?:integer (?P<size>\d{10,}) does not fit in '?(?:int|C int)'?|Python int too large to convert to C int)",
        MessageTooLarge,
        what="pickled object",
    ),
    signature(
        r"The (?P<what>actor|remote function|function|task) \S{1,120} is too large \((?P<size>\d+ MiB) > FUNCTION_SIZE_ERROR",
        MessageTooLarge,
    ),
    signature(r"A protocol message was rejected because it was too big", MessageTooLarge, what="protocol message"),
    signature(
        r"cannot serialize a (?P<what>bytes|string|str|unicode) (?:object )?larger than (?P<size>\d+ ?GiB)",
        MessageTooLarge,
    ),
    signature(
        r"'i' format requires -2147483648 <= number <= 2147483647", MessageTooLarge, what="pickled object", size="2 GiB"
    ),
    signature(
        r"OverflowError: (?:string|bytes object|BINBYTES8? opcode)[^\n]{0,40}(?:longer|larger) than 2147483647",
        MessageTooLarge,
        what="bytes",
    ),
    signature(
        r"[Ss]erializ\w{1,20} [^\n]{0,60}larger than (?:the )?(?:maximum|limit)[^\n]{0,40}2147483647", MessageTooLarge
    ),
    signature(r"message size \d+ exceeds (?:the )?(?:max(?:imum)?|limit)", MessageTooLarge, what="message"),
    signature(
        r"Attribute(?: \S{1,80})? (?:is|of) [^\n]{0,60}exceeds the 64 ?(?:k|K)B? limit|object header message is too large",
        MessageTooLarge,
        what="HDF5 attribute",
    ),
    signature(
        r"MPI[^\n]{0,60}count[^\n]{0,20}(?:exceeds|larger than)[^\n]{0,20}(?:INT_MAX|2147483647)",
        MessageTooLarge,
        what="MPI message",
    ),
)

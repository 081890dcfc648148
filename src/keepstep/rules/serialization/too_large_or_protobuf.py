# SPDX-License-Identifier: Apache-2.0
"""SER001: a message or graph was too large for its encoding, or could not be decoded."""

from __future__ import annotations

from keepstep.base.whole_numbers import whole
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, MessageTooLarge, rule
from keepstep.rules.asking.exceptions import ranks_told


@rule(
    id="SER001",
    cause=Cause.SERIALIZATION_TOO_LARGE_OR_PROTOBUF,
    needs=(MessageTooLarge,),
    explains=(
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.USER_CODE_EXCEPTION,
        Cause.RESOURCE_GPU_OOM,
        Cause.WORKER_PARAMETER_SERVER_LOST,
    ),
)
def too_large_or_protobuf(seen: EvidenceSet) -> Findings:
    """A graph, message or object was larger than its encoding allows, or could not be decoded.

    ## What it looks like
    `GraphDef cannot be larger than 2GB`, `Cannot serialize protocol buffer ... larger than the limit
    (2147483647 bytes)`, gRPC's `Received message larger than max`, `cannot serialize a bytes object
    larger than 4 GiB`, `Error parsing message`.

    ## Why it happens
    Data or weights became constants in the graph, or a whole dataset is sent to or pickled for other processes.
    The limits are 2 GB for protocol buffers, 4 MB by default for gRPC, and 4 GiB for old pickle protocols.

    ## How we know
    The serialiser names its limit.

    ## What to do
    Keep data out of the graph (files, generators, variables), or send it in parts.

    ## When this is wrong
    A parsing error can also come from files or programs of different versions.
    """
    large = tuple(e for e in seen.all(MessageTooLarge) if not seen.survived(e))
    if not large:
        return
    size = next((e.fact.size for e in large if e.fact.size), None)
    what = next((e.fact.what for e in large if e.fact.what), None) or "a message"
    decoded = all("arsing" in e.quote or "Decode" in e.quote or "parse" in e.quote for e in large)
    yield Found(
        title=f"{what} could not be decoded" if decoded else f"{what} was too large to be serialised{_of(size)}",
        because=(
            "the decoder reports that the bytes are not the message it expects"
            if decoded
            else "the serialiser reports that its size limit was exceeded"
        ),
        evidence=large,
        ranks=ranks_told(seen, large),
        fixes=(
            Fix(do="feed data from files or a generator; do not turn arrays into constants in the graph"),
            Fix(do="raise gRPC's limit if the server or channel is yours", code="grpc.max_receive_message_length = -1"),
            Fix(do="pickle with protocol 4 or higher, and let each process load its own part"),
        ),
    )


def _of(size: str | None) -> str:
    if size is None:
        return ""
    return (
        f" ({int(size) / 1e9:.2f} GB)"
        if whole(size) is not None and len(size) > 8
        else f" ({size} bytes)"
        if size.isdecimal()
        else f" (limit {size})"
    )

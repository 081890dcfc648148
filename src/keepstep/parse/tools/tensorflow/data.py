# SPDX-License-Identifier: Apache-2.0
"""``tf.data`` and TensorFlow's input queues: records, images, parsing, the end of a sequence."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid
from keepstep.model.facts.data import (
    CorruptData,
    DataMissing,
    DtypeMismatch,
    EmptyBatch,
    EndOfData,
    LabelOutOfRange,
    ShapeMismatch,
    UnevenShards,
)
from keepstep.model.facts.environment import VersionConflict
from keepstep.model.facts.resource import HostAllocationFailed
from keepstep.model.facts.sync import SharedStateRace
from keepstep.parse.scan.signature import signature


def _ended(match: re.Match[str]) -> Fact:
    """Who noticed the end: a collective that was aborted, an exception, or only a log line."""
    text = match.string
    if re.search(r"Aborting Ring|OP_REQUIRES failed at collective_ops|Collective ops is aborted", text):
        return EndOfData(what="collective aborted")
    if re.match(r"\s*\(\d+\) (?i:out[ _]of[ _]range): ", text):
        return EndOfData(what="exception")
    if "OutOfRangeError" in text and not re.match(r"\s*(?:\d{4}-\d\d-\d\d [\d:.]+: )?[IWE] ", text):
        return EndOfData(what="exception")
    return EndOfData(what="logged")


def _queue(match: re.Match[str]) -> Fact:
    return EndOfData(what=f"queue closed with {match['current']} elements")


def _record(match: re.Match[str]) -> Fact:
    path = re.search(r"(?:in|from|file:?) (?P<path>/?[\w./\-]+\.\w+|gs://\S+|\S*tfrecord\S*)", match.string)
    return CorruptData(what=match["what"].lower(), path=path["path"] if path else None)


def _sharded_by_file(match: re.Match[str]) -> Fact | None:
    """Under the policy AUTO it is a warning: shards are then cut by element."""
    return None if "AUTO sharding policy" in match.string else UnevenShards(detail=match["detail"])


_DIMENSIONS = r"[\[(][^\])\n]{0,80}[\])]"


SIGNATURES = (
    signature(r"(?i)Out ?_?of ?_?range[^\n]{0,160}?End of sequence", _ended),
    signature(r"OutOfRangeError[^\n]{0,200}", _ended),
    signature(
        r"(?:Queue|Barrier) '?[\w/]+'? is closed and has insufficient elements \(requested \d+, current size (?P<current>\d+)\)",
        _queue,
    ),
    signature(r"(?P<what>(?:corrupted|truncated) record) at \d+", _record),
    signature(r"DATA_LOSS: (?P<what>[^\n]{0,80}?(?:corrupt|truncat|inflat|checksum|crc)[^\n]{0,80})", CorruptData),
    signature(
        r"DataLossError[^\n]{0,40}?: (?P<what>(?![^\n]{0,300}(?:open table file|sstable))[^\n]{0,100})", CorruptData
    ),
    signature(r"Data loss: (?P<what>(?![^\n]{0,300}(?:open table file|sstable))[^\n]{0,100})", CorruptData),
    signature(r"(?P<what>Could not parse example input)", CorruptData),
    signature(
        r"(?P<what>Key: \S+\.  ?(?:Can't parse serialized Example|Number of \w+ values != expected))", CorruptData
    ),
    signature(
        r"Key: \S+\.  ?Data types don't match\.(?: (?:but )?[Ee]xpected type: (?P<left>\w+)|,? [Dd]ata type: (?P<right>\w+)){0,2}",
        DtypeMismatch,
    ),
    signature(r"(?P<what>Can't parse serialized Example)", CorruptData),
    signature(r"(?P<what>Input size should match \(header_size \+ row_size)", CorruptData),
    signature(r"(?P<what>Header mismatch: Expected \w+ but found)", CorruptData),
    signature(r"InvalidArgumentError: [^\n]{0,120}(?P<what>Input is empty\.)", CorruptData),
    signature(r"(?P<what>Feature: \S+ \(data type: \w+\) is required but could not be found)", CorruptData),
    signature(r"(?P<what>Invalid (?:PNG|JPEG|GIF|BMP)[^\n]{0,60}|Invalid WebP[^\n]{0,40})", CorruptData),
    signature(
        r"(?P<what>Trying to decode \w{3,4} format using a wrong op|StringToNumberOp could not correctly convert string|"
        r"Unknown image file format|Expected image \(JPEG, PNG, or GIF\)|Unable to decode bytes as JPEG)",
        CorruptData,
    ),
    signature(
        r"(?P<what>inflate\(\) failed with error|Read (?:less|fewer) bytes than requested|Riegeli/records file got truncated)",
        CorruptData,
    ),
    signature(
        r"(?P<what>Got \d+ frames, but animated gifs can only be decoded|Incomplete bmp content, requires at least"
        r"|(?:Corrupted|Truncated) Riegeli/records file|Number of channels inherent in the image must be)",
        CorruptData,
    ),
    signature(
        r"(?P<what>Field \d+ in record[^\n]{0,60}is not a valid|Expect \d+ fields but have \d+ in record)", CorruptData
    ),
    signature(
        r"(?:NotFoundError|NOT_FOUND|Not found)[^\n]{0,60}?: ?(?:\{\{[^}\n]{0,300}\}\} )?(?P<path>[^\s;]{1,300}\.(?:tfrecords?|tfrec|csv|jpe?g|"
        r"png|txt|npy|npz|h5|hdf5|parquet|record|gz))(?:; No such file|[^\n]{0,20}No such file)",
        DataMissing,
    ),
    # Labels and ids
    signature(
        r"Received a label value of (?P<label>-?\d+) which is outside the valid range of \[0, ?(?P<limit>\d+)\)",
        LabelOutOfRange,
    ),
    signature(r"indices\[[\d, ]*\] ?= ?(?P<label>-?\d+) is not in \[0, ?(?P<limit>\d+)\)", LabelOutOfRange),
    signature(
        r"[Ll]abel(?: value|s)?\D{0,20}(?P<label>-?\d+)[^\n]{0,40}out of (?:range|bounds)[^\n]{0,40}?(?:\[0, ?(?P<limit>\d+)|$)",
        LabelOutOfRange,
    ),
    signature(
        r"(?:`labels` out of bound|\[Labels must (?:be|<=?|not)[^\]\n]{0,60}\]|\[`?labels`? (?:must|out)[^\]\n]{0,60}\])",
        LabelOutOfRange,
    ),
    signature(
        r"InvalidArgument(?:Error)?: [^\n]{0,120}\b(?:targets\[\d+\] is out of range|"
        r"indices\[\d+\] = \[[\d, -]+\] is out of bounds: need 0 <= index <)",
        LabelOutOfRange,
    ),
    signature(
        r"assertion failed: \[Label IDs must[^\]\n]{0,60}\]|label SparseTensor is not valid|Saw a non-null label \(index >= num_classes - 1\)",
        LabelOutOfRange,
    ),
    # What a batch is made of
    signature(r"(?P<op>Can not squeeze dim\[\d+\], expected a dimension of 1, got \d+)", ShapeMismatch),
    signature(r"Cast (?P<left>\w+) to (?P<right>\w+) is not supported", DtypeMismatch),
    # A replica without rows
    signature(r"[Bb]atch_?[Dd]escriptor:? ?\{count: 0 ", EmptyBatch, what="cuDNN got a batch of 0 rows"),
    signature(r"(?P<what>[Rr]eshape cannot infer the missing input size for an empty tensor)", EmptyBatch),
    signature(
        r"Non-OK-status: (?:Gpu|Cuda)LaunchKernel\([^\n]{0,600}status: (?:Internal|INTERNAL): invalid configuration argument",
        EmptyBatch,
        what="a kernel was started over 0 elements",
    ),
    signature(r"(?P<what>slice index \d+ of dimension 0 out of bounds)", EmptyBatch),
    signature(
        r"(?P<what>Tried to read from index \d+ but array size is: 0|Check failed: work_element_count > 0 \(0 vs\. 0\))",
        EmptyBatch,
    ),
    signature(r"input shape ?\(?\[0, ?\d[^\n]{0,60}", EmptyBatch, what="an operator got an input of 0 rows"),
    signature(r"(?P<what>Reduction axis \d+ is empty in shape:? \[[\d,]+\])", EmptyBatch),
    signature(
        r"Cannot batch tensors with different shapes in component \d+\. First element had shape (?P<left>\[[^\]]*\]) "
        r"and element \d+ had shape (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="batch",
    ),
    signature(
        r"Cannot add tensor to the batch: number of elements does not match\. Shapes are: \[tensor\]: "
        r"(?P<left>\[[^\]]*\]), \[batch\]: (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="batch",
    ),
    signature(
        r"Incompatible shapes at component \d+: expected (?P<left>\[[^\]]*\]) but got (?P<right>\[[^\]]*\])",
        ShapeMismatch,
        op="dataset",
    ),
    signature(
        r"Could not apply FILE based sharding: (?P<detail>The dataset does not have enough file\(s\) for the required \d*)",
        _sharded_by_file,
    ),
    signature(
        r"(?P<detail>Unable to shard this input\. You may need to wrap the inputs to your reader dataset)",
        _sharded_by_file,
    ),
    signature(
        r"There appears to be a concurrent caching iterator running - cache lockfile already exists \('(?P<path>[^'\n]{1,300})",
        SharedStateRace,
        what="a tf.data cache that another iterator is writing or left behind",
    ),
    signature(
        r"(?P<what>Field \d+ is required but missing in record|Input to DecodeRaw has length \d+ that is not a multiple of \d+|Trying to decode \w+ "
        r"format using (?:a )?wrong op|Problem inferring types: CSV row|Failed when reading the header line of \S{1,300}\. Is it an empty file)",
        CorruptData,
    ),
    signature(
        r"No label may be greater than num_classes|All labels must be nonnegative integers, batch", LabelOutOfRange
    ),
    signature(
        rf"The padded shape (?P<left>{_DIMENSIONS}) is not compatible with the shape (?P<right>{_DIMENSIONS})",
        ShapeMismatch,
        op="padded batch",
    ),
    signature(
        r"`generator` yielded an element of type (?P<left>\w+) where an element of type (?P<right>\w+) was expected",
        DtypeMismatch,
    ),
    signature(r"Failed to allocate memory for the batch of component", HostAllocationFailed),
    signature(
        r"(?P<detail>Dispatcher's worker address \S{1,120} does not match worker's address \S{1,120})",
        ClusterSpecInvalid,
    ),
    signature(
        r"The tf\.data service is running an earlier version of TensorFlow that requires",
        VersionConflict,
        component="TensorFlow",
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""Input files that cannot be read: images, archives, arrays, tables, web datasets."""

from __future__ import annotations

import re
from dataclasses import replace

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import CorruptData, DataMissing, DownloadSeen
from keepstep.model.facts.sync import SharedStateRace
from keepstep.parse.scan.signature import Signature, signature

_PATH = lazy_pattern(r"(?:name=|file |path: ?|in |from |for )['\"<]?(?P<path>[\w./\-]+\.\w{2,8})\b")
_CHECKPOINT = lazy_pattern(r"(?i)\.(?:pth?|ckpt|bin|safetensors|distcp|index)\b|checkpoint|model\.|torch/serialization")


def _corrupt(match: re.Match[str]) -> Fact | None:
    if _CHECKPOINT.search(match.string):
        return None
    path = _PATH.search(match.string)
    return CorruptData(what=match["what"], path=path["path"] if path else None)


_PASSED_OVER = lazy_pattern(
    r"(?i)\bwarn(?:ing)?\b|\bskip(?:ped|ping|s)?\b|\bignor(?:ed|ing)\b|handling webdataset error|\bretry(?:ing)?\b|\bWARN:"
)
"""Loaders that go on with the next sample say so in the same line."""


def _unless_passed_over(each: Signature) -> Signature:
    def make(match: re.Match[str]) -> Fact | None:
        return None if _PASSED_OVER.search(match.string) else each.make(match)

    return replace(each, make=make)


_TABLE = (
    # Pillow, OpenCV, libjpeg, torchvision
    signature(
        r"(?P<what>cannot identify image file) ?(?:<[^>\n]*name=)?['\"]?(?P<path>[\w./ \-]+\.\w{2,5})?", CorruptData
    ),
    signature(r"UnidentifiedImageError", CorruptData, what="cannot identify image file"),
    signature(r"(?P<what>image file is truncated)", CorruptData),
    signature(r"(?P<what>broken data stream when reading image file)", CorruptData),
    signature(r"(?P<what>Truncated File Read)(?! ignored)", CorruptData),
    signature(
        r"OSError: (?P<what>broken PNG file|unrecognized data stream contents|decoder error -\d|"
        r"decoder \w+ not available|image has wrong (?:size|mode))",
        CorruptData,
    ),
    signature(r"SyntaxError: (?P<what>not a (?:PNG|TIFF|JPEG|GIF|BMP) file|broken PNG file)", CorruptData),
    signature(r"DecompressionBombError", CorruptData, what="decompression bomb"),
    signature(
        r"Error: (?P<what>Image [Dd]ecoding failed|Not a (?:PNG|JPEG) file|image is (?:corrupt|truncated)|"
        r"Unsupported (?:image|marker) type|Empty input file)",
        CorruptData,
    ),
    signature(
        r"(?P<what>!_?(?:src|ssize|img|image|buf)\.empty\(\))(?: && buf\.isContinuous\(\))? in function '(?:cv::)?(?:\w+::)?(?:cvtColor|resize|imshow|imdecode_?|warpAffine|copyMakeBorder)'",
        CorruptData,
    ),
    # of libjpeg itself "Corrupt JPEG data" is a warning, and the image is used: only an exception that says so counts
    signature(
        r"(?P<what>[Ii]nvalid image (?:data|file|content)|[Cc]orrupt(?:ed)? (?:image|(?<=Error: Corrupt )JPEG|video|audio|sample|"
        r"data|file|shard|record|tar|parquet)[^\n]{0,60})",
        _corrupt,
    ),
    # Video and audio
    signature(r"DECORDError[^\n]{0,200}", CorruptData, what="video could not be decoded"),
    signature(r"(?P<what>moov atom not found|Invalid data found when processing input)", CorruptData),
    signature(r"LibsndfileError: (?P<what>[^\n]{0,100})", CorruptData),
    # Archives and arrays
    signature(r"(?P<what>BadZipFile|BadZipfile): ?[^\n]{0,100}", _corrupt),
    signature(
        r"(?P<what>(?:tarfile\.)?ReadError): (?:unexpected end of data|empty header|invalid header|bad checksum|"
        r"truncated header|invalid compressed data|unexpected end of header|unexpected EOF"
        r"|not an? (?:gzip|bzip2|lzma|xz) file|file could not be opened)",
        _corrupt,
    ),
    signature(r"(?P<what>Error -[35] while decompressing data)", _corrupt),
    signature(
        r"(?P<what>(?:OSError|EOFError|LZMAError|error|IOError): (?:Invalid data stream|Corrupt input data|Input format not supported by decoder"
        r"|Unsupported compression method|Error -\d while preparing to decompress data))",
        _corrupt,
    ),
    signature(
        r"(?:Error|Exception): [^\n]{0,120}(?P<what>(?:[Cc]hecksum|[Hh]ash|MD5|md5|SHA256|sha256)s?(?:um)?"
        r" (?:mismatch|does not (?:not )?match|did not match|didn't match|doesn't match)(?! across replicas)[^\n]{0,80})",
        _corrupt,
    ),
    signature(r"RuntimeError: (?P<what>invalid hash value \(expected)", _corrupt),
    signature(
        r"(?P<what>BadGzipFile|Not a gzipped file|CRC check failed|Compressed file ended before the end-of-stream marker was reached)",
        _corrupt,
    ),
    signature(r"(?P<what>Cannot load file containing pickled data when allow_pickle=False)", _corrupt),
    signature(r"(?P<what>Failed to interpret file [^\n]{0,120} as a pickle)", _corrupt),
    signature(
        r"(?:fromfile|frombuffer|fromstring|memmap|\.read)\([^\n]{0,200}\n *"
        r"ValueError: (?P<what>cannot reshape array of size \d+ into shape \([\d,]+\))",
        _corrupt,
    ),
    signature(
        r"ValueError: (?P<what>mmap length is greater than file size|EOF: reading array (?:header|data), expected \d+ bytes got \d+)",
        _corrupt,
    ),
    signature(r"(?P<what>No data left in file)", _corrupt),
    signature(
        r"\bc?[Pp]ickle\.loads?\((?!from_parent|file_obj)[^\n]{0,200}\n *(?:[\^~][\^~ ]{0,200}\n *)?EOFError: (?P<what>Ran out of input)",
        _corrupt,
    ),
    signature(r"ValueError: (?P<what>cannot mmap an empty file)", _corrupt),
    signature(
        r"Error opening '?(?P<path>[^'\n]{1,300})'?: (?P<what>File contains data in an unknown format|Format not recognised)",
        _corrupt,
    ),
    signature(r"(?P<what>NVJPEG_STATUS_BAD_JPEG|NVJPEG_STATUS_INCOMPLETE_BITSTREAM)", _corrupt),
    signature(r"(?P<what>Unrecognized image format)\. Supported formats are", _corrupt),
    signature(
        r"Can't (?:synchronously )?read data \((?P<what>wrong fletcher32 checksum|inflate\(\) failed|filter returned failure[^)\n]{0,40})",
        _corrupt,
    ),
    signature(
        r"(?P<what>Unable to (?:synchronously )?open (?:file|object) \((?:truncated file|file signature not found|bad object header)[^\n)]{0,120})",
        _corrupt,
    ),
    # what else HDF5 says about a file that is damaged inside
    signature(
        r"(?P<what>(?:Unable to|Can't) (?:synchronously )?(?:open|read|load) (?:file|object|group|dataset|attribute|data)s? "
        r"\((?:bad (?:heap|local heap|global heap|symbol table|B-tree|btree|superblock|SOHM|object directory)|wrong (?:B-tree|fixed|extensible"
        r"|fractal|object header|PRK)|addr(?:ess)? overflow|unable to (?:load|decode|protect)|incorrect metadata checksum"
        r"|ran off end of input buffer|message class)[^\n)]{0,120})",
        _corrupt,
    ),
    signature(r"(?P<what>Unable to (?:synchronously )?open file \(truncated)", _corrupt),
    # Tables
    signature(r"(?P<what>Parquet (?:file size is|magic bytes not found)[^\n]{0,100})", CorruptData),
    signature(
        r"(?P<what>Couldn't deserialize thrift[^\n]{0,60}|Corrupt snappy compressed data|Page was smaller \(\d+\) than expected)",
        CorruptData,
    ),
    signature(
        r"ArrowInvalid: (?P<what>(?:Not an Arrow file|Unable to read from|Tried reading schema|File is (?:too small|"
        r"smaller)|Expected to (?:be able to )?read \d+|JSON parse error|CSV parse error|Invalid flatbuffers)[^\n]{0,100})",
        CorruptData,
    ),
    signature(
        r"OSError: (?P<what>(?:Invalid: |Corrupt)[^\n]{0,100}(?:Arrow|Parquet|snappy|metadata)[^\n]{0,40})", CorruptData
    ),
    signature(r"(?P<what>NonMatching(?:SplitsSizes|Checksum)Error)", CorruptData),
    signature(r"ParserError: (?P<what>Error tokenizing data[^\n]{0,100})", CorruptData),
    signature(
        r"DatasetGenerationError[^\n]{0,40}?(?P<what>An error occurred while generating the dataset)", CorruptData
    ),
    signature(r"(?P<what>MDB_CORRUPTED|MDB_INVALID|MDB_PAGE_NOTFOUND)[^\n]{0,80}", CorruptData),
    signature(r"lmdb\.(?P<what>CorruptedError|InvalidError|PageNotFoundError)", CorruptData),
    # Of several writers
    signature(
        r"(?:No such file or directory: |Failed to open local file )['\"](?P<path>[^'\"\n]{0,300}(?:\.incomplete/[^'\"\n]{1,200}|"
        r"/huggingface/modules/[^'\"\n]{1,300}|/datasets/[^'\"\n]{1,300}/dataset_info\.json|default_experiment-\d+-\d+\.arrow))['\"]",
        SharedStateRace,
        what="a cache file was missing: another process writes or moves it",
    ),
    signature(
        r"(?P<what>Expected to find locked file \S{1,300}) from process \d+ but it doesn't exist", SharedStateRace
    ),
    signature(
        r"in OCDBT database at [^\n]{0,30}\"(?P<path>[^\"\n]{1,300})\"[^\n]{0,20}Configuration mismatch on uuid: expected",
        SharedStateRace,
        what="another process made the same checkpoint database",
    ),
    signature(
        r"(?:FileExistsError|OSError): \[Errno 17\] (?P<what>File exists): '(?P<path>[^'\n]{0,300}(?:/\.cache/|\.incomplete|\.lock|\.keras/)"
        r"[^'\n]{0,300})'",
        SharedStateRace,
    ),
    signature(r"^\s*Downloading (?:data from )?(?P<path>(?:https?://|s3://|gs://|/|\./)\S{4,300})", DownloadSeen),
    signature(
        r"(?:mkdir|makedirs|symlink|rename|replace|move|copytree)\([^\n]{0,200}\n *(?:[\^~][\^~ ]{0,200}\n *)?FileExistsError: "
        r"\[Errno 17\] (?P<what>File exists)(?:: '(?P<path>[^'\n]{1,300})')?",
        SharedStateRace,
    ),
    signature(
        r"FileNotFoundError: \[Errno 2\] (?P<what>No such file or directory: '(?P<path>[^'\n]{1,300})' -> '[^'\n]{1,300}')",
        SharedStateRace,
    ),
    signature(
        r"No such file or directory: '(?P<path>[^'\n]{0,300}(?:torch_extensions|triton|torchinductor|numba|tvm)[^'\n]{0,300})'",
        SharedStateRace,
        what="a cache of compiled code was incomplete: another process writes it",
    ),
    signature(
        r"No such file or directory: '(?P<path>[^'\n]{0,300}/torch/hub/(?:[^'/\n]{1,100}\.zip|[^'\n]{1,200}\.partial))'",
        SharedStateRace,
        what="another process removed a file that torch.hub was downloading",
    ),
    signature(
        r"(?P<path>[^\s;:]{1,300}(?:_temp/part-\d+|\.?tempstate\d+)[^\s;]{0,120}); No such file or directory",
        SharedStateRace,
        what="another process that saves to the same place removed a temporary checkpoint file",
    ),
    signature(
        r"(?:FailedPreconditionError: (?P<path>[^\s;]{1,300}); |OSError: \[Errno 39\] )(?P<what>Directory not empty)",
        SharedStateRace,
    ),
    signature(
        r"AlreadyExistsError: (?!Resource)[^\n]{0,300}(?P<what>(?:Directory|File) (?:already )?exists)", SharedStateRace
    ),
    signature(r"shutil\.Error: (?P<what>Destination path '[^'\n]{1,300}' already exists)", SharedStateRace),
    signature(r"sqlite3\.OperationalError[^\n]{0,20}(?P<what>database is locked)", SharedStateRace),
    signature(
        r"(?:No such file or directory: |Failed to open local file )['\"](?P<path>[^'\"\n]{0,300}/(?:cache|indices|tmp)-?[\w\-]{4,80}\.arrow)",
        SharedStateRace,
        what="a `datasets` cache file was missing: another rank writes or moves it",
    ),
    signature(
        r"FileExistsError: [^\n]{0,20}File exists: '/(?P<path>\d{6}_\w{1,40})'",
        SharedStateRace,
        what="a shared-memory block of the streaming dataset already existed",
    ),
    signature(r"(?P<what>Reused local directory: [^\n]{0,80})", SharedStateRace),
    signature(
        r"unable to lock file, errno = 11, error message = 'Resource temporarily unavailable'",
        SharedStateRace,
        what="an HDF5 file was locked by another process",
    ),
    signature(
        r"Unable to (?:synchronously )?create file \(unable to open file: name = '(?P<path>[^'\n]{1,300})', errno = 17",
        SharedStateRace,
        what="an HDF5 file was created by another process",
    ),
    signature(
        r"No such file or directory: ['\"](?P<path>[^'\"\n]{0,300}\.(?:incomplete|tmp\.tmp|lock))['\"]",
        SharedStateRace,
        what="another process removed a download or lock file",
    ),
    # Not there at all
    signature(
        r"FileNotFoundError: [^\n]{0,60}?No such file or directory: ['\"](?P<path>[^'\"\n]+\.(?:jpe?g|JPE?G|png|"
        r"tfrecords?|tar|csv|tsv|jsonl|parquet|arrow|npy|npz|lmdb|mp4|wav|flac))['\"]",
        DataMissing,
    ),
    signature(
        r"(?:Error|Exception): [^\n]{0,80}?(?<![\w./\-])(?P<path>[\w./\-]{1,300}\.(?:tfrecords?|tar|csv|tsv|jsonl|parquet|arrow|npy|npz"
        r"|lmdb|idx|h5|hdf5))['\"]? (?:(?:is|was|were|could|can|does|do) ?)?(?:not (?:be )?(?:found|exist)|missing)\b",
        DataMissing,
    ),
    signature(
        r"(?<![\w./\-])(?P<path>(?=[\w./\-]*?[\w./\-](?:train|data|shard))[\w./\-]+)(?![\w./\-])[^\n]{0,20}(?:does not (?:contain|have) any (?:image|"
        r"valid|file))",
        DataMissing,
    ),
)

SIGNATURES = tuple(_unless_passed_over(each) for each in _TABLE)

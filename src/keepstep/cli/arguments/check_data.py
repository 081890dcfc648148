# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep check data``."""

from __future__ import annotations

import argparse

from keepstep.cli.arguments import Verbs, add_report_options, add_verb

DESCRIPTION = """\
Read files of training data and name what is wrong with them: corrupt, cut
short, empty, duplicate and unreadable files, and types or shapes that differ
from those of most files. TFRecord, Parquet, Arrow, WebDataset tar, MDS,
LitData, npy, npz, safetensors, JSON lines, CSV, images, HDF5, Zarr and raw
tokens are recognised by their content.

  keepstep check data train/             a folder
  keepstep check data s3://bucket/train  whatever fsspec opens
  keepstep check data train/ --values    also NaN, infinity and label ranges
  keepstep check data train/ --ranks 4 --batch 32 --policy webdataset
                                         also what 4 ranks would be fed

Files are never changed. A second check reads only what changed since.
"""


def add(verbs: Verbs) -> None:
    """Add the part, as a verb of two words."""
    data = add_verb(verbs, "check data", "find corrupt, truncated and odd files of training data", DESCRIPTION)
    data.add_argument("paths", nargs="*", metavar="PATH", help="files, folders, or URLs that fsspec understands")
    data.add_argument("--values", action="store_true", help="also read all values: NaN, infinity, ranges of labels")
    data.add_argument("--classes", type=int, metavar="N", help="labels or tokens must be 0 to N-1 (implies --values)")
    data.add_argument(
        "--label", metavar="FIELD", action="append", default=[], help="a field that holds labels (repeatable)"
    )
    data.add_argument(
        "--manifest", metavar="FILE", help="where hashes and results are kept (default: in the user's cache folder)"
    )
    data.add_argument("--no-manifest", action="store_true", help="keep nothing, and read everything")
    data.add_argument(
        "--again", action="store_true", help="read everything again, and compare it with the hashes of the manifest"
    )
    data.add_argument("--jobs", type=int, metavar="N", help="processes (default: one per core)")
    data.add_argument(
        "--wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="give up on a file that has not answered for this long (default: 60)",
    )
    data.add_argument("--follow", action="store_true", help="also read what links in PATH lead to outside it")
    data.add_argument(
        "--work",
        type=int,
        default=1,
        metavar="N",
        help="read N times as much of files with large holes, or that unpack to far more than is on disk",
    )
    data.add_argument(
        "--where", type=int, metavar="INDEX", help="say where this sample is, counted from 0 over all files in order"
    )
    planning = data.add_argument_group("what each rank would be fed", "the records are divided as the loader would")
    planning.add_argument("--ranks", type=int, metavar="N", help="the number of ranks (in TensorFlow: of workers)")
    planning.add_argument("--workers", type=int, dest="ranks", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    planning.add_argument(
        "--batch", type=int, default=1, metavar="B", help="what the script gives its loader (default: 1)"
    )
    planning.add_argument(
        "--policy", metavar="NAME", help="how it is divided; `--policy list` explains all (default: torch-sampler)"
    )
    planning.add_argument("--loader-workers", type=int, default=0, metavar="M", help="loader processes of each rank")
    rescue = data.add_argument_group("going on without bad records", "originals are never touched")
    rescue.add_argument("--extract", metavar="DIR", help="write the bytes of bad records into this folder")
    rescue.add_argument("--clean", metavar="DIR", help="write copies of bad files that lack the bad records")
    rescue.add_argument(
        "--quarantine", metavar="FILE", help="write a list of bad files and records for loaders, as JSON"
    )
    add_report_options(data)
    data.add_argument("--force", action="store_true", help="overwrite the FILE of --html and --quarantine")

# SPDX-License-Identifier: Apache-2.0
"""DAT304: a data file has a field of another type."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, ShardsSeen, rule
from keepstep.rules.asking.data_files import base_name, odd_schemas


@rule(id="DAT304", cause=Cause.DATA_DTYPE_MISMATCH, needs=(ShardsSeen,))
def file_of_other_dtype(seen: EvidenceSet) -> Findings:
    """A field of a data file has another type than in most files beside it.

    ## What it looks like
    `Expected float but found double`, `can't convert`, or `Data types don't match`, when a rank reaches the file.

    ## Why it happens
    The file was written by another version of the script, or a column had no missing values there, so it stayed a
    column of whole numbers.

    ## How we know
    `keepstep check data` compared the schemas of all files of a folder. Most of them agree.

    ## What to do
    Write the file again with the types of the others, or cast the field where records are parsed.

    ## When this is wrong
    The loader casts this field anyway.
    """
    for odd in odd_schemas(seen):
        if odd.types:
            name, wrong, usual = odd.types[0]
            yield Found(
                title=f"{base_name(odd.example)} has {name} as {wrong}; most files beside it have {usual}",
                because=f"{odd.files:,} of {odd.total:,} {odd.format} files in {odd.folder} have other types"
                + (f" (also {', '.join(each[0] for each in odd.types[1:4])})" if len(odd.types) > 1 else ""),
                evidence=(odd.evidence,),
                fixes=(Fix(do="write the file again with the types of the others, or cast the field when reading"),),
            )

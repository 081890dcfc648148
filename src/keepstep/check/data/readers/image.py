# SPDX-License-Identifier: Apache-2.0
"""Images: their structure, then a decoding by Pillow, a JPEG's at an eighth of its size. Bombs are not decoded."""

from __future__ import annotations

import warnings

from keepstep.base.wording import shorten, size
from keepstep.check.data.readers.source import LARGEST_WHOLE, DataSource
from keepstep.check.data.units import ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.parse.formats.data.image_structure import wrong_with_image

MOST_PIXELS = 1 << 28
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
"""Pillow knows more, and some of it starts programs: PostScript is drawn by Ghostscript."""


def read(source: DataSource, asked: ReadRequest) -> UnitRead:
    """One image."""
    looked = UnitRead("image", records=1)
    if source.size > LARGEST_WHOLE * 4:
        looked.unread = f"an image of {size(source.size)} is not read"
        return looked
    data = b"".join(source.pieces())
    looked.protected = data.startswith(b"\x89PNG")
    if wrong := wrong_with_image(data):
        return looked.broken(Bad(wrong[0], wrong[1], offset=0))
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source.stream.seek(0)
            with Image.open(source.stream, formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    looked.unread = f"{image.width:,} x {image.height:,} pixels are not decoded"
                    return looked
                if image.format == "JPEG":
                    image.draft("L", (1, 1))
                image.load()
    except Image.DecompressionBombError as error:
        looked.unread = shorten(str(error), 120)
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError) as error:
        kind = "truncated" if "truncated" in str(error) else "corrupt"
        how = shorten(str(error), 120).replace(f" {source.stream!r}", "")
        looked.broken(Bad(kind, "it cannot be identified" if "cannot identify" in how else how, offset=0))
    return looked

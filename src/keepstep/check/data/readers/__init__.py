# SPDX-License-Identifier: Apache-2.0
"""One file per format: ``read(source, asked) -> Looked``. A module imports the format's library when it reads."""

# SPDX-License-Identifier: Apache-2.0
"""What programs print: a folder for each of them, or for its kin; a table of its messages in each file.

A file with ``SIGNATURES``, ``BLOCKS``, ``LAST_WORDS`` or ``PROGRESS`` is found by itself.
"""

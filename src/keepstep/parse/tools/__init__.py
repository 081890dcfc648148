# SPDX-License-Identifier: Apache-2.0
"""What programs print: a folder per program or family of programs, a table of messages in each file.

A file with ``SIGNATURES``, ``BLOCKS``, ``LAST_WORDS`` or ``PROGRESS`` is discovered by walking the package.
"""

# SPDX-License-Identifier: Apache-2.0
"""``keepstep watch``: a run as a page, from a server on loopback or as one file."""

# SPDX-License-Identifier: Apache-2.0
"""Assembles a dead or live run for the engine: sources, parsers, identities, one set of evidence."""

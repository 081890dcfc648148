# SPDX-License-Identifier: Apache-2.0
"""Assembles a dead or live run for the engine: from sources and parsers to one set of evidence."""

# SPDX-License-Identifier: Apache-2.0
"""Who is who, which life, which clock, who was first: from findings to one report. Pure."""

# SPDX-License-Identifier: Apache-2.0
"""Libraries, drivers and versions that do not fit."""

# SPDX-License-Identifier: Apache-2.0
"""``keepstep top``: a run in one screen of a terminal."""

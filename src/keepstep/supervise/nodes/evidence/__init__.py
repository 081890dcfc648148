# SPDX-License-Identifier: Apache-2.0
"""Evidence and messages of guards on their way between nodes."""

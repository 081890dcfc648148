# SPDX-License-Identifier: Apache-2.0
"""What can still be said about an error that no signature matches: its wording, weighed by a table of causes."""

# SPDX-License-Identifier: Apache-2.0
"""What is said about a run: on the terminal, in files, to the user's hook."""

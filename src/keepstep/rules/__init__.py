# SPDX-License-Identifier: Apache-2.0
"""The knowledge: one diagnosis a file, in a folder named after the cause's family."""

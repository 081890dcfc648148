# SPDX-License-Identifier: Apache-2.0
"""What runs in the process of the dry run, beside the user's script: it needs the script's torch alone."""

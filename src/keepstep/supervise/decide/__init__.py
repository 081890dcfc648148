# SPDX-License-Identifier: Apache-2.0
"""What to do about an attempt that failed or stopped. Pure, but for finding an older checkpoint."""

# SPDX-License-Identifier: Apache-2.0
"""What is in the data: the files of any format, and who would be fed what."""

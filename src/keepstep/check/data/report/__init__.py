# SPDX-License-Identifier: Apache-2.0
"""What comes of the results: evidence, the manifest, copies without the bad records."""

# SPDX-License-Identifier: Apache-2.0
"""What ranks show from outside while they run, and who has stopped."""

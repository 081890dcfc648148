# SPDX-License-Identifier: Apache-2.0
"""What schedulers' own clients say about a job."""

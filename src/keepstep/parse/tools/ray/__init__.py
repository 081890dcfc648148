# SPDX-License-Identifier: Apache-2.0
"""Ray and Ray Train."""

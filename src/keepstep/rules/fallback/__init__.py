# SPDX-License-Identifier: Apache-2.0
"""What can still be said when no rule names a cause: who broke first, and how."""

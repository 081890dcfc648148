# SPDX-License-Identifier: Apache-2.0
"""Programs that others wrote, unedited: a list of them, and what is needed to run them. None of their code is here."""

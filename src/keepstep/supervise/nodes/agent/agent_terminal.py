# SPDX-License-Identifier: Apache-2.0
"""The terminal of an agent: it shows what its ranks print; what it has to say itself, the leader says for all."""

from __future__ import annotations

from collections.abc import Callable

from keepstep.supervise.show.run_terminal import Terminal


class AgentTerminal(Terminal):
    """As the supervisor's, but its words travel."""

    send: Callable[[str], object] | None = None
    """Where words go; None: they are not needed."""

    def say(self, text: str) -> None:
        if self.send is not None:
            self.send(text)

    def aloud(self, text: str) -> None:
        """Here, because the leader cannot be reached, or because it is about this node alone."""
        super().say(text)

    def status(self, text: str) -> None:
        pass

"""The model is built outside the strategy's scope."""

from contextlib import nullcontext
from typing import Any


def change_scope(scope: Any) -> Any:
    return nullcontext

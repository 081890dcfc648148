"""The rank builds the model with another hidden width."""

from typing import Any


def change_model(model: Any) -> Any:
    return type(model)(width=96)

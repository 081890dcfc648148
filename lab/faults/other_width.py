"""One rank builds the model with another hidden width: its gradients have other shapes."""


def change_width(width: int) -> int:
    return width + 8

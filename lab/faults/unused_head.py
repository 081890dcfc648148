"""The training leaves a part of the model out of the loss: its parameters get no gradient."""


def change_auxiliary(used: bool) -> bool:
    return False

"""One rank builds its Keras model in double precision."""


def change_width(width: int) -> int:
    import tensorflow as tf

    tf.keras.backend.set_floatx("float64")
    return width

"""Checks of arguments that the functions written in Python share."""

from ._array import Array


def need_array(x, name):
    """Raises TypeError, naming the function, unless x is an array."""
    if not isinstance(x, Array):
        raise TypeError(f"[{name}] takes an array, got {type(x).__name__}")
    return x

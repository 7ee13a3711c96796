"""Random numbers and constants of the C ABI: the numbers of Python, and what is refused."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import mlxc as mx

UINT8, UINT32, INT32, FLOAT16, FLOAT32 = 1, 3, 7, 9, 11
SHAPE = (ctypes.c_int64 * 1)(5)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(mx.get_library()))
    for name in ("array_from_host", "array_to_host", "random_uniform", "random_normal", "constant_int"):
        getattr(library, f"mlxc_{name}").restype = ctypes.c_void_p
    library.mlxc_error_text.restype = ctypes.c_char_p
    return library


@pytest.fixture
def key(library):
    handle, words = ctypes.c_void_p(), (ctypes.c_uint32 * 2)(0, 7)
    shape = (ctypes.c_int64 * 1)(2)
    assert library.mlxc_array_from_host(words, UINT32, 1, shape, ctypes.byref(handle)) is None
    yield handle
    library.mlxc_array_release(handle)


def numbers(library, handle) -> np.ndarray:
    values = np.empty(5, np.float32)
    assert library.mlxc_array_to_host(handle, ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(20)) is None
    library.mlxc_array_release(handle)
    return values


def text_of(library, error) -> str:
    assert error is not None
    text = library.mlxc_error_text(ctypes.c_void_p(error)).decode()
    library.mlxc_error_free(ctypes.c_void_p(error))
    return text


def draw_uniform(library, key, dtype: int, scale: float, out):
    return library.mlxc_random_uniform(
        key, SHAPE, 1, dtype, ctypes.c_double(scale), ctypes.c_double(0), None, ctypes.byref(out)
    )


def test_a_key_gives_the_numbers_that_it_gives_in_python(library, key):
    out = ctypes.c_void_p()
    assert draw_uniform(library, key, FLOAT32, 1.0, out) is None
    np.testing.assert_array_equal(numbers(library, out), mx.random.uniform(shape=(5,), key=mx.random.key(7)))
    assert library.mlxc_random_normal(key, SHAPE, 1, FLOAT32, None, ctypes.byref(out)) is None
    np.testing.assert_array_equal(numbers(library, out), mx.random.normal((5,), key=mx.random.key(7)))


@pytest.mark.parametrize(
    ("dtype", "scale", "told"),
    [(FLOAT32, 3.0, "power of two"), (FLOAT16, 2.0, "scale must be 1"), (INT32, 1.0, "floating-point")],
)
def test_what_cannot_be_drawn_is_refused(library, key, dtype, scale, told):
    assert told in text_of(library, draw_uniform(library, key, dtype, scale, ctypes.c_void_p()))


def test_a_constant_that_does_not_fit_is_refused(library):
    error = library.mlxc_constant_int(ctypes.c_int64(300), UINT8, ctypes.byref(ctypes.c_void_p()))
    assert "300 does not fit" in text_of(library, error)

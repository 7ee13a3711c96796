"""Arrays seen by NumPy, by the buffer protocol and by DLPack: values, read-only sharing, lifetimes."""

import gc
import subprocess
import sys

import numpy as np
import pytest

import mlxc as mx

DTYPES = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_gets_the_same_values_and_dtype(dtype):
    a = mx.array([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    for got in (np.array(a), np.asarray(a), np.asarray(memoryview(a)), np.from_dlpack(a), a.__array__()):
        assert got.dtype == np.dtype(dtype) and got.tolist() == a.tolist()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::-2],
        lambda a: a[1:, 1:],
        lambda a: a[None],
        lambda a: a[0, 0],
        lambda a: a[:0],
        lambda a: mx.broadcast_to(a[0], (5, 4)),
    ],
)
def test_views_of_any_layout_are_exported(view):
    a = view(mx.arange(12).reshape(3, 4))
    want = np.array(a.tolist(), np.int32).reshape(a.shape)
    assert np.array_equal(np.array(a), want) and np.array_equal(np.from_dlpack(a), want)
    assert bytes(a) == want.tobytes() and memoryview(a).tobytes() == want.tobytes()


def test_numpy_copies_are_writable_and_views_are_not():
    a = mx.array([1.0, 2.0])
    copied = np.array(a)
    copied[0] = 9
    assert a.tolist() == [1, 2]
    for shared in (np.asarray(a), np.array(a, copy=False), np.from_dlpack(a)):
        assert not shared.flags.writeable
        with pytest.raises(ValueError):
            shared[0] = 9
    assert memoryview(a).readonly


def test_views_share_the_memory_and_keep_it_alive():
    a = mx.arange(1000) * 2
    view = np.array(a, copy=False)
    assert view.ctypes.data == np.asarray(a).ctypes.data
    want = view.copy()
    a[0] = 7
    del a
    gc.collect()
    junk = [mx.eval(mx.arange(1000) * 5) for _ in range(20)]
    assert np.array_equal(view, want) and junk


def test_numpy_conversion_obeys_dtype_and_copy():
    a = mx.array([1.5, 2.5])
    assert np.array(a, dtype=np.int64).tolist() == [1, 2]
    assert a.__array__(np.float64).dtype == np.float64
    assert a.__array__(copy=True).flags.writeable
    with pytest.raises(ValueError):
        np.array(a, dtype=np.float64, copy=False)


def test_to_numpy_is_the_conversion_as_a_method():
    a = mx.array([1.5, 2.5])
    assert a.to_numpy().ctypes.data == np.asarray(a).ctypes.data and not a.to_numpy().flags.writeable
    assert a.to_numpy(copy=True).flags.writeable and a.to_numpy(np.float64).dtype == np.float64
    with pytest.raises(ValueError):
        a.to_numpy(np.float64, copy=False)


def test_numpy_functions_take_arrays():
    a = mx.array([[1.0, 4.0], [9.0, 16.0]])
    assert np.allclose(np.sqrt(a), [[1, 2], [3, 4]])
    assert float(np.sum(a)) == 30 and np.array(np.sum(a, axis=0)).tolist() == [10, 20]
    assert (
        float(np.mean(a)) == 7.5 and float(np.max(a)) == 16 and float(np.std(a)) == pytest.approx(np.std(np.array(a)))
    )
    assert np.array(np.sum(a, dtype=np.int32)).dtype == np.int32
    assert np.array(np.transpose(a)).tolist() == [[1, 9], [4, 16]] and np.array(np.reshape(a, (4,))).shape == (4,)
    assert int(np.argmax(a)) == 3 and np.concatenate([a, a]).shape == (4, 2)


def test_bfloat16_goes_to_numpy_through_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = mx.array([1.5, -2.0], dtype=mx.bfloat16)
    assert np.array(a).dtype == ml_dtypes.bfloat16 and np.array(a).astype(np.float32).tolist() == [1.5, -2]
    assert np.array(a, dtype=np.float32).tolist() == [1.5, -2]
    with pytest.raises(BufferError):
        memoryview(a)


def test_writable_buffers_are_refused():
    import io

    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(b"1234").readinto(mx.zeros(4, mx.uint8))


def test_dlpack_capsules_of_both_protocols():
    a = mx.array([1, 2])
    assert a.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(a.__dlpack__(max_version=(1, 0)))
    legacy = a.__dlpack__()
    assert '"dltensor"' in repr(legacy)
    with pytest.raises(BufferError):
        a.__dlpack__(copy=False)
    with pytest.raises(BufferError):
        a.__dlpack__(dl_device=(2, 0), max_version=(1, 0))


class Legacy:
    """Offers an array the way producers did before DLPack 1.0."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def test_legacy_consumers_get_a_copy_of_their_own():
    a = mx.array([1, 2, 3])
    got = np.from_dlpack(Legacy(a))
    if got.flags.writeable:
        got[0] = 9
    assert a.tolist() == [1, 2, 3]


def test_legacy_producers_are_imported():
    assert mx.from_dlpack(Legacy(np.arange(3))).tolist() == [0, 1, 2]
    assert mx.array(Legacy(np.array([1.5]))).dtype == mx.float32


def test_dlpack_round_trip_shares_memory():
    a = np.arange(5, dtype=np.int16)
    b = np.from_dlpack(mx.from_dlpack(a))
    assert b.ctypes.data == a.ctypes.data


def test_dlpack_copy_is_obeyed():
    a = mx.array([1, 2])
    got = np.from_dlpack(a, copy=True)
    got[0] = 9
    assert a.tolist() == [1, 2]


def test_unconsumed_capsules_do_not_leak():
    before = mx.get_active_memory()
    for _ in range(50):
        a = mx.zeros((1000,)) + 1
        a.__dlpack__(max_version=(1, 0))
        a.__dlpack__()
        memoryview(a)
    del a
    assert mx.get_active_memory() <= before + 10_000


def test_torch_tensors_come_and_go():
    torch = pytest.importorskip("torch")
    t = torch.arange(6).reshape(2, 3)
    assert mx.array(t).tolist() == t.tolist() and mx.from_dlpack(t.T).tolist() == t.T.tolist()
    assert torch.from_dlpack(mx.array([1, 2])).tolist() == [1, 2]


def test_importing_brings_in_no_module_that_takes_long():
    # -S: site itself may import them. What takes long is imported where it is first needed.
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; import mlxc; print(*set(sys.modules) & set("
        "'numpy collections functools numbers typing re inspect threading dataclasses enum json'.split()))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == [], done.stdout + done.stderr


def test_ctrl_c_interrupts_a_long_evaluation():
    code = """
import os, signal, threading, time
import mlxc as mx
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
x = mx.random.normal((1500, 1500))
mx.eval(x)
y = x
for _ in range(2000):
    y = y @ x * 1e-3
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.time()
try:
    mx.eval(y)
except KeyboardInterrupt:
    raise SystemExit(0 if time.time() - start < 5 else 3)
raise SystemExit(4)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=100).returncode == 0

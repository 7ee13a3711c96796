"""export_function, exporter, import_function, export_to_dot, and the loader of programs against broken files."""

from __future__ import annotations

import ctypes
import io
import os
import struct

import numpy as np
import pytest
from fuzz import broken_copies, survive

import mlxc as mx

HEADER = 64
LIBRARY = ctypes.CDLL(mx.get_library())


def round_trip(tmp_path, fun, *args, **kwargs):
    path = tmp_path / "fun.mlxfn"
    mx.export_function(path, fun, *args, **kwargs)
    return mx.import_function(path)


def assert_same(found, expected):
    assert isinstance(found, tuple)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(np.array(a), np.array(b))


X = [[0.5, -1.0, 2.0], [3.0, 0.25, -0.125]]


# ---- what comes back ----------------------------------------------------------------------------

FUNCTIONS = {
    "element-wise": lambda x: mx.exp(-x) * 2 + mx.maximum(x, 0),
    "one output in a list": lambda x: [x + 1],
    "several": lambda x: (x, x.T, x.sum(axis=1), mx.argsort(x, axis=-1)),
    "reductions": lambda x: (mx.mean(x), mx.var(x, axis=0), mx.logsumexp(x, axis=1), mx.any(x > 0)),
    "shapes": lambda x: x.reshape(-1)[::-2].reshape(3, 1) + mx.broadcast_to(x[:1].T, (3, 4)),
    "indexing": lambda x: x[mx.array([1, 0, 1])][:, -1],
    "updates": lambda x: x.at[0].add(mx.array([1.0, 2.0, 3.0])),
    "contraction": lambda x: mx.einsum("ij,kj->ik", x, x) @ x,
    "two results": lambda x: mx.divmod(x, mx.array(0.75)),
    "constants": lambda x: x + mx.arange(3) + mx.array([[1.0], [2.0]]) + mx.zeros((2, 3)),
    "casts": lambda x: (x.astype(mx.int8), x.astype(mx.float16), x.astype(mx.complex64).conj(), x > 0),
    "random": lambda x: x + mx.random.normal(x.shape, key=mx.random.key(3)),
    "a gradient": mx.grad(lambda x: (mx.sin(x) * x).sum()),
    "compiled inside": lambda x: mx.compile(lambda t: t * 2)(x) + 1,
    "ordered": lambda x: mx.depends(x * 2, [x + 1]),
    "no use of its input": lambda x: mx.array([1, 2, 3]),
    "softmax and sort": lambda x: mx.sort(mx.softmax(x, axis=-1), axis=0),
    "convolution": lambda x: mx.conv1d(x.reshape(1, 6, 1), mx.ones((2, 3, 1)), padding=1, stride=2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_imported_function_does_the_same(tmp_path, name):
    fun, x = FUNCTIONS[name], mx.array(X)
    imported = round_trip(tmp_path, fun, x)
    for scale in (1.0, -2.0):
        assert_same(imported(x * scale), fun(x * scale))


@pytest.mark.parametrize(
    "dtype",
    [
        "bool_",
        "uint8",
        "uint64",
        "int16",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ],
)
def test_constants_and_inputs_of_every_dtype(tmp_path, dtype):
    dtype = getattr(mx, dtype)
    w = mx.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    strided, empty = w.T[::-1], mx.zeros((0, 3), dtype=dtype)
    mx.eval(strided, empty)
    imported = round_trip(tmp_path, lambda x: (mx.where(mx.equal(x, 2), x, strided), mx.concatenate([empty, x.T])), w.T)
    assert_same(imported(w.T), (strided, w))


def test_special_values_are_kept(tmp_path):
    w = mx.array([float("nan"), float("inf"), -float("inf"), -0.0])
    (found,) = round_trip(tmp_path, lambda x: mx.where(x > 0, w, w), mx.zeros(4))(mx.zeros(4))
    np.testing.assert_array_equal(np.array(found).view(np.uint32), np.array(w).view(np.uint32))


def test_arguments_by_name_in_any_order(tmp_path):
    imported = round_trip(tmp_path, lambda x, *, b, a: x + 2 * a + 3 * b, mx.array(1), b=mx.array(2), a=mx.array(3))
    x, a, b = mx.array(1), mx.array(10), mx.array(100)
    assert imported(x, a=a, b=b)[0].item() == imported(x, b=b, a=a)[0].item() == 321
    assert imported((x,), {"b": b, "a": a})[0].item() == 321
    assert imported(x, {"b": b, "a": a})[0].item() == 321


def test_a_tuple_of_arguments_is_taken_apart(tmp_path):
    imported = round_trip(tmp_path, lambda x, y: x - y, (mx.array(5), mx.array(3)))
    assert imported(mx.array(7), mx.array(3))[0].item() == 4
    assert imported([mx.array(7), mx.array(3)])[0].item() == 4


def test_the_file_outlives_nothing(tmp_path):
    path = tmp_path / "f.mlxfn"
    w = mx.arange(1000.0)
    mx.export_function(path, lambda x: x + w, mx.zeros(1000))
    imported = mx.import_function(path)
    path.write_bytes(b"gone")
    assert imported(mx.ones(1000))[0][999].item() == 1000.0


def test_metadata(tmp_path):
    path = tmp_path / "f.mlxfn"
    mx.export_function(path, lambda x: x, mx.array(1), metadata='{"größe": 1}')
    assert mx.import_function(path, return_metadata=True)[1] == '{"größe": 1}'
    mx.export_function(path, lambda x: x, mx.array(1))
    assert mx.import_function(path, return_metadata=True)[1] == ""
    with pytest.raises(TypeError):
        mx.export_function(path, lambda x: x, mx.array(1), metadata=3)


def test_transforms_of_imported_functions(tmp_path):
    def fun(x):
        return (mx.sin(x) * x).sum()

    imported = round_trip(tmp_path, fun, mx.array(X))
    x = mx.array(X)
    expected = np.array(mx.grad(fun)(x))
    np.testing.assert_allclose(np.array(mx.grad(lambda x: imported(x)[0])(x)), expected, rtol=1e-6)
    np.testing.assert_allclose(np.array(mx.compile(mx.grad(lambda x: imported(x)[0]))(x)), expected, rtol=1e-6)


def test_an_imported_function_can_be_exported(tmp_path):
    first = round_trip(tmp_path, lambda x: x * 2 + 1, mx.array([1.0]))
    second = round_trip(tmp_path, lambda x: first(x)[0] * 3, mx.array([1.0]))
    assert second(mx.array([1.0]))[0].tolist() == [9.0]


# ---- several traces, other shapes ---------------------------------------------------------------


def test_exporter_writes_several_traces(tmp_path):
    path = tmp_path / "sum.mlxfn"
    with mx.exporter(path, lambda *args: sum(args)) as export:
        for n in (1, 2, 3):
            export(*[mx.array(1)] * n)
        export(mx.array([1.0, 2.0]))
        with pytest.raises(RuntimeError, match="already"):
            export(mx.array(2))
    imported = mx.import_function(path)
    for n in (1, 2, 3):
        assert imported(*[mx.array(2)] * n)[0].item() == 2 * n
    assert imported(mx.array([3.0, 4.0]))[0].tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match=r"no trace takes \(float32\(3,\)\)"):
        imported(mx.array([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="no trace takes"):
        imported(*[mx.array(1)] * 4)
    with pytest.raises(RuntimeError, match="closed"):
        export(mx.array(1))


def test_traces_share_constants(tmp_path):
    w = mx.zeros((100, 100))
    mx.eval(w)
    path = tmp_path / "f.mlxfn"
    with mx.exporter(path, lambda x: x + w) as export:
        export(mx.zeros((100, 100)))
        export(mx.zeros((1, 100)))
    assert path.stat().st_size < 45_000


def test_a_failed_export_leaves_the_old_file(tmp_path):
    path = tmp_path / "f.mlxfn"
    mx.export_function(path, lambda x: x + 1, mx.array(1))
    before = path.read_bytes()

    def bad(x):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        mx.export_function(path, bad, mx.array(1))
    with pytest.raises(ZeroDivisionError), mx.exporter(path, lambda x: x) as export:
        export(mx.array(1))
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="outputs"):
        mx.export_function(path, lambda x: {"a": x}, mx.array(1))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["f.mlxfn"]


def test_shapeless(tmp_path):
    path = tmp_path / "f.mlxfn"
    mx.export_function(path, lambda x, y: mx.exp(x) @ y, mx.ones((2, 2)), mx.ones((2, 2)), shapeless=True)
    imported = mx.import_function(path)
    for n in (1, 2, 5):
        x, y = mx.ones((n, 3)), mx.ones((3, 4))
        assert_same(imported(x, y), mx.exp(x) @ y)
    with pytest.raises(ValueError, match="no trace"):
        imported(mx.ones(2), mx.ones((2, 2)))
    with pytest.raises(ValueError, match="matmul"):
        imported(mx.ones((2, 3)), mx.ones((2, 2)))


@pytest.mark.parametrize(
    "fun",
    [lambda x: x.reshape(4), lambda x: x * x.shape[0], mx.zeros_like, lambda x: x[:2], lambda x: x + mx.arange(4)],
)
def test_a_baked_in_shape_is_refused(tmp_path, fun):
    imported = round_trip(tmp_path, fun, mx.array([1.0, 2.0, 3.0, 4.0]), shapeless=True)
    x = mx.array([4.0, 3.0, 2.0, 1.0])
    assert_same(imported(x), fun(x))
    with pytest.raises(ValueError, match="holds for the shapes it was traced with only"):
        imported(mx.ones(5))


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [(1,), (None,), ([mx.array(1), 2],), (mx.array(1), np.zeros(2)), ({1: mx.array(1)},)])
def test_arguments_that_are_no_arrays(tmp_path, args):
    with pytest.raises(ValueError):
        mx.export_function(tmp_path / "f.mlxfn", lambda *a, **k: mx.array(1), *args)
    imported = round_trip(tmp_path, lambda x: x, mx.array(1))
    with pytest.raises(ValueError):
        imported(*args)


@pytest.mark.parametrize("result", [None, 3, {"a": 1}, [mx.array(1), 2]])
def test_results_that_are_no_arrays(tmp_path, result):
    with pytest.raises(ValueError, match="outputs"):
        mx.export_function(tmp_path / "f.mlxfn", lambda x: result, mx.array(1))


def test_files_that_cannot_be_opened(tmp_path):
    for path in (tmp_path / "none.mlxfn", tmp_path, "/dev/null" if os.path.exists("/dev/null") else tmp_path):
        with pytest.raises(OSError):
            mx.import_function(path)
    with pytest.raises(OSError):
        mx.export_function(tmp_path / "no" / "folder", lambda x: x, mx.array(1))
    with pytest.raises(OSError):
        mx.export_function(tmp_path, lambda x: x, mx.array(1))


@pytest.mark.parametrize("data", [b"", b"MLXC", b"MLXCPROG", b"x" * 1000, b"MLXCPROG" + b"\0" * 56])
def test_files_of_something_else(tmp_path, data):
    path = tmp_path / "f.mlxfn"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="program file"):
        mx.import_function(path)


def test_a_flipped_bit_anywhere_is_noticed(tmp_path):
    path = tmp_path / "f.mlxfn"
    mx.export_function(path, lambda x: x + mx.array([1.0, 2.0]), mx.array([1.0, 2.0]))
    sound = path.read_bytes()
    used = {*range(56), *range(HEADER, HEADER + struct.unpack_from("<Q", sound, 32)[0])}
    data_at = struct.unpack_from("<Q", sound, 24)[0]
    used |= set(range(data_at, data_at + 8))
    for place in used:
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 4]) + sound[place + 1 :])
        with pytest.raises(ValueError, match="program file"):
            mx.import_function(path)


def checksum(data: bytes) -> int:
    total = len(data)
    padded = data + bytes(-len(data) % 8)
    for (word,) in struct.iter_unpack("<Q", padded):
        total ^= word
        total = ((total << 29 | total >> 35) & (2**64 - 1)) * 0x9E3779B97F4A7C15 % 2**64
    return total


def mend(data: bytes) -> bytes:
    """The bytes with a header whose size and checksum are right, so that what lies behind them is looked at."""
    if len(data) < HEADER:
        return data
    head = bytearray(data[:HEADER])
    (size,) = struct.unpack_from("<Q", head, 32)
    struct.pack_into("<Q", head, 16, len(data))
    if HEADER + size <= len(data):
        struct.pack_into("<Q", head, 40, checksum(data[HEADER : HEADER + size]))
    return bytes(head) + data[HEADER:]


def take_error(error) -> None:
    if not error:
        return
    LIBRARY.mlxc_error_text.restype = ctypes.c_char_p
    code = LIBRARY.mlxc_error_code(ctypes.c_void_p(error))
    text = LIBRARY.mlxc_error_text(ctypes.c_void_p(error)).decode()
    LIBRARY.mlxc_error_free(ctypes.c_void_p(error))
    raise {1: ValueError, 5: OSError, 4: MemoryError}.get(code, RuntimeError)(text)


def read_from_memory(data: bytes) -> int:
    LIBRARY.mlxc_program_read.restype = ctypes.c_void_p
    file = ctypes.c_void_p()
    take_error(LIBRARY.mlxc_program_read(data, ctypes.c_size_t(len(data)), ctypes.byref(file)))
    LIBRARY.mlxc_program_file_count.restype = ctypes.c_size_t
    count = LIBRARY.mlxc_program_file_count(file)
    LIBRARY.mlxc_program_file_free(file)
    return count


@pytest.mark.parametrize("name", ["shapes", "constants", "convolution", "casts", "indexing", "updates"])
def test_the_loader_survives_broken_files(tmp_path, name):
    path = tmp_path / "f.mlxfn"
    mx.export_function(path, FUNCTIONS[name], mx.array(X), metadata="text")
    sound = path.read_bytes()
    assert mend(sound) == sound
    assert read_from_memory(sound) == 1
    size = HEADER + struct.unpack_from("<Q", sound, 32)[0]
    _, refused = survive(read_from_memory, broken_copies(sound, 300, 1, size))
    assert refused > 0
    done, refused = survive(lambda data: read_from_memory(mend(data)), broken_copies(sound, 1500, 2, size))
    assert done > 0
    assert refused > 0


def test_broken_programs_that_load_can_be_run(tmp_path):
    """A change that the loader lets through is another program, which must run or be refused like any."""
    path, x = tmp_path / "f.mlxfn", mx.array(X)
    mx.export_function(path, lambda t: mx.concatenate([t.T[1:], t.T]).sum(axis=0)[::-1] * 2, x)
    sound = path.read_bytes()
    size = HEADER + struct.unpack_from("<Q", sound, 32)[0]

    def run(data: bytes) -> None:
        path.write_bytes(mend(data))
        for out in mx.import_function(path)(x):
            if out.size < 1000:
                mx.eval(out)

    done, refused = survive(run, broken_copies(sound, 800, 3, size))
    assert done > 0
    assert refused > 0


# ---- telling a callback, pictures ---------------------------------------------------------------


def test_a_callback_is_told_of_the_program():
    told = []
    mx.export_function(told.append, lambda x, *, k: (x @ x + 2).reshape(4) * k, mx.ones((2, 2)), k=mx.array(1.0))
    assert [part["type"] for part in told[:4]] == ["inputs", "keyword_inputs", "outputs", "constants"]
    assert told[0]["inputs"] == [("A", (2, 2), mx.float32), ("B", (), mx.float32)]
    assert told[1]["keywords"] == [("k", "B")]
    assert [c[1].item() for c in told[3]["constants"]] == [2.0]
    steps = told[4:]
    assert [s["name"] for s in steps] == ["matmul", "add", "reshape", "multiply"]
    assert all(s["type"] == "primitive" for s in steps)
    assert steps[0]["inputs"] == [("A", (2, 2), mx.float32)] * 2
    assert steps[2]["arguments"] == [(4,)]
    assert told[2]["outputs"] == steps[3]["outputs"]
    known = {"A", "B", *(c[0] for c in told[3]["constants"])}
    for step in steps:
        assert {name for name, _, _ in step["inputs"]} <= known
        known |= {name for name, _, _ in step["outputs"]}
    with pytest.raises(ValueError, match="metadata"):
        mx.export_function(told.append, lambda x: x, mx.array(1), metadata="text")


def test_dot_of_a_graph(tmp_path):
    x, y = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
    z = mx.exp(x) + y
    text = io.StringIO()
    mx.export_to_dot(text, z, x=x, y=y)
    lines = text.getvalue().splitlines()
    assert (lines[0], lines[-1]) == ("digraph {", "}")
    assert sum('label="exp"' in line for line in lines) == sum('label="add"' in line for line in lines) == 1
    assert any(line.startswith('"x" -> ') for line in lines)
    path = tmp_path / "graph.dot"
    mx.export_to_dot(path, z)
    assert path.read_text().count(" -> ") == 5
    mx.eval(z)
    text = io.StringIO()
    mx.export_to_dot(text, z)
    assert text.getvalue() == 'digraph {\n{ rank=source; "A"; }\n}\n'


def test_dot_of_several_results_and_of_a_long_chain():
    q, r = mx.divmod(mx.array([7, 8]), mx.array([2, 3]))
    text = io.StringIO()
    mx.export_to_dot(text, q, r)
    assert text.getvalue().count('label="divmod"') == 1
    assert text.getvalue().count("rank=sink") == 2
    x = mx.array(0)
    for _ in range(100_000):
        x = x + 1
    mx.export_to_dot(io.StringIO(), x)
    with pytest.raises(TypeError):
        mx.export_to_dot(io.StringIO(), 3)

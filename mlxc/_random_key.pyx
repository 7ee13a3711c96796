# The keys that random numbers are drawn with: making and splitting them, and each thread's own sequence of them.
#
# A thread's key is held as two plain words, so that a draw without a key records no op for it and no chain of keys
# grows; only a key that was set from an array not yet computed goes through ops.
cimport cython
import threading
import time

from mlxc._args cimport to_int
from mlxc._array cimport Array, as_array, wrap
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._error cimport check
from mlxc._prim cimport alias, dims, op_random_bits, op_squeeze, slice_axis

__all__ = ["key", "seed", "split", "state"]


cdef extern from *:
    """
    /* The calling thread's ThreadKey, which its threading.local holds as long as the thread runs. */
    static _Thread_local void* mlxc_thread_key = NULL;
    """
    void* mlxc_thread_key


cdef Array make_key(uint32_t high, uint32_t low):
    cdef uint32_t[2] words = [high, low]
    cdef int64_t two = 2
    cdef mlxc_array* out = NULL
    check(mlxc_array_from_host(words, MLXC_UINT32, 1, &two, &out))
    return wrap(out)


cdef object seed_number(object seed):
    cdef object value = to_seed(seed)
    if not 0 <= value < 2**64:
        raise ValueError(f"a seed is an integer from 0 to 2**64 - 1, got {value}")
    return value


cdef object to_seed(object seed):
    try:
        return seed.__index__()
    except AttributeError:
        raise TypeError(f"a seed is an integer, got {seed!r} of type {type(seed).__name__}") from None


cdef inline uint32_t rotate(uint32_t x, int by) noexcept nogil:
    return (x << by) | (x >> (32 - by))


cdef void mix(uint32_t* key, uint32_t* x) noexcept nogil:
    """Threefry-2x32 with 20 rounds, in place: what the op random_bits does, for one pair of counters."""
    cdef uint32_t[3] keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA]
    cdef int[8] turns = [13, 15, 26, 6, 17, 29, 16, 24]
    cdef int group, i
    x[0] += keys[0]
    x[1] += keys[1]
    for group in range(5):
        for i in range(4):
            x[0] += x[1]
            x[1] = rotate(x[1], turns[4 * (group % 2) + i]) ^ x[0]
        x[0] += keys[(group + 1) % 3]
        x[1] += keys[(group + 2) % 3] + <uint32_t>(group + 1)


cdef class ThreadKey:
    """A thread's key: two words where they are known, so that drawing records nothing, else an array."""

    cdef uint32_t[2] words
    cdef Array array

    cdef Array current(self):
        return make_key(self.words[0], self.words[1]) if self.array is None else self.array

    cdef Array advance(self, mlxc_stream* s):
        """The next key to draw with, as split() makes it: the first half stays, the second is used."""
        cdef uint32_t[2] first = [0, 2]
        cdef uint32_t[2] second = [1, 3]
        if self.array is not None and not mlxc_array_is_traced(self.array.h) and mlxc_array_status(self.array.h) == 1:
            check(mlxc_array_to_host(self.array.h, self.words, 8))
            self.array = None
        if self.array is not None:
            pair = op_random_bits(self.array, (2, 2), 4, s)
            self.array = op_squeeze(slice_axis(pair, 0, 0, 1, 1, s), 0, s)
            return op_squeeze(slice_axis(pair, 0, 1, 1, 1, s), 0, s)
        mix(self.words, first)
        mix(self.words, second)
        self.words = [first[0], second[0]]
        return make_key(first[1], second[1])


@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
cdef class State:
    """The key that the calling thread's next draw without a key is made of, as a list of one array.

    Each thread has its own, which begins with the time unless seed() is called there. Item 0 can be read and set.
    """

    cdef object local

    def __cinit__(self):
        self.local = threading.local()

    cdef ThreadKey mine(self):
        global mlxc_thread_key
        cdef ThreadKey key
        if mlxc_thread_key is not NULL:
            return <ThreadKey>mlxc_thread_key
        key = getattr(self.local, "key", None)
        if key is None:
            key = self.local.key = ThreadKey()
            set_words(key, (time.time_ns() ^ (threading.get_ident() << 20)) & 0xFFFFFFFFFFFFFFFF)
        if self is state:
            mlxc_thread_key = <void*>key
        return key

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return [self.mine().current()][index]

    def __setitem__(self, index, value):
        if index not in (0, -1):
            raise IndexError(f"the random state has one item, there is no item {index}")
        cdef Array key = as_array(value)
        if mlxc_array_dtype(key.h) != MLXC_UINT32 or dims(key) != [2]:
            raise ValueError(f"a key is two uint32, got shape {tuple(dims(key))} and {key.dtype}")
        self.mine().array = alias(key)

    def __iter__(self):
        return iter([self.mine().current()])

    def __repr__(self):
        return f"[{self.mine().current()!r}]"


state = State()


cdef int set_words(ThreadKey key, object seed) except -1:
    key.words = [seed >> 32, seed & 0xFFFFFFFF]
    key.array = None
    return 0


cdef Array pick_key(object key, mlxc_stream* s):
    """The key given, or the next one of the thread."""
    if key is not None:
        return as_array(key)
    return (<State>state).mine().advance(s)


def seed(seed):
    """Restarts the calling thread's sequence of keys.

    Args:
        seed: integer from 0 to 2**64 - 1. The same seed gives the same draws.

    Raises:
        ValueError: if the seed is out of range.
        TypeError: if it is no integer.

    Example:
        >>> mx.random.seed(0)
        >>> first = mx.random.uniform()
        >>> mx.random.seed(0)
        >>> bool(mx.random.uniform() == first)
        True
    """
    set_words((<State>state).mine(), seed_number(seed))


def key(seed):
    """A key made of an integer.

    Args:
        seed: integer from 0 to 2**64 - 1.

    Returns:
        A uint32 array of shape (2,): the high and the low half.

    Raises:
        ValueError: if the seed is out of range.
        TypeError: if it is no integer.

    Example:
        >>> mx.random.key(7)
        array([0, 7], dtype=uint32)
    """
    value = seed_number(seed)
    return make_key(value >> 32, value & 0xFFFFFFFF)


def split(key, num=2, stream=None):
    """Several keys made of one.

    Args:
        key: key to split; it should not be used again.
        num: how many, 2 by default.
        stream: stream or device to compute on; None is the default.

    Returns:
        A uint32 array of shape (num, 2).

    Raises:
        ValueError: if `key` is no key or `num` is negative.

    Example:
        >>> mx.random.split(mx.random.key(0))
        array([[4146024105, 967050713],
               [2718843009, 1272950319]], dtype=uint32)
    """
    return op_random_bits(as_array(key), (to_int(num, "num"), 2), 4, to_stream(stream))

# Devices, streams and which of them is used where none is named.
#
# Called by users and, through to_stream, by every op that takes `stream=`. A stream is never freed by
# the core, so a Stream object is a plain handle that any thread may use.
cimport cython

from mlxc._capi cimport (
    MLXC_CPU, MLXC_GPU, mlxc_default_device, mlxc_default_stream, mlxc_device, mlxc_device_count,
    mlxc_device_facts, mlxc_device_get_facts, mlxc_device_kind, mlxc_error, mlxc_set_default_device,
    mlxc_set_default_stream, mlxc_set_thread_stream, mlxc_stream, mlxc_stream_device, mlxc_stream_index,
    mlxc_stream_new, mlxc_synchronize,
)
from mlxc._error cimport check
from mlxc._typename cimport name_type, set_type_attribute

from _thread import _local


@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
@cython.final
@cython.auto_pickle(False)
cdef class DeviceType:
    """A kind of device: ``mlxc.cpu`` or ``mlxc.gpu``."""

    cdef readonly str name
    cdef readonly int value

    def __init__(self):
        raise TypeError("device types are constants: use mlxc.cpu or mlxc.gpu")

    def __repr__(self):
        return f"DeviceType.{self.name}"

    def __hash__(self):
        return self.value

    def __eq__(self, other):
        if type(other) is DeviceType:
            return self is other
        return NotImplemented

    def __reduce__(self):
        return self.name


@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
@cython.final
@cython.auto_pickle(False)
cdef class Device:
    """Device(type, index=0)\n--\n
    A device: a kind and an index. Equal to the bare kind when the index is 0.

    >>> import mlxc as mx
    >>> mx.Device(mx.cpu) == mx.cpu
    True
    """

    def __init__(self, type, index: int = 0):
        if not isinstance(type, DeviceType):
            raise TypeError(f"Device takes a DeviceType such as mlxc.cpu, got {type!r}")
        if index < 0:
            raise ValueError(f"a device's index is not negative, got {index}")
        self.c.kind = (<DeviceType>type).value
        self.c.index = index

    @property
    def type(self):
        """The device's kind."""
        return device_type(self.c.kind)

    @property
    def index(self):
        """The device's number among those of its kind."""
        return self.c.index

    def __repr__(self):
        return f"Device({device_type(self.c.kind).name}, {self.c.index})"

    def __hash__(self):
        return self.c.kind + 2 * self.c.index

    def __eq__(self, other):
        cdef mlxc_device c
        if type(other) is Device:
            c = (<Device>other).c
            return c.kind == self.c.kind and c.index == self.c.index
        if type(other) is DeviceType:
            return self.c.kind == (<DeviceType>other).value and self.c.index == 0
        return NotImplemented

    def __reduce__(self):
        return Device, (device_type(self.c.kind), self.c.index)


@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
@cython.final
@cython.auto_pickle(False)
cdef class Stream:
    """A queue of work on one device, made by new_stream. Any thread may use any stream."""

    def __init__(self):
        raise TypeError("streams are made by mlxc.new_stream(device)")

    @property
    def device(self):
        """The device the queue belongs to."""
        return wrap_device(mlxc_stream_device(self.s))

    @property
    def index(self):
        """The stream's number."""
        return mlxc_stream_index(self.s)

    def __repr__(self):
        return f"Stream({self.device!r}, {self.index})"

    def __hash__(self):
        return <Py_hash_t>(<size_t>self.s >> 4)

    def __eq__(self, other):
        if type(other) is Stream:
            return self.s is (<Stream>other).s
        return NotImplemented


@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
@cython.final
@cython.auto_pickle(False)
cdef class ThreadLocalStream:
    """Stands for a stream of its own in each thread that uses it; made by new_thread_local_stream."""

    cdef mlxc_device c
    cdef object _streams

    def __init__(self):
        raise TypeError("thread-local streams are made by mlxc.new_thread_local_stream(device)")

    @property
    def device(self):
        """The device the streams belong to."""
        return wrap_device(self.c)

    def __repr__(self):
        return f"ThreadLocalStream({self.device!r})"

    cdef Stream get(self):
        found = getattr(self._streams, "stream", None)
        if found is None:
            found = self._streams.stream = make_stream(self.c)
        return <Stream>found


cdef Device wrap_device(mlxc_device c):
    cdef Device device = Device.__new__(Device)
    device.c = c
    return device


cdef Stream wrap_stream(mlxc_stream* s):
    cdef Stream stream = Stream.__new__(Stream)
    stream.s = s
    return stream


cdef Stream make_stream(mlxc_device device):
    cdef mlxc_stream* s = NULL
    check(mlxc_stream_new(device, &s))
    return wrap_stream(s)


cdef DeviceType make_type(str name, int value):
    cdef DeviceType made = DeviceType.__new__(DeviceType)
    made.name = name
    made.value = value
    set_type_attribute(DeviceType, name, made)
    return made


cpu = make_type("cpu", MLXC_CPU)
gpu = make_type("gpu", MLXC_GPU)
cdef DeviceType the_cpu = cpu
cdef DeviceType the_gpu = gpu


cdef DeviceType device_type(mlxc_device_kind kind):
    return the_cpu if kind == MLXC_CPU else the_gpu


cdef bint plugins_loaded = False


cdef int look_for_plugins() except -1:
    """A GPU was asked for and no backend has one: other packages may offer a backend."""
    global plugins_loaded
    if not plugins_loaded:
        plugins_loaded = True
        from mlxc._plugins import load_entry_points
        load_entry_points()
    return 0


cdef mlxc_device to_device(object value) except *:
    cdef mlxc_device c
    c.kind = MLXC_CPU
    c.index = 0
    if type(value) is Device:
        c = (<Device>value).c
    elif type(value) is DeviceType:
        c.kind = (<DeviceType>value).value
    elif value is None:
        return current_device()
    elif isinstance(value, str) and value in ("cpu", "gpu"):
        c.kind = MLXC_CPU if value == "cpu" else MLXC_GPU
    else:
        raise TypeError(f"a Device or DeviceType (mlxc.cpu, mlxc.gpu) is wanted, got {value!r}")
    if c.kind == MLXC_GPU and not plugins_loaded and mlxc_device_count(MLXC_GPU) == 0:
        look_for_plugins()
    return c


cdef mlxc_stream* find_stream(object value) except? NULL:
    cdef mlxc_stream* s = NULL
    if type(value) is Stream:
        return (<Stream>value).s
    if type(value) is ThreadLocalStream:
        return (<ThreadLocalStream>value).get().s
    if type(value) is Device or type(value) is DeviceType:
        check(mlxc_default_stream(to_device(value), &s))
        return s
    raise TypeError(f"stream= takes a Stream, Device, DeviceType or None, got {value!r}")


cdef mlxc_device current_device() except *:
    # The thread's stream, where one is set, decides; it is read by setting and putting it back.
    cdef mlxc_stream* mine = NULL
    check(mlxc_set_thread_stream(NULL, &mine))
    if mine is NULL:
        return mlxc_default_device()
    check(mlxc_set_thread_stream(mine, NULL))
    return mlxc_stream_device(mine)


def default_device():
    """default_device() -> Device

    The device used by ops that name none: that of the enclosing ``with stream(...)``, else the one set
    by set_default_device, else the GPU if there is one, else the CPU.
    """
    return wrap_device(current_device())


def set_default_device(device):
    """set_default_device(device: Device | DeviceType) -> None

    Changes the device used by ops that name none, for all threads. ValueError if it does not exist.
    """
    check(mlxc_set_default_device(to_device(device)))


def is_available(device):
    """is_available(device: Device | DeviceType) -> bool

    Whether a backend offers that device.

    >>> import mlxc as mx
    >>> mx.is_available(mx.cpu)
    True
    """
    cdef mlxc_device c = to_device(device)
    return c.index < mlxc_device_count(c.kind)


def device_count(device_type):
    """device_count(device_type: DeviceType) -> int

    How many devices of a kind there are.
    """
    return mlxc_device_count(to_device(device_type).kind)


def device_info(d=None):
    """device_info(d: Device | DeviceType | None = None) -> dict

    Facts on a device (default: the default one): device_name, architecture, memory_size in bytes,
    backend, features (words with spaces between). ValueError if it does not exist.
    """
    cdef mlxc_device_facts facts
    facts.struct_size = sizeof(facts)
    check(mlxc_device_get_facts(to_device(d), &facts))
    return {
        "device_name": (<bytes>facts.name).decode("utf-8", "replace"),
        "architecture": (<bytes>facts.architecture).decode("utf-8", "replace"),
        "memory_size": facts.memory_size,
        "backend": (<bytes>facts.backend).decode("utf-8", "replace"),
        "features": (<bytes>facts.features).decode("utf-8", "replace"),
    }


def default_stream(device):
    """default_stream(device: Device | DeviceType) -> Stream

    The stream that a device uses where an op names none.
    """
    cdef mlxc_stream* s = NULL
    check(mlxc_default_stream(to_device(device), &s))
    return wrap_stream(s)


def set_default_stream(stream):
    """set_default_stream(stream: Stream) -> None

    Makes a stream its device's default. The default device stays as it is.
    """
    if not isinstance(stream, (Stream, ThreadLocalStream)):
        raise TypeError(f"set_default_stream takes a Stream, got {stream!r}")
    check(mlxc_set_default_stream(find_stream(stream)))


def new_stream(device):
    """new_stream(device: Device | DeviceType) -> Stream

    Makes one more stream on a device. Streams live as long as the process; any thread may use them.
    """
    return make_stream(to_device(device))


def new_thread_unsafe_stream(device):
    """new_thread_unsafe_stream(device: Device | DeviceType) -> Stream

    The same as new_stream: every stream here may be used by any thread.
    """
    return make_stream(to_device(device))


def new_thread_local_stream(device):
    """new_thread_local_stream(device: Device | DeviceType) -> ThreadLocalStream

    Makes a handle that gives each thread a stream of its own.
    """
    cdef ThreadLocalStream made = ThreadLocalStream.__new__(ThreadLocalStream)
    made.c = to_device(device)
    made._streams = _local()
    made.get()
    return made


def clear_streams():
    """clear_streams() -> None

    Waits for the stream set in this thread and goes back to the process's default. Threads may end
    without calling it.
    """
    cdef mlxc_stream* mine = NULL
    cdef mlxc_error* error
    check(mlxc_set_thread_stream(NULL, &mine))
    if mine is not NULL:
        with nogil:
            error = mlxc_synchronize(mine)
        check(error)


def synchronize(stream=None):
    """synchronize(stream: Stream | Device | DeviceType | None = None) -> None

    Waits until all work given to a stream (default: the default one) is done. An error of that work is
    raised here.
    """
    cdef mlxc_stream* s = find_stream(stream) if stream is not None else NULL
    cdef mlxc_error* error
    with nogil:
        error = mlxc_synchronize(s)
    check(error)


@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
@cython.final
@cython.auto_pickle(False)
cdef class StreamContext:
    """StreamContext(s)\n--\n
    Context manager that makes a stream, or a device's default stream, the one this thread uses.

    >>> import mlxc as mx
    >>> with mx.stream(mx.cpu):
    ...     mx.default_device()
    Device(cpu, 0)
    """

    cdef object _target
    cdef list _previous

    def __init__(self, s):
        find_stream(s)
        self._target = s
        self._previous = []

    def __enter__(self):
        cdef mlxc_stream* before = NULL
        check(mlxc_set_thread_stream(find_stream(self._target), &before))
        self._previous.append(wrap_stream(before) if before is not NULL else None)
        return None

    def __exit__(self, *exc):
        cdef object before = self._previous.pop()
        check(mlxc_set_thread_stream((<Stream>before).s if before is not None else NULL, NULL))
        return False


def stream(s):
    """stream(s: Stream | ThreadLocalStream | Device | DeviceType) -> StreamContext

    For ``with stream(s):``, inside which the ops of this thread that name no stream use this one.
    """
    return StreamContext(s)


name_type(DeviceType, b"mlxc.DeviceType")
name_type(Device, b"mlxc.Device")
name_type(Stream, b"mlxc.Stream")
name_type(ThreadLocalStream, b"mlxc.ThreadLocalStream")
name_type(StreamContext, b"mlxc.StreamContext")

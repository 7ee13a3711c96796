# Devices and streams; see _device.pyx.
cimport cython

from mlxc._capi cimport mlxc_device, mlxc_stream

@cython.final
cdef class Device:
    cdef mlxc_device c

@cython.final
cdef class Stream:
    cdef mlxc_stream* s

cdef mlxc_stream* find_stream(object value) except? NULL
# The C stream of a Stream, ThreadLocalStream, Device or DeviceType; NULL (the default) for None.
cdef inline mlxc_stream* to_stream(object value) except? NULL:
    if value is None:
        return NULL
    return find_stream(value)
# The C device of a Device or DeviceType (None: the default one); else TypeError.
cdef mlxc_device to_device(object value) except *
# The object for a C device.
cdef Device wrap_device(mlxc_device c)

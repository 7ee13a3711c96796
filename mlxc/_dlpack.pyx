# DLPack in and out, versioned (1.x) and legacy capsules.
#
# Called by the constructor, from_dlpack and Array.__dlpack__. Arrays are immutable, so what goes out is
# marked read-only where the protocol can say so (1.x) and is a copy where it cannot (legacy capsules).
# What is handed out is always host memory.
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from libc.stdlib cimport free, malloc

from mlxc._buffer cimport COPY_ALWAYS, COPY_NEVER, Copy, can_share, host_array
from mlxc._capi cimport (
    MLXC_BFLOAT16, MLXC_BOOL, MLXC_COMPLEX64, MLXC_COMPLEX128, MLXC_FLOAT16, MLXC_FLOAT32, MLXC_FLOAT64,
    MLXC_INT8, MLXC_MAX_NDIM, MLXC_UINT8, int32_t, int64_t, mlxc_array, mlxc_array_dtype, mlxc_array_host,
    mlxc_array_ndim, mlxc_array_release, mlxc_array_retain,
    mlxc_array_shape, mlxc_array_size, mlxc_array_to_host, mlxc_array_wrap_host, mlxc_dtype,
    mlxc_dtype_size, mlxc_error, uint8_t, uint16_t, uint32_t, uint64_t,
)
from mlxc._dtype cimport dtype_object, is_complex, is_inexact, is_unsigned
from mlxc._error cimport check

cdef extern from "Python.h" nogil:
    int Py_IsInitialized()


ctypedef struct DLDevice:
    int32_t device_type
    int32_t device_id

ctypedef struct DLDataType:
    uint8_t code
    uint8_t bits
    uint16_t lanes

ctypedef struct DLTensor:
    void* data
    DLDevice device
    int32_t ndim
    DLDataType dtype
    int64_t* shape
    int64_t* strides
    uint64_t byte_offset

cdef struct DLManagedTensor:
    DLTensor dl_tensor
    void* manager_ctx
    void (*deleter)(DLManagedTensor*) noexcept nogil

cdef struct DLManagedTensorVersioned:
    uint32_t major
    uint32_t minor
    void* manager_ctx
    void (*deleter)(DLManagedTensorVersioned*) noexcept nogil
    uint64_t flags
    DLTensor dl_tensor

cdef enum:
    DL_INT = 0
    DL_UINT = 1
    DL_FLOAT = 2
    DL_BFLOAT = 4
    DL_COMPLEX = 5
    DL_BOOL = 6
    DL_CPU = 1
    DL_CUDA_HOST = 3
    DL_CUDA_MANAGED = 13
    FLAG_READ_ONLY = 1
    FLAG_COPIED = 2


# ---- in -----------------------------------------------------------------------------------------

cdef int dlpack_dtype(DLDataType d) except -1:
    cdef int size = d.bits // 8
    if d.lanes == 1:
        if d.code == DL_BOOL and d.bits == 8:
            return MLXC_BOOL
        if d.code == DL_INT or d.code == DL_UINT:
            base = MLXC_INT8 if d.code == DL_INT else MLXC_UINT8
            if size in (1, 2, 4, 8):
                return base + (0 if size == 1 else 1 if size == 2 else 2 if size == 4 else 3)
        if d.code == DL_FLOAT and size in (2, 4, 8):
            return MLXC_FLOAT16 if size == 2 else MLXC_FLOAT32 if size == 4 else MLXC_FLOAT64
        if d.code == DL_BFLOAT and size == 2:
            return MLXC_BFLOAT16
        if d.code == DL_COMPLEX and size in (8, 16):
            return MLXC_COMPLEX64 if size == 8 else MLXC_COMPLEX128
    raise TypeError(f"no dtype for DLPack elements of code {d.code} with {d.bits} bits and {d.lanes} lanes")


cdef void delete_legacy(void* context) noexcept nogil:
    cdef DLManagedTensor* managed = <DLManagedTensor*>context
    if managed.deleter is not NULL and Py_IsInitialized():
        with gil:
            managed.deleter(managed)


cdef void delete_versioned(void* context) noexcept nogil:
    cdef DLManagedTensorVersioned* managed = <DLManagedTensorVersioned*>context
    if managed.deleter is not NULL and Py_IsInitialized():
        with gil:
            managed.deleter(managed)


cdef object ask_for_capsule(object value, Copy copy):
    """The producer's capsule, on the host, in the newest form it knows."""
    cdef dict wanted = {"max_version": (1, 1)}
    device = value.__dlpack_device__()
    on_host = int(device[0]) in (DL_CPU, DL_CUDA_HOST, DL_CUDA_MANAGED)
    if copy == COPY_NEVER:
        wanted["copy"] = False
    if not on_host:
        if copy == COPY_NEVER:
            raise ValueError(f"copy=False: the data is on DLPack device {tuple(device)}, not in host memory")
        wanted["dl_device"] = (DL_CPU, 0)
    try:
        return value.__dlpack__(**wanted)
    except TypeError:
        if not on_host:
            raise TypeError(f"{type(value).__name__} is not in host memory and cannot bring itself there") from None
        return value.__dlpack__()


cdef mlxc_array* dlpack_array(object value, int dtype, Copy copy, bint narrow) except NULL:
    cdef object capsule = ask_for_capsule(value, copy)
    cdef DLManagedTensor* legacy = NULL
    cdef DLManagedTensorVersioned* versioned = NULL
    cdef DLTensor* tensor
    cdef int64_t strides[32]
    cdef int64_t step = 1
    cdef int axis, source
    cdef size_t itemsize
    cdef char* data
    cdef mlxc_array* out = NULL
    cdef mlxc_error* error
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        versioned = <DLManagedTensorVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if versioned.major != 1:
            raise BufferError(f"DLPack {versioned.major}.{versioned.minor} is not understood, only 1.x")
        tensor = &versioned.dl_tensor
    elif PyCapsule_IsValid(capsule, "dltensor"):
        legacy = <DLManagedTensor*>PyCapsule_GetPointer(capsule, "dltensor")
        tensor = &legacy.dl_tensor
    else:
        raise BufferError(f"{type(value).__name__}.__dlpack__ returned no usable capsule")
    source = dlpack_dtype(tensor.dtype)
    itemsize = mlxc_dtype_size(source)
    if not 0 <= tensor.ndim <= MLXC_MAX_NDIM:
        raise ValueError(f"an array has at most {MLXC_MAX_NDIM} axes, the DLPack tensor has {tensor.ndim}")
    for axis in range(tensor.ndim - 1, -1, -1):
        strides[axis] = (tensor.strides[axis] if tensor.strides is not NULL else step) * <int64_t>itemsize
        step *= tensor.shape[axis]
    data = <char*>tensor.data + tensor.byte_offset
    if dtype < 0:
        dtype = source
        if narrow and source == MLXC_FLOAT64:
            dtype = MLXC_FLOAT32
        elif narrow and source == MLXC_COMPLEX128:
            dtype = MLXC_COMPLEX64
    if copy == COPY_ALWAYS or dtype != source or (
            copy != COPY_NEVER and not can_share(data, source, tensor.ndim, strides)):
        if copy == COPY_NEVER:
            raise ValueError(f"copy=False: {dtype_object(source).name} memory is not {dtype_object(dtype).name}")
        return host_array(data, source, dtype, tensor.ndim, tensor.shape, strides)
    if versioned is not NULL:
        error = mlxc_array_wrap_host(data, source, tensor.ndim, tensor.shape, strides, delete_versioned, versioned,
                                     &out)
        check(error)
        PyCapsule_SetName(capsule, "used_dltensor_versioned")
    else:
        error = mlxc_array_wrap_host(data, source, tensor.ndim, tensor.shape, strides, delete_legacy, legacy, &out)
        check(error)
        PyCapsule_SetName(capsule, "used_dltensor")
    return out


# ---- out ----------------------------------------------------------------------------------------

cdef struct Lent:
    mlxc_array* array
    void* copied
    int64_t shape[32]
    int64_t strides[32]
    DLManagedTensor legacy
    DLManagedTensorVersioned versioned


cdef void free_lent(Lent* lent) noexcept nogil:
    mlxc_array_release(lent.array)
    free(lent.copied)
    free(lent)


cdef void free_legacy(DLManagedTensor* managed) noexcept nogil:
    free_lent(<Lent*>managed.manager_ctx)


cdef void free_versioned(DLManagedTensorVersioned* managed) noexcept nogil:
    free_lent(<Lent*>managed.manager_ctx)


cdef void drop_capsule(object capsule) noexcept:
    """A capsule that nobody consumed still owns its tensor."""
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        free_lent(<Lent*>(<DLManagedTensorVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")).manager_ctx)
    elif PyCapsule_IsValid(capsule, "dltensor"):
        free_lent(<Lent*>(<DLManagedTensor*>PyCapsule_GetPointer(capsule, "dltensor")).manager_ctx)


cdef DLDataType describe_dtype(mlxc_dtype dtype) noexcept:
    cdef DLDataType d
    d.lanes = 1
    d.bits = <uint8_t>(8 * mlxc_dtype_size(dtype))
    if dtype == MLXC_BOOL:
        d.code = DL_BOOL
    elif dtype == MLXC_BFLOAT16:
        d.code = DL_BFLOAT
    elif is_complex(dtype):
        d.code = DL_COMPLEX
    elif is_inexact(dtype):
        d.code = DL_FLOAT
    else:
        d.code = DL_UINT if is_unsigned(dtype) else DL_INT
    return d


cdef int fill_lent(Lent* lent, bint copied) except -1:
    cdef const void* data = NULL
    cdef const int64_t* strides = NULL
    cdef mlxc_array* h = lent.array
    cdef const int64_t* shape = mlxc_array_shape(h)
    cdef int axis, ndim = mlxc_array_ndim(h)
    cdef int64_t step = 1
    cdef size_t bytes = <size_t>mlxc_array_size(h) * mlxc_dtype_size(mlxc_array_dtype(h))
    cdef mlxc_error* error
    if copied:
        lent.copied = malloc(bytes + 1)
        if lent.copied is NULL:
            raise MemoryError(f"no memory for a copy of {bytes} bytes")
        with nogil:
            error = mlxc_array_to_host(h, lent.copied, bytes)
        check(error)
        data = lent.copied
    else:
        with nogil:
            error = mlxc_array_host(h, &data, &strides)
        check(error)
    for axis in range(ndim - 1, -1, -1):
        lent.shape[axis] = shape[axis]
        lent.strides[axis] = step if strides is NULL else strides[axis]
        step *= shape[axis]
    lent.versioned.major = 1
    lent.versioned.minor = 0
    lent.versioned.manager_ctx = lent
    lent.versioned.deleter = free_versioned
    lent.versioned.flags = FLAG_COPIED if copied else FLAG_READ_ONLY
    lent.versioned.dl_tensor.data = <void*>data
    lent.versioned.dl_tensor.device.device_type = DL_CPU
    lent.versioned.dl_tensor.device.device_id = 0
    lent.versioned.dl_tensor.ndim = ndim
    lent.versioned.dl_tensor.dtype = describe_dtype(mlxc_array_dtype(h))
    lent.versioned.dl_tensor.shape = lent.shape
    lent.versioned.dl_tensor.strides = lent.strides
    lent.versioned.dl_tensor.byte_offset = 0
    lent.legacy.dl_tensor = lent.versioned.dl_tensor
    lent.legacy.manager_ctx = lent
    lent.legacy.deleter = free_legacy
    return 0


cdef object export_capsule(mlxc_array* h, object max_version, object dl_device, object copy):
    cdef bint is_versioned = max_version is not None and max_version[0] >= 1
    cdef bint copied = copy is True or not is_versioned
    cdef Lent* lent
    if dl_device is not None and tuple(dl_device) != (DL_CPU, 0):
        raise BufferError(f"arrays are exported to the host, DLPack device (1, 0), not to {tuple(dl_device)}")
    if copy is False and not is_versioned:
        raise BufferError("copy=False needs max_version=(1, 0) or newer: older capsules cannot be marked read-only")
    lent = <Lent*>malloc(sizeof(Lent))
    if lent is NULL:
        raise MemoryError()
    lent.array = mlxc_array_retain(h)
    lent.copied = NULL
    try:
        fill_lent(lent, copied)
        if is_versioned:
            return PyCapsule_New(&lent.versioned, "dltensor_versioned", drop_capsule)
        return PyCapsule_New(&lent.legacy, "dltensor", drop_capsule)
    except BaseException:
        free_lent(lent)
        raise

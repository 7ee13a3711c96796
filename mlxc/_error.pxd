# C errors as Python exceptions; see _error.pyx.
from mlxc._capi cimport mlxc_error

# Takes the error over and raises the exception of its code.
cdef int raise_error(mlxc_error* error) except -1

# 0 for NULL, else raises. Put round every C call that returns an error.
cdef inline int check(mlxc_error* error) except -1:
    if error is NULL:
        return 0
    return raise_error(error)

# For C callbacks that run Python: keeps the exception for check() to raise again, and makes the C
# error that stands for it. Call it inside an `except BaseException as exc` block.
cdef mlxc_error* keep_exception(object exc) noexcept

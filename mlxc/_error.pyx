# C errors as Python exceptions, exceptions inside C callbacks, and Ctrl-C during waits.
#
# Every other Cython module puts check() round its C calls. An exception that a Python function raises
# inside a C callback (a function given to grad, a signal handler) is kept for its thread and raised
# again, as the very same object, by the check() that receives the C error standing for it.
from cpython.exc cimport PyErr_CheckSignals

from mlxc._capi cimport (
    MLXC_ERROR_AXIS, MLXC_ERROR_INDEX, MLXC_ERROR_INTERRUPTED, MLXC_ERROR_MEMORY, MLXC_ERROR_OS,
    MLXC_ERROR_RUNTIME, MLXC_ERROR_TYPE, MLXC_ERROR_UNSUPPORTED, MLXC_ERROR_VALUE, int32_t, mlxc_code,
    mlxc_error, mlxc_error_code, mlxc_error_free, mlxc_error_make, mlxc_error_text,
    mlxc_set_interrupt_hook,
)

cdef extern from "pythread.h" nogil:
    unsigned long PyThread_get_thread_ident()

import os
import sys


class AxisError(ValueError, IndexError):
    """An axis that an array does not have. Caught by ``except ValueError`` and ``except IndexError`` alike."""

    __module__ = "mlxc"


# Exceptions raised inside callbacks, as (text of the C error that stands for them, exception), and those
# raised by signal handlers: by thread, until the C error comes back.
cdef dict kept_exceptions = {}
cdef dict kept_interrupts = {}


cdef dict op_names = {"bitcast": "view", "gather_axis": "take_along_axis", "random_bits": "random.bits",
                      "scatter_axis": "put_along_axis"}


cdef int raise_error(mlxc_error* error) except -1:
    cdef mlxc_code code = mlxc_error_code(error)
    # What C calls mlxc_vjp is vjp here; and errors of evaluation name ops, which users know by other names.
    text = (<bytes>mlxc_error_text(error)).decode("utf-8", "replace").removeprefix("mlxc_")
    head, colon, rest = text.partition(":")
    text = op_names.get(head, head) + colon + rest
    mlxc_error_free(error)
    if code == MLXC_ERROR_RUNTIME and kept_exceptions:
        kept = kept_exceptions.pop(PyThread_get_thread_ident(), None)
        if kept is not None and kept[0] in text:
            raise kept[1]
    if code == MLXC_ERROR_INTERRUPTED and kept_interrupts:
        kept = kept_interrupts.pop(PyThread_get_thread_ident(), None)
        if kept is not None:
            raise kept
    if code == MLXC_ERROR_VALUE:
        raise ValueError(text)
    if code == MLXC_ERROR_TYPE or code == MLXC_ERROR_UNSUPPORTED:
        raise TypeError(text)
    if code == MLXC_ERROR_INDEX:
        raise IndexError(text)
    if code == MLXC_ERROR_MEMORY:
        raise MemoryError(text)
    if code == MLXC_ERROR_OS:
        raise OSError(text)
    if code == MLXC_ERROR_AXIS:
        raise AxisError(text)
    if code == MLXC_ERROR_INTERRUPTED:
        raise KeyboardInterrupt(text)
    raise RuntimeError(text)


cdef mlxc_error* keep_exception(object exc) noexcept:
    cdef str words = f"an exception inside a Python callback: {type(exc).__name__}"
    cdef bytes text = words.encode("utf-8", "replace")
    kept_exceptions[PyThread_get_thread_ident()] = words, exc
    return mlxc_error_make(MLXC_ERROR_RUNTIME, text)


# Python runs signal handlers in the main thread only, so other threads need not take the GIL here.
cdef unsigned long main_thread = 0


cdef int32_t look_for_signals() noexcept nogil:
    # A function of its own takes the GIL: one with a `with gil` block takes it on every way out.
    return run_signal_handlers() if PyThread_get_thread_ident() == main_thread else 0


cdef int32_t run_signal_handlers() noexcept with gil:
    try:
        PyErr_CheckSignals()
    except BaseException as exc:
        kept_interrupts[PyThread_get_thread_ident()] = exc
        return 1
    return 0


def _note_main_thread():
    """Called at import, and in the child after a fork, where the forking thread becomes the main one."""
    global main_thread
    main_thread = PyThread_get_thread_ident()


cdef install_hook():
    global main_thread
    threading = sys.modules.get("threading")
    main_thread = threading.main_thread().ident if threading is not None else PyThread_get_thread_ident()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_note_main_thread)
    mlxc_set_interrupt_hook(look_for_signals)


install_hook()

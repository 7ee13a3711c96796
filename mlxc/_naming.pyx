# Errors name the function that was called: "[eye] ..." where an op inside eye failed.
#
# Called at import for every free function and method. A function is called through a pointer in its object; the
# pointer is replaced by one that calls the old one and, only where that raised, puts the function's name in front of
# the message. Functions that call back into the user's code are left alone: their errors are the user's.
from cpython.exc cimport PyErr_Fetch, PyErr_NormalizeException, PyErr_Restore
from cpython.object cimport PyObject

from mlxc._capi cimport mlxc_op_from_name
from mlxc._error import AxisError

ctypedef PyObject* (*rename_fn)(PyObject* function) noexcept

cdef extern from *:
    """
    #include <stddef.h>
    #define MLXC_CALLS 256
    static vectorcallfunc mlxc_calls[MLXC_CALLS];
    static PyObject* (*mlxc_rename)(PyObject*) = NULL;
    /* One function for each pointer that is replaced: each compiled module has a few of its own. */
    #define MLXC_NAMED_CALL(i)                                                                            \
      static PyObject* mlxc_named_call_##i(PyObject* f, PyObject* const* args, size_t n, PyObject* kw) { \
        PyObject* out = mlxc_calls[0x##i](f, args, n, kw);                                                \
        return out != NULL ? out : mlxc_rename(f);                                                        \
      }
    #define MLXC_HEX_DIGITS(apply, i)                                                                     \
      apply(i##0) apply(i##1) apply(i##2) apply(i##3) apply(i##4) apply(i##5) apply(i##6) apply(i##7)     \
      apply(i##8) apply(i##9) apply(i##a) apply(i##b) apply(i##c) apply(i##d) apply(i##e) apply(i##f)
    #define MLXC_HEX_NUMBERS(apply)                                                                       \
      MLXC_HEX_DIGITS(apply, 0) MLXC_HEX_DIGITS(apply, 1) MLXC_HEX_DIGITS(apply, 2)                       \
      MLXC_HEX_DIGITS(apply, 3) MLXC_HEX_DIGITS(apply, 4) MLXC_HEX_DIGITS(apply, 5)                       \
      MLXC_HEX_DIGITS(apply, 6) MLXC_HEX_DIGITS(apply, 7) MLXC_HEX_DIGITS(apply, 8)                       \
      MLXC_HEX_DIGITS(apply, 9) MLXC_HEX_DIGITS(apply, a) MLXC_HEX_DIGITS(apply, b)                       \
      MLXC_HEX_DIGITS(apply, c) MLXC_HEX_DIGITS(apply, d) MLXC_HEX_DIGITS(apply, e)                       \
      MLXC_HEX_DIGITS(apply, f)
    MLXC_HEX_NUMBERS(MLXC_NAMED_CALL)
    #define MLXC_CALL_NAME(i) mlxc_named_call_##i,
    static const vectorcallfunc mlxc_named_calls[MLXC_CALLS] = {MLXC_HEX_NUMBERS(MLXC_CALL_NAME)};

    static void mlxc_name_errors(PyObject* f, PyObject* (*rename)(PyObject*)) {
      Py_ssize_t offset = Py_TYPE(f)->tp_vectorcall_offset;
      if (!PyType_HasFeature(Py_TYPE(f), Py_TPFLAGS_HAVE_VECTORCALL) || offset <= 0) return;
      vectorcallfunc* slot = (vectorcallfunc*)(void*)((char*)f + offset);
      if (*slot == NULL) return;
      mlxc_rename = rename;
      for (int i = 0; i < MLXC_CALLS; i++) {
        if (*slot == mlxc_named_calls[i]) return; /* the same function under another name */
        if (mlxc_calls[i] == NULL) mlxc_calls[i] = *slot;
        if (mlxc_calls[i] == *slot) {
          *slot = mlxc_named_calls[i];
          return;
        }
      }
    }
    """
    void c_name_errors "mlxc_name_errors"(object function, rename_fn rename)


cdef str renamed(str text, str name):
    """The message with the function's name in place of the op's that it begins with."""
    cdef str head, rest
    if text.startswith("[") and "] " in text:
        text = text.partition("] ")[2]
    else:
        head, _, rest = text.partition(" ")
        if mlxc_op_from_name(head.removesuffix(":").encode()) != 0:
            text = rest
    return f"[{name}] {text}"


cdef PyObject* rename_error(PyObject* function) noexcept:
    cdef PyObject* kind = NULL
    cdef PyObject* error = NULL
    cdef PyObject* trace = NULL
    PyErr_Fetch(&kind, &error, &trace)
    PyErr_NormalizeException(&kind, &error, &trace)
    try:
        if error is not NULL:
            put_name(<object>error, (<object>function).__name__)
    except Exception:
        pass  # the error itself is worth more than its name
    PyErr_Restore(kind, error, trace)
    return NULL


cdef int put_name(object error, str name) except -1:
    if type(error) not in (ValueError, TypeError, IndexError, AxisError) or len(error.args) != 1:
        return 0
    text = error.args[0]
    if type(text) is str and name not in text:
        error.args = (renamed(text, name),)
    return 0


def name_errors(functions):
    """Makes the errors of compiled functions name them; other objects are passed over."""
    for function in functions:
        if type(function).__name__ == "cython_function_or_method":
            c_name_errors(function, rename_error)

# compile: functions that are called once for each kind of arguments, and from then on run as the program that was
# recorded.
#
# A call makes the key of its arguments (_call_key.pyx), looks the program up, calls it and puts the arrays that come
# out where the trace had them. State that is captured (inputs=, outputs=) is read from and written back to its
# containers round the call; while a trace runs, they hold the arrays that stand for the inputs.
import os

from cpython.mem cimport PyMem_Free, PyMem_Malloc

from mlxc._array cimport Array, wrap
from mlxc._call_key cimport CallKey, is_random_state
from mlxc._capi cimport *
from mlxc._error cimport check
from mlxc._transforms cimport Call, need_callable, rebuild
from mlxc._typename cimport name_type

cdef extern from "Python.h":
    object PyMethod_New(object function, object instance)

__all__ = ["compile", "disable_compile", "enable_compile"]

cdef bint compiling = os.environ.get("MLXC_DISABLE_COMPILE", "") in ("", "0")


# ---- results ------------------------------------------------------------------------------------

cdef class Place:
    """In the form of a result: the array of this index."""

    cdef Py_ssize_t index


cdef object describe(object tree, list arrays, str what):
    """The form of a tree, its arrays appended to `arrays`."""
    cdef Place place
    if type(tree) is Array:
        place = Place()
        place.index = len(arrays)
        arrays.append(tree)
        return place
    if type(tree) is list:
        return [describe(item, arrays, what) for item in tree]
    if isinstance(tree, tuple):
        items = [describe(item, arrays, what) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, dict):
        return {key: describe(item, arrays, what) for key, item in (<dict>tree).items()}
    if isinstance(tree, list):
        return [describe(item, arrays, what) for item in tree]
    if what is None:
        return describe([tree[0]], arrays, what) if is_random_state(tree) else tree
    if tree is None or isinstance(tree, (int, float, complex, str, bytes)):
        return tree
    raise ValueError(f"[compile] {what} must be trees of arrays or constants (None, bool, int, float, complex, str, "
                     f"bytes), but there is one of type {type(tree).__name__}")


cdef object build(object form, list arrays):
    """A tree of that form with these arrays."""
    if type(form) is Place:
        return arrays[(<Place>form).index]
    if type(form) is list:
        return [build(item, arrays) for item in <list>form]
    if isinstance(form, tuple):
        items = [build(item, arrays) for item in <tuple>form]
        return type(form)(*items) if hasattr(form, "_fields") else tuple(items)
    if type(form) is dict:
        return {key: build(item, arrays) for key, item in (<dict>form).items()}
    return form


# ---- captured state -----------------------------------------------------------------------------

cdef bint is_container(object value):
    return isinstance(value, (list, dict)) or is_random_state(value)


cdef int fill(object container, object form, list arrays) except -1:
    """Puts arrays into a container and those inside it, by the form that they had after the trace."""
    if isinstance(container, dict):
        for key, item in (<dict>form).items():
            there = (<dict>container).get(key)
            if is_container(there) and type(item) in (list, dict):
                fill(there, item, arrays)
            else:
                value = build(item, arrays)
                if value is not there:
                    (<dict>container)[key] = value
    elif isinstance(container, tuple):
        for there, item in zip(<tuple>container, <tuple>form):
            if is_container(there) or isinstance(there, tuple):
                fill(there, item, arrays)
    else:
        for i, item in enumerate(<list>form):
            there = container[i] if i < len(container) else None
            if is_container(there) and type(item) in (list, dict):
                fill(there, item, arrays)
            elif i < len(container):
                container[i] = build(item, arrays)
            else:
                container.append(build(item, arrays))
    return 0


cdef class Borrowed:
    """Captured state whose arrays are replaced by others for the time of a trace."""

    cdef list cells     # (container, key, what was there)
    cdef list keys      # (dict, its keys)
    cdef object arrays  # iterator over those to put in

    def __cinit__(self):
        self.cells = []
        self.keys = []

    cdef int take(self, object container) except -1:
        if isinstance(container, dict):
            self.keys.append((container, set(container)))
            items = list((<dict>container).items())
        elif isinstance(container, (list, tuple)):
            items = list(enumerate(container))
        else:
            items = [(0, container[0])]
        for key, value in items:
            if type(value) is Array or (isinstance(value, tuple) and holds_arrays(value)):
                if isinstance(container, tuple):
                    raise ValueError("[compile] arrays that are captured must be in a list or dict, not in a tuple, "
                                     "for new ones take their places")
                self.cells.append((container, key, value))
                container[key] = rebuild(value, self.arrays)
            elif is_container(value) or isinstance(value, tuple):
                self.take(value)
        return 0

    cdef int give_back(self, bint failed) except -1:
        """The arrays that were there before; after a failure what was added meanwhile goes."""
        for container, key, value in self.cells:
            try:
                container[key] = value
            except IndexError:
                pass  # the function made the list shorter
        if failed:
            for container, keys in self.keys:
                for key in [key for key in container if key not in keys]:
                    del container[key]
        return 0


cdef bint holds_arrays(tuple value):
    for item in value:
        if type(item) is Array or (isinstance(item, tuple) and holds_arrays(item)):
            return True
    return False


# ---- tracing ------------------------------------------------------------------------------------

cdef class Traced:
    """What a trace left."""

    cdef mlxc_program* program
    cdef size_t n_outputs
    cdef object result  # the form of what the function returned
    cdef object state   # the form of the containers in outputs=
    cdef list types     # named by the key
    cdef bint shapeless_key  # only says that the shapes belong to the key here

    def __dealloc__(self):
        mlxc_program_release(self.program)


cdef class Trace(Call):
    """The one call of the function by a trace."""

    cdef Compiled owner
    cdef tuple args
    cdef dict kwargs
    cdef Traced made

    cdef list run(self, list stand_ins):
        cdef list arrays = []
        cdef Borrowed borrowed = None
        cdef bint failed = True
        leaves = iter(stand_ins)
        args = rebuild(self.args, leaves)
        kwargs = rebuild(self.kwargs, leaves)
        if self.owner.inputs is not None:
            borrowed = Borrowed()
            borrowed.arrays = leaves
        try:
            if borrowed is not None:
                borrowed.take(self.owner.inputs)
            value = self.owner.fun(*args, **kwargs)
            self.made.result = describe(value, arrays, "the outputs of a compiled function")
            if self.owner.outputs is not None:
                self.made.state = describe(self.owner.outputs, arrays, None)
            failed = False
        finally:
            if borrowed is not None:
                borrowed.give_back(failed)
        return arrays


cdef class Compiled:
    """A function that compile() made of another one."""

    cdef object fun, inputs, outputs, lock
    cdef bint shapeless
    cdef dict programs  # by key
    cdef dict __dict__
    cdef object __weakref__

    def __call__(self, /, *args, **kwargs):
        if not compiling:
            return self.fun(*args, **kwargs)
        if self.lock is None:
            return self.run(args, kwargs)
        with self.lock:
            return self.run(args, kwargs)

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __repr__(self):
        return f"<compiled {self.fun!r}>"

    cdef object run(self, tuple args, dict kwargs):
        cdef CallKey call = CallKey()
        cdef Traced traced
        self.describe_call(call, args, kwargs, not self.shapeless)
        traced = self.programs.get(call.key())
        if traced is None:
            traced = self.trace(call, args, kwargs)
        if traced.shapeless_key:
            self.describe_call(call, args, kwargs, True)
            traced = self.programs.get(call.key())
            if traced is None:
                traced = self.trace(call, args, kwargs)
        return self.apply(traced, call)

    cdef int describe_call(self, CallKey call, tuple args, dict kwargs, bint shapes) except -1:
        call.restart(shapes)
        call.add(args)
        call.add(kwargs)
        if self.inputs is not None:
            call.add_state(self.inputs)
        return 0

    cdef Traced trace(self, CallKey call, tuple args, dict kwargs):
        cdef Trace trace = Trace()
        cdef Traced made = Traced(), exact
        cdef mlxc_error* error
        cdef mlxc_program_facts facts
        trace.owner, trace.args, trace.kwargs, trace.made = self, args, kwargs, made
        with nogil:
            error = mlxc_program_make(&trace.closure, call.arrays, call.n_arrays,
                                      0 if call.shapes else MLXC_PROGRAM_SHAPELESS, &made.program)
        check(error)
        facts.struct_size = sizeof(facts)
        check(mlxc_program_get_facts(made.program, &facts))
        made.n_outputs = facts.n_outputs
        made.types = call.types
        if facts.borrows:
            return made
        key = call.key()
        if not call.shapes and facts.fixed[0] != 0:
            # It holds for these shapes only, as a trace whose shapes are in the key.
            exact = Traced()
            exact.shapeless_key = True
            exact.types = call.types
            self.programs[key] = exact
            call.restart(True)
            self.add_arguments(call, trace)
            key = call.key()
        self.programs[key] = made
        return made

    cdef int add_arguments(self, CallKey call, Trace trace) except -1:
        call.add(trace.args)
        call.add(trace.kwargs)
        if self.inputs is not None:
            call.add_state(self.inputs)
        return 0

    cdef object apply(self, Traced traced, CallKey call):
        cdef mlxc_array* few[8]
        cdef mlxc_array** made = few
        cdef size_t i, n = traced.n_outputs
        cdef list arrays
        if n == 1 and type(traced.result) is Place:
            check(mlxc_program_call(traced.program, call.arrays, call.n_arrays, NULL, made, 1))
            return wrap(few[0])
        if n > 8:
            made = <mlxc_array**>PyMem_Malloc(n * sizeof(mlxc_array*))
            if made is NULL:
                raise MemoryError
        try:
            check(mlxc_program_call(traced.program, call.arrays, call.n_arrays, NULL, made, n))
            arrays = [wrap(made[i]) for i in range(n)]
        finally:
            if made is not few:
                PyMem_Free(made)
        if self.outputs is not None:
            fill(self.outputs, traced.state, arrays)
        return build(traced.result, arrays)


name_type(Compiled, "mlxc.CompiledFunction")


cdef object checked_state(object state, str name):
    if state is not None and not (is_container(state) or isinstance(state, tuple)):
        raise TypeError(f"[compile] {name} is a list or dict of arrays, got {type(state).__name__}")
    return state


def compile(fun, inputs=None, outputs=None, shapeless=False):
    """A function that runs as one program what another one records.

    The function is called once for each kind of arguments: their structure, the shapes and dtypes of the arrays in
    them, and every other value. What it does beside computing happens then only. Arrays that it uses beside its
    arguments are constants. Works with all transforms in any order. MLXC_DISABLE_COMPILE=1 in the environment switches
    it off.

    Args:
        fun: function of trees (nested dict, list, tuple) of arrays and constants (None, bool, int, float, complex, str,
            bytes, Dtype) that returns such a tree.
        inputs: list or dict (or tree of these) of arrays that the function reads beside its arguments; their values of
            the moment are used at each call. `mlxc.random.state` may be among them.
        outputs: list or dict of arrays that the function changes; the new arrays are put there after each call.
        shapeless: True to use a trace for other shapes too, as far as numbers of axes are equal. Where the function
            asks for sizes, or has an op to a fixed size, it is traced again for each shape as without it.

    Returns:
        A function of the same arguments.

    Raises:
        ValueError: on call, if an argument or result is neither array nor constant, or the function evaluates an array.
        TypeError: if `fun` is not callable, or `inputs` or `outputs` are no containers.

    Example:
        >>> f = mx.compile(lambda x: mx.exp(-x) + 1)
        >>> f(mx.array([0.0]))
        array([2], dtype=float32)
    """
    cdef Compiled made = Compiled()
    made.fun = need_callable(fun, "compile")
    made.inputs = checked_state(inputs, "inputs")
    made.outputs = checked_state(outputs, "outputs")
    made.shapeless = bool(shapeless)
    made.programs = {}
    if inputs is not None or outputs is not None:
        # The containers hold other arrays while a trace runs: no other call may see them then.
        from _thread import RLock
        made.lock = RLock()
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        if hasattr(fun, name):
            setattr(made, name, getattr(fun, name))
    made.__wrapped__ = fun
    return made


def disable_compile():
    """Makes compiled functions call the functions they were made of, in the whole process.

    Example:
        >>> mx.disable_compile()
        >>> mx.compile(lambda x: x.item())(mx.array(3))
        3
        >>> mx.enable_compile()
    """
    global compiling
    compiling = False


def enable_compile():
    """Makes compiled functions run as programs again, after disable_compile() or with MLXC_DISABLE_COMPILE=1.

    Example:
        >>> mx.enable_compile()
        >>> mx.compile(lambda x: x + 1)(mx.array(3))
        array(4, dtype=int32)
    """
    global compiling
    compiling = True

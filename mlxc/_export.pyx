# Functions as files: export_function, exporter, import_function, and export_to_dot.
#
# A traced function is a program of the C library, which writes and reads it; here are only the Python forms of
# arguments and results. A function is exported for arguments that are arrays by place and by name.
from cpython.mem cimport PyMem_Free, PyMem_Malloc

from mlxc._array cimport Array, wrap
from mlxc._capi cimport *
from mlxc._dtype cimport dtype_object
from mlxc._error cimport check, keep_exception
from mlxc._transforms cimport ArrayList, Call, drop_handles, need_callable, take_handles
from mlxc._typename cimport name_type

__all__ = ["FunctionExporter", "export_function", "export_to_dot", "exporter", "import_function"]


# ---- arguments ----------------------------------------------------------------------------------

cdef tuple split_arguments(tuple args, dict kwargs, str name):
    """(list of arrays, dict of arrays) of a call in either form: arrays, or one sequence and one dict of them."""
    cdef list positional = list(args)
    cdef dict named = dict(kwargs)
    if len(positional) in (1, 2) and isinstance(positional[len(positional) - 1], dict):
        named.update(positional.pop())
    if len(positional) == 1 and isinstance(positional[0], (list, tuple)):
        positional = list(positional[0])
    for value in (*positional, *named.values()):
        if type(value) is not Array:
            raise ValueError(f"[{name}] inputs are arrays, by place and by name, or one tuple and one dict of arrays; "
                             f"got {type(value).__name__}")
    for key in named:
        if not isinstance(key, str):
            raise ValueError(f"[{name}] the names of inputs are strings, got {key!r}")
    return positional, {key: named[key] for key in sorted(named, key=encoded)}


cdef bytes encoded(object text):
    # The order of names in a file is that of their bytes.
    return text.encode()


cdef class ExportCall(Call):
    cdef object fun
    cdef Py_ssize_t n_positional
    cdef list keywords

    cdef list run(self, list stand_ins):
        value = self.fun(*stand_ins[:self.n_positional],
                         **dict(zip(self.keywords, stand_ins[self.n_positional:], strict=True)))
        if type(value) is Array:
            return [value]
        if not isinstance(value, (list, tuple)) or not all([type(item) is Array for item in value]):
            raise ValueError("[export_function] the function's outputs are an array, or a tuple or list of arrays; "
                             f"got {type(value).__name__}")
        return list(value)


cdef class Exported:
    """One trace, with the names of its inputs."""

    cdef mlxc_program* program
    cdef Py_ssize_t n_positional
    cdef list keywords
    cdef list encoded    # the names as bytes, which the C library reads
    cdef object signature

    def __dealloc__(self):
        mlxc_program_release(self.program)


cdef Exported trace(object fun, tuple args, dict kwargs, bint shapeless):
    cdef ExportCall call = ExportCall()
    cdef Exported made = Exported()
    cdef mlxc_array** handles
    cdef mlxc_error* error
    cdef size_t n
    positional, named = split_arguments(args, kwargs, "export_function")
    arrays = [*positional, *named.values()]
    call.fun, call.n_positional, call.keywords = fun, len(positional), list(named)
    n = len(arrays)
    handles = take_handles(arrays)
    try:
        with nogil:
            error = mlxc_program_make(&call.closure, handles, n, MLXC_PROGRAM_SHAPELESS if shapeless else 0,
                                      &made.program)
        check(error)
    finally:
        drop_handles(handles)
    made.n_positional, made.keywords = call.n_positional, call.keywords
    made.encoded = [key.encode() for key in call.keywords]
    made.signature = (len(positional), tuple(named),
                      tuple([(a.dtype.code, a.ndim if shapeless else a.shape) for a in arrays]))
    return made


cdef int write_file(object file, list traces, str metadata) except -1:
    import os
    cdef bytes path = os.fsencode(file)
    cdef bytes text = (metadata or "").encode()
    cdef mlxc_program_trace* c = <mlxc_program_trace*>PyMem_Malloc((len(traces) + 1) * sizeof(mlxc_program_trace))
    cdef const char** names = NULL
    cdef const char* c_path = path
    cdef const char* c_text = text
    cdef size_t i, n = len(traces), k, n_names = 0
    cdef Exported each
    cdef mlxc_error* error
    if b"\0" in path or b"\0" in text:
        raise ValueError("[export_function] neither the file's name nor the metadata may hold a zero byte")
    for each in traces:
        n_names += len(each.encoded)
    names = <const char**>PyMem_Malloc((n_names + 1) * sizeof(char*))
    try:
        if c is NULL or names is NULL:
            raise MemoryError
        k = 0
        for i in range(n):
            each = traces[i]
            c[i].struct_size = sizeof(mlxc_program_trace)
            c[i].program = each.program
            c[i].n_positional = each.n_positional
            c[i].keywords = names + k
            for name in each.encoded:
                names[k] = <bytes>name
                k += 1
        with nogil:
            error = mlxc_program_save(c_path, c, n, c_text)
        check(error)
    finally:
        PyMem_Free(c)
        PyMem_Free(names)
    return 0


# ---- exporting ----------------------------------------------------------------------------------

cdef class FunctionExporter:
    """Exports traces of one function into a file: call it once for each kind of arguments. See exporter()."""

    cdef object file, fun
    cdef str metadata
    cdef bint shapeless, closed
    cdef list traces

    def __call__(self, /, *args, **kwargs):
        cdef Exported made
        if self.closed:
            raise RuntimeError("[export_function] the exporter is closed")
        made = trace(self.fun, args, kwargs, self.shapeless)
        for other in self.traces:
            if (<Exported>other).signature == made.signature:
                raise RuntimeError("[export_function] the function is exported for these arguments already")
        self.traces.append(made)

    def close(self):
        """Writes the file. After this the exporter takes no more traces."""
        if not self.closed:
            write_file(self.file, self.traces, self.metadata)
            self.closed = True

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        if exc_type is None:
            self.close()
        self.closed = True


name_type(FunctionExporter, "mlxc.FunctionExporter")


def exporter(file, fun, *, shapeless=False, metadata=None):
    """Exports several traces of one function into one file, which import_function() reads.

    Used as a context manager: call what it gives once for each kind of arguments. The file is written at the end, in
    one step; if an exception comes first it is not touched.

    Args:
        file: path of the file.
        fun: function of arrays that returns an array, or a tuple or list of arrays.
        shapeless: True to let the traces be called with arrays of other shapes, as far as numbers of axes are equal
            and the function does not depend on the shapes it was traced with.
        metadata: a string to keep with it.

    Returns:
        A FunctionExporter.

    Raises:
        ValueError: on call, if arguments or results are no arrays.
        RuntimeError: on call, for arguments like those of an earlier call, or after the end.
        OSError: if the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> file = os.path.join(tempfile.mkdtemp(), "sum.mlxfn")
        >>> with mx.exporter(file, lambda *args: sum(args)) as export:
        ...     export(mx.array(1))
        ...     export(mx.array(1), mx.array(2))
        >>> mx.import_function(file)(mx.array(3), mx.array(4))
        (array(7, dtype=int32),)
    """
    cdef FunctionExporter made = FunctionExporter()
    made.file, made.fun = file, need_callable(fun, "exporter")
    made.metadata = checked_metadata(metadata)
    made.shapeless = bool(shapeless)
    made.traces = []
    return made


cdef object checked_metadata(object metadata):
    if metadata is not None and not isinstance(metadata, str):
        raise TypeError(f"[export_function] metadata is a str, got {type(metadata).__name__}")
    return metadata


def export_function(file_or_callback, fun, *args, shapeless=False, metadata=None, **kwargs):
    """Writes a function to a file that import_function() reads, and programs in other languages (mlxc/program.h).

    Args:
        file_or_callback: path of the file; or a function that is told of the program piece by piece instead. It gets
            dicts whose "type" is "inputs", "keyword_inputs", "outputs", "constants" and then, for each op in order,
            "primitive" with the op's "name", "inputs", "outputs" and "arguments" (its parameters). Arrays are named
            A, B, ...; an array is described as (name, shape, dtype).
        fun: function of arrays that returns an array, or a tuple or list of arrays. Arrays that it uses beside its
            arguments are written too.
        *args: arrays to trace it with, or one tuple of arrays (and then one dict of those by name).
        shapeless: True to let the file's function be called with arrays of other shapes, as far as numbers of axes are
            equal and the function does not depend on the shapes it was traced with.
        metadata: a string to keep with it; files only.
        **kwargs: arrays that the function takes by name.

    Raises:
        ValueError: if arguments or results are no arrays, `metadata` is given with a callback, or the function holds
            something that no file can: control flow, checkpoint, a custom_function with rules, a user kernel.
        OSError: if the file cannot be written. An old file stays as it was.

    Example:
        >>> import os, tempfile
        >>> file = os.path.join(tempfile.mkdtemp(), "double.mlxfn")
        >>> mx.export_function(file, lambda x: x * 2, mx.array([1.0, 2.0]))
        >>> mx.import_function(file)(mx.array([3.0, 4.0]))
        (array([6, 8], dtype=float32),)
    """
    cdef str text = checked_metadata(metadata)
    need_callable(fun, "export_function")
    if callable(file_or_callback):
        if text is not None:
            raise ValueError("[export_function] metadata is kept in a file, there is none with a callback")
        tell(file_or_callback, trace(fun, args, kwargs, shapeless))
        return
    write_file(file_or_callback, [trace(fun, args, kwargs, shapeless)], text)


# ---- telling a callback -------------------------------------------------------------------------

cdef str letters(Py_ssize_t n):
    text = ""
    n += 1
    while n > 0:
        n -= 1
        text = chr(ord("A") + n % 26) + text
        n //= 26
    return text


cdef tuple described(mlxc_program* program, size_t index):
    cdef mlxc_program_value value
    value.struct_size = sizeof(value)
    check(mlxc_program_value_get(program, index, &value))
    return letters(index), tuple([value.shape[i] for i in range(value.ndim)]), dtype_object(value.dtype)


cdef list arguments_of(int32_t op, const void* params):
    cdef mlxc_op_param param
    cdef size_t i
    cdef list values = []
    param.struct_size = sizeof(param)
    for i in range(mlxc_op_param_count(op)):
        check(mlxc_op_param_get(op, params, i, &param))
        if param.kind == MLXC_PARAM_BOOL:
            values.append(param.integer != 0)
        elif param.kind == MLXC_PARAM_FLOAT:
            values.append(param.real)
        elif param.kind == MLXC_PARAM_DTYPE:
            values.append(dtype_object(<mlxc_dtype>param.integer))
        elif param.kind == MLXC_PARAM_LIST:
            values.append(None if param.integer < 0 else tuple([param.items[k] for k in range(param.integer)]))
        else:
            values.append(param.integer)
    return values


cdef int tell(object callback, Exported made) except -1:
    cdef mlxc_program_facts facts
    cdef mlxc_program_step_facts step
    cdef mlxc_array* constant = NULL
    cdef uint32_t value = 0
    cdef size_t i, k
    facts.struct_size = sizeof(facts)
    step.struct_size = sizeof(step)
    check(mlxc_program_get_facts(made.program, &facts))
    callback({"type": "inputs", "inputs": [described(made.program, i) for i in range(facts.n_inputs)]})
    callback({"type": "keyword_inputs", "keywords": [(key, letters(made.n_positional + i))
                                                     for i, key in enumerate(made.keywords)]})
    outputs = []
    for i in range(facts.n_outputs):
        check(mlxc_program_output_value(made.program, i, &value))
        outputs.append(described(made.program, value))
    callback({"type": "outputs", "outputs": outputs})
    constants = []
    for i in range(facts.n_constants):
        check(mlxc_program_constant(made.program, i, &constant))
        constants.append((letters(facts.n_inputs + i), wrap(constant)))
    callback({"type": "constants", "constants": constants})
    for i in range(facts.n_steps):
        check(mlxc_program_step_get(made.program, i, &step))
        callback({
            "type": "primitive",
            "name": (<bytes>mlxc_op_name(step.op)).decode(),
            "inputs": [described(made.program, step.inputs[k]) for k in range(step.n_inputs)],
            "outputs": [described(made.program, step.first_output + k) for k in range(step.n_outputs)],
            "arguments": arguments_of(step.op, step.params),
        })
    return 0


# ---- importing ----------------------------------------------------------------------------------

cdef class ImportedFunction:
    """A function that import_function() read from a file. Takes arrays, by place and by name; returns a tuple."""

    cdef mlxc_program_file* file
    cdef object path

    def __dealloc__(self):
        mlxc_program_file_free(self.file)

    def __call__(self, /, *args, **kwargs):
        cdef mlxc_array** positional = NULL
        cdef mlxc_array** named = NULL
        cdef const char** names = NULL
        cdef ArrayList outputs = ArrayList()
        cdef size_t i, n_positional, n_named
        by_place, by_name = split_arguments(args, kwargs, "import_function")
        texts = [(<str>key).encode() for key in by_name]
        n_positional, n_named = len(by_place), len(by_name)
        try:
            positional = take_handles(by_place)
            named = take_handles(list(by_name.values()))
            names = <const char**>PyMem_Malloc((n_named + 1) * sizeof(char*))
            if names is NULL:
                raise MemoryError
            for i in range(n_named):
                names[i] = <bytes>texts[i]
            check(mlxc_program_file_call(self.file, positional, n_positional, names, named, n_named, NULL, outputs.c))
        finally:
            drop_handles(positional)
            drop_handles(named)
            PyMem_Free(names)
        return tuple(outputs.take())

    def __repr__(self):
        return f"<function imported from {self.path!r}>"


name_type(ImportedFunction, "mlxc.ImportedFunction")


def import_function(file, return_metadata=False):
    """A function that export_function() or an exporter() wrote to a file.

    It is called with arrays by place and by name, or with one tuple and one dict of them, and returns a tuple of
    arrays. Gradients, vmap and compile work on it.

    Args:
        file: path of the file.
        return_metadata: True to get the metadata too.

    Returns:
        The function, or the pair of it and the metadata (a string, "" if none was written).

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is truncated, corrupt, or of another version; on call, if no trace takes the arguments.

    Example:
        >>> import os, tempfile
        >>> file = os.path.join(tempfile.mkdtemp(), "double.mlxfn")
        >>> mx.export_function(file, lambda x: x * 2, mx.array([1.0, 2.0]), metadata="twice")
        >>> double, text = mx.import_function(file, return_metadata=True)
        >>> double(mx.array([3.0, 4.0])), text
        ((array([6, 8], dtype=float32),), 'twice')
    """
    import os
    cdef ImportedFunction made = ImportedFunction()
    cdef bytes path = os.fsencode(file)
    cdef const char* c_path = path
    cdef mlxc_error* error
    if b"\0" in path:
        raise ValueError("[import_function] a file's name holds no zero byte")
    made.path = file
    with nogil:
        error = mlxc_program_load(c_path, &made.file)
    check(error)
    if return_metadata:
        return made, (<bytes>mlxc_program_file_metadata(made.file)).decode("utf-8", "replace")
    return made


# ---- pictures -----------------------------------------------------------------------------------

cdef mlxc_error* append_bytes(void* context, const void* data, size_t size) noexcept nogil:
    with gil:
        try:
            (<list>context).append((<const char*>data)[:size])
            return NULL
        except BaseException as exc:
            return keep_exception(exc)


def export_to_dot(file, *args, **kwargs):
    """Writes the graph of what is not computed yet in the DOT language of Graphviz.

    Args:
        file: path of the file, or a text file to write to.
        *args: the arrays at whose graph to look.
        **kwargs: arrays whose names are to be used where they are met. They are drawn as results too.

    Raises:
        TypeError: if an argument is no array.

    Example:
        >>> import io
        >>> text = io.StringIO()
        >>> x = mx.array(1.0)
        >>> mx.export_to_dot(text, mx.exp(x), x=x)
        >>> print(text.getvalue())
        digraph {
        { rank=source; "x"; }
        { 1 [label="exp", shape=rectangle]; }
        "x" -> 1
        { rank=sink; "A"; }
        1 -> "A"
        }
        <BLANKLINE>
    """
    cdef list arrays = [*args, *kwargs.values()], parts = []
    cdef list texts = [key.encode() for key in kwargs]
    cdef mlxc_array** handles = NULL
    cdef const char** names = NULL
    cdef size_t i, n = len(arrays), n_named = len(kwargs), first_named = len(args)
    for value in arrays:
        if type(value) is not Array:
            raise TypeError(f"[export_to_dot] takes arrays, not {type(value).__name__}")
    try:
        handles = take_handles(arrays)
        names = <const char**>PyMem_Malloc((n_named + 1) * sizeof(char*))
        if names is NULL:
            raise MemoryError
        for i in range(n_named):
            names[i] = <bytes>texts[i]
        check(mlxc_graph_dot(append_bytes, <void*>parts, handles, n, handles + first_named, names, n_named))
    finally:
        drop_handles(handles)
        PyMem_Free(names)
    text = b"".join(parts).decode()
    if hasattr(file, "write"):
        file.write(text)
        return
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)

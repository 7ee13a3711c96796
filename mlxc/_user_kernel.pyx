# User kernels: ops whose source the user brings, a text for each backend. They are in mlxc.fast.
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memset

from mlxc._array cimport as_array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport to_dtype
from mlxc._dtype import Dtype
from mlxc._error cimport check
from mlxc._transforms cimport ArrayList, drop_handles, take_handles

__all__ = ["cuda_kernel", "kernel", "metal_kernel"]


cdef class Texts:
    """C strings of a list of texts, which it keeps alive."""

    cdef list kept
    cdef const char** c

    def __cinit__(self, texts):
        self.kept = [text.encode() for text in texts]
        self.c = <const char**>PyMem_Malloc((len(self.kept) + 1) * sizeof(char*))
        if self.c is NULL:
            raise MemoryError
        for i in range(len(self.kept)):
            self.c[i] = <bytes>self.kept[i]

    def __dealloc__(self):
        PyMem_Free(self.c)


cdef list to_texts(object given, str what, str name):
    if isinstance(given, str):
        raise TypeError(f"{name}: {what} must be a sequence of names, got the str {given!r}")
    texts = list(given)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name}: {what} must be names, got {type(text).__name__}")
    return texts


cdef int to_sizes(object given, uint32_t* sizes, str what, str name) except -1:
    values = tuple(given)
    if len(values) != 3:
        raise ValueError(f"{name}: {what} must have three sizes, got {values}")
    for i in range(3):
        if not 1 <= values[i] <= 0xffffffff:
            raise ValueError(f"{name}: {what} must have sizes from 1 to 2**32 - 1, got {values}")
        sizes[i] = values[i]
    return 0


cdef mlxc_constant to_constant(object name, object value):
    cdef mlxc_constant constant
    if isinstance(value, bool):
        constant.kind = MLXC_CONSTANT_BOOL
        constant.value = value
    elif isinstance(value, int):
        constant.kind = MLXC_CONSTANT_INT
        constant.value = value
    elif isinstance(value, Dtype):
        constant.kind = MLXC_CONSTANT_DTYPE
        constant.value = to_dtype(value)
    else:
        raise TypeError(f"template argument {name} must be an int, bool or dtype, got {type(value).__name__}")
    return constant


cdef class Shapes:
    """Dtypes and shapes of the outputs, in C's arrays."""

    cdef mlxc_dtype* dtypes
    cdef int32_t* ndims
    cdef int64_t** shapes
    cdef int64_t* sizes

    def __cinit__(self, list shapes, list dtypes):
        cdef Py_ssize_t i, k, n = len(shapes), at = 0
        cdef Py_ssize_t total = sum([len(shape) for shape in shapes])
        self.dtypes = <mlxc_dtype*>PyMem_Malloc((n + 1) * sizeof(mlxc_dtype))
        self.ndims = <int32_t*>PyMem_Malloc((n + 1) * sizeof(int32_t))
        self.shapes = <int64_t**>PyMem_Malloc((n + 1) * sizeof(int64_t*))
        self.sizes = <int64_t*>PyMem_Malloc((total + 1) * sizeof(int64_t))
        if self.dtypes is NULL or self.ndims is NULL or self.shapes is NULL or self.sizes is NULL:
            raise MemoryError
        for i in range(n):
            self.dtypes[i] = to_dtype(dtypes[i])
            self.ndims[i] = len(shapes[i])
            self.shapes[i] = self.sizes + at
            for k in range(len(shapes[i])):
                self.sizes[at] = shapes[i][k]
                at += 1

    def __dealloc__(self):
        PyMem_Free(self.dtypes)
        PyMem_Free(self.ndims)
        PyMem_Free(self.shapes)
        PyMem_Free(self.sizes)


cdef class UserKernel:
    """A user kernel, made by mlxc.fast.kernel; calling it records an op."""

    cdef mlxc_user_kernel* c
    cdef readonly str name
    cdef readonly tuple input_names
    cdef readonly tuple output_names
    cdef readonly tuple backends
    cdef uint32_t shared_memory

    def __cinit__(self, str name, list input_names, list output_names, dict sources, dict headers, bint any_layout,
                  bint atomic_outputs, uint32_t shared_memory, str options):
        cdef mlxc_user_kernel_desc desc
        self.name = name
        self.input_names = tuple(input_names)
        self.output_names = tuple(output_names)
        self.backends = tuple(sources)
        self.shared_memory = shared_memory
        cdef Texts inputs = Texts(input_names), outputs = Texts(output_names), backends = Texts(list(sources))
        cdef Texts bodies = Texts(list(sources.values())), before = Texts([headers[key] for key in sources])
        cdef Texts words = Texts([name, options])
        memset(&desc, 0, sizeof(desc))
        desc.struct_size = sizeof(desc)
        desc.name = words.c[0]
        desc.n_inputs = len(input_names)
        desc.input_names = inputs.c
        desc.n_outputs = len(output_names)
        desc.output_names = outputs.c
        desc.n_sources = len(sources)
        desc.backends = backends.c
        desc.bodies = bodies.c
        desc.headers = before.c
        desc.options = words.c[1]
        desc.any_layout = any_layout
        desc.atomic_outputs = atomic_outputs
        check(mlxc_user_kernel_new(&desc, &self.c))

    def __dealloc__(self):
        mlxc_user_kernel_free(self.c)

    def __repr__(self):
        return f"<user kernel {self.name}({', '.join(self.input_names)}) for {', '.join(self.backends)}>"

    def __call__(self, *, inputs, output_shapes, output_dtypes, grid, threadgroup=(1, 1, 1), template=None,
                 init_value=None, verbose=False, stream=None):
        """Records a call of the kernel.

        Args:
            inputs: sequence of arrays or scalars, one for each input name.
            output_shapes: a shape for each output.
            output_dtypes: a dtype for each output.
            grid: three sizes; the body runs once for each point.
            threadgroup: three sizes of the groups of points that run together, where the device has such groups.
            template: pairs of a name and an int, bool or dtype, known to the body as constants and types.
            init_value: number that the outputs are filled with before the kernel runs; None leaves them unset, and
                then the kernel must write every element.
            verbose: kept for programs written for MLX; nothing is printed.
            stream: stream or device to compute on; None is the default.

        Returns:
            A list of the outputs.

        Raises:
            ValueError: if a count, a shape or a size is wrong. When the outputs are computed: if the source does not
                compile, with the compiler's words.
            TypeError: if there is no source for the stream's backend.
        """
        cdef mlxc_user_kernel_call_desc call
        cdef ArrayList outputs = ArrayList()
        cdef list shapes = [tuple(shape) if not isinstance(shape, int) else (shape,) for shape in output_shapes]
        cdef list dtypes = list(output_dtypes)
        cdef double init = 0
        cdef mlxc_stream* c_stream = to_stream(stream)
        if len(shapes) != len(self.output_names) or len(dtypes) != len(self.output_names):
            raise ValueError(f"{self.name}: has {len(self.output_names)} output(s), got {len(shapes)} shape(s) and "
                             f"{len(dtypes)} dtype(s)")
        cdef list arrays = [as_array(item) for item in inputs]
        cdef Shapes specs = Shapes(shapes, dtypes)
        cdef list pairs = list(template.items()) if isinstance(template, dict) else list(template or ())
        cdef Texts names = Texts([pair[0] for pair in pairs])
        cdef mlxc_constant* constants = <mlxc_constant*>PyMem_Malloc((len(pairs) + 1) * sizeof(mlxc_constant))
        cdef mlxc_array** handles = NULL
        if constants is NULL:
            raise MemoryError
        try:
            memset(&call, 0, sizeof(call))
            call.struct_size = sizeof(call)
            call.output_dtypes = specs.dtypes
            call.output_ndims = specs.ndims
            call.output_shapes = <const int64_t**>specs.shapes
            to_sizes(grid, call.grid, "grid", self.name)
            to_sizes(threadgroup, call.threadgroup, "threadgroup", self.name)
            call.shared_memory = self.shared_memory
            if init_value is not None:
                init = init_value
                call.init = &init
            for i in range(len(pairs)):
                constants[i] = to_constant(pairs[i][0], pairs[i][1])
            call.n_constants = len(pairs)
            call.constant_names = names.c
            call.constants = constants
            handles = take_handles(arrays)
            check(mlxc_user_kernel_call(self.c, handles, len(arrays), &call, c_stream, outputs.c))
        finally:
            drop_handles(handles)
            PyMem_Free(constants)
        return outputs.take()


def kernel(name, input_names, output_names, *, cpu=None, cuda=None, metal=None, header="", ensure_row_contiguous=True,
           atomic_outputs=False, shared_memory=0, compile_options=None):
    """An op of your own, from a source text for each backend that it is to run on.

    A text is the body of a function that runs once for each point of a grid. What it finds there, on each backend, is
    in docs/user-kernels.md; on the CPU it is C++20, compiled at first use by the C++ compiler of the machine (`CXX`,
    c++, g++ or clang++) and kept in the disk cache. The op has no gradient of its own: wrap it in `mx.custom_function`.

    Args:
        name: str, an identifier.
        input_names: sequence of str, the names by which the body knows its inputs.
        output_names: sequence of str, the names of the outputs.
        cpu, cuda, metal: str, the body for the backend, or None.
        header: str, or dict from backend name to str: text that goes before the function.
        ensure_row_contiguous: bool, whether inputs are copied into row-major order first; else the body follows
            their strides.
        atomic_outputs: bool, whether several points may write one element.
        shared_memory: int, bytes of memory that a threadgroup shares, where the backend has such groups.
        compile_options: str, further options of the backend's compiler, or None.

    Returns:
        An object to be called with `inputs=`, `output_shapes=`, `output_dtypes=`, `grid=` and further keywords (see its
        own docstring); it returns the list of outputs.

    Raises:
        ValueError: if no source is given or a name is no identifier.
        TypeError: if names or sources are no texts.

    Example:
        >>> square = mx.fast.kernel("square", ["a"], ["out"],
        ...                         cpu="out[thread_position_in_grid.x] = a[thread_position_in_grid.x] * a[0];")
        >>> square
        <user kernel square(a) for cpu>
    """
    sources = {key: text for key, text in (("cpu", cpu), ("cuda", cuda), ("metal", metal)) if text is not None}
    headers = header if isinstance(header, dict) else dict.fromkeys(sources, header)
    headers = {key: headers.get(key, "") for key in sources}
    for text in (name, *sources.values(), *headers.values(), compile_options or ""):
        if not isinstance(text, str):
            raise TypeError(f"kernel: names, sources, headers and options must be str, got {type(text).__name__}")
    if not sources:
        raise ValueError(f"{name}: a user kernel needs a source: give cpu=, cuda= or metal=")
    return UserKernel(name, to_texts(input_names, "input_names", name), to_texts(output_names, "output_names", name),
                      sources, headers, not ensure_row_contiguous, atomic_outputs, shared_memory, compile_options or "")


def metal_kernel(name, input_names, output_names, source, header="", ensure_row_contiguous=True, atomic_outputs=False,
                 compile_options=None):
    """A user kernel for the Metal backend alone: `kernel` with one source.

    Args:
        name: str, an identifier.
        input_names: sequence of str, the names of the inputs.
        output_names: sequence of str, the names of the outputs.
        source: str, the body, in the Metal shading language.
        header: str, text that goes before the function.
        ensure_row_contiguous: bool, whether inputs are copied into row-major order first.
        atomic_outputs: bool, whether several points may write one element.
        compile_options: str, further options of the compiler, or None.

    Returns:
        As `kernel`. Calling it on a stream of another backend raises TypeError.

    Raises:
        ValueError: if a name is no identifier.
        TypeError: if names or sources are no texts.

    Example:
        >>> mx.fast.metal_kernel("copy", ["a"], ["out"], "uint i = thread_position_in_grid.x; out[i] = a[i];")
        <user kernel copy(a) for metal>
    """
    return kernel(name, input_names, output_names, metal=source, header=header,
                  ensure_row_contiguous=ensure_row_contiguous, atomic_outputs=atomic_outputs,
                  compile_options=compile_options)


def cuda_kernel(name, input_names, output_names, source, header="", ensure_row_contiguous=True, shared_memory=0):
    """A user kernel for the CUDA backend alone: `kernel` with one source.

    Args:
        name: str, an identifier.
        input_names: sequence of str, the names of the inputs.
        output_names: sequence of str, the names of the outputs.
        source: str, the body, in CUDA C++.
        header: str, text that goes before the function.
        ensure_row_contiguous: bool, whether inputs are copied into row-major order first.
        shared_memory: int, bytes of memory that a threadgroup shares.

    Returns:
        As `kernel`. Calling it on a stream of another backend raises TypeError.

    Raises:
        ValueError: if a name is no identifier.
        TypeError: if names or sources are no texts.

    Example:
        >>> mx.fast.cuda_kernel("copy", ["a"], ["out"], "auto i = blockIdx.x; out[i] = a[i];")
        <user kernel copy(a) for cuda>
    """
    return kernel(name, input_names, output_names, cuda=source, header=header,
                  ensure_row_contiguous=ensure_row_contiguous, shared_memory=shared_memory)

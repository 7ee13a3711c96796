# NumPy's indexing grammar: parses a key, reads through it and writes through it.
#
# Called by Array's [] and by ArrayAt. A key becomes a plan with one entry an axis of the array (after
# None and boolean scalars have added axes): a slice, an integer or an index array. Ints are checked at
# once; index arrays are checked by the kernels when they run. Without index arrays a read is a view.
from mlxc._array cimport Array, binary_fn, rebind, wrap
from mlxc._capi cimport *
from mlxc._convert cimport convert
from mlxc._dtype cimport is_integer
from mlxc._error cimport check
from mlxc._mask cimport find_true
from mlxc._scalar cimport KIND_BOOL, KIND_INT, KIND_NONE, constant_array, plain_number, scalar_kind

cdef extern from "Python.h":
    int PyIndex_Check(object)
    long long PyLong_AsLongLongAndOverflow(object, int* overflow) except? -1
    int PySlice_Check(object)
    int PySlice_Unpack(object slice, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t* step) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t length, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t step)


# ---- parsing ------------------------------------------------------------------------------------

cdef int refuse_index(object item) except -1:
    raise IndexError(f"an index is an integer, a slice, None, ..., a boolean or an array of integers or booleans, "
                     f"got {item!r}")


cdef int64_t to_position(object item, int64_t n, int axis) except -1:
    """An integer index, made non-negative."""
    cdef int overflow = 0
    cdef int64_t i
    i = PyLong_AsLongLongAndOverflow(item if type(item) is int else item.__index__(), &overflow)
    if overflow:
        i = n
    if i < -n or i >= n:
        raise IndexError(f"index {item} is out of bounds for axis {axis} with size {n}")
    return i + n if i < 0 else i


cdef Array to_index_array(object item):
    """A list, NumPy array or Array as an index array of integers or booleans."""
    cdef Array made
    cdef mlxc_array* empty = NULL
    if type(item) is Array:
        made = <Array>item
    else:
        try:
            made = wrap(convert(item, -1, True))
        except TypeError:
            refuse_index(item)
    if is_integer(mlxc_array_dtype(made.h)) or mlxc_array_dtype(made.h) == MLXC_BOOL:
        return made
    if type(item) in (list, tuple) and mlxc_array_size(made.h) == 0:
        check(mlxc_astype(made.h, MLXC_INT32, NULL, &empty))
        return wrap(empty)
    raise IndexError(f"an index array has integers or booleans, got {made.dtype}")


cdef bint is_plain_integer(object item) noexcept:
    return type(item) is int or (type(item) is not Array and PyIndex_Check(item) and scalar_kind(item) == KIND_INT)


cdef list prepare_items(object key):
    """The key's items: ints, slices, None, ... and bools as they are, all else as index arrays."""
    cdef list out = []
    for item in (key if type(key) is tuple else (key,)):
        if item is None or item is Ellipsis or PySlice_Check(item) or is_plain_integer(item):
            out.append(item)
        elif scalar_kind(item) == KIND_BOOL:
            out.append(bool(item))
        elif scalar_kind(item) != KIND_NONE or isinstance(item, (str, bytes)):
            refuse_index(item)
        else:
            array = to_index_array(item)
            if array.ndim == 0 and mlxc_array_dtype((<Array>array).h) == MLXC_BOOL:
                array = bool(array)
            out.append(array)
    return out


cdef int axes_taken(object item) noexcept:
    if item is None or item is Ellipsis or item is True or item is False:
        return 0
    if type(item) is Array and mlxc_array_dtype((<Array>item).h) == MLXC_BOOL:
        return mlxc_array_ndim((<Array>item).h)
    return 1


cdef int add_slice(Plan* plan, object item, int64_t n) except -1:
    cdef Py_ssize_t start = 0, stop = 0, step = 1, length
    cdef int i = plan.ndim
    PySlice_Unpack(item, &start, &stop, &step)
    length = PySlice_AdjustIndices(n, &start, &stop, step)
    plan.kind[i] = SLICE
    plan.start[i] = start if length > 0 else 0
    plan.step[i] = step if length > 1 else 1
    plan.length[i] = length
    if length != n or plan.step[i] != 1:
        plan.partial = True
    plan.ndim += 1
    return 0


cdef int add_full(Plan* plan, int64_t n) except -1:
    cdef int i = plan.ndim
    plan.kind[i] = SLICE
    plan.start[i] = 0
    plan.step[i] = 1
    plan.length[i] = n
    plan.ndim += 1
    return 0


cdef int add_array(Plan* plan, list arrays, Array index, int64_t n) except -1:
    cdef int i = plan.ndim
    add_full(plan, n)
    plan.kind[i] = ARRAY
    plan.n_arrays += 1
    arrays.append(index)
    return 0


cdef Array number_array(int64_t value):
    cdef mlxc_array* out = NULL
    check(mlxc_constant_int(value, MLXC_INT32 if value <= 2147483647 else MLXC_INT64, &out))
    return wrap(out)


cdef Array one_place(bint present):
    """The index array of a boolean scalar on the axis of size one it adds: [0] or []."""
    cdef mlxc_array* out = NULL
    cdef int32_t zero = 0
    cdef int64_t n = 1 if present else 0
    check(mlxc_array_from_host(&zero, MLXC_INT32, 1, &n, &out))
    return wrap(out)


cdef int check_mask(Array mask, const int64_t* shape, int axis) except -1:
    cdef int i
    for i in range(mlxc_array_ndim(mask.h)):
        if mlxc_array_shape(mask.h)[i] != shape[axis + i]:
            raise IndexError(f"a mask of shape {mask.shape} does not fit the array: axis {axis + i} has size "
                             f"{shape[axis + i]}")
    return 0


cdef inline void start_plan(Plan* plan) noexcept:
    plan.ndim = plan.n_new = plan.n_arrays = 0
    plan.has_integers = plan.partial = plan.separated = False


cdef int make_plan(mlxc_array* h, list items, Plan* plan, list arrays) except -1:
    """Fills the plan; `arrays` gets the index arrays, in the order of their axes."""
    cdef int ndim = mlxc_array_ndim(h), taken = 0, axis = 0, i, _k
    cdef const int64_t* shape = mlxc_array_shape(h)
    cdef bint has_ellipsis = False, has_advanced = False, is_advanced, ended = False, began = False
    start_plan(plan)
    for item in items:
        taken += axes_taken(item)
        if item is Ellipsis:
            if has_ellipsis:
                raise IndexError("an index can have only one ellipsis (...)")
            has_ellipsis = True
        if type(item) is Array or type(item) is bool:
            has_advanced = True
    if taken > ndim:
        raise IndexError(f"too many indices: the array has {ndim} axes, {taken} are indexed")
    if len(items) > 32 or ndim + len(items) > 64:
        raise IndexError(f"too many indices: {len(items)} for an array of {ndim} axes")
    for item in items:
        is_advanced = has_advanced and (type(item) is Array or type(item) is bool or is_plain_integer(item))
        if is_advanced and ended:
            plan.separated = True
        if is_advanced:
            began = True
        elif began:
            ended = True
        if item is None:
            plan.new_axes[plan.n_new] = plan.ndim
            plan.n_new += 1
            add_full(plan, 1)
        elif item is Ellipsis:
            for _k in range(ndim - taken):
                add_full(plan, shape[axis])
                axis += 1
        elif type(item) is bool:
            plan.new_axes[plan.n_new] = plan.ndim
            plan.n_new += 1
            add_array(plan, arrays, one_place(item), 1)
        elif PySlice_Check(item):
            add_slice(plan, item, shape[axis])
            axis += 1
        elif type(item) is Array and mlxc_array_dtype((<Array>item).h) == MLXC_BOOL:
            check_mask(item, shape, axis)
            for places in find_true(item, "indexing with a mask"):
                add_array(plan, arrays, places, shape[axis])
                axis += 1
        elif type(item) is Array:
            add_array(plan, arrays, item, shape[axis])
            axis += 1
        elif has_advanced:
            add_array(plan, arrays, number_array(to_position(item, shape[axis], axis)), shape[axis])
            axis += 1
        else:
            i = plan.ndim
            add_full(plan, shape[axis])
            plan.kind[i] = INTEGER
            plan.start[i] = to_position(item, shape[axis], axis)
            plan.length[i] = 1
            plan.has_integers = plan.partial = True
            axis += 1
    while axis < ndim:
        add_full(plan, shape[axis])
        axis += 1
    return 0


cdef bint plan_basic(mlxc_array* h, object key, Plan* plan) except -1:
    """The plan of a key of ints, slices, None and one ellipsis, the common kind; False for any other key."""
    cdef int ndim = mlxc_array_ndim(h), taken = 0, axis = 0, i, k, _k
    cdef int n_items
    cdef bint has_ellipsis = False
    cdef const int64_t* shape = mlxc_array_shape(h)
    cdef tuple items = <tuple>key if type(key) is tuple else (key,)
    n_items = <int>len(items)
    if n_items > 32:
        return False
    for i in range(n_items):
        item = items[i]
        if type(item) is int or type(item) is slice:
            taken += 1
        elif item is Ellipsis and not has_ellipsis:
            has_ellipsis = True
        elif item is not None:
            return False
    if taken > ndim:
        raise IndexError(f"too many indices: the array has {ndim} axes, {taken} are indexed")
    start_plan(plan)
    for k in range(n_items):
        item = items[k]
        if type(item) is int:
            i = plan.ndim
            plan.kind[i] = INTEGER
            plan.start[i] = to_position(item, shape[axis], axis)
            plan.step[i] = plan.length[i] = 1
            plan.has_integers = plan.partial = True
            plan.ndim += 1
            axis += 1
        elif type(item) is slice:
            add_slice(plan, item, shape[axis])
            axis += 1
        elif item is None:
            plan.new_axes[plan.n_new] = plan.ndim
            plan.n_new += 1
            add_full(plan, 1)
        else:
            for _k in range(ndim - taken):
                add_full(plan, shape[axis])
                axis += 1
    while axis < ndim:
        add_full(plan, shape[axis])
        axis += 1
    return True


# ---- reading ------------------------------------------------------------------------------------

cdef Array add_new_axes(Array a, Plan* plan):
    cdef mlxc_array* out = NULL
    if plan.n_new == 0:
        return a
    check(mlxc_expand_dims(a.h, plan.new_axes, plan.n_new, NULL, &out))
    return wrap(out)


cdef Array take_window(Array a, Plan* plan):
    """The slices, ints as axes of size one."""
    cdef mlxc_array* out = NULL
    if not plan.partial:
        return a
    check(mlxc_slice(a.h, plan.start, plan.ndim, plan.step, plan.ndim, plan.length, plan.ndim, NULL, &out))
    return wrap(out)


cdef Array drop_integers(Array a, Plan* plan):
    cdef mlxc_array* out = NULL
    cdef int32_t axes[64]
    cdef int i, n = 0
    for i in range(plan.ndim):
        if plan.kind[i] == INTEGER:
            axes[n] = i
            n += 1
    if n == 0:
        return a
    check(mlxc_squeeze(a.h, axes, n, NULL, &out))
    return wrap(out)


cdef int index_lists(Plan* plan, list arrays, mlxc_array** handles, int32_t* axes) except -1:
    cdef int i, n = 0
    for i in range(plan.ndim):
        if plan.kind[i] == ARRAY:
            handles[n] = (<Array>arrays[n]).h
            axes[n] = i
            n += 1
    return n


cdef int axes_before(Plan* plan) noexcept:
    """How many axes of the result stand before those of the index arrays."""
    cdef int i = 0
    if plan.separated:
        return 0
    while plan.kind[i] != ARRAY:
        i += 1
    return i


cdef int broadcast_indices(Plan* plan, list arrays, int64_t* shape) except -1:
    """The shape of the index arrays together; returns how many axes it has."""
    cdef int32_t n = 0
    cdef Array index
    for index in arrays:
        try:
            check(mlxc_broadcast_shapes(n, shape, mlxc_array_ndim(index.h), mlxc_array_shape(index.h), &n, shape))
        except ValueError:
            shapes = [k.shape for k in arrays]
            raise IndexError(f"index arrays of shapes {shapes} do not broadcast together") from None
    return n


cdef Array read_plan(Array a, Plan* plan, list arrays):
    cdef mlxc_array* handles[64]
    cdef int32_t axes[64]
    cdef int64_t shape[64]
    cdef int n, n_index, before, i, total
    cdef mlxc_array* out = NULL
    cdef Array result = take_window(add_new_axes(a, plan), plan)
    if plan.n_arrays == 0:
        if plan.has_integers:
            result = drop_integers(result, plan)
        return wrap(mlxc_array_retain(a.h)) if result is a else result
    n = index_lists(plan, arrays, handles, axes)
    n_index = broadcast_indices(plan, arrays, shape)
    check(mlxc_gather(result.h, handles, n, axes, n, NULL, &out))
    result = wrap(out)
    before = axes_before(plan)
    if before == 0 or n_index == 0:
        return result
    total = n_index + plan.ndim - n
    for i in range(total):
        axes[i] = n_index + i if i < before else i - before if i < before + n_index else i
    check(mlxc_transpose(result.h, axes, total, NULL, &out))
    return wrap(out)


cdef Array get_item(Array a, object key):
    cdef Plan plan
    cdef list arrays
    cdef mlxc_array* h = a.h
    cdef mlxc_array* out = NULL
    cdef mlxc_array* row = NULL
    cdef int64_t start[32]
    cdef int64_t step[32]
    cdef int64_t length[32]
    cdef Py_ssize_t first, stop, by
    cdef int32_t zero = 0
    cdef int i, ndim = mlxc_array_ndim(h)
    # The common keys, an int, a slice or index array of the first axis, go straight to the op.
    if ndim > 0 and (type(key) is int or type(key) is slice):
        for i in range(ndim):
            start[i] = 0
            step[i] = 1
            length[i] = mlxc_array_shape(h)[i]
        if type(key) is int:
            start[0] = to_position(key, length[0], 0)
            length[0] = 1
            check(mlxc_slice(h, start, ndim, step, ndim, length, ndim, NULL, &row))
            error = mlxc_squeeze(row, &zero, 1, NULL, &out)
            mlxc_array_release(row)
            check(error)
            return wrap(out)
        PySlice_Unpack(key, &first, &stop, &by)
        length[0] = PySlice_AdjustIndices(length[0], &first, &stop, by)
        start[0] = first if length[0] > 0 else 0
        step[0] = by if length[0] > 1 else 1
        check(mlxc_slice(h, start, ndim, step, ndim, length, ndim, NULL, &out))
        return wrap(out)
    if type(key) is Array and ndim > 0 and is_integer(mlxc_array_dtype((<Array>key).h)):
        check(mlxc_gather(h, &(<Array>key).h, 1, &zero, 1, NULL, &out))
        return wrap(out)
    if plan_basic(h, key, &plan):
        return read_plan(a, &plan, None)
    arrays = []
    make_plan(h, prepare_items(key), &plan, arrays)
    return read_plan(a, &plan, arrays)


# ---- writing ------------------------------------------------------------------------------------

cdef Array to_value(object value, mlxc_dtype dtype):
    """A value to be written, in the dtype of the array."""
    cdef mlxc_array* out = NULL
    cdef int kind
    if type(value) is Array:
        if mlxc_array_dtype((<Array>value).h) == dtype:
            return <Array>value
        check(mlxc_astype((<Array>value).h, dtype, NULL, &out))
        return wrap(out)
    kind = scalar_kind(value)
    if kind != KIND_NONE:
        value = plain_number(value, kind)
        return wrap(constant_array(value, kind, dtype))
    return wrap(convert(value, dtype, True))


cdef Array fit_value(Array value, int ndim, const int64_t* shape):
    """The value with leading axes of size one dropped; ValueError if it does not broadcast to the shape."""
    cdef mlxc_array* out = NULL
    cdef int32_t axes[32]
    cdef int i, extra = 0, own = mlxc_array_ndim(value.h)
    cdef int64_t n
    while own - extra > ndim and mlxc_array_shape(value.h)[extra] == 1:
        axes[extra] = extra
        extra += 1
    for i in range(1, own - extra + 1):
        n = mlxc_array_shape(value.h)[own - i]
        if i > ndim or (n != 1 and n != shape[ndim - i]):
            raise ValueError(f"a value of shape {value.shape} does not fit the indexed shape "
                             f"{tuple([shape[k] for k in range(ndim)])}")
    if extra == 0:
        return value
    check(mlxc_squeeze(value.h, axes, extra, NULL, &out))
    return wrap(out)


cdef Array write_window(Array whole, Array window, Plan* plan):
    """`whole` (new axes added) with the slices of the plan replaced."""
    cdef mlxc_array* out = NULL
    check(mlxc_slice_update(whole.h, window.h, plan.start, plan.ndim, plan.step, plan.ndim, plan.length, plan.ndim,
                            NULL, &out))
    return wrap(out)


cdef Array spread_over_integers(Array value, Plan* plan):
    """Inserts axes of size one where the plan has ints, so that the value lines up with the array's axes."""
    cdef mlxc_array* out = NULL
    cdef int32_t axes[64]
    cdef int i, n = 0, own = mlxc_array_ndim(value.h), seen = 0, total
    if not plan.has_integers or own == 0:
        return value
    for i in range(plan.ndim - 1, -1, -1):
        if seen == own:
            break
        if plan.kind[i] == INTEGER:
            n += 1
        else:
            seen += 1
    total = own + n
    n = 0
    for i in range(total):
        if plan.kind[plan.ndim - total + i] == INTEGER:
            axes[n] = i
            n += 1
    if n == 0:
        return value
    check(mlxc_expand_dims(value.h, axes, n, NULL, &out))
    return wrap(out)


cdef int result_shape(Plan* plan, list arrays, int64_t* shape) except -1:
    """The shape that reading through the plan gives; returns its number of axes."""
    cdef int64_t index_shape[64]
    cdef int n_index = 0, before = 0, i, k, n = 0
    if plan.n_arrays > 0:
        n_index = broadcast_indices(plan, arrays, index_shape)
        before = axes_before(plan)
    for i in range(plan.ndim + 1):
        if n == before and plan.n_arrays > 0 and n_index >= 0:
            for k in range(n_index):
                shape[n] = index_shape[k]
                n += 1
            before = -1
        if i < plan.ndim and plan.kind[i] == SLICE:
            shape[n] = plan.length[i]
            n += 1
    return n


cdef Array scatter_value(Array window, Array value, Plan* plan, list arrays, int mode):
    """Combines the value into the window at the index arrays' places."""
    cdef mlxc_array* handles[64]
    cdef int32_t axes[64]
    cdef int32_t order[64]
    cdef int64_t shape[64]
    cdef int64_t index_shape[64]
    cdef int ndim, n, n_index, before, i
    cdef mlxc_array* out = NULL
    ndim = result_shape(plan, arrays, shape)
    value = fit_value(value, ndim, shape)
    n = index_lists(plan, arrays, handles, axes)
    n_index = broadcast_indices(plan, arrays, index_shape)
    before = axes_before(plan)
    if before > 0 and n_index > 0:
        check(mlxc_broadcast_to(value.h, shape, ndim, NULL, &out))
        value = wrap(out)
        for i in range(ndim):
            order[i] = before + i if i < n_index else i - n_index if i < n_index + before else i
        check(mlxc_transpose(value.h, order, ndim, NULL, &out))
        value = wrap(out)
    check(mlxc_scatter(window.h, value.h, handles, n, axes, n, mode, NULL, &out))
    return wrap(out)


cdef Array drop_new_axes(Array a, Plan* plan):
    cdef mlxc_array* out = NULL
    if plan.n_new == 0:
        return a
    check(mlxc_squeeze(a.h, plan.new_axes, plan.n_new, NULL, &out))
    return wrap(out)


cdef Array write_plan(Array a, Array value, Plan* plan, list arrays, int mode):
    """`a` with the value written (mode 0) or combined in (the scatter modes) at the plan's places."""
    cdef int64_t shape[64]
    cdef int ndim
    cdef Array whole = add_new_axes(a, plan), window
    if plan.n_arrays > 0:
        window = scatter_value(take_window(whole, plan), value, plan, arrays, mode)
        if plan.partial:
            window = write_window(whole, window, plan)
        return drop_new_axes(window, plan)
    ndim = result_shape(plan, arrays, shape)
    value = spread_over_integers(fit_value(value, ndim, shape), plan)
    return drop_new_axes(write_window(whole, value, plan), plan)


cdef Array find_mask(object items, Array a):
    """The mask of a key that is one mask (and perhaps an ellipsis after it), else None."""
    if len(items) == 0 or len(items) > 2 or (len(items) == 2 and items[1] is not Ellipsis):
        return None
    if type(items[0]) is not Array or mlxc_array_dtype((<Array>items[0]).h) != MLXC_BOOL:
        return None
    if mlxc_array_ndim((<Array>items[0]).h) > mlxc_array_ndim(a.h):
        return None
    check_mask(items[0], mlxc_array_shape(a.h), 0)
    return <Array>items[0]


cdef Array choose_by_mask(Array a, Array mask, Array value, binary_fn combine):
    """where(mask, value, a), if the value is the same for every true place of the mask; else None. With
    `combine` (may be NULL), the value is first combined with the elements of a."""
    cdef mlxc_array* out = NULL
    cdef int32_t axes[32]
    cdef int rest = mlxc_array_ndim(a.h) - mlxc_array_ndim(mask.h), i
    if mlxc_array_ndim(value.h) > rest:
        return None
    value = fit_value(value, rest, mlxc_array_shape(a.h) + mlxc_array_ndim(mask.h))
    if rest > 0:
        for i in range(rest):
            axes[i] = mlxc_array_ndim(mask.h) + i
        check(mlxc_expand_dims(mask.h, axes, rest, NULL, &out))
        mask = wrap(out)
    if combine is not NULL:
        check(combine(a.h, value.h, NULL, &out))
        value = wrap(out)
        value = to_value(value, mlxc_array_dtype(a.h))
    check(mlxc_where(mask.h, value.h, a.h, NULL, &out))
    return wrap(out)


cdef int set_item(Array a, object key, object value) except -1:
    cdef Plan plan
    cdef list arrays = [], items
    cdef Array written = to_value(value, mlxc_array_dtype(a.h)), result = None, mask
    if plan_basic(a.h, key, &plan):
        result = write_plan(a, written, &plan, arrays, 0)
        rebind(a, mlxc_array_retain(result.h))
        return 0
    items = prepare_items(key)
    mask = find_mask(items, a)
    if mask is not None:
        result = choose_by_mask(a, mask, written, NULL)
    if result is None:
        make_plan(a.h, items, &plan, arrays)
        result = write_plan(a, written, &plan, arrays, 0)
    rebind(a, mlxc_array_retain(result.h))
    return 0

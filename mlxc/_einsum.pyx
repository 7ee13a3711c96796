# Einstein summation: the subscripts are read, an order of pairwise contractions is chosen, and each pair becomes one
# matrix product (or one multiplication where nothing is summed). Sizes of one broadcast, as in NumPy.
#
# A term is an operand with one label for each axis: a letter, or a number for an axis under the ellipsis (counted from
# the end, so that operands with different numbers of them line up).
cimport cython
from libc.string cimport memcmp

from mlxc._args cimport Axes, Shape
from mlxc._array cimport Array, as_array, wrap
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._error cimport check
from mlxc._prim cimport alias, cast, dims, op_matmul, op_multiply, reshaped, transposed

from mlxc._ops_shape import diagonal

__all__ = ["einsum", "einsum_path"]


# ---- reading subscripts -------------------------------------------------------------------------

cdef list read_labels(str text, object ndim, str subscripts):
    """The labels of one operand with `ndim` axes."""
    head, dots, tail = text.partition("...")
    letters = head + tail
    if letters and not (letters.isalpha() and letters.isascii()):
        raise ValueError(f"[einsum] subscripts are letters, '...', ',' and '->', got {subscripts!r}")
    hidden = ndim - len(letters)
    if hidden < 0 or (hidden > 0 and not dots):
        raise ValueError(f"[einsum] the subscripts {text!r} of {subscripts!r} name {len(letters)} axes, but the "
                         f"operand has {ndim}")
    return list(head) + list(range(hidden, 0, -1)) + list(tail)


cdef tuple read_subscripts(object subscripts, list shapes):
    """(labels of each operand, labels of the result, size of each label)."""
    if not isinstance(subscripts, str):
        raise TypeError(f"[einsum] the subscripts are a string, got {type(subscripts).__name__}")
    cdef str text = subscripts.replace(" ", "")
    cdef list parts, terms, out
    cdef dict sizes = {}
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(shapes):
        raise ValueError(f"[einsum] the subscripts {subscripts!r} describe {len(parts)} operands, but there are "
                         f"{len(shapes)}")
    terms = [read_labels(part, len(shape), subscripts) for part, shape in zip(parts, shapes)]
    for term, shape in zip(terms, shapes):
        own = {}
        for label, size in zip(term, shape):
            if own.setdefault(label, size) != size:
                raise ValueError(f"[einsum] label {label!r} of {subscripts!r} names axes of different sizes in the "
                                 f"operand of shape {tuple(shape)}")
            before = sizes.setdefault(label, size)
            if before == 1:
                sizes[label] = size
            elif size != 1 and size != before:
                name = "an axis under '...'" if isinstance(label, int) else f"label {label!r}"
                raise ValueError(f"[einsum] {name} of {subscripts!r} has the sizes {before} and {size} in operands "
                                 f"of the shapes {', '.join(str(tuple(t)) for t in shapes)}")
    hidden = sorted([label for label in sizes if isinstance(label, int)], reverse=True)
    if arrow:
        head, dots, tail = right.partition("...")
        letters = head + tail
        if letters and not (letters.isalpha() and letters.isascii()):
            raise ValueError(f"[einsum] subscripts are letters, '...', ',' and '->', got {subscripts!r}")
        if len(set(letters)) != len(letters):
            raise ValueError(f"[einsum] the result of {subscripts!r} names a label twice")
        for letter in letters:
            if letter not in sizes:
                raise ValueError(f"[einsum] label {letter!r} of the result of {subscripts!r} is in no operand")
        if hidden and not dots:
            raise ValueError(f"[einsum] the result of {subscripts!r} must contain '...', as an operand does")
        out = list(head) + hidden + list(tail)
    else:
        once = [label for label in sizes if isinstance(label, str) and left.count(label) == 1]
        out = hidden + sorted(once)
    return terms, out, sizes


# ---- order of contractions ----------------------------------------------------------------------

cdef object size_of(object labels, dict sizes):
    cdef object n = 1
    for label in labels:
        n *= sizes[label]
    return n


cdef set kept_labels(set pair, list others, list out):
    """Those of the pair's labels that the result or another operand still needs."""
    needed = set(out)
    for other in others:
        needed.update(other)
    return pair & needed


# Up to so many operands all orders are weighed; beyond, the number of subsets is too great.
cdef int MOST_WEIGHED = 7

# Plans, by subscripts, for the shapes last used with them: making one costs more than recording small contractions.
cdef dict plans = {}
cdef int MOST_SHAPES = 16


cdef Plan find_plan(object subscripts, list arrays):
    """The steps that make the result of these operands, remembered."""
    cdef list known = plans.get(subscripts)
    cdef Plan plan
    if known is not None:
        for plan in known:
            if plan.fits(arrays):
                return plan
    shapes = [dims(a) for a in arrays]
    terms, out, sizes = read_subscripts(subscripts, shapes)
    plan = make_plan(terms, out, find_path(terms, out, sizes), shapes)
    if known is None or len(known) >= MOST_SHAPES:
        if len(plans) >= 512:
            plans.clear()
        known = []
    plans[subscripts] = [plan, *known]
    return plan


cdef list find_path(list terms, list out, dict sizes):
    return [tuple(range(len(terms)))] if len(terms) < 3 else choose_path(terms, out, sizes)


cdef list choose_path(list terms, list out, dict sizes):
    """Pairs of positions: what is contracted is removed, the result appended."""
    return weigh_all(terms, out, sizes) if 2 < len(terms) <= MOST_WEIGHED else choose_greedily(terms, out, sizes)


cdef object count_operations(set labels, set kept, object n_terms, dict sizes):
    """Multiplications, and additions where something is summed, of contracting so many operands at once."""
    return size_of(labels, sizes) * (max(1, n_terms - 1) + (1 if labels - kept else 0))


cdef list weigh_all(list terms, list out, dict sizes):
    """The order of fewest operations, then of least intermediate elements. The best order of every subset of the
    operands is made from those of its two parts; subsets are bit masks.
    """
    cdef int n = <int>len(terms), full = (1 << n) - 1, subset, part, rest, i
    cdef list labels = [set()] * (full + 1), kept = [set()] * (full + 1), best = [None] * (full + 1)
    cdef set needed = set(out)
    for subset in range(1, full + 1):
        labels[subset] = set().union(*[terms[i] for i in range(n) if subset >> i & 1])
    for subset in range(1, full + 1):
        kept[subset] = labels[subset] & (needed | labels[full ^ subset])
    for i in range(n):
        # Labels of one operand only are summed when it meets the next one.
        kept[1 << i] = set(terms[i])
        best[1 << i] = (0, 0, 0)
    for subset in range(1, full + 1):
        if best[subset] is not None:
            continue
        size = size_of(kept[subset], sizes)
        part = (subset - 1) & subset
        while part:
            rest = subset ^ part
            if part > rest:
                operations = count_operations(kept[part] | kept[rest], kept[subset], 2, sizes)
                cost = (best[part][0] + best[rest][0] + operations, best[part][1] + best[rest][1] + size, part)
                if best[subset] is None or cost < best[subset]:
                    best[subset] = cost
            part = (part - 1) & subset
    cdef list path = [], present = [1 << i for i in range(n)]
    emit_steps(full, best, present, path)
    return path


cdef object emit_steps(int subset, list best, list present, list path):
    """Adds the steps that make the subset out of what is present."""
    cdef int part = best[subset][2], rest = subset ^ part
    if part == 0:
        return
    for side in (part, rest):
        emit_steps(side, best, present, path)
    i, j = sorted([present.index(part), present.index(rest)])
    path.append((i, j))
    del present[j], present[i]
    present.append(subset)


cdef list choose_greedily(list terms, list out, dict sizes):
    """Each step takes the pair whose contraction frees most, the cheapest of several."""
    cdef list left = [set(term) for term in terms], path = []
    while len(left) > 2:
        best = None
        for i in range(len(left)):
            for j in range(i + 1, len(left)):
                others = [left[k] for k in range(len(left)) if k != i and k != j]
                kept = kept_labels(left[i] | left[j], others, out)
                gain = size_of(kept, sizes) - size_of(left[i], sizes) - size_of(left[j], sizes)
                cost = (gain, size_of(left[i] | left[j], sizes), i, j)
                if best is None or cost < best[0]:
                    best = (cost, kept)
        (_, _, i, j), kept = best
        path.append((i, j))
        left = [left[k] for k in range(len(left)) if k != i and k != j] + [kept]
    path.append(tuple(range(len(left))))
    return path


# ---- plans --------------------------------------------------------------------------------------

cdef enum:
    TRANSPOSE
    RESHAPE
    SUM
    DIAGONAL
    MULTIPLY
    MATMUL


@cython.final
cdef class Step:
    """One op of a plan on the slots a and b, which makes the next slot."""

    cdef int kind, a, b
    cdef Axes axes
    cdef Shape shape


@cython.final
cdef class Plan:
    """The ops that an einsum is made of. Slots are the operands, then what each step makes; their shapes are known, so
    that a plan is made without recording anything.
    """

    cdef list steps, shapes
    cdef int result
    cdef Shape[3] operands  # the first few, in C
    cdef int n_operands

    cdef bint fits(self, list arrays):
        """Whether it was made for operands of these shapes."""
        cdef int i
        cdef Array a
        if len(arrays) != self.n_operands:
            return False
        for i in range(self.n_operands):
            a = arrays[i]
            if i >= 3:
                if dims(a) != self.shapes[i]:
                    return False
            elif mlxc_array_ndim(a.h) != self.operands[i].n or memcmp(
                    mlxc_array_shape(a.h), self.operands[i].v, self.operands[i].n * sizeof(int64_t)):
                return False
        return True

    cdef int add(self, int kind, int a, int b, list axes, list shape):
        cdef Step step = Step()
        step.kind, step.a, step.b = kind, a, b
        step.axes.n, step.shape.n = <int32_t>len(axes), <int32_t>len(shape)
        if len(shape) > MLXC_MAX_NDIM:
            raise ValueError(f"[einsum] an operand or intermediate result has {len(shape)} axes; {MLXC_MAX_NDIM} are "
                             "possible")
        for i in range(len(axes)):
            step.axes.v[i] = axes[i]
        for i in range(len(shape)):
            step.shape.v[i] = shape[i]
        self.steps.append(step)
        self.shapes.append(shape)
        return <int>len(self.shapes) - 1

    cdef int turn(self, int x, list order):
        """Transposed, where that changes anything."""
        cdef list shape = self.shapes[x]
        return x if order == list(range(len(order))) else self.add(TRANSPOSE, x, 0, order, [shape[k] for k in order])

    cdef int reshape(self, int x, list shape):
        return x if self.shapes[x] == shape else self.add(RESHAPE, x, 0, [], shape)

    cdef int sum(self, int x, list axes):
        cdef list shape = self.shapes[x]
        return self.add(SUM, x, 0, axes, [shape[k] for k in range(len(shape)) if k not in axes])

    cdef int multiply(self, int x, int y):
        # Equally many axes; those of size one broadcast.
        return self.add(MULTIPLY, x, y, [], [n if m == 1 else m for m, n in zip(self.shapes[x], self.shapes[y])])

    cdef int matmul(self, int x, int y):
        cdef list left = self.shapes[x], right = self.shapes[y]
        shape = [n if m == 1 else m for m, n in zip(left[:-2], right[:-2])]
        return self.add(MATMUL, x, y, [], shape + [left[len(left) - 2], right[len(right) - 1]])

    cdef int merge(self, int x, int i, int j):
        cdef list shape = self.shapes[x]
        rest = [shape[k] for k in range(len(shape)) if k != i and k != j]
        return self.add(DIAGONAL, x, 0, [i, j], rest + [min(shape[i], shape[j])])

    cdef Array run(self, list slots, mlxc_stream* s, object stream):
        cdef Step step
        cdef Array x
        for step in self.steps:
            x = slots[step.a]
            if step.kind == TRANSPOSE:
                x = transposed(x, &step.axes, s)
            elif step.kind == RESHAPE:
                x = reshaped(x, &step.shape, s)
            elif step.kind == SUM:
                x = same_dtype_sum(x, &step.axes, s)
            elif step.kind == DIAGONAL:
                x = diagonal(x, 0, step.axes.v[0], step.axes.v[1], stream=stream)
            elif step.kind == MULTIPLY:
                x = op_multiply(x, slots[step.b], s)
            else:
                x = op_matmul(x, slots[step.b], s)
            slots.append(x)
        return slots[self.result]


cdef Array same_dtype_sum(Array x, Axes* axes, mlxc_stream* s):
    """Not the op's widening of small integers: the dtype of a sum of products is that of the products."""
    cdef mlxc_array* out = NULL
    check(mlxc_sum(x.h, axes.v, axes.n, False, s, &out))
    return cast(wrap(out), mlxc_array_dtype(x.h), s)


cdef Plan make_plan(list terms, list out, list path, list shapes):
    cdef Plan plan = Plan()
    cdef int n_axes
    plan.n_operands = <int>len(shapes)
    for place in range(min(3, len(shapes))):
        n_axes = <int>len(shapes[place])
        plan.operands[place].n = n_axes
        for axis in range(n_axes):
            plan.operands[place].v[axis] = shapes[place][axis]
    cdef list slots = list(range(len(terms)))
    cdef int x
    plan.steps, plan.shapes = [], [list(shape) for shape in shapes]
    terms = list(terms)
    for i in range(len(slots)):
        slots[i], terms[i] = take_diagonals(plan, slots[i], terms[i])
    for pair in path:
        if len(pair) == 1:
            break
        i, j = pair
        x, y = slots[i], slots[j]
        left, right = terms[i], terms[j]
        slots = [slots[k] for k in range(len(slots)) if k != i and k != j]
        terms = [terms[k] for k in range(len(terms)) if k != i and k != j]
        keep = kept_labels(set(left) | set(right), [set(term) for term in terms], out)
        x, left = contract_pair(plan, x, left, y, right, keep)
        slots.append(x)
        terms.append(left)
    x, left = sum_out(plan, slots[0], terms[0], set(out))
    plan.result = arrange(plan, x, left, out)
    return plan


cdef tuple take_diagonals(Plan plan, int x, list labels):
    """Axes with the same label become one."""
    for label in list(dict.fromkeys(labels)):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = plan.merge(x, i, j)
            labels = [labels[k] for k in range(len(labels)) if k != i and k != j] + [label]
    return x, labels


cdef tuple sum_out(Plan plan, int x, list labels, set keep):
    axes = [i for i in range(len(labels)) if labels[i] not in keep]
    if not axes:
        return x, labels
    return plan.sum(x, axes), [label for label in labels if label in keep]


cdef int arrange(Plan plan, int x, list labels, list wanted):
    """Transposed to the order `wanted`, with axes of size one for labels it does not have."""
    cdef list order = [labels.index(label) for label in wanted if label in labels], shape = plan.shapes[x]
    x = plan.turn(x, order)
    return plan.reshape(x, [shape[labels.index(label)] if label in labels else 1 for label in wanted])


cdef tuple contract_pair(Plan plan, int x, list left, int y, list right, set keep):
    """The product of two operands, summed over the labels that are not kept."""
    x, left = sum_out(plan, x, left, keep | set(right))
    y, right = sum_out(plan, y, right, keep | set(left))
    # A summed axis that is of size one on one side only: the other side is summed by itself.
    for label in [label for label in left if label in right and label not in keep]:
        if plan.shapes[x][left.index(label)] != plan.shapes[y][right.index(label)]:
            x, left = sum_out(plan, x, left, set(left) - {label})
            y, right = sum_out(plan, y, right, set(right) - {label})
    cdef list summed = [label for label in left if label in right and label not in keep]
    cdef list batch = [label for label in left if label in right and label in keep]
    cdef list rows = [label for label in left if label not in right]
    cdef list columns = [label for label in right if label not in left]
    if not summed:
        wanted = batch + rows + columns
        return plan.multiply(arrange(plan, x, left, wanted), arrange(plan, y, right, wanted)), wanted
    x = plan.turn(x, [left.index(label) for label in batch + rows + summed])
    y = plan.turn(y, [right.index(label) for label in batch + summed + columns])
    cdef list shape_x = plan.shapes[x], shape_y = plan.shapes[y]
    cdef int n_batch = <int>len(batch), n_rows = <int>len(rows), n_summed = <int>len(summed), out
    row_sizes = shape_x[n_batch:n_batch + n_rows]
    column_sizes = shape_y[n_batch + n_summed:]
    inner = product(shape_x[n_batch + n_rows:])
    x = plan.reshape(x, shape_x[:n_batch] + [product(row_sizes), inner])
    y = plan.reshape(y, shape_y[:n_batch] + [inner, product(column_sizes)])
    out = plan.matmul(x, y)
    return plan.reshape(out, plan.shapes[out][:n_batch] + row_sizes + column_sizes), batch + rows + columns


cdef object product(list sizes):
    cdef object n = 1
    for size in sizes:
        n *= size
    return n


def einsum(subscripts, *operands, stream=None):
    """Einstein summation: products of arrays, summed over the axes whose labels are not in the result.

    Args:
        subscripts: labels of the operands' axes, separated by commas, and after "->" those of the result, such as
            "ij,jk->ik". Without "->" the result has the labels that occur once, in alphabetical order. "..." stands
            for any number of axes, which broadcast.
        *operands: arrays, as many as the subscripts describe.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype that the operands promote to.

    Raises:
        ValueError: if the subscripts are malformed, or do not fit the operands' numbers of axes or sizes.

    Example:
        >>> mx.einsum("ij,j->i", mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array([1.0, 1.0]))
        array([3, 7], dtype=float32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef list arrays = [as_array(a) for a in operands]
    if not isinstance(subscripts, str):
        raise TypeError(f"[einsum] the subscripts are a string, got {type(subscripts).__name__}")
    cdef Plan plan = find_plan(subscripts, arrays)
    return plan.run(arrays, s, stream) if plan.steps else alias(arrays[plan.result])


def einsum_path(subscripts, *operands):
    """The order in which einsum contracts its operands, and what it costs.

    Args:
        subscripts: as for einsum.
        *operands: arrays.

    Returns:
        A pair: a list of tuples of positions (what is contracted is removed, the result appended), and a text with the
        greatest number of labels met at once and the number of operations, of the naive and of the chosen order. Of up
        to seven operands the chosen order is the one of fewest operations.

    Raises:
        ValueError: if the subscripts are malformed, or do not fit the operands.

    Example:
        >>> mx.einsum_path("ij,jk,kl->il", mx.ones((2, 3)), mx.ones((3, 4)), mx.ones((4, 5)))[0]
        [(0, 1), (0, 1)]
    """
    cdef list shapes = [dims(as_array(a)) for a in operands], terms, out, path
    cdef dict sizes
    terms, out, sizes = read_subscripts(subscripts, shapes)
    path = find_path(terms, out, sizes)
    naive = count_operations(set(sizes), set(out), len(terms), sizes)
    left, cost, largest = [set(term) for term in terms], 0, 0
    for step in path:
        pair = set().union(*[left[i] for i in step])
        others = [left[k] for k in range(len(left)) if k not in step]
        kept = kept_labels(pair, others, out)
        cost += count_operations(pair, kept, len(step), sizes)
        largest = max(largest, len(pair))
        left = others + [kept]
    text = (f"  Complete contraction:  {subscripts}\n"
            f"         Naive scaling:  {len(sizes)}\n"
            f"     Optimized scaling:  {largest}\n"
            f"      Naive FLOP count:  {naive}\n"
            f"  Optimized FLOP count:  {cost}\n")
    return path, text

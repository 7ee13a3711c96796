# Einstein summation: the subscripts are read, an order of pairwise contractions is chosen, and each pair becomes one
# matrix product (or one multiplication where nothing is summed). Sizes of one broadcast, as in NumPy.
#
# A term is an operand with one label for each axis: a letter, or a number for an axis under the ellipsis (counted from
# the end, so that operands with different numbers of them line up).
from mlxc._array cimport Array, as_array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._prim cimport alias, cast, dims, op_matmul, op_multiply, op_reshape, op_sum, op_transpose

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

# Plans, by subscripts and shapes: making one costs more than recording small contractions.
cdef dict plans = {}


cdef tuple find_plan(object subscripts, list shapes):
    """(labels of each operand, labels of the result, order of contractions), remembered. Not to be changed."""
    key = (subscripts, tuple([tuple(shape) for shape in shapes]))
    plan = plans.get(key)
    if plan is None:
        terms, out, sizes = read_subscripts(subscripts, shapes)
        path = [tuple(range(len(terms)))] if len(terms) < 3 else choose_path(terms, out, sizes)
        plan = (terms, out, path)
        if len(plans) >= 512:
            plans.clear()
        plans[key] = plan
    return plan


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


# ---- contraction --------------------------------------------------------------------------------

cdef tuple take_diagonals(Array x, list labels, mlxc_stream* s, object stream):
    """Axes with the same label become one."""
    for label in list(dict.fromkeys(labels)):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = diagonal(x, 0, i, j, stream=stream)
            labels = [labels[k] for k in range(len(labels)) if k != i and k != j] + [label]
    return x, labels


cdef Array turn(Array x, list order, mlxc_stream* s):
    """Transposed, where that changes anything."""
    return x if order == list(range(len(order))) else op_transpose(x, order, s)


cdef Array shaped(Array x, list shape, mlxc_stream* s):
    return x if dims(x) == shape else op_reshape(x, shape, s)


cdef tuple sum_out(Array x, list labels, set keep, mlxc_stream* s):
    axes = [i for i in range(len(labels)) if labels[i] not in keep]
    if not axes:
        return x, labels
    # Not op_sum's widening of small integers: the dtype of a sum of products is that of the products.
    return same_dtype_sum(x, axes, s), [label for label in labels if label in keep]


cdef Array same_dtype_sum(Array x, list axes, mlxc_stream* s):
    return cast(op_sum(x, axes, False, s), mlxc_array_dtype(x.h), s)


cdef Array arrange(Array x, list labels, list wanted, mlxc_stream* s):
    """Transposed to the order `wanted`, with axes of size one for labels it does not have."""
    cdef list order = [labels.index(label) for label in wanted if label in labels]
    cdef list shape = dims(x)
    x = turn(x, order, s)
    if len(wanted) == len(labels):
        return x
    return op_reshape(x, [shape[labels.index(label)] if label in labels else 1 for label in wanted], s)


cdef tuple contract_pair(Array x, list left, Array y, list right, set keep, mlxc_stream* s):
    """The product of two operands, summed over the labels that are not kept."""
    x, left = sum_out(x, left, keep | set(right), s)
    y, right = sum_out(y, right, keep | set(left), s)
    # A summed axis that is of size one on one side only: the other side is summed by itself.
    for label in [label for label in left if label in right and label not in keep]:
        m, n = dims(x)[left.index(label)], dims(y)[right.index(label)]
        if m != n:
            x, left = drop_axis(x, left, label, s)
            y, right = drop_axis(y, right, label, s)
    cdef list summed = [label for label in left if label in right and label not in keep]
    cdef list batch = [label for label in left if label in right and label in keep]
    cdef list rows = [label for label in left if label not in right]
    cdef list columns = [label for label in right if label not in left]
    if not summed:
        wanted = batch + rows + columns
        return op_multiply(arrange(x, left, wanted, s), arrange(y, right, wanted, s), s), wanted
    x = turn(x, [left.index(label) for label in batch + rows + summed], s)
    y = turn(y, [right.index(label) for label in batch + summed + columns], s)
    cdef list shape_x = dims(x), shape_y = dims(y)
    cdef int n_batch = <int>len(batch), n_rows = <int>len(rows), n_summed = <int>len(summed)
    row_sizes = shape_x[n_batch:n_batch + n_rows]
    column_sizes = shape_y[n_batch + n_summed:]
    inner = product(shape_x[n_batch + n_rows:])
    x = shaped(x, shape_x[:n_batch] + [product(row_sizes), inner], s)
    y = shaped(y, shape_y[:n_batch] + [inner, product(column_sizes)], s)
    cdef Array out = op_matmul(x, y, s)
    return shaped(out, dims(out)[:n_batch] + row_sizes + column_sizes, s), batch + rows + columns


cdef tuple drop_axis(Array x, list labels, object label, mlxc_stream* s):
    return same_dtype_sum(x, [labels.index(label)], s), [other for other in labels if other != label]


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
    cdef list arrays = [as_array(a) for a in operands], terms, out, path
    cdef Array x, y
    if not isinstance(subscripts, str):
        raise TypeError(f"[einsum] the subscripts are a string, got {type(subscripts).__name__}")
    terms, out, path = find_plan(subscripts, [dims(a) for a in arrays])
    terms = list(terms)
    for i in range(len(arrays)):
        arrays[i], terms[i] = take_diagonals(arrays[i], terms[i], s, stream)
    for step in path:
        if len(step) == 1:
            break
        i, j = step
        x, y = arrays[i], arrays[j]
        left, right = terms[i], terms[j]
        arrays = [arrays[k] for k in range(len(arrays)) if k != i and k != j]
        terms = [terms[k] for k in range(len(terms)) if k != i and k != j]
        keep = kept_labels(set(left) | set(right), [set(term) for term in terms], out)
        x, left = contract_pair(x, left, y, right, keep, s)
        arrays.append(x)
        terms.append(left)
    x, left = sum_out(arrays[0], terms[0], set(out), s)
    return alias(arrange(x, left, out, s))


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
    path = list(find_plan(subscripts, shapes)[2])
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

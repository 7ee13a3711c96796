"""Whole matrices of derivatives: jacobian and hessian, made of vjp, jvp and vmap.

A Jacobian is the product with every unit vector at once: the rows come from a batched vjp, the columns from a batched
jvp, and what does not depend on the unit vectors is computed once.
"""

from mlxc._array import Array
from mlxc._ops_create import eye
from mlxc._transforms import grad, jvp, vjp
from mlxc._vmap import vmap

__all__ = ["hessian", "jacobian"]


def _leaves(tree, what):
    from mlxc.utils import tree_map

    leaves = []
    tree_map(leaves.append, tree)
    for leaf in leaves:
        if not isinstance(leaf, Array):
            raise ValueError(f"[jacobian] {what} should be an array or a tree of arrays, but a leaf of it is of type "
                             f"{type(leaf).__name__}")  # fmt: skip
    return leaves


def _unit_vectors(arrays):
    """For each array a batch of arrays like it, which together are the unit vectors of all of them."""
    total = sum(a.size for a in arrays)
    whole, batches, start = eye(total), [], 0
    for a in arrays:
        part = whole[:, start : start + a.size]
        batches.append(part.reshape(total, *a.shape).astype(a.dtype))
        start += a.size
    return batches


def _rows(flat, inputs):
    """The blocks by output and input, from products with the unit vectors of the outputs."""
    outputs = flat(*inputs)
    products = vmap(lambda *cotangents: vjp(flat, inputs, list(cotangents))[1])(*_unit_vectors(outputs))
    blocks, start = [], 0
    for out in outputs:
        rows = slice(start, start + out.size)
        blocks.append([p[rows].reshape(*out.shape, *a.shape) for p, a in zip(products, inputs, strict=True)])
        start += out.size
    return blocks


def _columns(flat, inputs):
    """The same from products with the unit vectors of the inputs."""
    products = vmap(lambda *tangents: jvp(flat, inputs, list(tangents))[1], out_axes=-1)(*_unit_vectors(inputs))
    blocks = [[] for _ in products]
    start = 0
    for a in inputs:
        for block, p in zip(blocks, products, strict=True):
            block.append(p[..., start : start + a.size].reshape(*p.shape[:-1], *a.shape))
        start += a.size
    return blocks


def _places(argnums):
    places = list(argnums) if isinstance(argnums, (list, tuple)) else [argnums]
    if not all(hasattr(i, "__index__") for i in places):
        raise TypeError(f"[jacobian] argnums is an int or a sequence of ints, got {argnums!r}")
    places = [i.__index__() for i in places]
    if not places or min(places) < 0 or len(set(places)) < len(places):
        raise ValueError(f"[jacobian] argnums names one or more positional arguments, each once, got {argnums!r}")
    return places


def jacobian(fun, argnums=0, mode="reverse"):
    """A function that returns all derivatives of the results of another one with respect to its arguments.

    Args:
        fun: function that returns an array or a tree (nested dict, list, tuple) of arrays. It is called twice in
            reverse mode.
        argnums: the positional argument, or arguments, to differentiate by; each is an array or a tree of arrays.
        mode: "reverse" makes a row for each element of the results at a time, "forward" a column for each element of
            the arguments: take the one of which there are fewer.

    Returns:
        A function of the same arguments. For a result of shape `s` and an argument of shape `t` it returns an array of
        shape `s + t`. In place of each result there is the form of the argument, a tuple of those for several
        `argnums`.

    Raises:
        ValueError: if `mode` is unknown; on call, if an argument or the result is no tree of arrays.
        TypeError: if `fun` is not callable.

    Example:
        >>> mx.jacobian(lambda x: x ** 2)(mx.array([1.0, 2.0]))
        array([[2, 0],
               [0, 4]], dtype=float32)
        >>> mx.jacobian(lambda x, w: w @ x, argnums=(0, 1), mode="forward")(mx.ones(2), mx.ones((3, 2)))[0].shape
        (3, 2)
    """
    from functools import wraps  # costs too much at import

    if not callable(fun):
        raise TypeError(f"[jacobian] takes a function, not {type(fun).__name__}")
    if mode not in ("reverse", "forward"):
        raise ValueError(f'[jacobian] mode is "reverse" or "forward", got {mode!r}')
    places = _places(argnums)

    @wraps(fun, updated=())
    def jacobian_of(*args, **kwargs):
        from mlxc.utils import tree_map

        if max(places) >= len(args):
            raise ValueError(f"[jacobian] there is no argument {max(places)}: the function was called with {len(args)}")
        chosen = [args[i] for i in places]
        inputs = _leaves(chosen, "an argument")
        result = None

        def flat(*leaves):
            nonlocal result
            given, parts = list(args), iter(leaves)
            for i in places:
                given[i] = tree_map(lambda _: next(parts), args[i])
            result = fun(*given, **kwargs)
            return _leaves(result, "the result")

        blocks = iter((_rows if mode == "reverse" else _columns)(flat, inputs))

        def form(_):
            parts = iter(next(blocks))
            trees = [tree_map(lambda _: next(parts), arg) for arg in chosen]
            return trees[0] if len(trees) == 1 else tuple(trees)

        return tree_map(form, result)

    return jacobian_of


def hessian(fun, argnums=0):
    """A function that returns all second derivatives of a scalar function.

    Args:
        fun: function that returns a scalar array.
        argnums: the positional argument, or arguments, to differentiate by; each is an array or a tree of arrays.

    Returns:
        A function of the same arguments. For an argument of shape `s` it returns an array of shape `s + s`; for trees
        and several arguments a block for each pair, as jacobian() of grad() gives them.

    Raises:
        ValueError: on call, if the function returns no scalar array or an argument is no tree of arrays.
        TypeError: if `fun` is not callable.

    Example:
        >>> mx.hessian(lambda x: (x ** 3).sum())(mx.array([1.0, 2.0]))
        array([[6, 0],
               [0, 12]], dtype=float32)
    """
    if not callable(fun):
        raise TypeError(f"[hessian] takes a function, not {type(fun).__name__}")
    places = _places(argnums)
    return jacobian(grad(fun, places), places, mode="forward")

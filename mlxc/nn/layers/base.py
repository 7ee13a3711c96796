"""Module: the base of all layers and models, a dict of arrays, other modules, and lists and dicts of these.

Called by every layer, by optimizers (update) and by users' own models. What is set on a module and may hold arrays
goes into the dict, everything else becomes an ordinary attribute. A name that begins with an underscore is no
parameter. Whatever changes several parameters checks all of them first: it changes all or none.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import mlxc as mx
from mlxc.nn.layers._tree import child_modules, commit, plan_modules, plan_parameters, walk
from mlxc.nn.layers._weights import plan_weights, read_weights, write_weights
from mlxc.utils import tree_flatten

__all__ = ["Module"]


def _is_floating(dtype: mx.Dtype) -> bool:
    return mx.issubdtype(dtype, mx.floating)


class Module(dict[str, Any]):
    """Base class of layers and models.

    A model sets its arrays and layers as attributes and defines `__call__`. An attribute that is an array, a dict, a
    list or a tuple (a module is a dict) is an item of the module as well: `model.weight` is `model["weight"]`. Arrays
    and modules in tuples are no parameters.

    Example:
        >>> import mlxc.nn as nn
        >>> class MLP(nn.Module):
        ...     def __init__(self, width):
        ...         super().__init__()
        ...         self.layers = [nn.Linear(2, width), nn.Linear(width, 1)]
        ...     def __call__(self, x):
        ...         return self.layers[1](mx.tanh(self.layers[0](x)))
        >>> model = MLP(8)
        >>> model(mx.ones((5, 2))).shape
        (5, 1)
        >>> model
        MLP(
          (layers.0): Linear(input_dims=2, output_dims=8, bias=True)
          (layers.1): Linear(input_dims=8, output_dims=1, bias=True)
        )
    """

    _no_grad: set[str]
    _training: bool

    def __init__(self) -> None:
        """Makes an empty module; called by the classes derived from it."""
        self._no_grad, self._training = set(), True

    # ---- attributes and representation ----

    def __getattr__(self, key: str) -> Any:
        value = self.get(key)
        if value is not None:
            return value
        if key in {"_no_grad", "_training"}:
            # The class did not call super().__init__().
            Module.__init__(self)
        # Raises the usual error, or the one that a property of this name has raised.
        return super().__getattribute__(key)

    def __setattr__(self, key: str, value: Any) -> None:
        if not isinstance(value, (mx.array, dict, list, tuple)):
            super().__setattr__(key, value)
            self.pop(key, None)
            return
        owned = getattr(type(self), key, None)
        if owned is not None or hasattr(type(self), key):
            if hasattr(type(owned), "__set__"):
                super().__setattr__(key, value)
                return
            raise AttributeError(
                f"{type(self).__name__!r} object cannot keep an array, list or module as {key!r}: its class has an "
                f"attribute of this name, which would hide it"
            )
        self.__dict__.pop(key, None)
        self[key] = value

    def __delattr__(self, key: str) -> None:
        if key in self:
            del self[key]
        else:
            super().__delattr__(key)

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *(key for key in self if isinstance(key, str))]

    def _extra_repr(self) -> str:
        """What stands between the brackets in the representation."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({path}): {module!r}" for path, module in child_modules(self, "")]
        inside = "".join("\n" + textwrap.indent(line, "  ") for line in lines)
        return f"{type(self).__name__}({self._extra_repr()}{inside}" + ("\n)" if lines else ")")

    # ---- what a module holds ----

    @property
    def training(self) -> bool:
        """Whether the module is in training mode; see train and eval."""
        return self._training

    @property
    def state(self) -> Self:
        """The module itself, as a tree of all its arrays: for eval, and for `inputs` and `outputs` of compile.

        Example:
            >>> import mlxc.nn as nn
            >>> sorted(nn.Linear(2, 2).state)
            ['bias', 'weight']
        """
        return self

    @staticmethod
    def is_module(value: Any) -> bool:
        """Whether a value is a module.

        Args:
            value: anything.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Module.is_module(nn.Identity()), nn.Module.is_module({})
            (True, False)
        """
        return isinstance(value, Module)

    @staticmethod
    def valid_child_filter(module: Module, key: str, value: Any) -> bool:
        """A filter for filter_and_map: what is a module or may contain one.

        Args:
            module: the module that has the value.
            key: the name of the value there.
            value: the value.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Module.valid_child_filter(nn.Module(), "layers", [])
            True
        """
        return isinstance(value, (dict, list))

    @staticmethod
    def valid_parameter_filter(module: Module, key: str, value: Any) -> bool:
        """A filter for filter_and_map: arrays, and what may contain them, but for names with a leading underscore.

        Args:
            module: the module that has the value.
            key: the name of the value there.
            value: the value.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Module.valid_parameter_filter(nn.Module(), "_cache", mx.zeros(2))
            False
        """
        return isinstance(value, (dict, list, mx.array)) and not key.startswith("_")

    @staticmethod
    def trainable_parameter_filter(module: Module, key: str, value: Any) -> bool:
        """A filter for filter_and_map: as valid_parameter_filter, but for what is frozen.

        Args:
            module: the module that has the value.
            key: the name of the value there.
            value: the value.

        Example:
            >>> import mlxc.nn as nn
            >>> layer = nn.Linear(2, 2).freeze(keys="bias")
            >>> nn.Module.trainable_parameter_filter(layer, "bias", layer.bias)
            False
        """
        return isinstance(value, (dict, list, mx.array)) and not key.startswith("_") and key not in module._no_grad

    def filter_and_map(
        self,
        filter_fn: Callable[[Module, str, Any], bool],
        map_fn: Callable[[Any], Any] | None = None,
        is_leaf_fn: Callable[[Module, str, Any], bool] | None = None,
    ) -> dict[str, Any]:
        """The contents of the module as a tree, as far as a filter lets them through.

        Args:
            filter_fn: called with the module that has a value, the value's name there (in a list or dict of the
                module with a dot between: "layers.0") and the value; tells whether to keep it. In a list or a dict,
                an empty dict takes the place of what is left out.
            map_fn: applied to the leaves; by default they stay as they are.
            is_leaf_fn: called with the same three; tells whether a value is a leaf. By default, what is neither
                module nor dict nor list.

        Returns:
            Nested dicts and lists.

        Raises:
            RuntimeError: if a value is no leaf and has no contents.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Linear(3, 2).filter_and_map(nn.Module.valid_parameter_filter, lambda a: a.shape)
            {'weight': (2, 3), 'bias': (2,)}
        """
        return walk(self, filter_fn, map_fn, is_leaf_fn)

    def parameters(self) -> dict[str, Any]:
        """The tree of all parameters, in nested dicts and lists.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.LayerNorm(2).parameters()
            {'weight': array([1, 1], dtype=float32), 'bias': array([0, 0], dtype=float32)}
        """
        return walk(self, self.valid_parameter_filter)

    def trainable_parameters(self) -> dict[str, Any]:
        """The tree of the parameters that are not frozen.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.LayerNorm(2).freeze(keys="bias").trainable_parameters()
            {'weight': array([1, 1], dtype=float32)}
        """
        return walk(self, self.trainable_parameter_filter)

    def children(self) -> dict[str, Any]:
        """The tree of the modules that this one holds itself.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Sequential(nn.Identity()).children()
            {'layers': [Identity()]}
        """
        return walk(self, self.valid_child_filter, None, lambda module, key, value: isinstance(value, Module))

    def leaf_modules(self) -> dict[str, Any]:
        """The tree of the modules, at any depth, that hold no other modules.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Sequential(nn.Sequential(nn.Identity())).leaf_modules()
            {'layers': [{'layers': [Identity()]}]}
        """

        def is_leaf(module: Module, key: str, value: Any) -> bool:
            return isinstance(value, Module) and not child_modules(value, "")

        return walk(self, self.valid_child_filter, None, is_leaf)

    def named_modules(self) -> list[tuple[str, Module]]:
        """All modules with their paths: this one, whose path is empty, and those that it holds at any depth.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Sequential(nn.Identity(), nn.Linear(1, 1, bias=False)).named_modules()[1:]
            [('layers.1', Linear(input_dims=1, output_dims=1, bias=False)), ('layers.0', Identity())]
        """
        found: list[tuple[str, Module]] = []
        open_ = [("", self)]
        while open_:
            path, module = open_.pop()
            found.append((path, module))
            open_ += child_modules(module, f"{path}." if path else "")
        return found

    def modules(self) -> list[Module]:
        """All modules: this one and those that it holds at any depth, in the order of named_modules.

        Example:
            >>> import mlxc.nn as nn
            >>> len(nn.Sequential(nn.Identity(), nn.Identity()).modules())
            3
        """
        return [module for _, module in self.named_modules()]

    # ---- changing it ----

    def update(self, parameters: dict[str, Any], strict: bool = True) -> Self:  # type: ignore[override]
        """Replaces parameters, all of the given ones or, after an error, none.

        Args:
            parameters: tree of new arrays, which may be a part of what parameters() gives. Their shapes and dtypes
                are free: layers that are being sharded or quantised change theirs.
            strict: whether to raise for what the module does not have, instead of passing over it.

        Returns:
            The module itself.

        Raises:
            ValueError: if something that should be an array or a tree is none, or, with `strict`, for a place where
                the module has no array.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.RMSNorm(2).update({"weight": mx.array([2.0, 3.0])}).weight
            array([2, 3], dtype=float32)
        """
        commit(plan_parameters(self, parameters, strict))
        return self

    def apply(
        self,
        map_fn: Callable[[mx.array], mx.array],
        filter_fn: Callable[[Module, str, Any], bool] | None = None,
    ) -> Self:
        """Replaces each parameter by a function of it.

        Args:
            map_fn: gets and returns an array.
            filter_fn: picks the arrays, see filter_and_map; by default all parameters.

        Returns:
            The module itself.

        Raises:
            ValueError: if the function returns something else than an array; the module is as before then.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Linear(2, 2).apply(lambda a: a.astype(mx.float16)).weight.dtype
            mlxc.float16
        """
        return self.update(walk(self, filter_fn or self.valid_parameter_filter, map_fn))

    def set_dtype(self, dtype: mx.Dtype, predicate: Callable[[mx.Dtype], bool] | None = _is_floating) -> None:
        """Casts parameters.

        Args:
            dtype: the dtype to cast to.
            predicate: tells of a dtype whether to cast what has it; None casts all. By default, the floating ones.

        Example:
            >>> import mlxc.nn as nn
            >>> layer = nn.Linear(2, 2)
            >>> layer.set_dtype(mx.bfloat16)
            >>> layer.bias.dtype
            mlxc.bfloat16
        """
        self.apply(lambda a: a.astype(dtype) if predicate is None or predicate(a.dtype) else a)

    def update_modules(self, modules: dict[str, Any], strict: bool = True) -> Self:
        """Replaces modules that this one holds, at any depth; all of the given ones or, after an error, none.

        Args:
            modules: tree of new modules, which may be a part of what children() or leaf_modules() gives.
            strict: whether to raise for what the module does not have, instead of passing over it.

        Returns:
            The module itself.

        Raises:
            ValueError: if something that should be a module or a tree is none, or, with `strict`, for a place where
                the module has no module.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Sequential(nn.Linear(2, 2), nn.Identity()).update_modules({"layers": [nn.Identity()]})
            Sequential(
              (layers.0): Identity()
              (layers.1): Identity()
            )
        """
        commit(plan_modules(self, modules, strict))
        return self

    def apply_to_modules(self, apply_fn: Callable[[str, Module], Any]) -> Self:
        """Calls a function with each module and its path, this one first; what it returns is not used.

        Args:
            apply_fn: gets the path ("" for this module, "layers.0.attention") and the module.

        Returns:
            The module itself.

        Example:
            >>> import mlxc.nn as nn
            >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).freeze()
            >>> model = model.apply_to_modules(lambda path, m: m.unfreeze() if path == "layers.1" else None)
            >>> [path for path, _ in mlxc.utils.tree_flatten(model.trainable_parameters())]
            ['layers.1.weight', 'layers.1.bias']
        """
        for path, module in self.named_modules():
            apply_fn(path, module)
        return self

    # ---- modes ----

    def freeze(self, *, recurse: bool = True, keys: str | Sequence[str] | None = None, strict: bool = False) -> Self:
        """Marks parameters as not to be trained: trainable_parameters leaves them out. Idempotent.

        Args:
            recurse: whether to go on to the modules that this one holds.
            keys: name or names of parameters in a module; by default all.
            strict: whether to raise for a name that is nowhere.

        Returns:
            The module itself.

        Raises:
            KeyError: with `strict`, for a name that none of the modules has.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Linear(2, 2).freeze().trainable_parameters()
            {}
        """
        names = self._checked_keys("freeze", keys, recurse, strict)
        self._no_grad.update(self._own_parameters() if names is None else names)
        if recurse:
            for module in self.modules()[1:]:
                module.freeze(recurse=False, keys=names)
        return self

    def unfreeze(self, *, recurse: bool = True, keys: str | Sequence[str] | None = None, strict: bool = False) -> Self:
        """Takes back freeze. Idempotent. What must stay frozen (running statistics, quantised weights) does.

        Args:
            recurse: whether to go on to the modules that this one holds.
            keys: name or names of parameters in a module; by default all.
            strict: whether to raise for a name that is nowhere.

        Returns:
            The module itself.

        Raises:
            KeyError: with `strict`, for a name that none of the modules has.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.LayerNorm(2).freeze().unfreeze(keys="bias").trainable_parameters()
            {'bias': array([0, 0], dtype=float32)}
        """
        names = self._checked_keys("unfreeze", keys, recurse, strict)
        if names is None:
            self._no_grad.clear()
        else:
            self._no_grad.difference_update(names)
        if recurse:
            # By their own methods: some modules keep a part frozen.
            for module in self.modules()[1:]:
                module.unfreeze(recurse=False, keys=names)
        return self

    def _own_parameters(self) -> list[str]:
        """Names of the arrays of this module itself: "weight", "scales.0"."""

        def is_own(module: Module, key: str, value: Any) -> bool:
            return not isinstance(value, Module) and Module.valid_parameter_filter(module, key, value)

        return [name for name, _ in tree_flatten(walk(self, is_own))]

    def _checked_keys(
        self, function: str, keys: str | Sequence[str] | None, recurse: bool, strict: bool
    ) -> list[str] | None:
        if keys is None:
            return None
        names = [keys] if isinstance(keys, str) else list(keys)
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"[Module.{function}] keys are names (str), got {type(name).__name__}")
        modules = self.modules() if recurse else [self]
        for name in names if strict else ():
            if not any(name in module or name in module._own_parameters() for module in modules):
                raise KeyError(f"[Module.{function}] no module of this {type(self).__name__} has a member {name!r}")
        return names

    def _set_training_mode(self, mode: bool) -> None:
        """Sets the mode of this module alone; for layers that have more to do."""
        self._training = mode

    def train(self, mode: bool = True) -> Self:
        """Sets the training mode of this module and of all that it holds. Dropout and BatchNorm, for one, act by it.

        Args:
            mode: whether to be in training mode.

        Returns:
            The module itself.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Sequential(nn.Identity()).train(False).layers[0].training
            False
        """
        for module in self.modules():
            module._set_training_mode(bool(mode))
        return self

    def eval(self) -> Self:
        """Leaves the training mode: train(False).

        Returns:
            The module itself.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Identity().eval().training
            False
        """
        return self.train(False)

    # ---- files ----

    def load_weights(
        self,
        file_or_weights: str | os.PathLike[str] | Sequence[tuple[str, mx.array]] | Sequence[str],
        strict: bool = True,
    ) -> Self:
        """Replaces parameters by those of files; all of them or, after an error, none.

        Args:
            file_or_weights: a .npz, .safetensors or .gguf file; weights in several files: a list of files, the
                index (`model.safetensors.index.json`) or the folder that it or the .safetensors files are in; or a
                list of pairs (name, array).
            strict: whether names and shapes must be exactly the model's. Otherwise what the model doesn't have is
                passed over, what it lacks stays, and shapes are not compared.

        Returns:
            The module itself.

        Raises:
            ValueError: for names or shapes that do not match; the message lists them all.
            OSError: if a file is missing or cannot be read.

        Example:
            >>> import mlxc.nn as nn
            >>> layer = nn.Linear(2, 1)
            >>> layer.load_weights([("weight", mx.ones((1, 2))), ("bias", mx.zeros(1))]).weight
            array([[1, 1]], dtype=float32)
            >>> layer.load_weights([("weight", mx.ones((1, 2)))])
            Traceback (most recent call last):
            ValueError: [load_weights] the given weights do not fit Linear. Missing 1 parameters: bias
        """
        source, weights = read_weights(file_or_weights)
        commit(plan_weights(self, source, weights, strict))
        return self

    def save_weights(self, file: str | os.PathLike[str]) -> None:
        """Writes all parameters to a file, or to several. A save that fails leaves the old files as they were.

        Args:
            file: path that ends in .npz or .safetensors. For files of at most 5 GB each, the path of their index, which
                ends in .safetensors.index.json.

        Raises:
            ValueError: for another ending.
            OSError: if the file cannot be written.

        Example:
            >>> import os, tempfile
            >>> import mlxc.nn as nn
            >>> layer = nn.Linear(2, 2)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     layer.save_weights(os.path.join(folder, "layer.safetensors"))
            ...     same = nn.Linear(2, 2).load_weights(os.path.join(folder, "layer.safetensors"))
            >>> mx.array_equal(same.weight, layer.weight).item()
            True
        """
        write_weights(file, dict(tree_flatten(self.parameters())))

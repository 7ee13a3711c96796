"""Every public function has a docstring with an example, and the examples print what they say."""

from __future__ import annotations

import doctest
import inspect
import types
from importlib import import_module

import pytest

import mlxc as mx

# What these functions print depends on the machine or on what ran before.
WITHOUT_EXAMPLE = ("mlxc._device", "mlxc._memory", "mlxc._paths", "mlxc._printing")
NAMES = [
    "mlxc",
    "mlxc.compat",
    "mlxc.cuda",
    "mlxc.distributed",
    "mlxc.fast",
    "mlxc.fft",
    "mlxc.linalg",
    "mlxc.metal",
    "mlxc.models",
    "mlxc.models.cache",
    "mlxc.models.chat_template",
    "mlxc.models.cli",
    "mlxc.models.config_json",
    "mlxc.models.decode_step",
    "mlxc.models.detokenizer",
    "mlxc.models.prompt_cache",
    "mlxc.models.sample",
    "mlxc.models.tokenizer",
    "mlxc.models.tune",
    "mlxc.models.tuning_data",
    "mlxc.nn",
    "mlxc.nn.init",
    "mlxc.nn.layers.distributed",
    "mlxc.nn.layers.upsample",
    "mlxc.nn.losses",
    "mlxc.nn.utils",
    "mlxc.optimizers",
    "mlxc.random",
    "mlxc.utils",
]
MODULES = {name: import_module(name) for name in NAMES}
# Where classes and their methods have docstrings with examples too.
WITH_CLASSES = (
    "mlxc.models",
    "mlxc.nn",
    "mlxc.optimizers",
)


def is_function(value) -> bool:
    return inspect.isfunction(value) or inspect.isbuiltin(value) or type(value).__name__ == "cython_function_or_method"


def public_functions() -> dict[str, types.FunctionType]:
    """By the first name found: an alias is the same object and needs no second test."""
    found: dict[str, types.FunctionType] = {}
    seen: set[int] = set()
    for prefix, module in MODULES.items():
        for name in sorted(getattr(module, "__all__", vars(module))):
            value = getattr(module, name)
            if not name.startswith("_") and is_function(value) and id(value) not in seen:
                seen.add(id(value))
                found[f"{prefix}.{name}"] = value
    return found


def public_classes() -> dict[str, object]:
    """Classes and their public methods. One that overrides another's method may leave the description to that."""
    found: dict[str, object] = {}
    for prefix in WITH_CLASSES:
        for name, value in vars(MODULES[prefix]).items():
            if not inspect.isclass(value) or name.startswith("_"):
                continue
            found[f"{prefix}.{name}"] = value
            for method, member in vars(value).items():
                inner = getattr(member, "__func__", member)
                if not method.startswith("_") and is_function(inner) and inner.__doc__:
                    found[f"{prefix}.{name}.{method}"] = inner
                elif not method.startswith("_") and is_function(inner):
                    assert any(hasattr(base, method) for base in value.__bases__), f"{name}.{method} has no docstring"
    return found


FUNCTIONS = public_functions() | public_classes()


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_the_docstring_says_what_it_takes_and_its_example_is_true(name):
    function = FUNCTIONS[name]
    text = inspect.getdoc(function)
    assert text, f"{name} has no docstring"
    examples = doctest.DocTestParser().get_doctest(text, {"mx": mx, "mlxc": mx}, name, None, 0)
    assert examples.examples or function.__module__ in WITHOUT_EXAMPLE, f"{name} has no example"
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, out=report.append)
    assert result.failed == 0, "".join(report)


def test_plain_functions_describe_their_arguments():
    for name in ("add", "sin", "reshape", "sum", "where", "arange", "take", "matmul", "conv2d", "sort"):
        text = inspect.getdoc(getattr(mx, name))
        for part in ("Args:", "Returns:", "Example:"):
            assert part in text, f"{name} lacks {part}"

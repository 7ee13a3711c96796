"""Module: what counts as a parameter, walking, replacing, modes, copies. All replacements are whole or not at all."""

from __future__ import annotations

import copy
import pickle

import pytest

import mlxc as mx
from mlxc import nn
from mlxc.utils import tree_flatten, tree_unflatten


class Mixed(nn.Module):
    """One of each kind of attribute."""

    def __init__(self):
        super().__init__()
        self.a = mx.zeros(2)
        self._private = mx.ones(1)
        self.number, self.text, self.nothing, self.flag = 3, "x", None, True
        self.parts = [nn.Linear(2, 2), mx.zeros(1), 5, [nn.Identity()]]
        self.table = {"q": nn.Linear(1, 1), "r": 7}
        self.pair = (nn.Linear(1, 1),)
        self.sub = nn.Linear(3, 1)
        self._hidden = nn.Linear(1, 1)


def paths(tree) -> list[str]:
    return [path for path, _ in tree_flatten(tree)]


def same(a: mx.array, b) -> bool:
    return mx.array_equal(a, mx.array(b)).item()


def values(module: nn.Module) -> dict:
    return {path: value.tolist() for path, value in tree_flatten(module.parameters())}


def test_attributes_that_hold_arrays_are_items_and_others_are_not():
    m = Mixed()
    assert list(m) == ["a", "_private", "parts", "table", "pair", "sub", "_hidden"]
    assert m.a is m["a"] and m.sub is m["sub"] and m.number == 3
    assert m.state is m
    assert {"a", "number", "freeze"} <= set(dir(m))


def test_an_attribute_changes_its_kind_with_its_value():
    m = nn.Module()
    m.x = 3
    m.x = mx.zeros(1)
    assert "x" in m and "x" not in vars(m)
    m.x = None
    assert "x" not in m and m.x is None
    m.x = mx.zeros(1)
    del m.x
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'x'"):
        _ = m.x
    with pytest.raises(AttributeError):
        del m.x


def test_an_array_that_the_class_would_hide_is_refused_and_a_property_is_set():
    class Hiding(nn.Module):
        scale = None

        @property
        def half(self):
            return self.full / 2

        @half.setter
        def half(self, value):
            self.full = value * 2

        @property
        def broken(self):
            return self.missing

    m = Hiding()
    for name in ("scale", "update", "keys"):
        with pytest.raises(AttributeError, match=f"'{name}'.*would hide it"):
            setattr(m, name, mx.zeros(1))
    m.half = mx.array([1.0])
    assert list(m) == ["full"] and same(m.full, [2.0]) and same(m.half, [1.0])
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = m.broken
    with pytest.raises(AttributeError):
        m.training = mx.zeros(1)


def test_a_class_may_forget_to_call_its_base():
    class Forgetful(nn.Module):
        def __init__(self):
            self.w = mx.zeros(1)

    assert paths(Forgetful().freeze().train(False).parameters()) == ["w"]


def test_parameters_are_arrays_without_underscore_outside_tuples():
    m = Mixed()
    assert paths(m.parameters()) == [
        "a", "parts.0.weight", "parts.0.bias", "parts.1", "table.q.weight", "table.q.bias", "sub.weight", "sub.bias",
    ]  # fmt: skip
    assert m.parameters()["parts"][2:] == [{}, [{}]]
    assert m.parameters()["table"]["r"] == {}


def test_children_and_leaf_modules_keep_the_places():
    m = Mixed()
    for tree in (m.children(), m.leaf_modules()):
        assert tree["parts"] == [m.parts[0], {}, {}, [m.parts[3][0]]]
        assert tree["table"] == {"q": m.table["q"], "r": {}}
        assert list(tree) == ["parts", "table", "sub", "_hidden"]
    deep = nn.Sequential(nn.Sequential(nn.Identity()))
    assert deep.children()["layers"][0] is deep.layers[0]
    assert deep.leaf_modules() == {"layers": [{"layers": [deep.layers[0].layers[0]]}]}


def test_named_modules_and_modules_go_from_the_top_and_from_the_last_child():
    m = Mixed()
    assert [path for path, _ in m.named_modules()] == ["", "_hidden", "sub", "table.q", "parts.3.0", "parts.0"]
    assert [id(x) for x in m.modules()] == [id(x) for _, x in m.named_modules()]
    seen = []
    assert m.apply_to_modules(lambda path, module: seen.append((path, module))) is m
    assert [path for path, _ in seen] == [path for path, _ in m.named_modules()]


def test_filter_and_map_gives_the_filter_module_name_and_value():
    m = Mixed()
    seen = []

    def keep(module, key, value):
        seen.append((type(module).__name__, key))
        return nn.Module.valid_parameter_filter(module, key, value)

    shapes = m.filter_and_map(keep, lambda a: a.shape)
    assert shapes["sub"] == {"weight": (1, 3), "bias": (1,)}
    assert ("Linear", "weight") in seen and ("Mixed", "parts.1") in seen and ("Mixed", "table.q") in seen
    with pytest.raises(RuntimeError, match="'a' of Mixed is a array"):
        m.filter_and_map(nn.Module.valid_parameter_filter, is_leaf_fn=lambda module, key, value: False)


def test_the_filters():
    m = nn.Linear(1, 1).freeze(keys="bias")
    assert nn.Module.valid_child_filter(m, "_x", {}) and nn.Module.valid_child_filter(m, "x", [])
    assert not nn.Module.valid_child_filter(m, "x", ()) and not nn.Module.valid_child_filter(m, "x", m.weight)
    assert nn.Module.valid_parameter_filter(m, "weight", m.weight)
    for key, value in (("_x", m.weight), ("x", 3), ("x", ())):
        assert not nn.Module.valid_parameter_filter(m, key, value)
    assert nn.Module.trainable_parameter_filter(m, "weight", m.weight)
    assert not nn.Module.trainable_parameter_filter(m, "bias", m.bias)


def test_update_replaces_a_part():
    m = Mixed()
    kept = m.sub.bias
    assert m.update({"a": mx.ones(2), "sub": {"weight": mx.ones((1, 3))}, "parts": [{}, mx.ones(1)]}) is m
    assert same(m.a, [1.0, 1.0]) and same(m.sub.weight, [[1.0, 1.0, 1.0]]) and same(m.parts[1], [1.0])
    assert m.sub.bias is kept
    assert values(m.update(m.parameters())) == values(m)
    m.freeze()
    assert m.update(m.trainable_parameters()) is m


def test_update_finds_places_whose_keys_are_numbers():
    m = nn.Module()
    m.experts = {"0": nn.Linear(1, 1), "1": nn.Linear(1, 1)}
    m.heads = {2: nn.Linear(1, 1)}
    m.rows = [mx.zeros(1) for _ in range(3)]
    flat = [(path, value + 1) for path, value in tree_flatten(m.parameters())]
    m.update(tree_unflatten(flat))
    assert values(m) == {path: value.tolist() for path, value in flat}
    m.update({"rows": {"2": mx.array([9.0])}})
    assert same(m.rows[2], [9.0])


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"zz": mx.zeros(1)}, 'does not have parameter named "zz"'),
        ({"sub": {"zz": mx.zeros(1)}}, 'named "sub.zz"'),
        ({"number": mx.zeros(1)}, 'named "number"'),
        ({"parts": [{}, {}, {}, {}, mx.zeros(1)]}, 'named "parts.4": there is a list of length 4'),
        ({"sub": {"weight": 3}}, "sub.weight should be an array, but received invalid type: int"),
        ({"a": {"x": mx.zeros(1)}}, "a should be an array.*dict"),
        ({"sub": mx.zeros(1)}, "sub should be a tree of parameters.*array"),
        ({"table": {"r": mx.zeros(1)}}, "table.r should be left out, being a int"),
        ({"pair": [{"weight": mx.zeros(1)}]}, "pair should be left out, being a tuple"),
        (5, "argument should be a tree.*int"),
    ],
)
def test_update_refuses_what_does_not_fit_and_changes_nothing(new, message):
    m = Mixed()
    before = values(m)
    with pytest.raises(ValueError, match=message):
        m.update({"a": mx.ones(2), **new} if isinstance(new, dict) and "a" not in new else new)
    assert values(m) == before


def test_update_without_strict_passes_over_unknown_places():
    m = nn.Linear(1, 1)
    m.update({"zz": mx.zeros(1), "bias": mx.array([4.0])}, strict=False)
    assert list(m) == ["weight", "bias"] and same(m.bias, [4.0])
    with pytest.raises(ValueError, match="bias should be an array"):
        m.update({"weight": mx.zeros((1, 1)), "bias": 3}, strict=False)
    assert same(m.bias, [4.0])


def test_apply_maps_parameters_and_not_what_is_private():
    m = Mixed()
    m.apply(lambda a: a + 1)
    assert same(m.a, [1.0, 1.0]) and same(m._private, [1.0])
    m.apply(lambda a: a * 0, lambda module, key, value: key in {"a", "sub", "bias"})
    assert same(m.a, [0.0, 0.0]) and same(m.sub.bias, [0.0]) and not same(m.sub.weight, [[0.0, 0.0, 0.0]])
    before = values(m)
    with pytest.raises(ValueError, match="int"):
        m.apply(lambda a: 3)
    assert values(m) == before


def test_set_dtype_casts_floating_parameters_or_those_of_a_predicate():
    m = nn.Module()
    m.w, m.i = mx.zeros(1), mx.array([1])
    assert m.set_dtype(mx.float16) is None
    assert (m.w.dtype, m.i.dtype) == (mx.float16, mx.int32)
    m.set_dtype(mx.float32, lambda dtype: False)
    assert m.w.dtype == mx.float16
    m.set_dtype(mx.float32, None)
    assert m.i.dtype == mx.float32
    with pytest.raises(TypeError):
        m.set_dtype(3)
    assert m.w.dtype == mx.float32


def test_update_modules_exchanges_layers_at_any_depth():
    m = Mixed()
    new = nn.Identity()
    m.update_modules({"sub": new, "parts": [{}, {}, {}, [nn.RMSNorm(2)]], "table": {"q": new}})
    assert m.sub is new and isinstance(m.parts[3][0], nn.RMSNorm) and isinstance(m.parts[0], nn.Linear)
    assert m.table == {"q": new, "r": 7}
    assert m.update_modules(m.leaf_modules()) is m
    m.update_modules({"zz": new}, strict=False)
    assert "zz" not in m


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"zz": nn.Identity()}, 'does not have sub-module named "zz"'),
        ({"number": nn.Identity()}, "number"),
        ({"a": nn.Identity()}, "a should be left out, being no module"),
        ({"table": {"zz": nn.Identity()}}, 'named "table.zz"'),
        ({"parts": [nn.Identity()] * 9}, "parts.1 should be left out"),
        ({"parts": [{}] * 4 + [nn.Identity()]}, "list of length 4"),
        ({"table": nn.Identity()}, "table should be a tree of modules"),
        ({"table": 3}, "table should be a tree of sub-modules.*int"),
        ({"sub": 3}, "sub should be a tree.*int"),
        (3, "int"),
    ],
)
def test_update_modules_refuses_what_does_not_fit_and_changes_nothing(new, message):
    m = Mixed()
    before = [id(x) for x in m.modules()]
    with pytest.raises(ValueError, match=message):
        m.update_modules({"_hidden": nn.Identity(), **new} if isinstance(new, dict) else new)
    assert [id(x) for x in m.modules()] == before


def test_freeze_leaves_parameters_out_of_the_trainable_ones():
    m = Mixed()
    assert m.freeze() is m and m.freeze() is m
    assert paths(m.trainable_parameters()) == [] and len(paths(m.parameters())) == 8
    m.unfreeze(keys="bias")
    assert paths(m.trainable_parameters()) == ["parts.0.bias", "table.q.bias", "sub.bias"]
    m.unfreeze(keys=["a", "parts.1"], recurse=False)
    assert paths(m.trainable_parameters())[:3] == ["a", "parts.0.bias", "parts.1"]
    m.unfreeze()
    assert paths(m.trainable_parameters()) == paths(m.parameters())
    m.freeze(recurse=False)
    assert paths(m.trainable_parameters()) == [p for p in paths(m.parameters()) if p not in ("a", "parts.1")]


def test_freeze_of_a_container_and_of_one_of_its_items():
    m = nn.Module()
    m.w, m.k = [mx.zeros(1), mx.zeros(1)], nn.Linear(1, 1)
    assert paths(m.freeze(keys="w.0").trainable_parameters()) == ["w.1", "k.weight", "k.bias"]
    assert m.trainable_parameters()["w"][0] == {}
    assert paths(m.freeze(keys="w").trainable_parameters()) == ["k.weight", "k.bias"]
    assert paths(m.freeze(keys="k", recurse=False).trainable_parameters()) == []


def test_freeze_with_strict_refuses_names_that_are_nowhere():
    m = nn.Sequential(nn.Linear(1, 1))
    for call in (m.freeze, m.unfreeze):
        with pytest.raises(KeyError, match="'nope'"):
            call(keys=["bias", "nope"], strict=True)
        with pytest.raises(KeyError, match="'bias'"):
            call(keys="bias", strict=True, recurse=False)
        call(keys="bias", strict=True)
        call(keys="nope")
        with pytest.raises(TypeError, match="keys are names"):
            call(keys=[3])
    m.freeze(keys="bias", strict=True)
    assert paths(m.trainable_parameters()) == ["layers.0.weight"]


def test_unfreeze_asks_each_module():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.fixed = mx.zeros(1), mx.zeros(1)
            self.freeze(keys="fixed")

        def unfreeze(self, **options):
            super().unfreeze(**options)
            return self.freeze(keys="fixed", recurse=False)

    assert paths(nn.Sequential(Keeps()).unfreeze().trainable_parameters()) == ["layers.0.w"]


def test_train_and_eval_set_the_mode_everywhere():
    m = Mixed()
    assert m.training and m.sub.training
    assert m.eval() is m
    assert not any(x.training for x in m.modules())
    m.train()
    assert all(x.training is True for x in m.modules())
    with pytest.raises(AttributeError):
        m.training = False


def test_the_representation_shows_the_tree():
    m = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Identity()), mx.tanh)
    assert repr(m) == (
        "Sequential(\n"
        "  (layers.0): Linear(input_dims=2, output_dims=3, bias=True)\n"
        "  (layers.1): Sequential(\n"
        "    (layers.0): Identity()\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Module()) == "Module()"


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_have_the_same_contents_and_none_in_common(duplicate):
    m = Mixed.__new__(Mixed)
    m.__init__()
    m.sub.freeze(keys="bias").eval()
    other = duplicate(m)
    assert type(other) is Mixed and values(other) == values(m) and vars(other) == vars(m)
    assert repr(other) == repr(m)
    assert paths(other.trainable_parameters()) == paths(m.trainable_parameters())
    assert not other.sub.training and other.table["q"].training
    other.sub.unfreeze().weight += 1
    assert paths(m.trainable_parameters())[-1] == "sub.weight"
    assert not same(m.sub.weight, other.sub.weight)


def test_one_layer_in_two_places_stays_one():
    shared = nn.Linear(2, 2)
    m = copy.deepcopy(nn.Sequential(shared, shared))
    assert m.layers[0] is m.layers[1]
    m.apply(lambda a: a + 1)
    assert same(m.layers[0].bias, (shared.bias + 1).tolist())

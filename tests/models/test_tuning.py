"""Tuning: rows are read or refused by line, losses are masked, and a resumed run is the run that was interrupted."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import small

import mlxc as mx
from mlxc import optimizers
from mlxc.models.lora import linear_to_lora_layers
from mlxc.models.tune import evaluate, masked_loss, train
from mlxc.models.tuning_data import Example, batches, read_examples
from mlxc.utils import tree_flatten

TOKENIZER = small.make_tokenizer()
PLAIN = small.make_tokenizer(template=False)
END = 256


def written(tmp_path, *lines, name="data.jsonl"):
    file = tmp_path / name
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return file


def text_of(ids) -> str:
    return TOKENIZER.decode(ids, skip_special_tokens=False)


def test_rows_of_each_kind_become_ids(tmp_path):
    chat = [{"role": "user", "content": "a\u2028b"}, {"role": "assistant", "content": "c"}]
    file = written(tmp_path, {"text": "xy"}, "", {"prompt": "q", "completion": "r"}, {"messages": chat})
    rows = read_examples(file, TOKENIZER)
    assert [text_of(row.ids) for row in rows] == [
        "xy<|end|>",
        "<|user|>user:q<|end|><|user|>assistant:r<|end|>",
        "<|user|>user:a\u2028b<|end|><|user|>assistant:c<|end|>",
    ]
    assert [row.prompt for row in rows] == [0, 0, 0]
    rows = read_examples(file, TOKENIZER, mask_prompt=True)
    learned = [text_of(row.ids[row.prompt :]) for row in rows]
    assert learned == ["xy<|end|>", "r<|end|>", "c<|end|>"]
    plain = read_examples(written(tmp_path, {"prompt": "q", "completion": "r"}), PLAIN, mask_prompt=True)
    assert [(text_of(row.ids), row.prompt) for row in plain] == [("qr<|end|>", 1)]


def test_plain_text_is_cut_into_pieces(tmp_path):
    file = written(tmp_path, "abcdefgh", name="data.txt")
    assert [text_of(row.ids) for row in read_examples(file, TOKENIZER, 4)] == ["abcd", "efgh"]
    assert [text_of(row.ids) for row in read_examples(file, TOKENIZER, 6)] == ["abcdef", "gh<|end|>"]


def test_long_rows_are_cut(tmp_path):
    rows = read_examples(written(tmp_path, {"text": "abcdefgh"}), TOKENIZER, 5)
    assert text_of(rows[0].ids) == "abcde"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "Expecting"),
        ("7", "the row is int, a JSON object is needed"),
        ('{"txt": "a"}', "messages, prompt and completion, or text; this one has 'txt'"),
        ('{"text": 7}', "'text' is int, text is needed"),
        ('{"text": ""}', "'text' is empty"),
        ('{"prompt": "a", "completion": null}', "'completion' is NoneType"),
        ('{"messages": []}', "'messages' is no list"),
        ('{"messages": [{"content": "x"}]}', "message 0 has no role"),
        ('{"messages": ["x"]}', "message 0 is a dict"),
        ("[" * 100_000, "recursion|Expecting|nested"),
    ],
)
def test_a_broken_row_is_named_by_file_and_line(tmp_path, line, message):
    file = written(tmp_path, {"text": "fine"}, "", line, {"text": "fine"})
    with pytest.raises(ValueError, match=rf"data\.jsonl, line 3: .*({message})"):
        read_examples(file, TOKENIZER)


def test_a_row_with_nothing_to_learn_is_named(tmp_path):
    file = written(tmp_path, {"text": "a"}, {"prompt": "a long question", "completion": "x"})
    with pytest.raises(ValueError, match=r"line 2: nothing to learn, \d+ tokens of which \d+ are the prompt"):
        read_examples(file, TOKENIZER, 9, mask_prompt=True)


def test_files_that_are_no_data_are_refused(tmp_path):
    for name, data, message in (
        ("a.csv", b"x", "JSON lines"),
        ("a.jsonl", b"", "has no rows"),
        ("a.txt", b"", "has no rows"),
        ("b.jsonl", b'{"text": "\xff"}', "is not text in UTF-8"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=f"{name[:-5]}.*{message}"):
            read_examples(tmp_path / name, TOKENIZER)
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl"):
        read_examples(tmp_path / "none.jsonl", TOKENIZER)


def test_batches_have_all_rows_once_a_turn_in_an_order_that_the_seed_fixes():
    examples = [Example(list(range(2, 4 + i))) for i in range(10)]
    turn = 4

    def first_ids(seed):
        rows = batches(examples, 3, seed)
        return [sorted(int(n) for n in mask.sum(axis=1).tolist()) for _, mask in (next(rows) for _ in range(2 * turn))]

    order = first_ids(1)
    assert order == first_ids(1) != first_ids(2)
    for begin in (0, turn):
        assert sorted(itertools.chain(*order[begin : begin + turn])) == list(range(1, 11))
    assert order[:turn] != order[turn:]
    assert [mask.shape[0] for _, mask in batches(examples, 3)] == [3, 3, 3, 1]
    for bad in (([], 3), (examples, 0)):
        with pytest.raises(ValueError, match="both must be positive"):
            next(batches(*bad))


def test_only_what_is_to_be_learned_counts():
    ids, mask = next(batches([Example([5, 6, 7, 8], prompt=2), Example([9, 10])], 2))
    assert ids.shape == (2, 32) and mask.shape == (2, 31)
    rows = {tuple(row[:4]): weights for row, weights in zip(ids.tolist(), mask.tolist(), strict=True)}
    assert rows[5, 6, 7, 8] == [0, 1, 1] + [0] * 28
    assert rows[9, 10, 0, 0] == [1] + [0] * 30
    logits = mx.random.normal((2, 31, 12), key=mx.random.key(0))
    loss, count = masked_loss(lambda given: logits, ids, mask)
    p = np.array(mx.softmax(logits, axis=-1), np.float64)
    row = [tuple(r[:4]) for r in ids.tolist()].index((5, 6, 7, 8))
    terms = [p[row, 1, 7], p[row, 2, 8], p[1 - row, 0, 10]]
    assert count.item() == 3 and loss.item() == pytest.approx(-np.mean(np.log(terms)), rel=1e-6)


def tuned_model(dropout=0.0):
    model = small.make_model(3)
    model.freeze()
    mx.random.seed(11)
    linear_to_lora_layers(model, 2, {"rank": 4, "scale": 4.0, "dropout": dropout})
    return model


ROWS = [Example(TOKENIZER.encode(text)) for text in ("ababababab", "cdcdcdcd", "efefefef", "ghghgh", "ijijij")]


def test_training_learns_and_leaves_the_frozen_weights(tmp_path):
    model = tuned_model()
    before = {name: array for name, array in tree_flatten(model.parameters()) if "lora" not in name}
    begin = evaluate(model, ROWS)
    reports = []
    done = train(
        model, optimizers.Adam(1e-2), ROWS, ROWS[:2], iterations=30, batch_size=2, steps_per_report=7,
        steps_per_evaluation=15, folder=tmp_path, report=reports.append,
    )  # fmt: skip
    assert done == 30 and evaluate(model, ROWS) < 0.7 * begin
    after = dict(tree_flatten(model.parameters()))
    assert all(bool(mx.array_equal(after[name], array)) for name, array in before.items())
    assert [r.iteration for r in reports] == [7, 14, 15, 21, 28, 30]
    assert [r.validation_loss is not None for r in reports] == [False, False, True, False, False, True]
    assert reports[-1].validation_loss == pytest.approx(evaluate(model, ROWS[:2], 2), rel=1e-6)
    assert reports[-1].trained_tokens == sum(r.trained_tokens - q for r, q in zip(
        reports, [0, *(r.trained_tokens for r in reports[:-1])], strict=True))  # fmt: skip
    assert all(r.tokens_per_second > 0 and r.loss > 0 for r in reports) and not model.training


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_resumed_run_gives_the_same_numbers_bit_for_bit(tmp_path, dropout):
    def optimizer():
        return optimizers.AdamW(optimizers.cosine_decay(1e-2, 10))

    how = {"batch_size": 2, "steps_per_save": 3, "seed": 4}
    whole = tuned_model(dropout)
    train(whole, optimizer(), ROWS, iterations=8, folder=tmp_path / "whole", **how)
    model = tuned_model(dropout)
    train(model, optimizer(), ROWS, iterations=5, folder=tmp_path / "parts", **how)
    mx.random.seed(99)
    resumed = tuned_model(dropout)
    assert train(resumed, optimizer(), ROWS, iterations=8, folder=tmp_path / "parts", resume=True, **how) == 3
    for (name, a), (_, b) in zip(
        tree_flatten(whole.trainable_parameters()), tree_flatten(resumed.trainable_parameters()), strict=True
    ):
        assert bool(mx.array_equal(a, b)), name


def test_dora_trains_and_resumes(tmp_path):
    def model():
        made = small.make_model(3)
        made.freeze()
        mx.random.seed(11)
        linear_to_lora_layers(made, 2, {"rank": 4, "scale": 4.0}, use_dora=True)
        return made

    whole, resumed = model(), model()
    begin = evaluate(whole, ROWS)
    train(whole, optimizers.Adam(1e-2), ROWS, iterations=12, batch_size=2, folder=tmp_path)
    assert evaluate(whole, ROWS) < 0.9 * begin
    train(resumed, optimizers.Adam(1e-2), ROWS, iterations=13, batch_size=2, folder=tmp_path, resume=True)
    assert resumed.model.layers[2].self_attn.q_proj.m.shape == (64,)
    with pytest.raises(ValueError, match="differ from the model's"):
        train(tuned_model(), optimizers.Adam(1e-2), ROWS, iterations=14, batch_size=2, folder=tmp_path, resume=True)


def test_an_interrupted_run_goes_on_from_its_last_save(tmp_path, monkeypatch):
    whole = tuned_model()
    train(whole, optimizers.Adam(1e-2), ROWS, iterations=6, batch_size=2)
    model, calls = tuned_model(), []
    real = optimizers.Adam.update

    def update(self, *arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        real(self, *arguments)

    monkeypatch.setattr(optimizers.Adam, "update", update)
    with pytest.raises(KeyboardInterrupt):
        train(model, optimizers.Adam(1e-2), ROWS, iterations=6, batch_size=2, folder=tmp_path, steps_per_save=2)
    monkeypatch.undo()
    resumed = tuned_model()
    assert train(resumed, optimizers.Adam(1e-2), ROWS, iterations=6, batch_size=2, folder=tmp_path, resume=True) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "adapter_config.json", "adapters.safetensors", "training_state.safetensors",
    ]  # fmt: skip
    for (_, a), (_, b) in zip(tree_flatten(whole.parameters()), tree_flatten(resumed.parameters()), strict=True):
        assert bool(mx.array_equal(a, b))


def test_a_state_that_does_not_fit_is_refused(tmp_path):
    train(tuned_model(), optimizers.Adam(1e-2), ROWS, iterations=2, batch_size=2, folder=tmp_path / "a")

    def resume(model, optimizer, folder="a", rows=ROWS, **how):
        train(model, optimizer, rows, iterations=4, folder=tmp_path / folder, resume=True, **{"batch_size": 2, **how})

    adam = optimizers.Adam(1e-2)
    with pytest.raises(FileNotFoundError, match="there is nothing to resume"):
        resume(tuned_model(), adam, "b")
    for how, message in (
        ({"batch_size": 3}, "batch_size was 2 and is 3 now"),
        ({"seed": 1}, "seed was 0 and is 1 now"),
        ({"rows": ROWS[:3]}, "rows was 5 and is 3 now"),
    ):
        with pytest.raises(ValueError, match=rf"training_state\.safetensors: {message}"):
            resume(tuned_model(), adam, **how)
    with pytest.raises(ValueError, match="from another optimizer"):
        resume(tuned_model(), optimizers.Adagrad(1e-2))
    other = small.make_model(3)
    other.freeze()
    linear_to_lora_layers(other, 1, {"rank": 4})
    with pytest.raises(ValueError, match=r"differ from the model's at 'model\.layers\.1"):
        resume(other, adam)
    file = tmp_path / "a" / "training_state.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"training_state\.safetensors"):
        resume(tuned_model(), adam)
    mx.save_safetensors(str(file), {"a": mx.ones(2)})
    with pytest.raises(ValueError, match="is no state of a training"):
        resume(tuned_model(), adam)


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_files(tmp_path):
    model = tuned_model()
    with pytest.raises(ValueError, match=r"the loss of step \d+ is (nan|inf).*after step \d"):
        train(model, optimizers.SGD(1e30), ROWS, iterations=9, batch_size=2, folder=tmp_path, steps_per_save=1)
    arrays = mx.load(str(tmp_path / "adapters.safetensors"))
    assert len(arrays) == 8


def test_wrong_arguments_are_refused():
    adam = optimizers.Adam(1e-2)
    for how in ({"iterations": 0}, {"batch_size": 0}, {"steps_per_save": 1.5}, {"steps_per_report": -1}):
        with pytest.raises(ValueError, match=rf"{next(iter(how))} is .*, a positive whole number"):
            train(tuned_model(), adam, ROWS, **how)
    with pytest.raises(ValueError, match="no folder to resume from"):
        train(tuned_model(), adam, ROWS, resume=True)
    frozen = small.make_model()
    frozen.freeze()
    with pytest.raises(ValueError, match="nothing to train"):
        train(frozen, adam, ROWS)

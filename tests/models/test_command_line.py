"""python -m mlxc.models: each command does its work, and what a user does wrong is one line and status 2."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import small

import mlxc as mx
from mlxc.models import cli_text
from mlxc.models.cli import main
from mlxc.models.cli_text import Chat
from mlxc.models.generate import generate_tokens
from mlxc.models.load import load, load_model
from mlxc.models.prompt_cache import load_prompt_cache, make_cache


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small.make_folder(tmp_path_factory.mktemp("model") / "m")


@pytest.fixture
def run(capsys, folder):
    """Runs a command on the small model: status, output and errors."""

    def call(command, *arguments, model=folder):
        capsys.readouterr()
        status = main([command, "--model", str(model), *map(str, arguments)])
        done = capsys.readouterr()
        return status, done.out, done.err

    return call


def expected_text(folder, prompt: str, count: int, raw: bool = False) -> str:
    model, tokenizer = load(folder)
    chat = [{"role": "user", "content": prompt}]
    ids = tokenizer.encode(prompt) if raw else tokenizer.apply_chat_template(chat, add_generation_prompt=True)
    made = [token for (token,) in generate_tokens(model, [ids], max_tokens=count)]
    stops = [i for i, token in enumerate(made) if token in tokenizer.eos_token_ids]
    return tokenizer.decode(made[: stops[0] if stops else count])


def test_generate_writes_the_text_and_tells_the_speed(run, folder):
    status, out, err = run("generate", "--prompt", "hey", "--max-tokens", 9)
    assert status == 0 and out == expected_text(folder, "hey", 9) + "\n"
    assert "tokens/s" in err and "peak memory" in err
    status, out, err = run("generate", "--prompt", "hey", "--max-tokens", 9, "--raw", "--quiet")
    assert (status, out, err) == (0, expected_text(folder, "hey", 9, raw=True) + "\n", "")


def test_a_prompt_comes_from_standard_input_too(run, folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("hey"))
    assert run("generate", "--prompt", "-", "--max-tokens", 5)[1] == expected_text(folder, "hey", 5) + "\n"


def test_a_seed_gives_the_same_text_again(run):
    drawn = [
        run("generate", "--prompt", "x", "--temp", 1.5, "--seed", seed, "--max-tokens", 12, "--top-p", 0.9)[1]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_saved_prompt_is_gone_on_with(run, folder, tmp_path):
    file = tmp_path / "p.safetensors"
    assert run("generate", "--prompt", "hello", "--max-tokens", 1, "--raw", "--save-prompt-cache", file)[0] == 0
    assert load_prompt_cache(file)[0].offset >= 5
    status, out, _ = run("generate", "--prompt", " you", "--max-tokens", 4, "--raw", "--prompt-cache", file)
    assert status == 0 and out


@pytest.mark.parametrize("more", [["--kv-bits", "8", "--kv-group-size", "16"], ["--max-kv-size", "0"]])
def test_caches_that_are_not_possible_are_refused(run, more):
    status, _, err = run("generate", "--prompt", "x", *more)
    assert status == 2 and err.count("\n") == 1


def test_a_rotating_cache_is_used_when_asked_for(run):
    assert run("generate", "--prompt", "a long prompt", "--max-tokens", 30, "--max-kv-size", 16)[0] == 0


def test_chat_remembers_what_was_said_and_reads_it_once(run, folder, monkeypatch):
    model, tokenizer = load(folder)
    chat = Chat(model, tokenizer, make_cache(model), "be brief")
    for turn, text in enumerate(("hello", "and now")):
        answer = [step.token for step in chat.answer(text, max_tokens=6)]
        whole = tokenizer.apply_chat_template(chat.messages[: 2 * turn + 2], add_generation_prompt=True)
        assert [t for (t,) in generate_tokens(model, [whole], max_tokens=6)][: len(answer)] == answer
    first = len(tokenizer.apply_chat_template(chat.messages[:2], add_generation_prompt=True))
    again = tokenizer.apply_chat_template([*chat.messages, {"role": "user", "content": "x"}])
    assert len(chat.unread(again)) < len(again) - first
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\nand now\n\n"))
    status, out, err = run("chat", "--system-prompt", "be brief", "--max-tokens", 6)
    assert status == 0 and err.count("tokens/s") == 4
    assert out == "".join(m["content"] + "\n" for m in chat.messages if m["role"] == "assistant")


def test_convert_and_quantize_make_folders_that_load(run, tmp_path):
    status, out, err = run("convert", "--output", tmp_path / "half", "--dtype", "float16")
    assert status == 0 and "16.00 bits a weight" in out and "writing" in err
    assert load_model(tmp_path / "half").model.norm.weight.dtype == mx.float16
    status, out, _ = run("quantize", "--output", tmp_path / "q", "--bits", 8, "--group-size", 32)
    assert status == 0 and "22 layers quantised" in out
    assert json.loads((tmp_path / "q" / "config.json").read_text())["quantization"]["bits"] == 8
    status, _, err = run("quantize", "--output", tmp_path / "q2", model=tmp_path / "q")
    assert status == 2 and "is quantised already" in err
    status, out, _ = run(
        "quantize", "--output", tmp_path / "fp", "--mode", "mxfp4", "--dequantize", model=tmp_path / "q"
    )
    assert status == 0 and load_model(tmp_path / "fp")(small.IDS).shape == (2, 8, 258)
    status, out, _ = run("quantize", "--output", tmp_path / "wide", "--group-size", 128)
    assert status == 0 and "19 left as they are (model.embed_tokens: its width" in out


def test_lora_trains_resumes_and_fuse_puts_it_into_the_weights(run, folder, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    rows = [{"text": text} for text in ("abababab", "cdcdcd", "efefefef")]
    for name in ("train", "valid", "test"):
        (data / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    adapters = tmp_path / "adapters"
    how = ["--data", data, "--adapter-path", adapters, "--learning-rate", 1e-2, "--batch-size", 2, "--rank", 4,
           "--steps-per-report", 2, "--save-every", 2]  # fmt: skip
    status, out, _ = run("lora", *how, "--iters", 4)
    assert status == 0 and "step 4: loss" in out and "validation loss" in out and "test loss" in out
    assert "tokens/s" in out and json.loads((adapters / "adapter_config.json").read_text())["num_layers"] == 3
    status, out, _ = run("lora", *how, "--iters", 6, "--resume")
    assert status == 0 and "step 6: loss" in out and "step 4" not in out
    tuned = run("generate", "--prompt", "ab", "--raw", "--max-tokens", 6, "--adapter-path", adapters)[1]
    status, out, _ = run("fuse", "--adapter-path", adapters, "--output", tmp_path / "fused")
    assert status == 0 and "additions put into 6 layers" in out
    assert run("generate", "--prompt", "ab", "--raw", "--max-tokens", 6, model=tmp_path / "fused")[1] == tuned


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["sing"], "invalid choice: 'sing'"),
        (["generate", "--prompt", "x"], "required: --model"),
        (["generate", "--model", "none", "--prompt", "x"], "none: there is no such file or folder"),
        (["generate", "--model", "M", "--prompt", "x", "--max-tokens", "many"], "invalid int value: 'many'"),
        (["generate", "--model", "M", "--prompt", "x", "--temp", "-1"], "temp is -1.0"),
        (["generate", "--model", "M", "--prompt", "x" * 200], "the model's context is 128"),
        (["generate", "--model", "M", "--prompt", "x", "--adapter-path", "none"], "none has no adapter_config.json"),
        (["generate", "--model", "M", "--prompt", "x", "--prompt-cache", "none"], "none"),
        (["generate", "--model", "M", "--prompt", "x", "--prompt-cache", "c", "--kv-bits", "8"], "is for new caches"),
        (["generate", "--model", "M", "--prompt", "x", "--prompt-cache", "c", "--max-kv-size", "8"], "--max-kv-size"),
        (["generate", "--model", "M", "--prompt", "x", "--save-prompt-cache", ""], "the name of a file is needed"),
        (["generate", "--model", "M", "--prompt", "x", "--save-prompt-cache", "/"], "the name of a file is needed"),
        (["generate", "--model", "M", "--prompt", "x", "--save-prompt-cache", "no/c"], "there is no folder no"),
        (["generate", "--model", "M", "--prompt", "x", "--raw", "--system-prompt", "y"], "needs a chat template"),
        (["convert", "--model", "M", "--output", "M"], "exists already"),
        (["convert", "--model", "M", "--output", "o", "--bits", "4"], "are for quantize"),
        (["quantize", "--model", "M", "--output", "o", "--bits", "7"], "7"),
        (["quantize", "--model", "M", "--output", "o", "--group-size", "48"], "32, 64 or 128, got 48"),
        (["quantize", "--model", "M", "--output", "o", "--max-file-gb", "0"], "--max-file-gb is 0.0"),
        (["lora", "--model", "M", "--data", "none"], "none: there is no such file or folder"),
        (["lora", "--model", "M", "--data", "M"], "has no train.jsonl"),
        (["lora", "--model", "M", "--data", "D", "--iters", "0"], "iterations is 0"),
        (["lora", "--model", "M", "--data", "D", "--rank", "0"], "the rank is 0"),
        (["lora", "--model", "M", "--data", "D", "--learning-rate", "0"], "--learning-rate is 0.0"),
        (["lora", "--model", "M", "--data", "D", "--resume", "--adapter-path", "none"], "there is nothing to resume"),
        (["lora", "--model", "M", "--data", "B"], "line 1:"),
        (["fuse", "--model", "M", "--adapter-path", "none", "--output", "o"], "none has no adapter_config.json"),
    ],
)
def test_mistakes_are_one_line_and_status_2(folder, tmp_path, monkeypatch, capsys, *, arguments, message):
    (tmp_path / "d.jsonl").write_text('{"text": "abc"}')
    (tmp_path / "b.jsonl").write_text('{"text": }')
    places = {"M": str(folder), "D": str(tmp_path / "d.jsonl"), "B": str(tmp_path / "b.jsonl")}
    monkeypatch.chdir(tmp_path)
    try:
        status = main([places.get(argument, argument) for argument in arguments])
    except SystemExit as end:  # argparse ends so
        status = end.code
    out, err = capsys.readouterr()
    line = err.strip().splitlines()[-1]
    assert (status, out) == (2, "") and "Traceback" not in err
    assert arguments[:1] == ["lora"] or err == line + "\n", "no progress bar of what never began"
    assert line.startswith("python -m mlxc.models") and "error: " in line and message in line


def test_want_of_memory_is_told_without_a_traceback(monkeypatch, run):
    def load(*_):
        raise MemoryError("640 GB are needed")

    monkeypatch.setattr(cli_text, "load", load)
    assert run("generate", "--prompt", "x") == (2, "", "python -m mlxc.models: error: 640 GB are needed\n")


def test_help_tells_all_commands(capsys):
    for arguments in (
        ["--help"],
        *([name, "--help"] for name in ("generate", "chat", "convert", "quantize", "lora", "fuse")),
    ):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        text = capsys.readouterr().out
        assert end.value.code == 0 and "usage: python -m mlxc.models" in text


def test_a_broken_program_is_no_mistake_of_the_user(monkeypatch, folder):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(cli_text, "load", broken)
    with pytest.raises(ZeroDivisionError):
        main(["generate", "--model", str(folder), "--prompt", "x"])


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX")
def test_ctrl_c_ends_with_status_130_and_keeps_what_was_saved(folder, tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": "abcabcabc"}')
    # A shell's background job ignores the signal, and so would the child.
    program = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_module('mlxc.models', run_name='__main__', alter_sys=True)"
    )
    command = [
        sys.executable, "-c", program, "lora", "--model", folder, "--data", tmp_path, "--iters", "1000000",
        "--save-every", "1", "--adapter-path", tmp_path / "a",
    ]  # fmt: skip
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        until = time.monotonic() + 60
        while not (tmp_path / "a" / "training_state.safetensors").exists() and time.monotonic() < until:
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130 and err.strip().endswith("interrupted") and "Traceback" not in err
    left = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert left == ["adapter_config.json", "adapters.safetensors", "training_state.safetensors"]
    assert len(mx.load(str(tmp_path / "a" / "adapters.safetensors"))) == 12

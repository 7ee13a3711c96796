"""The example's checkpoints: a run that is killed loses at most one interval and goes on bit for bit.

The runs that are killed are processes of their own and end by SIGKILL, where no handler and no exit function runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import train

import mlxc as mx

EXAMPLE = Path(train.__file__).resolve().parent
ARGUMENTS = (
    "--steps 12 --interval 4 --batch 4 --context 16 --width 16 --heads 2 --blocks 1 --dropout 0.1 --sample 8"
).split()

# Kills the process as it draws the batch after step 10, or when the third checkpoint is written and not yet renamed.
KILLERS = {
    "between checkpoints": """
        draw = windows.Windows.draw
        def dying_draw(self):
            if len(drawn) == 10:
                os.kill(os.getpid(), signal.SIGKILL)
            drawn.append(None)
            return draw(self)
        windows.Windows.draw = dying_draw
    """,
    "while writing one": """
        replace = os.replace
        def dying_replace(*args):
            if str(args[1]).endswith(".safetensors"):
                drawn.append(None)
                if len(drawn) == 3:
                    os.kill(os.getpid(), signal.SIGKILL)
            replace(*args)
        os.replace = dying_replace
    """,
}


def run_and_kill(folder: Path, killer: str) -> int:
    """The status of a process that runs the example with what `killer` changes in it."""
    lines = [
        "import os, signal, sys",
        f"sys.path.insert(0, {str(EXAMPLE)!r})",
        "import train, windows",
        "drawn = []",
        *(line[8:] for line in killer.splitlines()),
        "train.main()",
    ]
    command = [sys.executable, "-c", "\n".join(lines), *ARGUMENTS]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120).returncode


def run(folder: Path, *more: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["train.py", *ARGUMENTS, *more])
        train.main()


def read(folder: Path) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in mx.load(str(folder / "transformer_lm.safetensors")).items()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    run(folder)
    return folder


def test_a_run_leaves_a_curve_and_a_text(tmp_path, capsys):
    run(tmp_path, "--steps", "2")
    told = capsys.readouterr().out
    assert "byte pairs has validation loss 2.474" in told and "validation loss 4." in told
    assert "\nHam.\n" in told
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
@pytest.mark.parametrize("when", KILLERS)
def test_a_killed_run_loses_one_interval_and_goes_on_bit_for_bit(uninterrupted, when, tmp_path, capsys):
    assert run_and_kill(tmp_path, KILLERS[when]) == -signal.SIGKILL
    assert len(read(tmp_path)["train_losses"]) == 8
    run(tmp_path, "--resume")
    assert "after step 8" in capsys.readouterr().out
    resumed, expected = read(tmp_path), read(uninterrupted)
    assert sorted(resumed) == sorted(expected)
    for name, value in expected.items():
        assert resumed[name].dtype == value.dtype and np.array_equal(resumed[name], value), name
    assert len(resumed["train_losses"]) == 12 and resumed["validation_losses"][:, 0].tolist() == [4, 8, 12]


def test_what_cannot_be_resumed_is_told_and_left_as_it_is(uninterrupted, tmp_path):
    with pytest.raises(SystemExit, match=r"there is no checkpoint transformer_lm.safetensors to resume from"):
        run(tmp_path, "--resume")
    path = tmp_path / "transformer_lm.safetensors"
    mx.save_safetensors(str(path), {"a": mx.ones(2)})
    with pytest.raises(SystemExit, match="is no checkpoint of this program"):
        run(tmp_path, "--resume")
    path.write_bytes(whole := (uninterrupted / "transformer_lm.safetensors").read_bytes())
    with pytest.raises(SystemExit, match="was made with steps 12, not 4: resume with the same"):
        run(tmp_path, "--resume", "--steps", "4")
    assert path.read_bytes() == whole
    path.write_bytes(whole[:-100])
    with pytest.raises(SystemExit, match=r"transformer_lm.safetensors cannot be read: .*"):
        run(tmp_path, "--resume")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--width", "10", "--heads", "4"], "--width 10 is not a multiple of --heads 4"),
        (["--interval", "0"], "--interval is at least 1, not 0"),
        (["--dropout", "1"], "--dropout is at least 0 and less than 1, not 1.0"),
        (["--temperature", "0"], "--temperature is above 0, not 0.0"),
        (["--checkpoint", "x.npz"], "--checkpoint ends in .safetensors"),
        (["--text", __file__, "--context", "4000"], "too few for 4 windows of 4001 bytes"),
        (["--checkpoint", "missing/x.safetensors"], "there is no folder missing for x.safetensors"),
        (["--text", "missing.txt"], "there is no text missing.txt"),
    ],
)
def test_wrong_options_are_told(tmp_path, capsys, arguments, told):
    with pytest.raises(SystemExit) as stop:
        run(tmp_path, *arguments)
    assert told in capsys.readouterr().err + str(stop.value) and list(tmp_path.iterdir()) == []

"""train and generate as a user types them."""

import json
import pathlib
import signal
import subprocess

import pytest

CONFIG = """
name = "tiny"
seed = 3
[model]
layers = 2
hidden = 64
heads = 4
[data]
corpus = ["{corpus}"]
held_out = 0.05
[training]
iterations = 10
microbatches = 2
batch = 4
sequence = 64
warmup = 2
learning_rate = 5e-3
min_learning_rate = 5e-4
reproducible = true
threads = 1
eval_every = 5
checkpoint_every = 4
[swarm]
stages = 2
"""


@pytest.fixture
def config(tmp_path, corpus):
    path = tmp_path / "tiny.toml"
    path.write_text(CONFIG.format(corpus=corpus))
    return path


def metrics(run: pathlib.Path):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def sha256_line(done):
    lines = [line for line in done.stdout.splitlines() if line.startswith("weights SHA-256 ")]
    assert len(lines) == 1, done.stdout + done.stderr
    return lines[0]


def test_train_writes_what_the_design_promises_and_generates(tmp_path, tributary, config):
    runs = tmp_path / "runs"
    done = tributary("train", config, "--runs", runs)
    assert done.returncode == 0, done.stderr
    assert "iteration 10/10  loss " in done.stdout and "bits per byte" in done.stdout
    assert "\r" not in done.stdout  # not a terminal
    run = runs / "tiny"
    steps = [line for line in metrics(run) if "loss" in line]
    assert [line["iteration"] for line in steps] == list(range(10))
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert [line["iteration"] for line in metrics(run) if "held_out_loss" in line] == [4, 9]
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (run / "model" / name).exists()
    def generate(seed):
        return tributary("generate", run, "--prompt", "the", "--max-tokens", 20, "--seed", seed).stdout

    text = [generate(seed) for seed in (1, 1, 2)]
    assert text[0].startswith("the") and text[0] == text[1] != text[2]
    # Longer than the context of 64 tokens: the text goes on.
    longer = tributary("generate", run, "--prompt", "the", "--max-tokens", 150, "--temperature", "0.5")
    assert longer.returncode == 0, longer.stderr
    assert len(longer.stdout) > 100


def test_one_process_has_the_same_weights_whatever_it_keeps(tmp_path, tributary, config):
    plain = tributary("train", config, "--runs", tmp_path / "plain")
    again = tributary("train", config, "--runs", tmp_path / "again", "--set", "training.recompute_activations=true")
    assert sha256_line(plain) == sha256_line(again)


def test_a_run_stopped_and_resumed_has_the_same_weights_as_one_that_was_not(tmp_path, tributary, config):
    whole = tributary("train", config, "--runs", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr

    runs = tmp_path / "parts"
    process = subprocess.Popen([str(tributary.path), "train", str(config), "--runs", str(runs)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("iteration 2/"):
            process.send_signal(signal.SIGINT)
            break
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "the same command resumes" in rest
    assert "SHA-256" not in rest

    # A run that is not finished generates from its newest checkpoint.
    assert tributary("generate", runs / "tiny", "--prompt", "the", "--max-tokens", 5).returncode == 0

    resumed = tributary("train", config, "--runs", runs)
    assert "resuming after iteration" in resumed.stdout
    assert sha256_line(resumed) == sha256_line(whole)
    steps = [line for line in metrics(runs / "tiny") if "loss" in line]
    assert [line["iteration"] for line in steps] == list(range(10))
    assert [line["tokens"] for line in steps] == [(i + 1) * 2 * 4 * 64 for i in range(10)]


def test_a_killed_run_resumes_from_its_checkpoint_and_skips_a_damaged_one(tmp_path, tributary, config):
    whole = tributary("train", config, "--runs", tmp_path / "whole")
    runs = tmp_path / "parts"
    process = subprocess.Popen([str(tributary.path), "train", str(config), "--runs", str(runs)], stdout=subprocess.PIPE,
                               text=True)
    for line in process.stdout:
        if line.startswith("iteration 9/"):
            process.kill()
            break
    process.communicate(timeout=60)
    newest = runs / "tiny" / "checkpoints" / "iteration-0000000008" / "stage-1.safetensors"
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    resumed = tributary("train", config, "--runs", runs)
    assert resumed.returncode == 0, resumed.stderr
    assert "damaged" in resumed.stdout and "resuming after iteration 4" in resumed.stdout
    assert sha256_line(resumed) == sha256_line(whole)
    assert [line["iteration"] for line in metrics(runs / "tiny") if "loss" in line] == list(range(10))


def test_overrides_win_over_the_environment_and_that_over_the_file(tmp_path, tributary, config):
    done = tributary("train", config, "--runs", tmp_path / "runs", "--set", "training.iterations=3",
                     environment={"TRIBUTARY_TRAINING_ITERATIONS": "4", "TRIBUTARY_NAME": "named"})
    assert done.returncode == 0, done.stderr
    assert "iteration 3/3" in done.stdout
    resolved = (tmp_path / "runs" / "named" / "config.toml").read_text()
    assert "iterations = 3" in resolved and "warmup = 2" in resolved


def test_every_fault_of_a_configuration_is_named_at_once(tmp_path, tributary, config):
    text = config.read_text().replace("batch = 4", "batch = 0\nsequense = 5").replace("heads = 4", 'heads = "four"')
    text = text.replace("stages = 2", "stages = 9\nvoters = 2")
    config.write_text(text)
    done = tributary("train", config, "--runs", tmp_path / "runs")
    assert done.returncode == 2
    lines = text.splitlines()
    unknown = lines.index("sequense = 5") + 1
    assert f"tiny.toml:{unknown}: unknown key training.sequense; did you mean training.sequence?" in done.stderr
    assert f"tiny.toml:{lines.index('heads = ' + chr(34) + 'four' + chr(34)) + 1}: model.heads must be" in done.stderr
    for part in ("training.batch is 0", "swarm.stages is 9", "swarm.voters is 2"):
        assert part in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("arguments, code, part", [
    (["train", "/no/such.toml"], 2, "no/such.toml"),
    (["train"], 2, "config is required"),
    (["nonsense"], 2, ""),
    (["generate", "/no/such/run", "--prompt", "x"], 1, "neither a run's folder"),
    (["generate", "/no/such/run"], 2, "--prompt is required"),
])
def test_wrong_use_is_told_apart_from_failure(tributary, arguments, code, part):
    done = tributary(*arguments)
    assert done.returncode == code
    assert part in done.stderr


@pytest.mark.parametrize("command", [[], ["train"], ["generate"]])
def test_help_has_an_example(tributary, command):
    done = tributary(*command, "--help")
    assert done.returncode == 0
    assert "Example: tributary " in done.stdout


def test_text_that_cannot_be_used_is_named(tmp_path, tributary, config):
    bad = tmp_path / "latin1.txt"
    bad.write_bytes(b"caf\xe9 " * 1000)
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text("{}")
    short = tmp_path / "short.txt"
    short.write_text("too short")
    for override, part in [(f"data.corpus=['{tmp_path}/none.txt']", "none.txt"), (f"data.corpus=['{short}']", "tokens"),
                           (f"data.tokenizer='{tokenizer}'", "model")]:
        done = tributary("train", config, "--runs", tmp_path / "runs", "--set", override)
        assert done.returncode == 1, override
        assert part in done.stderr


def test_a_run_of_another_configuration_is_not_overwritten(tmp_path, tributary, config):
    runs = tmp_path / "runs"
    assert tributary("train", config, "--runs", runs, "--set", "training.iterations=2").returncode == 0
    done = tributary("train", config, "--runs", runs, "--set", "seed=4")
    assert done.returncode == 1
    assert "seed = 4" in done.stderr and "--set name=" in done.stderr


def test_two_processes_do_not_train_one_run(tmp_path, tributary, config):
    runs = tmp_path / "runs"
    first = subprocess.Popen([str(tributary.path), "train", str(config), "--runs", str(runs), "--set",
                              "training.iterations=100000"], stdout=subprocess.PIPE, text=True)
    try:
        next(line for line in first.stdout if line.startswith("iteration "))
        second = tributary("train", config, "--runs", runs)
        assert second.returncode == 1
        assert "another process" in second.stderr
    finally:
        first.send_signal(signal.SIGTERM)
        rest, _ = first.communicate(timeout=60)
    assert first.returncode == 0
    assert "the same command resumes" in rest


def test_a_device_that_is_not_there_is_named(tmp_path, tributary, config):
    done = tributary("train", config, "--runs", tmp_path / "runs", "--set", "training.device='tpu'")
    assert done.returncode == 2 and "training.device" in done.stderr and '"cuda"' in done.stderr, done.stderr
    found = tributary("doctor", "--runs", tmp_path / "runs").stdout
    assert "LibTorch computes on cpu" in found
    if "LibTorch computes on cpu, cuda" in found:
        pytest.skip("there is a GPU")
    done = tributary("train", config, "--runs", tmp_path / "runs", "--set", "training.device='cuda'", "--set",
                     "training.reproducible=false")
    assert done.returncode == 1 and "sees no GPU" in done.stderr and "TORCH_DIR" in done.stderr, done.stderr

"""The same weights give the same numbers as in transformers, and what we write opens there."""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file

torch.set_num_threads(2)


def llama(**changes):
    options = dict(vocab_size=211, hidden_size=96, intermediate_size=160, num_hidden_layers=3, num_attention_heads=6,
                   num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False,
                   initializer_range=0.08)
    options.update(changes)
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**options))


def gpt2(**changes):
    options = dict(vocab_size=211, n_embd=96, n_layer=3, n_head=6, n_positions=64, initializer_range=0.08,
                   attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)
    options.update(changes)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**options))
    # Biases and norms start at 0 and 1; other values test that they are used.
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


MODELS = {
    "llama": lambda: llama(),
    "llama-tied": lambda: llama(tie_word_embeddings=True),
    "llama-all-heads": lambda: llama(num_key_value_heads=6),
    "llama-odd-sizes": lambda: llama(vocab_size=101, hidden_size=60, intermediate_size=77, num_attention_heads=6,
                                     num_key_value_heads=3),
    "llama-theta": lambda: llama(rope_theta=500000.0),
    "gpt2": lambda: gpt2(),
    "gpt2-odd-sizes": lambda: gpt2(vocab_size=101, n_embd=60, n_inner=77),
}


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_gradients_equal_those_of_transformers(name, tmp_path, tributary):
    model = MODELS[name]().float().eval()
    model.save_pretrained(tmp_path / "model")
    windows = np.random.RandomState(3).randint(0, model.config.vocab_size, (3, 33))
    (tmp_path / "tokens.json").write_text(json.dumps(windows.tolist()))
    done = tributary("inspect-gradients", tmp_path / "model", tmp_path / "tokens.json", tmp_path / "ours.safetensors")
    assert done.returncode == 0, done.stderr
    ours = load_file(tmp_path / "ours.safetensors")

    tokens = torch.tensor(windows)
    logits = model(tokens[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
    loss.backward()

    def close(what, mine, theirs):
        scale = np.abs(theirs).max()
        assert np.abs(mine - theirs).max() <= 1e-4 * scale, what

    close("logits", ours["logits"], logits.detach().reshape(-1, logits.shape[-1]).numpy())
    close("loss", ours["loss"], np.array([loss.item()]))
    named = {name: parameter for name, parameter in model.named_parameters()}
    assert {f"gradient.{name}" for name in named} == {key for key in ours if key.startswith("gradient.")}
    for name, parameter in named.items():
        close(name, ours[f"gradient.{name}"], parameter.grad.numpy())


@pytest.fixture(scope="session", params=["llama", "gpt"])
def trained(request, tmp_path_factory, tributary, corpus):
    folder = tmp_path_factory.mktemp("trained")
    config = folder / "run.toml"
    config.write_text(f"""
name = "small"
[model]
family = "{request.param}"
layers = 2
hidden = 64
heads = 4
[data]
corpus = ["{corpus}"]
[training]
iterations = 12
microbatches = 2
batch = 4
sequence = 64
warmup = 2
learning_rate = 5e-3
min_learning_rate = 5e-4
precision = "fp32"
""")
    done = tributary("train", config, "--runs", folder / "runs")
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "small"


def test_a_trained_model_opens_in_transformers(trained, corpus):
    model = transformers.AutoModelForCausalLM.from_pretrained(trained / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained / "model")
    text = corpus.read_text()[:64]
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    assert ids.tolist()[0] == list(text.encode())
    assert tokenizer.decode(ids[0]) == text
    assert tokenizer.eos_token_id == 257
    loss = model(ids, labels=ids).loss.item()
    assert loss < 4.0  # ln 258 = 5.55 before training


def test_generation_equals_that_of_transformers(trained, tributary):
    model = transformers.AutoModelForCausalLM.from_pretrained(trained / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained / "model")
    ids = tokenizer("the river", return_tensors="pt")["input_ids"]
    theirs = tokenizer.decode(model.generate(ids, max_new_tokens=30, do_sample=False)[0], skip_special_tokens=True)
    ours = tributary("generate", trained, "--prompt", "the river", "--max-tokens", "30", "--temperature", "0")
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == theirs + "\n"

"""One process of Tributary against PyTorch eager: the same LLaMA of 8.5 million parameters, 8 x 512 tokens a step.

    .venv/bin/python bench/node_speed.py [--rounds 5] [--threads 2]

Both do the whole step: forward, backward, clipping, AdamW. Rounds of the two take turns, so that a busy machine harms
both; the ratio is that of the medians. Prints a line for each precision.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPE = dict(hidden=256, layers=10, heads=8, kv_heads=8, intermediate=704)
BATCH, SEQUENCE, STEPS = 8, 512, 6

CONFIG = """
name = "speed"
[model]
family = "llama"
layers = {layers}
hidden = {hidden}
heads = {heads}
kv_heads = {kv_heads}
intermediate = {intermediate}
[data]
corpus = ["{corpus}"]
[training]
iterations = {steps}
microbatches = 1
batch = {batch}
sequence = {sequence}
warmup = 1
precision = "{precision}"
threads = {threads}
eval_every = 0
checkpoint_every = 0
[swarm]
wire = "{wire}"
"""


def ours(folder, precision, threads):
    """Seconds of each step but the first, and the program's line on where the time went."""
    config = folder / "speed.toml"
    config.write_text(CONFIG.format(**SHAPE, corpus=folder / "corpus.txt", steps=STEPS, batch=BATCH, sequence=SEQUENCE,
                                    precision=precision, threads=threads, wire=precision))
    with tempfile.TemporaryDirectory(dir=folder) as runs:
        done = subprocess.run([os.environ.get("TRIBUTARY", ROOT / "build" / "tributary"), "train", config, "--runs", runs],
                              check=True, stdout=subprocess.PIPE, text=True)
        lines = [json.loads(line) for line in (pathlib.Path(runs) / "speed" / "metrics.jsonl").read_text().splitlines()]
    shares = next(line for line in done.stdout.splitlines() if line.startswith("time: "))
    return [line["seconds"] for line in lines if "seconds" in line][1:], shares


class Eager:
    """Weights and optimizer in fp32; bf16 by autocast, as one does."""

    def __init__(self, precision):
        torch.manual_seed(0)
        self.precision = precision
        self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=258, hidden_size=SHAPE["hidden"], intermediate_size=SHAPE["intermediate"],
            num_hidden_layers=SHAPE["layers"], num_attention_heads=SHAPE["heads"],
            num_key_value_heads=SHAPE["kv_heads"], max_position_embeddings=SEQUENCE, tie_word_embeddings=True,
            attn_implementation="sdpa", use_cache=False))
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1,
                                           fused=True)

    def steps(self):
        seconds = []
        for _ in range(STEPS):
            tokens = torch.randint(0, 256, (BATCH, SEQUENCE + 1))
            begin = time.perf_counter()
            self.optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16"):
                logits = self.model(tokens[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, 258), tokens[:, 1:].reshape(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            seconds.append(time.perf_counter() - begin)
        return seconds[1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "corpus.txt").write_text("the river runs past seven old mills\n" * 40000)
        for precision, wanted in (("bf16", 1.3), ("fp32", 1.1)):
            eager = Eager(precision)
            mine, theirs = [], []
            for _ in range(arguments.rounds):
                seconds, shares = ours(folder, precision, arguments.threads)
                mine += seconds
                theirs += eager.steps()
            tokens = BATCH * SEQUENCE
            a, b = statistics.median(mine), statistics.median(theirs)
            print(f"{precision}: {eager.parameters / 1e6:.2f} M parameters, tributary {tokens / a:.0f} tokens/s, "
                  f"PyTorch eager {tokens / b:.0f} tokens/s, ratio {b / a:.2f} (wanted {wanted}); {shares}", flush=True)


if __name__ == "__main__":
    main()

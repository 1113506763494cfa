#!/usr/bin/env python3
"""Tokens per second of a swarm (1 data node, 2 relays) against the same model in one process.

Both use all cores of this machine and no link is shaped. The rounds alternate, so that what else the machine does hits
both alike; the ratio of the medians is what counts.

Example: python bench/swarm_overhead.py --rounds 3
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

CONFIG = """
name = "overhead"
[model]
family = "llama"
layers = {layers}
hidden = {hidden}
heads = 8
kv_heads = 4
[data]
corpus = ["{corpus}"]
held_out = 0.0
[training]
iterations = {iterations}
microbatches = {microbatches}
batch = {batch}
sequence = {sequence}
warmup = 1
eval_every = 0
checkpoint_every = 0
precision = "{precision}"
[swarm]
relays = [1, 1]
"""


def train(program, folder, name, *extra):
    command = [program, "train", str(folder / "config.toml"), "--runs", str(folder / "runs"), "--set", f"name={name}", *extra]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    lines = [json.loads(line) for line in (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()]
    # The first iterations warm up: caches, connections, measured times.
    times = [line["seconds"] for line in lines if "loss" in line][2:]
    tokens = [line["tokens"] for line in lines if "loss" in line]
    return (tokens[-1] - tokens[-2]) / statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build" / "tributary"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--precision", default="bf16")
    options = parser.parse_args()
    swarm, single = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = "\n".join(path.read_text(errors="replace") for path in sorted((ROOT / "src").rglob("*.cpp")))
        (folder / "corpus.txt").write_text(text)
        (folder / "config.toml").write_text(CONFIG.format(corpus=folder / "corpus.txt", **vars(options)))
        for i in range(options.rounds):
            swarm.append(train(options.program, folder, f"swarm{i}"))
            single.append(train(options.program, folder, f"single{i}", "--single"))
            print(f"round {i + 1}: swarm {swarm[-1]:.0f} tokens/s, one process {single[-1]:.0f}, "
                  f"ratio {swarm[-1] / single[-1]:.2f}", flush=True)
    print(f"ratio of medians {statistics.median(swarm) / statistics.median(single):.2f}")


if __name__ == "__main__":
    main()

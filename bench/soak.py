#!/usr/bin/env python3
"""Long runs of a real swarm: false deaths while other programs keep the machine busy, and memory under churn.

Example: python bench/soak.py --minutes 10 --iterations 1000
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

CONFIG = """
name = "{name}"
[model]
layers = 3
hidden = 64
heads = 4
[data]
corpus = ["{corpus}"]
held_out = 0.0
[training]
iterations = {iterations}
microbatches = 6
batch = 2
sequence = 64
warmup = 10
eval_every = 0
checkpoint_every = 50
threads = 1
[swarm]
relays = [2, 2, 2]
restart_after_s = 1
"""


class Swarm:
    def __init__(self, folder, name, iterations):
        self.run = folder / "runs" / name
        corpus = folder / "corpus.txt"
        corpus.write_text("\n".join(p.read_text(errors="replace") for p in sorted((ROOT / "src").rglob("*.cpp"))))
        config = folder / f"{name}.toml"
        config.write_text(CONFIG.format(name=name, corpus=corpus, iterations=iterations))
        self.program = str(ROOT / "build" / "tributary")
        self.process = subprocess.Popen([self.program, "train", str(config), "--runs", str(folder / "runs")],
                                        stdout=open(folder / f"{name}.out", "w"))

    def nodes(self):
        done = subprocess.run([self.program, "status", str(self.run), "--json"], capture_output=True, text=True)
        return json.loads(done.stdout)["nodes"] if done.returncode == 0 else []

    def iterations(self):
        try:
            return sum("loss" in line for line in (self.run / "metrics.jsonl").read_text().splitlines())
        except FileNotFoundError:
            return 0

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def false_deaths(folder, minutes):
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    swarm = Swarm(folder, "calm", 10**6)
    try:
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end and swarm.process.poll() is None:
            time.sleep(1)
        nodes = swarm.nodes()
        found = {key: sum(node[key] for node in nodes) for key in ("rejoins", "replays", "repairs", "rewinds")}
        print(f"{minutes} minutes beside two busy processes, {swarm.iterations()} iterations: {found}", flush=True)
        return swarm.process.poll() is None and found["rejoins"] == 0 and found["rewinds"] == 0
    finally:
        swarm.end()
        for process in busy:
            process.kill()


def memory(folder, iterations):
    swarm = Swarm(folder, "churn", iterations + 50)
    early = None
    struck = 0
    try:
        while swarm.iterations() < iterations and swarm.process.poll() is None:
            time.sleep(0.5)
            done = swarm.iterations()
            nodes = {node["id"]: node for node in swarm.nodes()}
            # Node 1 is watched; the other relays are struck now and then.
            if early is None and done >= iterations // 10 and "pid" in nodes.get(1, {}):
                early = resident_mib(nodes[1]["pid"])
            victim = nodes.get(3 + struck % 4)
            if done >= 20 * (struck + 1) and victim and "pid" in victim:
                os.kill(victim["pid"], signal.SIGKILL)
                struck += 1
        late = resident_mib({node["id"]: node for node in swarm.nodes()}[1]["pid"])
        print(f"a relay's resident memory: {early:.0f} MiB after {iterations // 10} iterations, {late:.0f} MiB after "
              f"{swarm.iterations()}, {struck} deaths around it", flush=True)
        return late < early * 1.1 + 8
    finally:
        swarm.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--iterations", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        good = memory(pathlib.Path(name), options.iterations)
        good = false_deaths(pathlib.Path(name), options.minutes) and good
    sys.exit(0 if good else "soak: not as it should be")


if __name__ == "__main__":
    main()

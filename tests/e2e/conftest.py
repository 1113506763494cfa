"""A swarm of real processes, driven by tests: started, watched, struck, and always ended."""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import pytest

CONFIG = """
name = "swarm"
seed = 7
[model]
layers = 3
hidden = 48
heads = 4
kv_heads = 2
[data]
corpus = ["{corpus}"]
held_out = 0.05
[training]
iterations = 60
microbatches = 6
batch = 2
sequence = 48
warmup = 5
learning_rate = 5e-3
min_learning_rate = 5e-4
precision = "fp32"
reproducible = true
threads = 1
eval_every = 0
checkpoint_every = 10
[swarm]
relays = [2, 2, 2]
restart_after_s = 0.2
[network]
latency_ms = 15
"""

# By a relay's last task: in which part of an iteration it stands.
PHASES = {"forward": "forward", "backward": "backward", "fold": "backward", "partial": "reduce", "sum-share": "reduce",
          "set": "reduce", "finish": "seal to commit"}


def wait_for(condition, seconds, what, every=0.01):
    """Until condition() is true; returns its value. `what` is called, or printed, when time is over."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > until:
            pytest.fail(f"no {what() if callable(what) else what} within {seconds} s")
        time.sleep(every)
    return value


def alive(pid):
    try:
        # A process that has ended and waits for its parent is not alive.
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Swarm:
    """One `tributary train` and its nodes."""

    def __init__(self, path, config, runs, overrides, environment, arguments):
        self.runs, self.config, self.path = runs, config, path
        words = [str(path), "train", str(config), "--runs", str(runs), *map(str, arguments)]
        for override in overrides:
            words += ["--set", override]
        name = next((o.removeprefix("name=") for o in overrides if o.startswith("name=")), "swarm")
        self.run = runs / name
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TRIBUTARY_")}
        clean.update(environment)
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean)
        self.lines, self.errors, self.iteration = [], [], 0
        self.readers = [threading.Thread(target=self._read_output), threading.Thread(target=self._read_errors)]
        for reader in self.readers:
            reader.start()
        self.pids = set()

    def _read_output(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if match := re.match(r"iteration (\d+)/", line):
                self.iteration = int(match[1])

    def _read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line.rstrip("\n"))

    def output(self):
        return "\n".join(self.lines + self.errors)

    def reach(self, iteration, seconds=40):
        wait_for(lambda: self.iteration >= iteration or self.process.poll() is not None, seconds,
                 lambda: f"iteration {iteration}; output:\n{self.output()}\n{self.statuses()}")
        assert self.iteration >= iteration, self.output()

    def statuses(self):
        """What the nodes last wrote of themselves, by id; live ones have a pid."""
        done = subprocess.run([str(self.path), "status", str(self.run), "--json"], capture_output=True, text=True,
                              timeout=20)
        if done.returncode != 0:
            return {}
        nodes = {node["id"]: node for node in json.loads(done.stdout)["nodes"]}
        self.pids |= {node["pid"] for node in nodes.values() if "pid" in node}
        return nodes

    def node(self, node_id):
        node = wait_for(lambda: (n := self.statuses().get(node_id)) and "pid" in n and n, 20, f"live node {node_id}")
        return node

    def relays(self, stage):
        return [node for node in self.statuses().values()
                if node["stage"] == stage and node["role"] == "relay" and "pid" in node]

    def strike(self, node, number=signal.SIGKILL):
        os.kill(node["pid"], number)

    def last_task(self, node_id):
        """(kind, iteration) of the task that a node began last, from its log; needs TRIBUTARY_LOG=debug."""
        with open(self.run / "nodes" / str(node_id) / "log.txt", "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 4096))
            tail = log.read().decode(errors="replace")
        found = re.findall(r"task kind=([a-z-]+) iteration=(\d+)", tail)
        return (found[-1][0], int(found[-1][1])) if found else (None, -1)

    def finish(self, seconds=60):
        """Waits for the end; returns the exit code."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"not ended within {seconds} s:\n{self.output()}\n{self.statuses()}")
        for reader in self.readers:
            reader.join()
        return self.process.returncode

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def sha256(self):
        found = [line.rpartition(" ")[2] for line in self.lines if line.startswith("weights SHA-256 ")]
        assert len(found) == 1, self.output()
        return found[0]

    def metrics(self):
        return [json.loads(line) for line in (self.run / "metrics.jsonl").read_text().splitlines()]

    def losses(self):
        return [line["loss"] for line in self.metrics() if "loss" in line]

    def events(self, kind):
        return [line for line in self.metrics() if line.get("event") == kind]

    def work_again(self):
        """(repairs, replays) that the table at the end names."""
        found = [re.match(r"done again\s+(\d+) hops repaired, (\d+) of", line) for line in self.lines]
        match = next(match for match in found if match)
        return int(match[1]), int(match[2])

    def end(self):
        if self.process.poll() is None:
            try:
                self.statuses()
            finally:
                self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join()
        # Nodes end with their supervisor, also frozen ones.
        wait_for(lambda: not any(alive(pid) for pid in self.pids), 10, "end of all nodes")


@pytest.fixture(scope="session")
def swarm_config(tmp_path_factory, corpus):
    path = tmp_path_factory.mktemp("config") / "swarm.toml"
    path.write_text(CONFIG.format(corpus=corpus))
    return path


@pytest.fixture
def swarm(tmp_path, tributary, swarm_config):
    """Starts swarms: swarm("key=value", ..., runs=FOLDER, environment={...}, arguments=["--flag"])."""
    started = []

    def start(*overrides, runs=None, config=None, environment=None, arguments=()):
        started.append(Swarm(tributary.path, config or swarm_config, runs or tmp_path / "runs", overrides,
                             environment or {}, arguments))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture(scope="session")
def expected_sha256(tmp_path_factory, tributary, swarm_config):
    """What the weights must be, whatever happens: those of a single process, by number of iterations and overrides."""
    known = {}

    def sha256(iterations, *overrides):
        key = (iterations, *overrides)
        if key not in known:
            words = [word for override in overrides for word in ("--set", override)]
            done = tributary("train", swarm_config, "--single", "--runs", tmp_path_factory.mktemp("single"), "--set",
                             f"training.iterations={iterations}", *words)
            assert done.returncode == 0, done.stderr
            lines = [line for line in done.stdout.splitlines() if line.startswith("weights SHA-256 ")]
            known[key] = lines[0].rpartition(" ")[2]
        return known[key]

    return sha256

"""How long a flow stands still when a relay on it dies, with real processes and shaped links: from the death to the
first payload that a stand-in sends for a microbatch that the dead one had in hand.

    .venv/bin/python bench/recovery.py [--deaths 20] [--round-trips 0,50,200] [--seed 1]

A swarm of one data node and 3 stages x 2 relays trains; relays are struck one at a time, at seeded instants, once all
are back: killed (SIGKILL), black-holed (nothing passes, connections stay up), frozen (SIGSTOP). Times come from the
nodes' logs. Prints a line for each kind and round trip. The bound on the median is 0.5 s + 4 round trips.
"""
import argparse
import calendar
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = ("killed", "black hole", "frozen")
# A victim without unfinished work delays nobody; so long after, that is taken for granted.
NOTHING_IN_HAND_S = 8

CONFIG = """
name = "recovery"
[model]
layers = 3
hidden = 64
heads = 4
[data]
corpus = ["{corpus}"]
held_out = 0.0
[training]
iterations = 1000000
microbatches = 12
batch = 2
sequence = 64
warmup = 10
eval_every = 0
checkpoint_every = 0
threads = 1
[swarm]
relays = [2, 2, 2]
restart_after_s = 0.5
[network]
latency_ms = {latency_ms}
"""


def stamp_of(line):
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{3})Z ", line)
    if not match:
        return None
    return calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S")) + int(match[2]) / 1000


class Swarm:
    def __init__(self, folder, round_trip_ms):
        self.run = folder / "runs" / "recovery"
        config = folder / "recovery.toml"
        corpus = folder / "corpus.txt"
        corpus.write_text("the river runs past seven old mills\n" * 4000)
        config.write_text(CONFIG.format(corpus=corpus, latency_ms=round_trip_ms / 2))
        program = os.environ.get("TRIBUTARY", str(ROOT / "build" / "tributary"))
        self.output = open(folder / "out.txt", "w")
        self.process = subprocess.Popen([program, "train", str(config), "--runs", str(folder / "runs")],
                                        stdout=self.output, stderr=subprocess.STDOUT,
                                        env={**os.environ, "TRIBUTARY_LOG": "debug"})

    def statuses(self):
        out = {}
        for node in range(7):
            try:
                out[node] = json.loads((self.run / "nodes" / str(node) / "status.json").read_text())
            except (FileNotFoundError, json.JSONDecodeError):
                pass
        return out

    def wait(self, condition, seconds, what):
        until = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                sys.exit(f"the swarm has ended: {(self.run.parent.parent / 'out.txt').read_text()[-2000:]}")
            if time.monotonic() > until:
                sys.exit(f"no {what} within {seconds} s: {self.statuses()}")
            time.sleep(0.02)

    def rows(self):
        try:
            lines = (self.run / "metrics.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [row for row in map(json.loads, lines) if "loss" in row]

    def settle(self):
        """All work, and have done so for two iterations."""
        def all_work():
            nodes = self.statuses()
            return len(nodes) == 7 and all(node["state"] == "working" for node in nodes.values())
        self.wait(all_work, 120, "full strength")
        done = len(self.rows())
        self.wait(lambda: all_work() and len(self.rows()) >= done + 3, 120, "three iterations")

    def logs(self):
        return {node: self.run / "nodes" / str(node) / "log.txt" for node in range(7)}

    def finished_by(self, node):
        """(iteration, microbatch) of what the node had finished, lately."""
        with open(self.logs()[node], "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - (256 << 10)))
            return set(re.findall(r"task kind=fold iteration=(\d+) microbatch=(\d+)",
                                  log.read().decode(errors="replace")))

    def strike(self, kind, victim, wait_s):
        """Seconds until a stand-in sends something for a microbatch that the victim had not finished, and for one that
        it had: that is done again later, once the reduction misses it. None: that did not happen."""
        time.sleep(wait_s)
        sizes = {node: log.stat().st_size for node, log in self.logs().items()}
        pid = self.statuses()[victim]["pid"]
        struck = None
        if kind == "black hole":
            self.control(victim, True)
        else:
            struck = time.time()
            os.kill(pid, signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
        unfinished = finished = None
        until = time.monotonic() + NOTHING_IN_HAND_S
        while time.monotonic() < until and not unfinished:
            time.sleep(0.05)
            before = self.finished_by(victim)
            moves = []
            for node, log in self.logs().items():
                with open(log) as file:
                    file.seek(sizes[node])
                    for line in file:
                        if node == victim and "black-hole on=1" in line:
                            struck = stamp_of(line)
                        match = re.search(r" stand-in iteration=(\d+) microbatch=(\d+)", line)
                        if node != victim and match:
                            moves.append((stamp_of(line), match.groups() in before))
            times = [(at - struck, done) for at, done in moves if struck and at >= struck]
            unfinished = min((at for at, done in times if not done), default=None)
            if finished is None and (finished := min((at for at, done in times if done), default=None)):
                until = time.monotonic() + 1
        if kind == "black hole":
            self.control(victim, False)
        elif kind == "frozen":
            os.kill(pid, signal.SIGCONT)
        return unfinished, finished

    def control(self, node, hole):
        file = self.run / "nodes" / str(node) / "control.json"
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps({"black_hole": hole}))
        beside.rename(file)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deaths", type=int, default=20, help="of each kind and round trip")
    parser.add_argument("--round-trips", default="0,50,200", help="in ms")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    good = True
    for round_trip_ms in map(int, options.round_trips.split(",")):
        with tempfile.TemporaryDirectory() as name:
            swarm = Swarm(pathlib.Path(name), round_trip_ms)
            try:
                swarm.settle()
                for kind in options.kinds.split(","):
                    times, done_again, idle = [], [], 0
                    for _ in range(options.deaths):
                        swarm.settle()
                        usual = statistics.median(row["seconds"] for row in swarm.rows()[-5:])
                        found, again = swarm.strike(kind, chance.randint(1, 6), chance.random() * usual)
                        if found is not None:
                            times.append(found)
                        elif again is not None:
                            done_again.append(again)
                        else:
                            idle += 1
                        if options.verbose:
                            print(f"  {kind}: moves again after {found}, done again after {again}", flush=True)
                    if not times:
                        sys.exit(f"{kind}: no victim had a microbatch in hand; raise --deaths")
                    times.sort()
                    bound = 0.5 + 4 * round_trip_ms / 1000
                    median, late = statistics.median(times), times[min(len(times) - 1, len(times) * 95 // 100)]
                    good = good and median < bound
                    print(f"{kind:10} round trip {round_trip_ms:3} ms: median {median:.3f} s, 95 % {late:.3f} s of "
                          f"{len(times)} ({len(done_again)} had only finished work, {idle} were not missed); "
                          f"bound {bound:.2f} s; an iteration takes {usual:.2f} s", flush=True)
            finally:
                swarm.end()
    sys.exit(0 if good else "a median is over its bound")


if __name__ == "__main__":
    main()

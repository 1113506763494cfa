#!/usr/bin/env python3
"""The same small swarm as eight processes and in the simulated world: how far apart are the iteration times?

Two data nodes and three stages of two relays train a tiny model over shaped ten-location links; three relays are killed
in the middle of iterations and started again. What each node took for its tasks is read from the nodes' logs, and goes
with the links, sizes and kills into a scenario that `tributary sim run` plays with the same protocol objects. Kills
strike in the same iteration, as long after its beginning as they did in the processes.

Relays are slowed down by a factor that is mostly sleep, so that eight of them share few cores without waiting for each
other. Fails (exit 1) when the mean iteration time before the first kill, of calm iterations, of those touched by a kill
(its iteration and the next two), or of all differs by more than --bound, or the commits do.

Example: python bench/real_against_simulated.py --iterations 40 --json
"""
import argparse
import calendar
import collections
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOCATIONS = ROOT / "src" / "base" / "ten_locations.h"
NODES, DATA_NODES, STAGES, REPLICAS = 8, 2, 3, 2
HIDDEN, HEADS, BATCH, SEQUENCE = 32, 4, 2, 64
SLOTS = 4
SLOW = [20, 30, 30, 20, 20, 30]  # by relay; no stage is faster than another, so that none need move
VICTIMS = [2, 4, 6]  # one of each stage
WARM_UP = 2  # what the rehearsal leaves out too
TOUCHED = 3  # iterations from a kill on that feel it
RESTART_AFTER_S = 1.5
AGREE_S = 0.005  # of two logs' times of one instant

CONFIG = """
name = "real"
[model]
layers = {stages}
hidden = {hidden}
heads = {heads}
[data]
corpus = ["{corpus}"]
held_out = 0.0
[training]
iterations = {iterations}
microbatches = {microbatches}
batch = {batch}
sequence = {sequence}
warmup = 10
eval_every = 0
checkpoint_every = 0
threads = 1
[swarm]
data_nodes = {data_nodes}
relays = {relays}
slow = {slow}
slots = {slots}
restart_after_s = {restart_after_s}
move_relays = {move_relays}
[network]
preset = "ten-locations"
time_scale = {time_scale}
"""

TASK = re.compile(r"^(\S+)Z debug task kind=(\S+) iteration=(\d+) microbatch=(\d+)")


def stamp(text):
    """Seconds since the epoch of a log's 2026-01-02T03:04:05.678."""
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) + float("0" + text[19:23])


def stage_of(node):
    return 0 if node < DATA_NODES else 1 + (node - DATA_NODES) // REPLICAS


def locations():
    """Names, one-way latencies (s) and bandwidths (bytes/s) of the preset; node k of a swarm stands at k modulo 10."""
    text = re.sub(r"//.*", "", LOCATIONS.read_text())
    names = re.findall(r'"(\w+)"', text[text.index("kSiteNames"):text.index(";", text.index("kSiteNames"))])

    def matrix(name):
        begin = text.index(name)
        rows = re.findall(r"\{([\d, ]+)\}", text[begin:text.index(";", begin)])
        return [[int(cell) for cell in row.split(",") if cell.strip()] for row in rows]

    latency = [[cell * 1e-3 for cell in row] for row in matrix("kLatencyMs")]
    bandwidth = [[cell * 1e6 / 8 for cell in row] for row in matrix("kBandwidthMbps")]
    if not len(names) == len(latency) == len(bandwidth) == 10:
        sys.exit(f"{LOCATIONS}: expected ten sites; the file's form has changed, adapt locations() here")
    return names, latency, bandwidth


class Swarm:
    """A run of processes; its nodes are killed by us, and started again by `tributary train`."""

    def __init__(self, program, folder, options):
        self.run = folder / "runs" / "real"
        self.output = folder / "train.txt"
        corpus = folder / "corpus.txt"
        corpus.write_text("the river runs past seven old mills\n" * 4000)
        config = folder / "real.toml"
        config.write_text(CONFIG.format(
            corpus=corpus, stages=STAGES, hidden=HIDDEN, heads=HEADS, iterations=options.iterations,
            microbatches=options.microbatches, batch=BATCH, sequence=SEQUENCE, data_nodes=DATA_NODES,
            relays=[REPLICAS] * STAGES, slow=SLOW, slots=SLOTS, restart_after_s=RESTART_AFTER_S,
            time_scale=options.time_scale, move_relays=str(not options.stay).lower()))
        self.process = subprocess.Popen([program, "train", str(config), "--runs", str(folder / "runs")],
                                        stdout=open(self.output, "w"), stderr=subprocess.STDOUT,
                                        env={**os.environ, "TRIBUTARY_LOG": "debug"})

    def rows(self):
        try:
            lines = (self.run / "metrics.jsonl").read_text().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return [row for row in map(json.loads, (line for line in lines if line.endswith("\n"))) if "loss" in row]

    def log(self, node):
        return (self.run / "nodes" / str(node) / "log.txt").read_text(errors="replace").splitlines()

    def wait(self, condition, seconds, what):
        until = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                sys.exit(f"the swarm has ended before {what}: {self.output.read_text()[-2000:]}")
            if time.monotonic() > until:
                sys.exit(f"no {what} within {seconds} s; see {self.run}")
            time.sleep(0.01)

    def kill(self, node, iteration):
        """In the middle of that iteration, by the usual duration. The instant, since the epoch."""
        self.wait(lambda: len(self.rows()) >= iteration, 600, f"iteration {iteration}")
        usual = statistics.median(row["seconds"] for row in self.rows()[-5:])
        time.sleep(0.5 * usual)
        pid = json.loads((self.run / "nodes" / str(node) / "status.json").read_text())["pid"]
        at = time.time()
        os.kill(pid, signal.SIGKILL)
        print(f"iteration {iteration}: killed node {node}", file=sys.stderr, flush=True)
        return at

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def run_real(program, folder, options):
    """Rows of the metrics, logs of the nodes, kills as (iteration, node, instant)."""
    swarm = Swarm(program, folder, options)
    try:
        kills = []
        for k, node in enumerate(VICTIMS):
            iteration = options.iterations * (k + 1) // (len(VICTIMS) + 1)
            kills.append((iteration, node, swarm.kill(node, iteration)))
        swarm.wait(lambda: len(swarm.rows()) >= options.iterations, 600, "the end")
        swarm.process.wait(120)
        return swarm.rows(), [swarm.log(node) for node in range(NODES)], kills
    finally:
        swarm.end()


def tasks_of(log):
    out = []
    for line in log:
        if found := TASK.match(line):
            out.append((stamp(found[1]), found[2], int(found[3]), int(found[4])))
    return out


def commit_times(log):
    """By iteration: when the leader had the commit."""
    return {iteration: at for at, kind, iteration, _ in tasks_of(log) if kind == "apply"}


def measure(logs, latency, touched):
    """Mean seconds of head (data nodes) and backward of each node, slowness included, and of forward over backward.

    A node runs one task at a time and logs its start. A backward pass ends where its fold starts, a head likewise. A
    forward pass ends no later than the node's next task starts, and no later than its activation must have left to be
    in the next stage's hands. Either may be late for lack of work, so only those count where both agree; there are too
    few for each node, but the ratio to its backward passes is the model's.
    """
    tasks = [tasks_of(log) for log in logs]
    # By (iteration, microbatch): (node, when) of forward passes and head. Relays may have moved to other stages.
    starts = collections.defaultdict(list)
    times = collections.defaultdict(list)
    for node, tasks_here in enumerate(tasks):
        for (at, kind, iteration, microbatch), following in zip(tasks_here, tasks_here[1:]):
            if kind in ("forward", "head"):
                starts[iteration, microbatch].append((node, at))
            calm = iteration >= WARM_UP and iteration not in touched
            if calm and kind in ("backward", "head") and following[1] == "fold" and following[3] == microbatch:
                times[node, kind].append(following[0] - at)
    out = []
    for node in range(NODES):
        kind = "backward" if stage_of(node) else "head"
        if not times[node, kind]:
            sys.exit(f"node {node} did no {kind} in calm iterations; take more --iterations")
        out.append({kind: statistics.mean(times[node, kind])})
    forward = backward = 0.0
    for node in range(DATA_NODES, NODES):
        for (at, kind, iteration, microbatch), following in zip(tasks[node], tasks[node][1:]):
            if kind != "forward" or iteration < WARM_UP or iteration in touched:
                continue
            later = [(start, other) for other, start in starts[iteration, microbatch] if start > at]
            if not later:
                continue
            start, other = min(later)  # in the next stage
            if abs(start - latency[node][other] - following[0]) < AGREE_S:
                forward += following[0] - at
                backward += out[node]["backward"]
    if backward == 0:
        sys.exit("no forward pass has a certain end; take more --iterations")
    return out, forward / backward


def write_traces(folder, logs, measured):
    """How the speed of each relay went up and down: after each backward pass began, in units of its mean."""
    begin = tasks_of(logs[0])[0][0]
    for node in range(DATA_NODES, NODES):
        tasks = tasks_of(logs[node])
        lines = ["0,1"]
        last = 0.0
        for (at, kind, _, microbatch), following in zip(tasks, tasks[1:]):
            if kind == "backward" and following[1] == "fold" and following[3] == microbatch and at - begin > last:
                last = at - begin
                factor = (following[0] - at) / measured[node]["backward"]
                lines.append(f"{last:.3f},{min(max(factor, 0.1), 10):.3f}")
        (folder / f"speed-{node}.csv").write_text("\n".join(lines) + "\n")


def scenario_of(options, measured, share, names, latency, bandwidth, events):
    lines = ['name = "simulated"', f"iterations = {options.iterations - WARM_UP}"]
    for node in range(NODES):
        took = measured[node]
        compute = took["head"] if "head" in took else share * took["backward"]
        lines += ["[[machines]]", f"stage = {stage_of(node)}", f'site = "{names[node]}"', f"compute_s = {compute:.6f}",
                  f"slots = {SLOTS if stage_of(node) else 1}"]
        if stage_of(node):
            lines.append(f'trace = "speed-{node}.csv"')
    for name in names:
        lines += ["[[sites]]", f'name = "{name}"']
    lines += ["[links]", f"latency_s = {json.dumps(latency)}", f"bandwidth_Bps = {json.dumps(bandwidth)}"]
    lines += ["[model]", f"hidden = {HIDDEN}", f"layers = {STAGES}", f"heads = {HEADS}", f"batch = {BATCH}",
              f"sequence = {SEQUENCE}"]
    lines += ["[sizes]", f"backward_ratio = {1 / share:.4f}",
              f"microbatches_per_data_node = {options.microbatches // DATA_NODES}"]
    lines += ["[switches]", f"move_relays = {str(not options.stay).lower()}"]
    lines += ["[churn]", 'kind = "trace"', f"events = {json.dumps(events)}"]
    return "\n".join(lines) + "\n"


def run_simulated(program, folder, scenario_with, kills):
    """Plays the scenario once for each kill more: when its iteration begins is known only after those before it.

    `kills`: (iteration, node, seconds into the iteration, seconds until it starts again)."""
    events = []
    for iteration, node, offset, away in [*kills, (None, None, None, None)]:
        file = folder / "simulated.toml"
        file.write_text(scenario_with(events))
        done = subprocess.run([program, "sim", "run", str(file), "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"sim run {file}: {done.stderr}")
        played = json.loads(done.stdout)
        if iteration is None:
            return played, file.read_text()
        begin = played["iterations"][iteration - WARM_UP]["start_s"]
        events += [[round(begin + offset, 6), node, "crash"], [round(begin + offset + away, 6), node, "start"]]


def compare(real, simulated, touched):
    """Rows of (name, iterations, mean and median of both). Durations by iteration."""
    groups = {"before": [i for i in real if i < min(touched)], "calm": [i for i in real if i not in touched],
              "touched": [i for i in real if i in touched], "all": list(real)}
    rows = []
    for name, members in groups.items():
        row = {"iterations": name, "count": len(members)}
        for world, times in (("real", real), ("simulated", simulated)):
            row[world + "_mean_s"] = statistics.mean(times[i] for i in members)
            row[world + "_median_s"] = statistics.median(times[i] for i in members)
        row["difference"] = row["simulated_mean_s"] / row["real_mean_s"] - 1
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=40, help="at least 16, for three kills apart")
    parser.add_argument("--microbatches", type=int, default=8, help="of an iteration; even")
    parser.add_argument("--time-scale", type=float, default=0.3, help="of the ten-location links")
    parser.add_argument("--bound", type=float, default=0.15, help="largest difference of mean iteration times")
    parser.add_argument("--stay", action="store_true", help="relays stay in their stages, in both worlds")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for run and scenario; else they are removed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.iterations < 16 or options.microbatches < 2 or options.microbatches % DATA_NODES:
        parser.error("--iterations must be at least 16, --microbatches even and at least 2")
    if not options.time_scale > 0:
        parser.error("--time-scale must be above 0")
    program = os.environ.get("TRIBUTARY", str(ROOT / "build" / "tributary"))
    if not os.access(program, os.X_OK):
        parser.error(f"{program} is not there: build it, or name it in TRIBUTARY")
    if options.keep:
        try:
            options.keep.mkdir(parents=True)
        except FileExistsError:
            parser.error(f"--keep: {options.keep} exists already; name a new folder")
        return measure_both(program, options.keep.resolve(), options)
    with tempfile.TemporaryDirectory() as name:
        return measure_both(program, pathlib.Path(name), options)


def measure_both(program, folder, options):
    names, latency, bandwidth = locations()
    latency = [[round(cell * options.time_scale, 6) for cell in row] for row in latency]
    bandwidth = [[round(cell / options.time_scale) for cell in row] for row in bandwidth]
    rows, logs, kills = run_real(program, folder, options)
    touched = {iteration + i for iteration, _, _ in kills for i in range(TOUCHED)}
    commits = commit_times(logs[0])
    measured, share = measure(logs, latency, touched)
    timed = []
    for iteration, node, at in kills:
        back = [stamp(line[:23]) for line in logs[node] if " info peer-up " in line and stamp(line[:23]) > at]
        if not back or iteration - 1 not in commits:
            sys.exit(f"node {node}, killed in iteration {iteration}, did not come back; take more --iterations")
        timed.append((iteration, node, at - commits[iteration - 1], back[0] - at))
    write_traces(folder, logs, measured)
    played, scenario = run_simulated(
        program, folder, lambda events: scenario_of(options, measured, share, names, latency, bandwidth, events), timed)
    real = {row["iteration"]: row["seconds"] for row in rows if row["iteration"] >= WARM_UP}
    simulated = {i + WARM_UP: row["duration_s"] for i, row in enumerate(played["iterations"])}
    accepted = {row["iteration"]: options.microbatches - row["excluded"] for row in rows
                if row["iteration"] >= WARM_UP}
    accepted_simulated = {i + WARM_UP: row["accepted"] for i, row in enumerate(played["iterations"])}
    same = accepted == accepted_simulated
    # Each life of a relay begins with empty weights once, and so does each move to another stage.
    moves = sum(" task kind=init " in line for log in logs[DATA_NODES:] for line in log)
    moves -= NODES - DATA_NODES + len(kills)
    moves_simulated = played["counters"]["moved"]
    shown = [i for i in real if i in simulated]
    table = compare({i: real[i] for i in shown}, {i: simulated[i] for i in shown}, touched)
    good = same and all(abs(row["difference"]) <= options.bound for row in table)
    if options.json:
        print(json.dumps({"same_commits": same, "good": good, "bound": options.bound, "commits": len(real),
                          "commits_simulated": len(simulated), "accepted": sum(accepted.values()),
                          "accepted_simulated": sum(accepted_simulated.values()), "moves": moves,
                          "moves_simulated": moves_simulated, "groups": table,
                          "measured": measured, "forward_over_backward": share, "kills": timed, "real_s": real,
                          "simulated_s": simulated,
                          "scenario": scenario}, indent=1))
    else:
        for node, took in enumerate(measured):
            print(f"node {node} ({names[node]}, stage {stage_of(node)}): "
                  + ", ".join(f"{kind} {1e3 * seconds:.1f} ms" for kind, seconds in took.items()))
        for iteration, node, offset, away in timed:
            print(f"kill of node {node}: {offset:.2f} s into iteration {iteration}, back after {away:.2f} s: "
                  + ", ".join(f"{real[i]:.2f}/{simulated[i]:.2f}" for i in range(iteration, iteration + TOUCHED)
                              if i in real and i in simulated) + " s real/simulated")
        print(f"{'iterations':10} {'count':>5} {'real: mean':>11} {'median':>7} {'simulated: mean':>16} {'median':>7} "
              f"{'difference':>10}")
        for row in table:
            print(f"{row['iterations']:10} {row['count']:5} {row['real_mean_s']:11.3f} {row['real_median_s']:7.3f} "
                  f"{row['simulated_mean_s']:16.3f} {row['simulated_median_s']:7.3f} {100 * row['difference']:+9.1f} %")
        print(f"commits {len(real)} and {len(simulated)}, accepted microbatches {sum(accepted.values())} and "
              f"{sum(accepted_simulated.values())}: {'the same' if same else 'NOT the same'}; "
              f"relays moved to other stages {moves} and {moves_simulated} times")
    if not good:
        print(f"beyond {100 * options.bound:.0f} %, or other commits", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""The parts of bench/real_against_simulated.py that need no swarm: what it reads in logs, the scenario it writes."""

import argparse
import importlib.util
import pathlib

import pytest

FILE = pathlib.Path(__file__).resolve().parents[2] / "bench" / "real_against_simulated.py"
OPTIONS = argparse.Namespace(iterations=16, microbatches=8, time_scale=0.1, stay=False)


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("real_against_simulated", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line(seconds, kind, iteration=2):
    return f"2026-01-02T03:04:{seconds:06.3f}Z debug task kind={kind} iteration={iteration} microbatch=0"


def logs_of_one_microbatch(latency):
    """Through the first relay of each stage and back: forward 40 ms, backward 100 ms, head 10 ms."""
    logs = [[] for _ in range(8)]
    at = 1.0
    for node, following in ((2, 4), (4, 6), (6, 0)):
        logs[node] += [line(at, "forward"), line(at + 0.04, "embed")]
        at += 0.04 + latency[node][following]
    logs[0] += [line(at, "head"), line(at + 0.01, "fold")]
    for node in (6, 4, 2):
        logs[node] += [line(at + 1, "backward"), line(at + 1.1, "fold")]
    for node in (3, 5, 7):  # it waits for work after its forward pass, whose end is not known
        logs[node] += [line(3, "forward", 3), line(5, "backward"), line(5.1, "fold")]
    logs[1] += [line(5, "head"), line(5.01, "fold")]
    return logs


def test_logs_give_what_tasks_took(bench):
    latency = bench.locations()[1]
    logs = logs_of_one_microbatch(latency)
    measured, share = bench.measure(logs, latency, touched=set())
    assert measured[0]["head"] == pytest.approx(0.01, abs=2e-3)
    assert all(measured[node]["backward"] == pytest.approx(0.1, abs=2e-3) for node in range(2, 8))
    assert share == pytest.approx(0.4, abs=0.02)
    with pytest.raises(SystemExit, match="more --iterations"):
        bench.measure(logs, latency, touched={2})


def test_kills_strike_in_their_iterations_of_the_rehearsal(bench, tributary, tmp_path):
    names, latency, bandwidth = bench.locations()
    measured = [{"head": 0.01}] * 2 + [{"backward": 0.1}] * 6
    bench.write_traces(tmp_path, logs_of_one_microbatch(latency), measured)
    kills = [(5, 2, 0.5, 2.0), (10, 4, 0.7, 2.0)]
    played, _ = bench.run_simulated(
        str(tributary.path), tmp_path,
        lambda events: bench.scenario_of(OPTIONS, measured, 0.5, names, latency, bandwidth, events), kills)
    crashes = [row["crashes"] for row in played["iterations"]]
    assert crashes == [1 if i + bench.WARM_UP in (5, 10) else 0 for i in range(14)]
    assert all(row["accepted"] == 8 for row in played["iterations"])


def test_the_verdict_is_about_means_of_groups_of_iterations(bench):
    real = {i: 2.0 for i in range(2, 12)}
    rows = bench.compare(real, {**real, 5: 3.0}, touched={5, 6})
    counts = {row["iterations"]: row["count"] for row in rows}
    assert counts == {"before": 3, "calm": 8, "touched": 2, "all": 10}
    assert [round(row["difference"], 3) for row in rows] == [0, 0, 0.25, 0.05]

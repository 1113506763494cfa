"""tributary sim chaos as a user types it."""

import json
import pathlib

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def test_the_same_seeds_leave_the_same_trace(tributary):
    runs = [json.loads(tributary("sim", "chaos", "--seed", 3, "--seeds", 8, "--json").stdout) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0]["failures"] == [] and runs[0]["crashes"] > 0 and runs[0]["counters"]["repairs"] > 0


def test_the_log_tells_what_happens_to_machines(tributary):
    done = tributary("sim", "chaos", "--seed", 3, "--log")
    assert done.returncode == 0, done.stderr
    assert "crash" in done.stdout and "commit" in done.stdout


def test_a_seed_that_is_no_number_is_wrong_use(tributary):
    assert tributary("sim", "chaos", "--seed", "many").returncode == 2


def test_a_rehearsal_says_where_the_time_goes_and_writes_a_trace(tributary, tmp_path):
    trace = tmp_path / "trace.json"
    done = tributary("sim", "run", EXAMPLES / "ten-locations.toml", "--iterations", 3, "--churn", 0.2, "--trace", trace)
    assert done.returncode == 0, done.stderr
    assert "mean" in done.stdout and "computing" in done.stdout and "perfetto" in done.stdout
    events = json.loads(trace.read_text())["traceEvents"]
    lanes = {event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "process_name"}
    assert len(lanes) == 8 and any(event["ph"] == "X" and event["dur"] > 0 for event in events)


def test_rehearsals_of_one_seed_are_the_same(tributary):
    words = ("sim", "run", EXAMPLES / "ten-locations.toml", "--iterations", 2, "--seed", 4, "--json")
    runs = [json.loads(tributary(*words).stdout) for _ in range(2)]
    assert runs[0] == runs[1] and len(runs[0]["iterations"]) == 2


def test_a_wrong_scenario_is_wrong_use_and_names_the_line(tributary, tmp_path):
    scenario = tmp_path / "wrong.toml"
    scenario.write_text("iterations = 3\nmachine = 4\n")
    done = tributary("sim", "run", scenario)
    assert done.returncode == 2
    assert "line 2: machine is unknown" in done.stderr

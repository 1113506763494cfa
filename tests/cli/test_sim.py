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


def test_a_search_of_a_sound_protocol_finds_nothing_and_is_the_same_twice(tributary):
    runs = [tributary("sim", "search", "--seeds", 6, "--json") for _ in range(2)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    found = json.loads(runs[0].stdout)
    assert runs[0].stdout == runs[1].stdout
    assert found["found"] is None and found["seeds"] == 6 and found["crashes"] > 0
    assert 0 < found["slowest_recovery_s"] < found["its_bound_s"]


def test_a_replay_command_leaves_out_what_it_does_not_name(tributary):
    words = ("sim", "chaos", "--seed", 5, "--without", 3, "--iterations", 2, "--json")
    calm = json.loads(tributary(*words, "--strikes", "none").stdout)
    one = json.loads(tributary(*words, "--strikes", 5).stdout)
    assert calm["crashes"] == 0 and calm["iterations"] == 2 and one["trace"] != calm["trace"]
    assert tributary(*words).returncode == 2 and tributary(*words, "--strikes", "few").returncode == 2


TROUBLED = """
iterations = 4
[[sites]]
name = "north"
uplink_Bps = 4e7
[[sites]]
name = "south"
[[machines]]
site = "north"
compute_s = 0.2
[[machines]]
count = 4
stage = 1
site = ["north", "south"]
compute_s = {uniform = [0.4, 0.8]}
slots = 3
trace = "slow.csv"
[links]
latency_s = "latency.csv"
[churn]
kind = "spot"
per_node_hour = 60
notice_s = 5
away_mean_s = 5
[churn.freezes]
per_node_hour = 60
mean_s = 1
"""


def test_a_scenario_with_tables_is_run_checked_and_searched(tributary, tmp_path):
    scenario = tmp_path / "troubled.toml"
    scenario.write_text(TROUBLED)
    (tmp_path / "slow.csv").write_text("time_s,slowness\n5,2\n9,1\n")
    (tmp_path / "latency.csv").write_text("0.001,0.05\n0.05,0.001\n")
    done = tributary("sim", "run", scenario, "--check", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["iterations"]) == 4
    less = tributary("sim", "run", scenario, "--check", "--without", "chance,freezes", "--json")
    assert less.returncode == 0 and json.loads(less.stdout)["trace"] != json.loads(done.stdout)["trace"]
    assert tributary("sim", "run", scenario, "--without", "rain").returncode == 2
    plain = tributary("sim", "run", scenario, "--check", "--off", "all", "--json")
    assert plain.returncode == 0 and json.loads(plain.stdout)["trace"] != json.loads(done.stdout)["trace"]
    wrong = tributary("sim", "run", scenario, "--off", "luck")
    assert wrong.returncode == 2 and "--off: " in wrong.stderr and "early_aggregation" in wrong.stderr
    search = tributary("sim", "search", "--scenario", scenario, "--seeds", 5)
    assert search.returncode == 0, search.stdout
    assert "no rule was broken" in search.stdout
    (tmp_path / "slow.csv").write_text("5,fast\n")
    wrong = tributary("sim", "run", scenario)
    assert wrong.returncode == 2 and "slow.csv: line 1, field 2 must be a number" in wrong.stderr


def test_islands_lose_less_than_one_fleet(tributary):
    done = tributary("sim", "run", EXAMPLES / "islands.toml", "--json")
    assert done.returncode == 0, done.stderr
    goodput = {row["name"]: row["goodput"] for row in json.loads(done.stdout)["islands"]}
    assert abs(goodput["one, elastic"] - 0.58) < 0.02
    assert abs(goodput["8, any one ends a round"] - 0.88) < 0.02
    assert abs(goodput["16, any one ends a round"] - 0.93) < 0.02
    assert goodput["8, every round waits for all"] < 0.7

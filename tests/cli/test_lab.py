"""tributary sim play and sim compare as a user types them."""

import json
import pathlib

import pytest

SCENARIOS = sorted((pathlib.Path(__file__).parent.parent / "data" / "sim").glob("*.json"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_fixed_scenario_is_played_exactly(tributary, path):
    done = tributary("sim", "play", path, "--json")
    assert done.returncode == 0, done.stderr
    expected = json.loads(path.read_text())["expected"]
    played = json.loads(done.stdout)
    # The detections of one instant come in no particular order.
    for each in (expected, played):
        each["detections"].sort(key=lambda detection: (detection["t"], detection["node"], detection["dead"]))
    assert played == expected


def test_both_scenarios_are_there():
    assert {"crash-backward-repair", "fifo-capacity"} <= {path.stem for path in SCENARIOS}


def test_without_json_it_says_when_each_microbatch_is_done(tributary):
    done = tributary("sim", "play", SCENARIOS[0])
    assert "microbatch 0 done at 19.75 s" in done.stdout and "node 3 notices at 12.0 s that 1 is dead" in done.stdout


def test_a_file_that_is_no_scenario_is_named(tributary, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"nodes": 3}')
    done = tributary("sim", "play", bad)
    assert done.returncode == 1 and "bad.json" in done.stderr and '"nodes"' in done.stderr
    assert tributary("sim", "play", tmp_path / "nowhere.json").returncode == 1
    assert tributary("sim", "play").returncode == 2


WORLDS = sorted((pathlib.Path(__file__).parent.parent / "data" / "sim" / "worlds").glob("*.json"))


def test_compare_tells_the_published_methods_and_ours_apart(tributary):
    arguments = ["sim", "compare", *WORLDS, "--churn", "0,0.1", "--json",
                 "--routers", "swarm,swarm-refusing,swarm-round-robin,gwtf,ours"]
    done = tributary(*arguments)
    assert done.returncode == 0, done.stderr
    rows = {(row["churn"], row["policy"]): row for row in json.loads(done.stdout)}
    assert len(rows) == 10
    for (churn, policy), row in rows.items():
        ours = rows[churn, "ours"]
        assert row["mean_iteration_s"] > row["lower_bound_s"]
        assert (row["crashes"] > 0) == (churn > 0)
        assert row["accepted_per_10_s"] <= row["parts_per_10_s"] + 1e-9
        if policy != "ours":
            assert ours["mean_iteration_s"] < row["mean_iteration_s"]
            assert ours["accepted_per_10_s"] > row["accepted_per_10_s"]
        if churn == 0:
            assert row["accepted_per_10_s"] == pytest.approx(row["parts_per_10_s"])
    assert tributary(*arguments).stdout == done.stdout


def test_compare_names_what_is_wrong(tributary):
    done = tributary("sim", "compare", WORLDS[0], "--policies", "luck")
    assert done.returncode == 2 and "swarm-refusing" in done.stderr
    assert tributary("sim", "compare", "nowhere.json").returncode == 1


def test_relays_are_dealt_to_stages_as_dtfm_would(tributary):
    world = SCENARIOS[0].parent / "worlds" / "b0.json"
    done = tributary("flow", "place", world, "--json")
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert out["after"]["total_s"] < 0.9 * out["before"]["total_s"]
    stages = [machine["stage"] for machine in out["machines"]]
    assert sorted(stages) == sorted(machine["former_stage"] for machine in out["machines"]) and stages[:5] == [0] * 5
    assert "after: " in tributary("flow", "place", world).stdout
    times = []
    for place in ([], ["--place", "dtfm"]):
        run = tributary("sim", "run", world, "--iterations", 1, "--json", *place)
        assert run.returncode == 0, run.stderr
        out = json.loads(run.stdout)
        assert out["iterations"][0]["idle_s"] < out["iterations"][0]["duration_s"]
        times.append((out["mean_iteration_s"], out["lower_bound_s"]))
    assert times[0][0] != times[1][0] and times[0][1] > 0 and times[1][1] == 0
    assert tributary("flow", "place", world, "--router", "luck").returncode == 2

"""tributary sim play as a user types it."""

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

"""tributary sim chaos as a user types it."""

import json


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

"""tributary sim compare: the table whatever the threads, going on after a stop, and what it says when something is wrong."""

import json
import re
import signal
import subprocess

import pytest

SCENARIO = """
name = "small"
[[machines]]
stage = 0
compute_s = 0.5
slots = 4
[[machines]]
count = 2
stage = 1
compute_s = 0.5
slots = 2
[sizes]
message_bytes = 1e6
aggregation_bytes = 1e7
state_bytes = 1e7
microbatches_per_data_node = 4
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def words(scenario, *more):
    return ["sim", "compare", scenario, "--churn", "0,0.2", "--seeds", 2, "--iterations", 3, "--json", *more]


def test_all_routers_are_in_one_table_whatever_the_number_of_jobs(tributary, scenario):
    done = tributary(*words(scenario, "--jobs", 1))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["policy"] for row in rows] == 2 * ["swarm", "swarm-refusing", "swarm-round-robin", "gwtf", "ours", "protocol"]
    for row in rows:
        assert row["runs"] == 2 and row["iterations"] == 6
        parts = sum(row[key] for key in ("wait_s", "transfer_s", "compute_s", "last_s", "end_s"))
        assert parts == pytest.approx(row["mean_iteration_s"])
        assert row["compute_s"] == pytest.approx(0.5 * 3 + 0.5)
        assert (row["messages"] is not None) == (row["policy"] == "protocol")
    assert tributary(*words(scenario, "--jobs", 5)).stdout == done.stdout
    assert "12 of 24 runs" in done.stderr and "24 of 24 runs" in done.stderr


def test_another_router_in_the_protocol(tributary, scenario):
    done = tributary(*words(scenario, "--routers", "protocol/earliest-finish,protocol"))
    assert done.returncode == 0, done.stderr
    assert [row["policy"] for row in json.loads(done.stdout)][:2] == ["protocol/earliest-finish", "protocol"]


def test_finished_runs_are_taken_from_the_folder_and_damaged_lines_are_skipped(tributary, scenario, tmp_path):
    folder = tmp_path / "kept"
    first = tributary(*words(scenario, "--resume", folder))
    assert first.returncode == 0, first.stderr
    cells = folder / "cells.txt"
    lines = cells.read_text().splitlines()
    assert len(lines) == 24
    damaged = [lines[0].replace('"time_s":', '"time_s":1'), *lines[1:-1], lines[-1][:40]]
    cells.write_text("\n".join(damaged))
    second = tributary(*words(scenario, "--resume", folder))
    assert second.returncode == 0 and second.stdout == first.stdout
    assert "cells.txt:1: skipped, its checksum is wrong" in second.stderr and "cells.txt:24: skipped" in second.stderr
    assert sorted(set(cells.read_text().splitlines()) & set(lines)) == sorted(lines)
    assert tributary(*words(scenario, "--resume", folder)).stdout == first.stdout
    # Another scenario's runs are others.
    scenario.write_text(SCENARIO.replace("0.5", "0.75"))
    assert tributary(*words(scenario, "--resume", folder)).stdout != first.stdout


def test_a_comparison_that_was_stopped_goes_on(tributary, scenario, tmp_path):
    long = ["sim", "compare", scenario, "--churn", "0.1", "--seeds", 400, "--routers", "gwtf,protocol", "--jobs", 1]
    process = subprocess.Popen([tributary.path, *map(str, long), "--resume", tmp_path / "kept"], stderr=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert "of 800 runs" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and out == ""
    assert "stopping after the runs that go on now" in err and f"--resume {tmp_path / 'kept'}" in err
    kept = len((tmp_path / "kept" / "cells.txt").read_text().splitlines())
    assert 40 <= kept < 800
    # Its own advice is a command that works; fewer seeds keep this short.
    advice = re.search(r"tributary (sim compare .*)", err).group(1).replace("--seeds 400", "--seeds 3").split()
    done = tributary(*advice)
    assert done.returncode == 0 and "| gwtf" in done.stdout


def test_what_is_wrong_is_named(tributary, scenario, tmp_path):
    done = tributary("sim", "compare", scenario, "--routers", "luck")
    assert done.returncode == 2 and "protocol" in done.stderr
    done = tributary("sim", "compare", scenario, "--routers", "protocol/luck")
    assert done.returncode == 2 and "labels" in done.stderr
    scenario.write_text("iterations = 3\nmachine = 4\n")
    done = tributary("sim", "compare", scenario)
    assert done.returncode == 1 and "small.toml: line 2: machine is unknown" in done.stderr
    scenario.write_text(SCENARIO)
    (tmp_path / "file").write_text("")
    done = tributary(*words(scenario, "--resume", tmp_path / "file"))
    assert done.returncode == 1 and "file" in done.stderr
    done = tributary(*words(scenario, "--html", tmp_path / "no" / "such" / "page.html"))
    assert done.returncode == 1 and "page.html" in done.stderr


def test_what_each_idea_is_worth(tributary, scenario, tmp_path):
    ablate = ["sim", "compare", scenario, "--ablate", "--churn", "0.3", "--seeds", 2, "--iterations", 2, "--json"]
    done = tributary(*ablate, "--resume", tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    names = [row["idea"] for row in out["ideas"]]
    assert names[:2] == ["early_aggregation", "uneven_shares"] and names[-3:] == ["planned_paths", "fast_detection", "all"]
    assert [row["policy"] for row in out["rows"]] == ["protocol", *(f"without/{name}" for name in names)]
    for row in out["ideas"]:
        assert row["pairs"] == 2 and row["left_out"] == 0
        for change in (row["iteration_change"], row["per_accepted_change"]):
            assert change["low"] <= change["mean"] <= change["high"]
    kept = (tmp_path / "kept" / "cells.txt").read_text()
    assert len(kept.splitlines()) == 20
    assert tributary(*ablate, "--resume", tmp_path / "kept", "--jobs", 3).stdout == done.stdout
    assert (tmp_path / "kept" / "cells.txt").read_text() == kept
    text = tributary(*ablate[:-1], "--resume", tmp_path / "kept", "--html", tmp_path / "page.html")
    assert text.returncode == 0 and "| 0.3   | fast_detection " in text.stdout and "95 % interval" in text.stdout
    assert '"idea":"fast_detection"' in (tmp_path / "page.html").read_text()
    assert tributary(*ablate, "--routers", "ours").returncode == 2
    assert tributary("sim", "compare", scenario, "--routers", "without/luck").returncode == 2

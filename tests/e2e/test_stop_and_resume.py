"""A run is stopped and goes on: same command, other machines, same weights."""

import pytest

ITERATIONS = 30


@pytest.mark.parametrize("others", [[], ["swarm.relays=[1, 2, 3]"], ["swarm.relays=[1, 1, 1]", "swarm.slots=2"]])
def test_a_halted_run_resumes_to_the_same_weights(swarm, expected_sha256, tmp_path, others):
    first = swarm(f"training.iterations={ITERATIONS}")
    first.reach(7)
    first.interrupt()
    assert first.finish() == 0, first.output()
    assert any(line.endswith("the same command resumes") for line in first.lines), first.output()
    done = len(first.losses())
    assert 7 <= done < ITERATIONS
    assert (first.run / "checkpoints" / f"iteration-{done:010}").is_dir()

    second = swarm(f"training.iterations={ITERATIONS}", *others)
    assert second.finish() == 0, second.output()
    assert second.sha256() == expected_sha256(ITERATIONS)
    iterations = [line["iteration"] for line in second.metrics() if "loss" in line]
    assert iterations == list(range(ITERATIONS))  # none was computed twice, none left out


def test_a_run_whose_every_process_was_killed_resumes(swarm, expected_sha256):
    first = swarm(f"training.iterations={ITERATIONS}")
    first.reach(14)
    first.end()
    second = swarm(f"training.iterations={ITERATIONS}")
    assert second.finish() == 0, second.output()
    assert second.sha256() == expected_sha256(ITERATIONS)


def test_a_single_process_goes_on_where_a_swarm_stopped(swarm, tributary, swarm_config, expected_sha256):
    first = swarm(f"training.iterations={ITERATIONS}")
    first.reach(7)
    first.interrupt()
    assert first.finish() == 0, first.output()
    done = tributary("train", swarm_config, "--single", "--runs", first.runs, "--set",
                     f"training.iterations={ITERATIONS}")
    assert done.returncode == 0, done.stderr
    assert f"resuming after iteration {len(first.losses())}" in done.stdout or "resuming" in done.stdout
    assert f"weights SHA-256 {expected_sha256(ITERATIONS)}" in done.stdout


def test_a_swarm_goes_on_where_a_single_process_stopped(swarm, expected_sha256):
    first = swarm(f"training.iterations={ITERATIONS}", "swarm.relays=[]", "swarm.stages=3")
    first.reach(7)
    first.interrupt()
    assert first.finish() == 0, first.output()
    done = len(first.losses())
    assert 7 <= done < ITERATIONS
    second = swarm(f"training.iterations={ITERATIONS}")
    assert second.finish() == 0, second.output()
    assert second.sha256() == expected_sha256(ITERATIONS)
    assert [line["iteration"] for line in second.metrics() if "loss" in line] == list(range(ITERATIONS))

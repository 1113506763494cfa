"""Relays that leave, freeze, or die all at once."""

import signal

import pytest

from conftest import wait_for

ITERATIONS = 30


def test_sigterm_leaves_politely_and_nothing_is_computed_again(swarm, expected_sha256):
    one = swarm(f"training.iterations={ITERATIONS}")
    one.reach(8)
    gone = one.relays(2)[0]
    one.strike(gone, signal.SIGTERM)
    wait_for(lambda: one.statuses()[gone["id"]]["state"] == "left", 20, "polite end")
    one.reach(one.iteration + 3)
    assert one.finish() == 0, one.output()
    assert one.events("death") == [] and one.events("start") == []
    assert one.work_again()[1] == 0
    assert one.sha256() == expected_sha256(ITERATIONS)


def test_a_frozen_relay_is_led_round_and_comes_back_when_it_thaws(swarm, expected_sha256):
    one = swarm(f"training.iterations={ITERATIONS}")
    one.reach(8)
    frozen = one.relays(2)[0]
    one.strike(frozen, signal.SIGSTOP)
    one.reach(one.iteration + 4)
    one.strike(frozen, signal.SIGCONT)
    assert one.finish() == 0, one.output()
    assert one.events("death") == []
    assert one.sha256() == expected_sha256(ITERATIONS)


@pytest.mark.parametrize("stage", [1, 3])
def test_all_relays_of_a_stage_die_at_once_and_the_run_rewinds(swarm, expected_sha256, stage):
    one = swarm(f"training.iterations={ITERATIONS}")
    one.reach(13)
    for node in one.relays(stage):
        one.strike(node)
    assert one.finish() == 0, one.output()
    assert len(one.events("death")) == 2 and len(one.events("start")) == 2, one.output()
    assert any(line.startswith("rewound to iteration ") for line in one.lines), one.output()
    assert one.sha256() == expected_sha256(ITERATIONS)
    # The metrics tell of each iteration once.
    assert [line["iteration"] for line in one.metrics() if "loss" in line] == list(range(ITERATIONS))


def test_the_churn_schedule_strikes_as_written(swarm, swarm_config, tmp_path, expected_sha256):
    path = tmp_path / "churn.toml"
    events = [(5, "kill", 1, 0), (9, "freeze", 2, 1), (13, "thaw", 2, 1), (16, "restart", 1, 0), (18, "leave", 3, 0)]
    path.write_text(swarm_config.read_text() + "".join(
        f'[[churn.schedule]]\niteration = {i}\naction = "{a}"\nstage = {s}\nreplica = {r}\n' for i, a, s, r in events))
    one = swarm(f"training.iterations={ITERATIONS}", config=path)
    assert one.finish() == 0, one.output()
    assert [line for line in one.lines if line.startswith("churn: ")] == [
        f"churn: {action} node {1 + 2 * (stage - 1) + replica} (stage {stage})" for _, action, stage, replica in events]
    assert [event["node"] for event in one.events("death")] == [1]
    assert [event["node"] for event in one.events("start")] == [1]
    assert one.sha256() == expected_sha256(ITERATIONS)

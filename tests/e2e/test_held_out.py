"""The held-out loss while a swarm trains."""

import json

ITERATIONS = 12


def held_out(metrics):
    return {line["iteration"]: line["held_out_loss"] for line in metrics if "held_out_loss" in line}


def test_a_swarm_that_loses_a_relay_measures_the_held_out_loss_of_a_single_process(swarm, tributary, swarm_config,
                                                                                  tmp_path):
    overrides = [f"training.iterations={ITERATIONS}", "training.eval_every=2"]
    one = swarm(*overrides)
    one.reach(3)
    one.strike(one.relays(2)[0])
    assert one.finish() == 0, one.output()
    measured = held_out(one.metrics())

    words = [word for override in overrides for word in ("--set", override)]
    single = tributary("train", swarm_config, "--single", "--runs", tmp_path / "single", *words)
    assert single.returncode == 0, single.stderr
    lines = (tmp_path / "single" / "swarm" / "metrics.jsonl").read_text().splitlines()
    expected = held_out(map(json.loads, lines))
    assert list(expected) == [1, 3, 5, 7, 9, 11]
    # One that a death cut short is made up for an iteration later, with that iteration's weights.
    assert len(measured) >= len(expected) - 1
    assert sum(measured[at] == loss for at, loss in expected.items() if at in measured) >= len(expected) - 1

"""The mode that people use: bf16, shaped links, unequal machines."""

import math
import random

ITERATIONS = 60


def test_bf16_over_a_planet_learns_under_kills(swarm):
    chance = random.Random(5)
    one = swarm("training.precision='bf16'", "training.reproducible=false", "network.preset='ten-locations'",
                "network.latency_ms=0", "network.time_scale=0.1", "swarm.slow=[1, 2, 1, 2, 1, 2]",
                f"training.iterations={ITERATIONS}", "training.eval_every=0")
    for at, stage in ((10, 1), (25, 2), (40, 3)):
        one.reach(at)
        one.strike(chance.choice(one.relays(stage)))
    assert one.finish() == 0, one.output()
    losses = one.losses()
    assert len(losses) == ITERATIONS and all(map(math.isfinite, losses))
    assert sum(losses[-10:]) / 10 < sum(losses[:10]) / 10 - 0.5, losses
    assert len(one.events("death")) == 3
    held_out = [line for line in one.metrics() if "held_out_loss" in line]
    assert len(held_out) == 1 and held_out[0]["held_out_loss"] < losses[0] - 0.5


def test_links_are_as_slow_as_asked(swarm):
    """An iteration passes every link of its way twice: with 40 ms a link it cannot be shorter than that."""
    hops = 2 * 4  # data node, three stages, data node; forward and backward
    one = swarm("training.iterations=6", "network.latency_ms=40", "swarm.relays=[1, 1, 1]")
    assert one.finish() == 0, one.output()
    seconds = [line["seconds"] for line in one.metrics() if "loss" in line][1:]
    assert min(seconds) > hops * 0.040, seconds

"""The central promise: machines that die change nothing of what is learned."""

import random
import time

import pytest

from conftest import PHASES, wait_for

ITERATIONS = 60
LEAST_KILLS = 8


def working_pair(swarm, chance):
    """A relay of a stage of which both relays work, so that its death takes no state away."""
    by_stage = {}
    for node in swarm.statuses().values():
        if node["role"] == "relay" and "pid" in node and node["state"] == "working":
            by_stage.setdefault(node["stage"], []).append(node)
    pairs = [pair for _, pair in sorted(by_stage.items()) if len(pair) == 2]
    return chance.choice(chance.choice(pairs)) if pairs else None


def kill_in_phase(swarm, chance, phase):
    """Waits for a working pair, then for the phase; returns the phase in which the victim did die."""
    victim = wait_for(lambda: working_pair(swarm, chance) or swarm.process.poll() is not None, 20, "pair of relays",
                      every=0.05)
    if victim is True:
        return None

    def there():
        return PHASES.get(swarm.last_task(victim["id"])[0]) == phase or swarm.process.poll() is not None

    wait_for(there, 20, f"phase {phase} of node {victim['id']}", every=0.001)
    time.sleep(chance.uniform(0, 0.004))  # not a wait: the seeded instant within the phase
    try:
        swarm.strike(victim)
    except ProcessLookupError:  # the run is over
        return None
    return PHASES.get(swarm.last_task(victim["id"])[0], "between")


@pytest.mark.parametrize("seed", [11])
def test_sixty_iterations_with_a_kill_every_five_have_the_weights_of_a_single_process(swarm, expected_sha256, tmp_path,
                                                                                      seed):
    chance = random.Random(seed)
    # So slow that a killed relay has come back when its stage's other relay is struck, and so much slower in computing
    # than on the way that both relays of a stage get work.
    one = swarm("network.latency_ms=10", "swarm.slow=[10, 10, 10, 10, 10, 10]", environment={"TRIBUTARY_LOG": "debug"})
    phases = []
    wanted = ["forward", "backward", "reduce", "seal to commit"]
    for number in range(11):
        one.reach(min(3 + 5 * number, ITERATIONS - 2))
        if one.iteration >= ITERATIONS - 2:
            break
        phases.append(kill_in_phase(one, chance, wanted[number % len(wanted)]))
    assert one.finish() == 0, one.output()
    assert one.sha256() == expected_sha256(ITERATIONS), f"seed {seed}"

    deaths = len(one.events("death"))
    repairs, replays = one.work_again()
    assert deaths >= LEAST_KILLS and len(one.events("start")) >= LEAST_KILLS - 1, one.output()
    assert repairs > 0 and replays > 0, one.output()
    assert set(wanted) <= set(phases), phases
    assert len(one.losses()) == ITERATIONS

    undisturbed = swarm("name=undisturbed", "network.latency_ms=0")
    assert undisturbed.finish() == 0, undisturbed.output()
    assert undisturbed.sha256() == one.sha256()
    assert undisturbed.events("death") == []

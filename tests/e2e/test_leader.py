"""The node that keeps the log may go too."""

import signal

import pytest

from conftest import wait_for

ITERATIONS = 30


def leader(swarm):
    """The voter that leads, as the newest status files say."""
    return wait_for(lambda: next((node for node in swarm.statuses().values() if node["leading"] and "pid" in node), None),
                    20, "leader", every=0.05)


@pytest.mark.parametrize("voters", [1, 3])
def test_the_data_node_is_killed_and_comes_back(swarm, expected_sha256, voters):
    one = swarm(f"swarm.voters={voters}", f"training.iterations={ITERATIONS}")
    one.reach(12)
    one.strike(one.node(0))
    assert one.finish() == 0, one.output()
    assert [event["node"] for event in one.events("death")] == [0], one.output()
    assert one.sha256() == expected_sha256(ITERATIONS)
    assert len(one.losses()) == ITERATIONS


def test_a_leading_relay_is_killed_for_good_and_another_voter_takes_over(swarm, expected_sha256):
    # The three voters are the data node and the two relays of stage 1; who leads changes with deaths.
    one = swarm("swarm.voters=3", f"training.iterations={ITERATIONS}", "swarm.restart_after_s=0.5")
    one.reach(5)
    struck = []
    for at in (8, 16):
        one.reach(at)
        first = leader(one)
        one.strike(first)
        struck.append(first["id"])
        one.reach(at + 3)
    assert one.finish() == 0, one.output()
    assert [event["node"] for event in one.events("death")] == struck
    assert one.sha256() == expected_sha256(ITERATIONS)


def test_a_frozen_leader_is_replaced_and_thaws_as_a_follower(swarm, expected_sha256):
    # Two data nodes: without the only one no text comes in, whoever leads.
    one = swarm("swarm.voters=3", "swarm.data_nodes=2", f"training.iterations={ITERATIONS}")
    one.reach(6)
    frozen = leader(one)
    one.strike(frozen, signal.SIGSTOP)
    one.reach(one.iteration + 4)  # without it
    assert leader_other_than(one, frozen["id"])
    one.strike(frozen, signal.SIGCONT)
    assert one.finish() == 0, one.output()
    assert one.events("death") == []
    assert one.sha256() == expected_sha256(ITERATIONS)


def leader_other_than(swarm, node_id):
    return wait_for(lambda: any(node["leading"] for node in swarm.statuses().values() if node["id"] != node_id), 10,
                    "other leader")

"""Volunteers rest and come back, one by one or all together; a network that is gone for a while; caps."""

import subprocess

from conftest import wait_for

ITERATIONS = 60


def command(swarm, *words):
    return subprocess.run([str(swarm.path), *map(str, words)], capture_output=True, text=True, timeout=20)


def test_a_paused_node_leaves_politely_and_joins_again(swarm, expected_sha256):
    one = swarm(f"training.iterations={ITERATIONS}")
    one.reach(5)
    resting = one.relays(2)[0]
    done = command(one, "pause", one.run, resting["id"])
    assert done.returncode == 0 and "pauses" in done.stdout, done.stderr
    wait_for(lambda: one.statuses()[resting["id"]]["state"] == "paused", 20, "pause")
    assert one.statuses()[resting["id"]]["pid"] == resting["pid"]
    paused_at = one.iteration
    one.reach(paused_at + 5)
    assert one.statuses()[resting["id"]]["state"] == "paused"

    done = command(one, "resume", one.run, resting["id"])
    assert done.returncode == 0, done.stderr
    back = wait_for(lambda: (n := one.statuses()[resting["id"]])["state"] == "working" and n, 20, "return")
    assert back["pid"] == resting["pid"] and back["incarnation"] > resting["incarnation"]
    assert one.finish() == 0, one.output()
    assert one.events("death") == [] and one.work_again()[1] == 0
    assert one.sha256() == expected_sha256(ITERATIONS)


def test_a_paused_node_ends_with_its_run(swarm, expected_sha256):
    one = swarm("training.iterations=30")
    one.reach(5)
    resting = one.relays(1)[1]
    assert command(one, "pause", one.run, resting["id"]).returncode == 0
    wait_for(lambda: one.statuses()[resting["id"]]["state"] == "paused", 20, "pause")
    assert one.finish() == 0, one.output()
    assert one.sha256() == expected_sha256(30)


def test_a_whole_run_pauses_and_goes_on(swarm, expected_sha256):
    one = swarm(f"training.iterations={ITERATIONS}")
    one.reach(8)
    pids = {node["pid"] for node in one.statuses().values()}
    assert command(one, "pause", one.run).returncode == 0
    wait_for(lambda: any(line.startswith("paused after iteration ") for line in one.lines), 30, "pause")
    assert all("pid" not in node for node in one.statuses().values())
    assert "the run is paused; `tributary resume" in command(one, "status", one.run).stdout
    at = one.iteration
    assert command(one, "resume", one.run).returncode == 0
    one.reach(at + 3)
    assert pids.isdisjoint(node.get("pid") for node in one.statuses().values())
    assert one.finish() == 0, one.output()
    assert one.events("death") == []
    assert one.sha256() == expected_sha256(ITERATIONS)


def test_what_cannot_be_paused_is_refused_by_name(swarm):
    one = swarm("training.iterations=1000")
    one.reach(1)
    done = command(one, "pause", one.run, 0)
    assert done.returncode == 1 and "voter" in done.stderr, done.stderr
    done = command(one, "pause", one.run, 77)
    assert done.returncode == 1 and "no node 77" in done.stderr, done.stderr
    one.interrupt()
    assert one.finish() == 0, one.output()
    done = command(one, "pause", one.run, 3)
    assert done.returncode == 1 and "does not run" in done.stderr, done.stderr


def test_a_node_whose_network_is_gone_is_led_round_and_comes_back(swarm, swarm_config, tmp_path, expected_sha256):
    path = tmp_path / "hole.toml"
    path.write_text(swarm_config.read_text() + "".join(
        f'[[churn.schedule]]\niteration = {i}\naction = "{action}"\nstage = 2\nreplica = 0\n'
        for i, action in ((8, "blackhole"), (16, "heal"))))
    one = swarm(f"training.iterations={ITERATIONS}", config=path)
    one.reach(16)
    wait_for(lambda: one.statuses()[3]["state"] == "working" and one.statuses()[3]["rejoins"] > 0, 20, "return")
    assert one.finish() == 0, one.output()
    repairs, replays = one.work_again()
    assert repairs + replays > 0
    assert "black-hole on=1" in (one.run / "nodes" / "3" / "log.txt").read_text()
    assert one.sha256() == expected_sha256(ITERATIONS)


def test_a_memory_cap_refuses_a_stage_that_does_not_fit_and_is_shown(swarm, tributary, tmp_path, expected_sha256):
    one = swarm(f"training.iterations={ITERATIONS}", "swarm.memory_mib=64")
    one.reach(3)
    done = tributary("node", "--config", one.run / "config.toml", "--runs", tmp_path / "elsewhere", "--secret",
                     one.run / "secret", "--id", 50, "--stage", 1, "--memory", 1, "--join", one.node(0)["address"])
    assert done.returncode == 1, done.stdout
    assert "stage 1 needs" in done.stderr and "cap is 1 MiB" in done.stderr and "--memory" in done.stderr, done.stderr
    node = one.node(1)
    assert node["memory_mib"] == 64 and node["resident_mib"] > 20 and node["slots"] == 4
    assert "(64)" in command(one, "status", one.run).stdout
    assert one.finish() == 0, one.output()
    assert one.sha256() == expected_sha256(ITERATIONS)

"""tributary flow solve, compare and generate as a user types them."""

import json
import pathlib

import pytest

FILES = sorted((pathlib.Path(__file__).parent.parent / "data" / "flow").glob("*.json"))
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
ROUTERS = ["planned", "labels", "gwtf", "dtfm", "swarm", "swarm-refusing", "swarm-round-robin", "optimal"]


def checked(network, answer):
    """Counts and sums an answer again, from the network's own costs."""
    load, cost = {}, 0
    for flow in answer["flows"]:
        assert flow[0] == flow[-1] and flow[0] in network["data_nodes"]
        assert all(node in stage for node, stage in zip(flow[1:-1], network["stages"], strict=True))
        for here, there in zip(flow, flow[1:]):
            assert network["cost"][here][there] is not None
            cost += network["cost"][here][there]
            load[here] = load.get(here, 0) + 1
    assert all(units <= network["capacity"][node] for node, units in load.items())
    assert answer["count"] == len(answer["flows"]) and answer["cost"] == cost
    return answer


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("router", ROUTERS)
def test_every_router_solves_every_file(tributary, path, router):
    network = json.loads(path.read_text())
    done = tributary("flow", "solve", path, "--router", router, "--json")
    assert done.returncode == 0, done.stderr
    answer = checked(network, json.loads(done.stdout))
    best = network["optimum"]
    assert answer["count"] <= best["flows"]
    if answer["count"] == best["flows"]:
        assert answer["cost"] >= best["cost"]
    if router == "optimal":
        assert (answer["count"], answer["cost"]) == (best["flows"], best["cost"])
    if router == "planned":
        assert answer["count"] == best["flows"] and answer["cost"] <= 1.005 * best["cost"]


def test_the_same_seed_gives_the_same_answer(tributary):
    runs = [tributary("flow", "solve", FILES[0], "--router", "labels", "--seed", 7, "--json").stdout for _ in range(2)]
    assert runs[0] == runs[1]


def test_compare_prints_a_row_for_each_file_and_router(tributary):
    done = tributary("flow", "compare", FILES[0], FILES[-1], "--routers", "planned,swarm", "--seeds", 2, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["file"], row["router"]) for row in rows] == [
        (path.name, router) for path in (FILES[0], FILES[-1]) for router in ("planned", "swarm")]
    for row in rows:
        assert row["reference"] == "optimum named by the file" and row["possible_count"] >= row["count"] > 0
    assert rows[0]["gap_percent"] < 0.5 < rows[1]["gap_percent"]
    table = tributary("flow", "compare", FILES[0], "--routers", "optimal").stdout
    assert FILES[0].name in table and "0.00 / 0.00" in table


def test_generated_networks_can_be_solved(tributary, tmp_path):
    path = tmp_path / "network.json"
    options = ["--data-nodes", 2, "--stages", 3, "--relays", 4, "--ten-locations", "--seed", 5]
    assert tributary("flow", "generate", *options, "--out", path).returncode == 0
    assert tributary("flow", "generate", *options).stdout == path.read_text()
    network = json.loads(path.read_text())
    assert len(network["data_nodes"]) == 2 and [len(stage) for stage in network["stages"]] == [4, 4, 4]
    rows = json.loads(tributary("flow", "compare", path, "--seeds", 1, "--json").stdout)
    assert [row["router"] for row in rows] == ROUTERS
    assert {row["reference"] for row in rows} == {"exact optimum"}
    assert all(row["count"] == rows[0]["possible_count"] for row in rows if row["router"] in ("planned", "optimal"))


def test_the_thesis_networks_are_among_the_examples(tributary):
    for name, best in (("thesis-6x6", 16863), ("thesis-8x4", 376)):
        data = next(path for path in FILES if path.name.startswith(name))
        assert (EXAMPLES / f"{name}.json").read_text() == data.read_text()
        assert json.loads(tributary("flow", "solve", EXAMPLES / f"{name}.json", "--json").stdout)["cost"] == best


def test_newcomers_are_placed_by_both_rules(tributary):
    path = EXAMPLES / "join-8x4.json"
    problem = json.loads(path.read_text())
    costs = {}
    for rule in ("gwtf", "planned"):
        done = tributary("flow", "join", path, "--rule", rule, "--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert [each["node"] for each in answer["placed"]] == problem["candidates"]
        assert all(1 <= each["stage"] <= len(problem["stages"]) for each in answer["placed"])
        # With all links there, the flows are what the narrowest stage can carry.
        room = [sum(problem["capacity"][node] for node in stage) for stage in problem["stages"]]
        assert answer["before"]["flows"] == min(room)
        for each in answer["placed"]:
            room[each["stage"] - 1] += problem["capacity"][each["node"]]
        after = answer["after"]
        assert after["flows"] == min(room)
        assert after["cost_per_microbatch"] == pytest.approx((2 * after["dearest_links"] + after["aggregation"]) / min(room))
        costs[rule] = after["cost_per_microbatch"]
    assert costs["planned"] < costs["gwtf"] < answer["before"]["cost_per_microbatch"]
    text = tributary("flow", "join", path, "--rebalance", 500).stdout
    assert "pairs of relays exchange" in text and f"node {problem['candidates'][0]} joins stage" in text


def test_the_joining_table_is_made_again(tributary, tmp_path):
    done = tributary("flow", "join", "--tests", "1,4", "--networks", 2, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["test"] for row in rows] == [1, 4]
    for row in rows:
        assert row["best"] <= row["planned"] <= 1.02 * row["best"] and row["best"] <= row["gwtf"] and row["best"] < row["before"]
    drawn = tmp_path / "drawn.json"
    assert tributary("flow", "join", "--tests", 9, "--write", drawn).returncode == 0
    assert drawn.read_text() == (EXAMPLES / "join-8x4.json").read_text()
    assert tributary("flow", "join").returncode == 2
    assert tributary("flow", "join", "--tests", 6).returncode == 2
    assert tributary("flow", "join", tmp_path / "nowhere.json").returncode == 1


def test_wrong_use_is_told(tributary, tmp_path):
    done = tributary("flow", "compare", FILES[0], "--routers", "fastest")
    assert done.returncode == 2 and "swarm-round-robin" in done.stderr
    assert tributary("flow", "generate", "--least-capacity", 9, "--most-capacity", 3).returncode == 2
    assert tributary("flow", "generate", "--stages", 1000, "--relays", 10000).returncode == 2
    assert tributary("flow", "solve", tmp_path / "nowhere.json").returncode == 1
    for command in ("solve", "compare", "generate", "join"):
        assert "Example: tributary flow " + command in tributary("flow", command, "--help").stdout

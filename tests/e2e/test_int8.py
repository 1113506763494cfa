"""int8 between the stages: the same bits whoever dies, half the bytes, and nearly the same loss."""

import json

ITERATIONS = 30
INT8 = "swarm.wire='int8'"


def test_a_swarm_with_kills_equals_one_process(swarm, expected_sha256):
    one = swarm(f"training.iterations={ITERATIONS}", INT8)
    for at, stage in ((6, 2), (13, 1), (20, 3)):
        one.reach(at)
        one.strike(one.relays(stage)[0])
    assert one.finish() == 0, one.output()
    assert len(one.events("death")) == 3 and sum(one.work_again()) > 0
    assert one.sha256() == expected_sha256(ITERATIONS, INT8)
    assert one.sha256() != expected_sha256(ITERATIONS)


def test_the_loss_is_near_that_of_bf16(tributary, corpus, tmp_path):
    """Eight layers cut into eight stages: every activation and gradient is rounded at each cut."""
    path = tmp_path / "near.toml"
    path.write_text(f"""
name = "near"
[model]
layers = 8
hidden = 64
heads = 4
[data]
corpus = ["{corpus}"]
held_out = 0.05
[training]
iterations = 120
microbatches = 2
batch = 4
sequence = 64
warmup = 10
threads = 1
eval_every = 0
checkpoint_every = 0
[swarm]
stages = 8
""")
    loss = {}
    for wire in ("bf16", "int8"):
        done = tributary("train", path, "--runs", tmp_path / wire, "--set", f"swarm.wire='{wire}'", timeout=300)
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in (tmp_path / wire / "near" / "metrics.jsonl").read_text().splitlines()]
        loss[wire] = next(row["held_out_loss"] for row in rows if "held_out_loss" in row)
        first = next(row["loss"] for row in rows if "loss" in row)
    print(f"held-out loss after 120 iterations: {loss}")
    assert loss["bf16"] < first - 2, loss
    assert loss["int8"] != loss["bf16"]
    assert abs(loss["int8"] - loss["bf16"]) < 0.03 * loss["bf16"], loss


def test_it_saves_bytes(swarm):
    moved = {}
    for wire in ("bf16", "int8"):
        one = swarm("training.iterations=12", f"swarm.wire='{wire}'", f"name={wire}", "training.microbatches=24",
                    "training.batch=4", "network.latency_ms=0")
        assert one.finish() == 0, one.output()
        moved[wire] = max(row["bytes_out"] for row in one.metrics() if "bytes_out" in row)
    assert moved["int8"] < 0.7 * moved["bf16"], moved

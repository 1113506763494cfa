"""Sums in floating point: a swarm adds the same contributions as one process, in another order."""

import math
import shutil

import pytest
from safetensors.numpy import load_file

STAGES, BEFORE = 3, 5


def step_of(run):
    """The state of every stage after the step."""
    return [load_file(run / "checkpoints" / f"iteration-{BEFORE + 1:010}" / f"stage-{stage}.safetensors")
            for stage in range(STAGES + 1)]


def difference(a, b):
    return math.sqrt(float(((a.astype("f8") - b) ** 2).sum())) / math.sqrt(float((b.astype("f8") ** 2).sum()))


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_one_step_from_equal_weights_is_that_of_one_process(swarm, tributary, swarm_config, tmp_path, precision):
    overrides = [f"training.precision='{precision}'", "training.reproducible=false", "network.latency_ms=0",
                 "training.warmup=1", "training.microbatches=12"]
    words = [word for override in overrides for word in ("--set", override)]
    done = tributary("train", swarm_config, "--single", "--runs", tmp_path / "alone", "--set",
                     f"training.iterations={BEFORE}", *words)
    assert done.returncode == 0, done.stderr
    shutil.copytree(tmp_path / "alone", tmp_path / "together")

    done = tributary("train", swarm_config, "--single", "--runs", tmp_path / "alone", "--set",
                     f"training.iterations={BEFORE + 1}", *words)
    assert done.returncode == 0, done.stderr
    one = swarm(f"training.iterations={BEFORE + 1}", *overrides, runs=tmp_path / "together")
    assert one.finish() == 0, one.output()
    assert not any(line.startswith(f"iteration {i}/") for line in one.lines for i in range(1, BEFORE + 1))

    alone, together = step_of(tmp_path / "alone" / "swarm"), step_of(one.run)
    for stage in range(STAGES + 1):
        for name in ("weights", "first", "second"):
            assert difference(together[stage][name], alone[stage][name]) < 1e-5, (stage, name)
    # Another order it was, or the test would compare one process with itself.
    assert any((together[stage]["first"] != alone[stage]["first"]).any() for stage in range(STAGES + 1))


def test_what_is_committed_is_exactly_every_microbatch_whoever_dies(swarm):
    iterations, tokens = 30, 6 * 2 * 48
    one = swarm("training.reproducible=false", "training.precision='bf16'", f"training.iterations={iterations}")
    for at, stage in ((6, 1), (14, 2), (21, 3)):
        one.reach(at)
        one.strike(one.relays(stage)[1])
    assert one.finish() == 0, one.output()
    rows = [row for row in one.metrics() if "loss" in row]
    assert [row["iteration"] for row in rows] == list(range(iterations))
    assert [row["tokens"] for row in rows] == [tokens * (i + 1) for i in range(iterations)]
    assert not any(row["excluded"] for row in rows)
    assert len(one.events("death")) == 3

"""What users, disks and strangers can get wrong: a clear word, and no harm to those who do it right."""

import contextlib
import os
import socket
import subprocess

import pytest

from conftest import alive, wait_for

ITERATIONS = 30


def join(tributary, swarm, tmp_path, **changes):
    """A node of one's own that wants to join the swarm; returns the finished process."""
    runs = tmp_path / "elsewhere"
    config = changes.get("config") or swarm.run / "config.toml"
    address = swarm.node(0)["address"]
    words = ["node", "--config", config, "--runs", runs, "--id", 50, "--stage", 1, "--join", address, "--listen",
             changes.get("listen", "127.0.0.1:0")]
    words += ["--secret", changes.get("secret") or swarm.run / "secret"]
    return tributary(*words, timeout=40)


def unharmed(swarm, expected_sha256):
    assert swarm.finish() == 0, swarm.output()
    assert swarm.events("death") == []
    assert swarm.sha256() == expected_sha256(60)


def test_strangers_and_wrong_configurations_are_turned_away_by_name(swarm, tributary, tmp_path, expected_sha256):
    one = swarm()
    one.reach(3)
    secret = tmp_path / "secret"
    secret.write_text("00" * 32 + "\n")
    secret.chmod(0o600)
    done = join(tributary, one, tmp_path, secret=secret)
    assert done.returncode == 1 and "wrong secret" in done.stderr, done.stderr

    other = tmp_path / "other.toml"
    other.write_text((one.run / "config.toml").read_text().replace("learning_rate = 0.005", "learning_rate = 0.006"))
    done = join(tributary, one, tmp_path, config=other)
    assert done.returncode == 1 and "configuration" in done.stderr, done.stderr

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = join(tributary, one, tmp_path, listen=f"127.0.0.1:{port}")
    assert done.returncode == 1 and str(port) in done.stderr and "taken" in done.stderr, done.stderr

    # Noise on the port of every node: closed, counted, and nothing else.
    for node in one.statuses().values():
        host, _, port = node["address"].rpartition(":")
        for noise in (b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 64):
            with socket.create_connection((host, int(port)), timeout=5) as stranger:
                stranger.sendall(noise)
    unharmed(one, expected_sha256)


def test_an_unknown_key_is_named_with_the_nearest_one(tributary, swarm_config, tmp_path):
    done = tributary("train", swarm_config, "--runs", tmp_path / "runs", "--set", "swarm.relais=[2, 2]")
    assert done.returncode == 2
    assert "swarm.relais" in done.stderr and "did you mean swarm.relays?" in done.stderr
    assert not (tmp_path / "runs").exists()


def halted(swarm, at):
    one = swarm(f"training.iterations={ITERATIONS}")
    one.reach(at)
    one.interrupt()
    assert one.finish() == 0, one.output()
    return one


def flip_a_byte(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_a_corrupt_checkpoint_is_passed_over(swarm, expected_sha256):
    first = halted(swarm, 13)
    newest = max((first.run / "checkpoints").iterdir())
    flip_a_byte(newest / "stage-2.safetensors")
    second = swarm(f"training.iterations={ITERATIONS}")
    assert second.finish() == 0, second.output()
    assert second.sha256() == expected_sha256(ITERATIONS)


def test_a_corrupt_decision_log_is_refused_with_what_to_do(swarm, expected_sha256):
    first = halted(swarm, 7)
    log = first.run / "nodes" / "0" / "log"
    flip_a_byte(log)
    second = swarm(f"training.iterations={ITERATIONS}")
    assert second.finish() == 1
    assert "decision log" in second.output() and "damaged" in second.output()
    assert "remove the file" in second.output()

    log.unlink()
    third = swarm(f"training.iterations={ITERATIONS}")
    assert third.finish() == 0, third.output()
    assert third.sha256() == expected_sha256(ITERATIONS)


def test_a_second_supervisor_does_not_touch_a_running_swarm(swarm, tributary, swarm_config, expected_sha256):
    one = swarm()
    one.reach(2)
    done = tributary("train", swarm_config, "--runs", one.runs)
    assert done.returncode == 1 and "another process" in done.stderr
    unharmed(one, expected_sha256)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a few MiB; fill() takes all that is left of it, free() gives it back."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    at = tmp_path / "small"
    at.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(at)], capture_output=True).returncode:
        pytest.skip("this machine does not allow a mount")

    class Disk:
        path = at

        def fill(self):
            with open(at / "filler", "wb", buffering=0) as filler:
                with contextlib.suppress(OSError):
                    while filler.write(bytes(4096)):
                        pass

        def free(self):
            (at / "filler").unlink()

    yield Disk()
    subprocess.run(["umount", "-l", str(at)], check=True)


def test_a_full_disk_stops_nothing_for_good(swarm, small_disk, expected_sha256):
    """Neither the voter's log nor a checkpoint can be written for a while: the run waits, says why, and goes on."""
    one = swarm("training.iterations=60", runs=small_disk.path / "runs")
    try:
        one.reach(12)
        pids = {node["pid"] for node in one.statuses().values()}
        small_disk.fill()
        wait_for(lambda: "No space left on device" in one.output(), 30, "word of the full disk")
        stopped_at = one.iteration
        told = next(line for line in one.lines if "No space left on device" in line)
        assert "free some disk space" in told and str(one.run) in told, told
        assert alive(one.process.pid) and all(alive(pid) for pid in pids)
    finally:
        small_disk.free()
    one.reach(stopped_at + 5)
    assert one.finish() == 0, one.output()
    # The same processes all along, and nothing computed again.
    assert one.events("death") == []
    assert one.sha256() == expected_sha256(60)


def test_a_data_node_with_another_text_is_turned_away_by_name(swarm, tributary, tmp_path, expected_sha256):
    one = swarm()
    one.reach(3)
    text = tmp_path / "other.txt"
    text.write_text("another text than the one that the run is trained on.\n" * 3000)
    words = ["node", "--config", one.run / "config.toml", "--runs", tmp_path / "elsewhere", "--id", 50, "--data-node",
             "--join", one.node(0)["address"], "--secret", one.run / "secret", "--set", f"data.corpus=['{text}']"]
    done = tributary(*words, timeout=40)
    assert done.returncode == 1 and "the corpus differs" in done.stderr, done.stderr
    unharmed(one, expected_sha256)

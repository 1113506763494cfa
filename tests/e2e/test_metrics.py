"""Figures for Prometheus, of a run and of one node."""

import json
import re
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from conftest import wait_for

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="[^"\n]*",?)+)\})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)$')


def scrape(address):
    """{name: {labels: value}} out of the text format; fails on anything that is not of it."""
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    assert text == "" or text.endswith("\n")
    types, helped, samples = {}, set(), {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split()[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name in helped and name not in types and kind in ("counter", "gauge"), line
            assert (kind == "counter") == name.endswith("_total"), line
            types[name] = kind
        else:
            match = SAMPLE.match(line)
            assert match and match[1] in types, line
            labels = tuple(sorted(re.findall(r'([a-z]+)="([^"]*)"', match[2] or "")))
            assert labels not in samples.setdefault(match[1], {}), line
            samples[match[1]][labels] = float(match[3])
    return samples


def address_in(lines):
    return next((line.partition("figures at ")[2] for line in lines if "figures at http://127.0.0.1:" in line), None)


def test_a_run_tells_of_itself_and_of_every_node(swarm):
    one = swarm("training.iterations=1000", "training.eval_every=0", arguments=["--metrics", 0])
    one.reach(3)
    address = address_in(one.lines)
    first = scrape(address)
    assert first["tributary_iteration"][()] >= 2
    assert 0 < first["tributary_loss"][()] < 10
    up = first["tributary_node_up"]
    assert len(up) == 7 and set(up.values()) == {1.0}
    by_id = {dict(labels)["node"]: dict(labels) for labels in up}
    assert by_id["0"]["role"] == "data" and by_id["3"] == {"node": "3", "stage": "2", "role": "relay"}
    assert sum(first["tributary_node_leading"].values()) == 1

    victim = one.relays(2)[0]
    one.strike(victim)
    one.reach(one.iteration + 5)
    # The nodes write of themselves once a second.
    second = wait_for(lambda: (s := scrape(address)) and
                      sum(s["tributary_node_sent_bytes_total"].values()) >
                      sum(first["tributary_node_sent_bytes_total"].values()) and s, 20, "more traffic")
    assert second["tributary_tokens_total"][()] > first["tributary_tokens_total"][()]
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(address.replace("/metrics", "/etc/passwd"), timeout=10)
    one.interrupt()
    assert one.finish() == 0, one.output()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=10)


def test_a_port_that_is_taken_is_named(tributary, swarm_config, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = tributary("train", swarm_config, "--runs", tmp_path / "runs", "--metrics", port)
    assert done.returncode == 1 and f"127.0.0.1:{port}" in done.stderr and "taken" in done.stderr, done.stderr
    done = tributary("train", swarm_config, "--runs", tmp_path / "runs", "--metrics", "here")
    assert done.returncode == 1 and '"here"' in done.stderr


def test_one_node_tells_of_itself(swarm, tmp_path):
    one = swarm("training.iterations=1000")
    one.reach(2)
    node = subprocess.Popen([str(one.path), "node", "--config", str(one.run / "config.toml"), "--runs",
                             str(tmp_path / "elsewhere"), "--secret", str(one.run / "secret"), "--id", "50", "--stage",
                             "1", "--threads", "1", "--join", one.node(0)["address"], "--json", "--metrics",
                             "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        line = next(json.loads(line) for line in node.stdout if "metrics" in line)
        found = wait_for(lambda: (s := scrape(line["address"])).get("tributary_node_iteration") and s, 20, "figures")
        assert list(found["tributary_node_up"].values()) == [1.0]
        assert dict(list(found["tributary_node_up"])[0])["node"] == "50"
        assert "tributary_loss" not in found
    finally:
        node.kill()
        node.wait()
        node.stdout.close()
    one.interrupt()
    assert one.finish() == 0, one.output()

"""The sources keep to the table of folders, and the checker sees what breaks it."""

import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("check_layers", ROOT / "scripts" / "check_layers.py")
check_layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_layers)


def test_sources_keep_to_the_table():
    assert check_layers.check() == []


def test_cmake_links_by_the_same_table():
    text = (ROOT / "cmake" / "layers.cmake").read_text()
    for folder, used in re.findall(r"tributary_layer\((\w+)([^)]*)\)", text):
        linked = set(re.findall(r"\btributary_(\w+)", used)) - {"torch"}
        assert linked <= check_layers.allowed(folder), folder


@pytest.mark.parametrize("folder, line", [
    ("wire", '#include "swarm/node.h"'),
    ("flow", '#include "wire/messages.h"'),
    ("swarm", '#include "sim/world.h"'),
    ("base", '#include "wire/codec.h"'),
    ("net", '#include "swarm/node.h"'),
    ("model", '#include "node/process.h"'),
    ("swarm", '#include "node.h"'),
    ("app", "#include <torch/torch.h>"),
    ("swarm", "#include <ATen/ATen.h>"),
    ("sim", "#include <thread>"),
    ("swarm", "#include <unordered_map>"),
    ("wire", "#include <asio.hpp>"),
    ("flow", "#include <sys/socket.h>"),
    ("swarm", "auto t = std::chrono::steady_clock::now();"),
    ("sim", "std::this_thread::sleep_for(x);"),
    ("flow", "int x = rand() % 3;"),
    ("net", "std::shuffle(a.begin(), a.end(), generator);"),
    ("sim", 'if (getenv("X")) return;'),
    ("swarm", "std::set<Node*> nodes;"),
    ("elsewhere", ""),
])
def test_a_breach_is_found(folder, line):
    assert check_layers.faults_in(folder, "file.cpp", f"// fine\n{line}\n")


@pytest.mark.parametrize("folder, line", [
    ("swarm", '#include "wire/messages.h"'),
    ("sim", '#include "base/random.h"'),
    ("node", "#include <torch/torch.h>"),
    ("swarm", "// not rand() nor system_clock"),
    ("swarm", 'fail("call rand() or sleep_for");'),
    ("net", "#include <thread>"),
])
def test_what_is_allowed_passes(folder, line):
    assert check_layers.faults_in(folder, "file.cpp", line) == []

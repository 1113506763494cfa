"""Shared by all Python tests: the program under test, and a text to train on."""

import os
import pathlib
import random
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def program() -> pathlib.Path:
    path = pathlib.Path(os.environ.get("TRIBUTARY", ROOT / "build" / "tributary"))
    if not path.exists():
        pytest.fail(f"{path} is not there: run `make`, or set TRIBUTARY to the program")
    return path


@pytest.fixture(scope="session")
def tributary():
    """Runs the program; returns the finished process with text output."""
    path = program()

    def run(*arguments, timeout=120, environment=None, **options):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TRIBUTARY_")}
        clean.update(environment or {})
        return subprocess.run([str(path), *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                              env=clean, **options)

    run.path = path
    return run


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A text of short sentences: learnable within seconds."""
    chance = random.Random(1)
    words = "the river runs past seven old mills and each mill has a wheel of dark wet wood".split()
    lines = [" ".join(chance.choice(words) for _ in range(chance.randint(4, 9))) + ".\n" for _ in range(6000)]
    path = tmp_path_factory.mktemp("corpus") / "mills.txt"
    path.write_text("".join(lines))
    return path

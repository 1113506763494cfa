"""Holds the sources to the table of folders: who may include whom, and what the deterministic folders may not touch.

    scripts/check_layers.py          checks src/; prints one line a fault; exit status 1 if there is any
    scripts/check_layers.py --list   prints the table
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What a folder may use directly; what those may use, it may use too.
MAY_USE = {
    "base": [],
    "wire": ["base"],
    "flow": ["base"],
    "swarm": ["wire", "flow"],
    "outer": ["wire"],
    "sim": ["swarm", "outer"],
    "net": ["wire"],
    "text": ["base"],
    "model": ["base", "text"],
    "node": ["swarm", "outer", "net", "model"],
    "chat": ["model", "text"],
    "app": ["sim", "node", "chat"],
}

# The protocol and its simulated world are a function of their events: no clock, thread, socket, environment, foreign
# random numbers, nor containers whose order depends on hashes or addresses.
PURE = {"wire", "flow", "swarm", "outer", "sim"}
PURE_INCLUDES = re.compile(
    r"^(thread|mutex|shared_mutex|condition_variable|future|atomic|semaphore|latch|barrier|stop_token|random|ctime|time\.h"
    r"|unordered_map|unordered_set|unistd\.h|pthread\.h|signal\.h|csignal"
    r"|(sys|netinet|arpa|asio|openssl)/.*|(asio|poll|netdb)\.h(pp)?)$")
# src/flow reads routing problems from files that a user names; the others have no input of their own.
NO_FILES = PURE - {"flow"}
FILE_INCLUDES = re.compile(r"^(filesystem|fstream)$")
PURE_CALLS = {
    "a clock": re.compile(r"\b(system_clock|steady_clock|high_resolution_clock|clock_gettime|gettimeofday|sleep_for"
                          r"|sleep_until|usleep|nanosleep)\b|\b(std::)?time\s*\(\s*(nullptr|NULL|0)\s*\)"),
    "a thread": re.compile(r"\bstd::(jthread|thread|async|mutex|atomic|condition_variable)\b|\bthread_local\b"),
    "the environment": re.compile(r"\b(getenv|setenv|putenv)\s*\("),
    "an unordered container": re.compile(r"\bstd::unordered_\w+"),
    "an order by address": re.compile(r"\bstd::(set|map)\s*<\s*(const\s+)?[\w:]+\s*\*"),
}
# Differs between standard libraries, or is seeded by the machine.
RANDOM = re.compile(r"\bstd::(random_device|mt19937(_64)?|default_random_engine|shuffle|sample|\w+_distribution)\b"
                    r"|\bs?rand\s*\(")
TORCH = {"model", "node", "chat"}
TORCH_INCLUDE = re.compile(r"^(torch|ATen|c10)/")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def allowed(folder: str) -> set[str]:
    found, pending = {folder}, [folder]
    while pending:
        for other in MAY_USE[pending.pop()]:
            if other not in found:
                found.add(other)
                pending.append(other)
    return found


def faults_in(folder: str, name: str, source: str) -> list[str]:
    """`name` is only for the messages."""
    faults = []
    if folder not in MAY_USE:
        return [f"{name}: folder src/{folder} is not in the table of scripts/check_layers.py"]
    may = allowed(folder)
    for number, line in enumerate(source.splitlines(), 1):
        include = INCLUDE.match(line)
        if not include:
            continue
        quoted, target = include[1] == '"', include[2]
        top = target.split("/")[0]
        if quoted and top in MAY_USE and top not in may:
            faults.append(f"{name}:{number}: src/{folder} may not include src/{top} ({target})")
        if quoted and "/" not in target:
            faults.append(f'{name}:{number}: write the folder too: "{folder}/{target}"')
        if TORCH_INCLUDE.match(target) and folder not in TORCH:
            faults.append(f"{name}:{number}: only {', '.join(sorted(TORCH))} include LibTorch ({target})")
        if (folder in PURE and PURE_INCLUDES.match(target)) or (folder in NO_FILES and FILE_INCLUDES.match(target)):
            faults.append(f"{name}:{number}: src/{folder} must not depend on <{target}>")
    # Line breaks stay, so that line numbers do.
    code = COMMENT_OR_TEXT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    rules = dict(PURE_CALLS) if folder in PURE else {}
    rules["foreign random numbers (take base/random.h)"] = RANDOM
    for what, pattern in rules.items():
        for found in pattern.finditer(code):
            number = code.count("\n", 0, found.start()) + 1
            faults.append(f"{name}:{number}: src/{folder} must not use {what}: {found[0].strip()}")
    return faults


def check(root: pathlib.Path = ROOT) -> list[str]:
    faults = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in {".h", ".cpp"}:
            relative = path.relative_to(root)
            faults += faults_in(relative.parts[1], str(relative), path.read_text(encoding="utf-8"))
    return faults


def main() -> int:
    if "--list" in sys.argv[1:]:
        for folder in MAY_USE:
            print(f"{folder}: {' '.join(sorted(allowed(folder) - {folder})) or '-'}")
        return 0
    faults = check()
    print("\n".join(faults) if faults else "layers: every include and call is within the table")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What a rehearsal of many machines costs, and whether any count grows with the square of the swarm.

Rehearses examples/thousand.toml with a quarter, a half and all of its relays and data nodes, each for the same virtual
time, and prints processor seconds, memory, and messages and control bytes a node and virtual second.

  .venv/bin/python bench/sim_scale.py                 # one virtual hour each
  .venv/bin/python bench/sim_scale.py --virtual 600 --parts 4,1
"""
import argparse
import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def scaled(text: str, part: int, virtual: float) -> str:
    text = re.sub(r"^count = (\d+)", lambda m: f"count = {max(1, int(m[1]) // part)}", text, flags=re.M)
    return re.sub(r"^duration_s = .*", f"duration_s = {virtual}", text, flags=re.M)


def rehearse(program: str, scenario: str) -> dict:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(scenario)
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run(["/usr/bin/env", "python3", "-c", WRAPPER, program, file.name], capture_output=True,
                              text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        out = json.loads(done.stdout)
        out["cpu_s"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        return out


# In a process of its own, so that the peak of memory is of this rehearsal alone.
WRAPPER = """
import json, resource, subprocess, sys
done = subprocess.run([sys.argv[1], "sim", "run", sys.argv[2], "--json"], capture_output=True, text=True)
sys.stderr.write(done.stderr)
if done.returncode: sys.exit(done.returncode)
out = json.loads(done.stdout)
out["peak_mib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(json.dumps(out))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/tributary"))
    parser.add_argument("--virtual", type=float, default=3600, help="virtual seconds of each (3600)")
    parser.add_argument("--parts", default="4,2,1", help="divisors of the number of machines (4,2,1)")
    options = parser.parse_args()
    text = (ROOT / "examples/thousand.toml").read_text()
    print(f"{'nodes':>6} {'virtual s':>9} {'cpu s':>7} {'peak MiB':>8} {'iterations':>10} {'mean s':>7} "
          f"{'crashes':>7} {'messages':>9} {'control B':>9}   (a node and virtual second)")
    for part in (int(p) for p in options.parts.split(",")):
        out = rehearse(options.program, scaled(text, part, options.virtual))
        per = out["machines"] * out["virtual_s"]
        print(f"{out['machines']:6} {out['virtual_s']:9.0f} {out['cpu_s']:7.1f} {out['peak_mib']:8.0f} "
              f"{len(out['iterations']):10} {out['mean_iteration_s']:7.1f} "
              f"{sum(i['crashes'] for i in out['iterations']):7} {out['messages'] / per:9.2f} "
              f"{out['control_bytes'] / per:9.0f}", flush=True)


if __name__ == "__main__":
    main()

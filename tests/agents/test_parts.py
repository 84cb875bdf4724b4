"""Runs unit.mjs; skipped, with the reason, where there is no Node 20 or the modules were not installed."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from rig import HOME, ROOT, node  # noqa: E402
from harness import Skip  # noqa: E402

try:
    program = node(rig=False)
except Skip as reason:
    print(f'1..0 # SKIP {reason}')
    sys.exit(0)
sys.exit(subprocess.run([program, pathlib.Path(__file__).parent / 'unit.mjs', HOME / 'node_modules', ROOT], check=False).returncode)

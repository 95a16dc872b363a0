"""`python -m bench NAME [...]` runs bench/NAME.py's main(arguments). Without a name it lists
them.
"""

import importlib
import pkgutil
import sys

import bench

names = sorted(
    module.name.replace("_", "-")
    for module in pkgutil.iter_modules(bench.__path__)
    if not module.name.startswith("_")
)
if len(sys.argv) < 2 or sys.argv[1] not in names:
    sys.exit(f"usage: python -m bench {{{','.join(names)}}} [...]")
sys.exit(importlib.import_module(f"bench.{sys.argv[1].replace('-', '_')}").main(sys.argv[2:]))

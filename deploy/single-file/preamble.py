"""Reject a Python version or machine other than the one dist/candor.pyz was built for, because it
contains compiled packages. Shiv runs this module first. `build` fills in the version and the
machine.
"""

import platform
import sys

BUILT_FOR = ("PYTHON", "MACHINE")
HERE = ("{}.{}".format(*sys.version_info), platform.machine())
if HERE != BUILT_FOR:
    sys.exit(
        "candor.pyz needs Python {} on {}, but this is Python {} on {}. Run it with"
        " that version, use the `candor` executable, or build your own with `make dist`".format(
            *BUILT_FOR, *HERE
        )
    )

"""The entry point of dist/candor. It imports the command line, so that `app` is a module there,
too.
"""

import sys

from app import main

sys.exit(main())

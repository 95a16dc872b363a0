"""The entry point of dist/candor: the command line, imported so that `app` is a module there,
too.
"""

import sys

from app import main

sys.exit(main())

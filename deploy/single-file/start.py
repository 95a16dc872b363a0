"""Where dist/candor begins: the command line, as an import, so that `app` is a module in it too."""

import sys

from app import main

sys.exit(main())

"""Add compiled modules to a file made by shiv, which omits them.

Without them, the first start would spend seconds compiling. Usage: `add_compiled.py SITE_PACKAGES
FILE.pyz`
"""

import compileall
import os
import py_compile
import sys
import time
import zipfile
from pathlib import Path

site, file = Path(sys.argv[1]), sys.argv[2]
# Don't depend on this machine's time and paths, so that the same sources give the same bytes.
compileall.compile_dir(
    site,
    quiet=1,
    workers=os.cpu_count(),
    stripdir=str(site),
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
)
date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
    for path in sorted(site.rglob("*.pyc")):
        entry = zipfile.ZipInfo(f"site-packages/{path.relative_to(site)}", date)
        entry.external_attr, entry.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
        archive.writestr(entry, path.read_bytes())

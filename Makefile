# The commands: make run, make demo, make test, make lint, make dist. Each installs what it needs into .venv first.
PYTHON ?= python3

# The environment is complete once pip is done, not once its folder exists. These two files record that.
RUNTIME = .venv/runtime-installed
TESTS = .venv/tests-installed

# Missing, or without its interpreter (after an upgrade of Python): rebuild it even if both files exist.
BROKEN := $(shell test -x .venv/bin/python || echo broken)
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check

.PHONY: run demo test lint dist clean .venv broken

# One heap for all threads saves 10% of the memory.
run: export MALLOC_ARENA_MAX = 1
run: .venv
	.venv/bin/python app.py run

demo: .venv
	.venv/bin/python app.py demo

test: $(TESTS)
	.venv/bin/python -m pytest --numprocesses auto --dist loadfile

lint: $(TESTS)
	.venv/bin/python -m ruff format --check --quiet .
	.venv/bin/python -m ruff check --quiet .
	.venv/bin/python -m mypy

# Two single files, dist/candor.pyz and dist/candor. The build deletes its environment when it is done.
dist:
	PYTHON="$(PYTHON)" deploy/single-file/build

# Compiled here, because a service can't write to its modules' folders and would compile them at every start.
.venv: $(RUNTIME)
	@.venv/bin/python -m compileall -q $(wildcard *.py) $(dir $(wildcard */__init__.py)) >/dev/null 2>&1 || true

# After pip has finished once, later changes of requirements.txt are installed into the same environment. An unfinished one is rebuilt.
$(RUNTIME): requirements.txt $(BROKEN)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Candor needs Python 3.11 or newer; $(PYTHON) isn't. Run: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@if [ -n "$(BROKEN)" ] || [ ! -e $@ ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then \
		$(PYTHON) -m venv --clear .venv && .venv/bin/python -m pip --version >/dev/null || \
		{ rm -rf .venv; echo "Couldn't create the virtual environment. On Debian and Ubuntu, run: sudo apt install python3-venv. Then run the same command again." >&2; exit 1; }; fi
	@echo "Setting up .venv: downloading the packages in requirements.txt, once. This may take a minute."
	@$(PIP) --require-hashes --requirement requirements.txt || { echo "Couldn't install the packages in requirements.txt; see pip's output above." \
		"Without a network, try again once you have one. Behind a proxy or a mirror, set HTTPS_PROXY or PIP_INDEX_URL." >&2; exit 1; }
	@touch $@

# Editable: none of this checkout is copied into the environment.
$(TESTS): $(RUNTIME) pyproject.toml
	@$(PIP) --editable '.[dev]' || { echo "Couldn't install the dev extra of pyproject.toml; see pip's output above. Then run the same command again." >&2; exit 1; }
	@touch $@

clean:
	rm -rf .venv dist *.egg-info

# The commands: make run, make demo, make test, make lint, make dist. Each installs what it needs into .venv first.
PYTHON ?= python3

# An environment counts as made once pip is done, not once its folder is there: these two files say so.
RUNTIME = .venv/runtime-installed
TESTS = .venv/tests-installed

# Missing, or without its interpreter (after an upgrade of Python): rebuild it even if both files exist.
BROKEN := $(shell test -x .venv/bin/python || echo broken)
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check

.PHONY: run demo test lint dist clean .venv broken

# One heap for all threads saves a tenth of the memory.
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

# Two single files, dist/candor.pyz and dist/candor. The environment they are built in goes with the build.
dist:
	PYTHON="$(PYTHON)" deploy/single-file/build

# Compiled here, because a service may not write beside its modules, and would compile all of them at each start.
.venv: $(RUNTIME)
	@.venv/bin/python -m compileall -q $(wildcard *.py) $(dir $(wildcard */__init__.py)) >/dev/null 2>&1 || true

# Once pip was done here, a later change of requirements.txt is installed into what is there; what never was finished is begun again.
$(RUNTIME): requirements.txt $(BROKEN)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Candor needs Python 3.11 or newer, and $(PYTHON) is none. Name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@if [ -n "$(BROKEN)" ] || [ ! -e $@ ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then \
		$(PYTHON) -m venv --clear .venv && .venv/bin/python -m pip --version >/dev/null || \
		{ rm -rf .venv; echo "The virtual environment could not be made. On Debian and Ubuntu: sudo apt install python3-venv. Then the same command again." >&2; exit 1; }; fi
	@echo "Setting up .venv: the packages of requirements.txt are downloaded once, about a minute."
	@$(PIP) --require-hashes --requirement requirements.txt || { echo "The packages of requirements.txt could not be installed; pip's words above say why." \
		"Without a network: the same command again once there is one. Behind a proxy or a mirror: set HTTPS_PROXY or PIP_INDEX_URL." >&2; exit 1; }
	@touch $@

# Editable: nothing of this checkout is copied into the environment.
$(TESTS): $(RUNTIME) pyproject.toml
	@$(PIP) --editable '.[dev]' || { echo "The packages of the extra dev in pyproject.toml could not be installed; pip's words above say why. Then the same command again." >&2; exit 1; }
	@touch $@

clean:
	rm -rf .venv dist *.egg-info

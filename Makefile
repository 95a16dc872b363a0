# The commands: make run, make demo, make test. Each installs what it needs into .venv first.
PYTHON ?= python3

.PHONY: run demo test clean

run: .venv
	.venv/bin/python app.py run

demo: .venv
	.venv/bin/python app.py demo

test: .venv/dev
	.venv/bin/python -m pytest

.venv: requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements.txt
	touch .venv

.venv/dev: .venv requirements-dev.txt requirements-mcp.txt requirements-postgres.txt requirements-redis.txt
	.venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	touch .venv .venv/dev

clean:
	rm -rf .venv

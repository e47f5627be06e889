# The same words here, in CI and in the README.
PYTHON ?= python3.11
VENV   := .venv
STAMP  := $(VENV)/.installed
FVEC   := $(VENV)/bin/fvec
DEMO   := .fvec/demo
WORKERS ?= $(shell expr 2 \* $$(nproc))

.PHONY: install demo test check corpus survive record-noise bench clean

install: $(STAMP)

# The model server's own environment is made by `fvec doctor --install`, keyed by its pins.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(VENV)/bin/python -m pip install --quiet --editable '.[engine,agents,service]' --group dev
	$(FVEC) doctor --install examples/ads-serving
	touch $@

demo: install
	rm -rf $(DEMO)
	mkdir -p $(DEMO)
	cp -R examples/ads-serving $(DEMO)/ads-serving
	git -C $(DEMO)/ads-serving init --quiet --initial-branch=main
	git -C $(DEMO)/ads-serving add --all
	git -C $(DEMO)/ads-serving -c user.name=ads-serving -c user.email=ads-serving@example.invalid \
	    commit --quiet --message 'Serve ads'
	$(FVEC) run $(DEMO)/ads-serving --out $(DEMO)

# What may run beside one another, twice as many as there are cores: they wait for servers most of the
# time. Then what measures time or fills the machine, one at a time.
test: install
	$(VENV)/bin/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not (alone or live)" tests
	$(VENV)/bin/pytest -m "alone and not live" tests

check: install
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(FVEC) knowledge check
	$(FVEC) config validate examples/ads-serving

# Every candidate that must be refused, and every one that must pass.
corpus: install
	$(VENV)/bin/python -P tests/corpus/runner.py --out .fvec/corpus

# A run killed at 200 points and resumed, its measurements replayed, then live ones; fewer are in `make test`.
survive: install
	$(VENV)/bin/python -P tests/survival/runner.py --out .fvec/survive.json
	$(VENV)/bin/pytest -m live tests/e2e tests/integration/test_github_job_kills.py

# Sixty no-op patches judged on the example, two to three hours on a quiet machine; resumes where it was ended.
record-noise: install
	$(VENV)/bin/python -P benchmarks/record_noise.py

# The small parts first, then the loop that `demo` runs, as the table that the README quotes.
bench: install
	$(VENV)/bin/pytest benchmarks --benchmark-only --benchmark-columns=median,iqr,rounds
	$(MAKE) demo
	$(VENV)/bin/python benchmarks/table.py $(DEMO)/run.json

clean:
	rm -rf $(VENV) .fvec

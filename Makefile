# Two commands do everything: `make demo` and `make test`. Each sets up its own .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-browser lint format docs linkcheck dist-check review bench bench-table fuzz house words soak soak-cluster scale reproduce many-dimensions methods search test-oldest clean

demo: $(VENV)/.demo  ## embed, fit, predict on data made on the spot; writes results/demo.png
	$(BIN)/python examples/plot_01_first_steps.py --output results/demo.png

test: $(VENV)/.dev  ## the whole suite, doctests and README included
	PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-browser: $(VENV)/.dev  ## the report in Debian's Chromium: apt-get install chromium chromium-driver
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/report/test_browser.py

lint: $(VENV)/.dev  ## ruff (linter and formatter) and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)-docs/.docs  ## the site, in docs/_build/html: warnings are errors, every link inside it is followed
	OPENBLAS_NUM_THREADS=1 $(VENV)-docs/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(VENV)-docs/bin/python tools/links.py docs/_build/html

linkcheck: $(VENV)-docs/.docs  ## links to other sites, and references to other libraries; needs a network
	DOCS_ONLINE=1 OPENBLAS_NUM_THREADS=1 $(VENV)-docs/bin/python -m sphinx -q -b linkcheck -D plot_gallery=0 docs docs/_build/linkcheck

dist-check: $(VENV)/.pip  ## build wheel and sdist, install each in a clean environment, use it there
	$(PIP) --group dist
	$(BIN)/python tools/dist_check.py

review: $(VENV)/.pip  ## sp-repo-review; what it finds and we keep is argued in CONTRIBUTING.md
	$(PIP) --group review
	$(BIN)/repo-review .

bench: $(VENV)/.dev  ## speed, as ratios measured in one run; writes results/bench.*
	$(BIN)/python benchmarks/run.py

bench-table: $(VENV)/.dev  ## from tables on disk to models, beside the machine's limits; writes results/table.md
	$(BIN)/python benchmarks/table.py

many-dimensions: $(VENV)/.dev  ## distances in four to ten dimensions against their truth, in half an hour
	$(BIN)/python experiments/many_dimensions.py
	$(BIN)/python experiments/many_dimensions_study.py

methods: $(VENV)/.dev  ## the table of all embeddings, docs/methods.md
	$(BIN)/python experiments/methods.py

search: $(VENV)/.dev  ## what the search of settings costs, and what it loses
	$(BIN)/python experiments/search.py

fuzz: $(VENV)/.dev  ## 100,000 mutated model files, opened and asked to predict; writes results/fuzz.md
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tools/fuzz.py --out results/fuzz.md

house: $(VENV)/.dev  ## size of each room, and the files between which calls go back and forth
	$(BIN)/python tools/house.py

words: $(BIN)/python  ## turns of phrase that we avoid, counted in every text that users meet; tools/words.py --list shows them
	$(BIN)/python tools/words.py

soak: $(VENV)/.dev  ## an hour of kills, full disks, bad tables and random bags; writes results/soak.md (MINUTES=5 for a look)
	$(PIP) --group audit
	$(BIN)/python tools/soak.py --minutes $(or $(MINUTES),60)

soak-cluster: $(VENV)/.dev  ## workers and clients killed at random, bits, speed and memory of a cluster; writes results/soak_cluster.md (SMALL=1 for a look)
	$(BIN)/python tools/soak_cluster.py $(if $(SMALL),--small)

scale: $(VENV)/.dev  ## what tasks of a cluster cost here, and a billion bags simulated from that; writes results/scale.*
	$(BIN)/python tools/cluster_costs.py --measure

reproduce: $(VENV)/.dev  ## the paper's experiments that need no data: hours; python -m reproduce --help tells more
	$(BIN)/python -m reproduce gram
	$(BIN)/python -m reproduce mixture

test-oldest:  ## the suite on the oldest dependencies that pyproject.toml allows
	$(MAKE) test VENV=.venv-oldest PIP_EXTRA="-c tests/oldest.txt"

clean:
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache build dist
	rm -rf docs/_build docs/api docs/cards docs/gallery docs/live docs/results

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "distembed needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[plot]' $(PIP_EXTRA)
	@touch $@

$(VENV)/.pip: | $(BIN)/python
	$(PIP) --upgrade 'pip>=25.1'  # the first that knows dependency groups; a .venv made by hand may have an older one
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.pip
	$(PIP) -e '.[all,bench,s3]' --group dev $(PIP_EXTRA)
	@touch $@ $(VENV)/.demo

# Its own environment: anndata, which a page of the gallery needs, holds pandas below the version that tests should see.
$(VENV)-docs/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check -e '.[all]' --group docs $(PIP_EXTRA)
	@touch $@

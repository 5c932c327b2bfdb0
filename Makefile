# make run    a broker on tcp://127.0.0.1:61616, from a fresh clone; CONFIG=config/cluster-symmetric: three of them
# make test   everything that CI runs
# make compiled   a copy of the checkout in .compiled/ with the compiled form of the broker; test-compiled: the suites on it
# make spark-example   orders that Spark turns into totals, with a broker of its own; needs Java 17
# make bench | docs | fuzz MINUTES=n | hostile | interop-cluster SCENARIOS='a b' | interop-imq SCENARIOS='a b' | simulate SEEDS=n | simulate-cluster SEEDS=n | simulate-ha SEEDS=n | soak MINUTES=n ROUNDS=n HA_ROUNDS=n DATABASE_ROUNDS=n HOME_ROUNDS=n SPARK_ROUNDS=n | clean

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV ?= .venv
CONFIG ?= config/standalone/broker.xml
MINUTES ?= 5
SEEDS ?= 1000
ROUNDS ?= 500
HA_ROUNDS ?= 300
DATABASE_ROUNDS ?= 200
HOME_ROUNDS ?= 200
SPARK_ROUNDS ?= 30

BIN := $(VENV)/bin
PY := $(BIN)/python
SOURCES := $(shell find src clients/mqclient/src plugins -name '*.py' 2>/dev/null)
SPARK_SOURCES := $(shell find clients/mqspark/src -name '*.py' 2>/dev/null)
PACKAGING := setup.cfg setup.py pyproject.toml $(wildcard clients/*/setup.cfg clients/*/setup.py clients/*/pyproject.toml)
FROM_SOURCE := PYTHONPATH=$(CURDIR)/src:$(CURDIR)/clients/mqclient/src:$(CURDIR)/clients/mqspark/src:$(CURDIR)/plugins

.PHONY: run test bench compiled test-compiled docs fuzz hostile interop-cluster interop-imq simulate simulate-cluster simulate-ha soak spark-example install clean

run: $(VENV)/.installed
	@exec $(PY) config/run_cluster.py $(CONFIG)

install: $(VENV)/.installed

test: $(VENV)/.test-extras
	@$(FROM_SOURCE) $(PY) tests/run.py $(SUITES)

bench: $(VENV)/.test-extras
	@$(FROM_SOURCE) $(PY) -m tests.bench

compiled: $(VENV)/.test-extras
	@$(PY) -m tests.compiled

test-compiled: $(VENV)/.test-extras
	@$(PY) -m tests.compiled unit integration simulation

docs: $(VENV)/.docs-extras
	@$(FROM_SOURCE) $(PY) -m sphinx -W --keep-going -b html docs docs/_build/html
	@echo 'Open docs/_build/html/index.html'

fuzz: $(VENV)/.fuzz-extras
	@$(FROM_SOURCE) $(PY) -m tests.fuzz --minutes $(MINUTES)

hostile: $(VENV)/.test-extras
	@$(FROM_SOURCE) MQBROKER_HOSTILE=full $(PY) -m pytest -p no:cacheprovider -rP --durations=0 tests/integration/hostile

interop-cluster: $(VENV)/.test-extras
	@$(FROM_SOURCE) $(PY) -m tests.interop.cluster document $(SCENARIOS)

interop-imq: $(VENV)/.test-extras
	@$(FROM_SOURCE) $(PY) -m tests.interop.imq $(SCENARIOS)

simulate: $(VENV)/.test-extras
	@$(FROM_SOURCE) $(PY) -m tests.simulation --seeds $(SEEDS)

simulate-ha: $(VENV)/.test-extras
	@$(FROM_SOURCE) $(PY) -m tests.simulation --ha --seeds $(SEEDS)

simulate-cluster: $(VENV)/.test-extras
	@$(FROM_SOURCE) $(PY) -m tests.simulation --cluster --seeds $(SEEDS)

soak: $(VENV)/.test-extras
	@$(FROM_SOURCE) $(PY) -m tests.soak --minutes $(MINUTES) --rounds $(ROUNDS) --ha-rounds $(HA_ROUNDS) --database-rounds $(DATABASE_ROUNDS) --home-rounds $(HOME_ROUNDS) --spark-rounds $(SPARK_ROUNDS)

spark-example: $(VENV)/.spark-extras
	@exec $(PY) examples/spark/orders.py

clean:
	rm -rf $(VENV) .compiled build dist clients/*/build clients/*/dist docs/_build _trial_temp* .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src clients -name '*.egg-info' -prune -exec rm -rf {} +
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.created:
	@test -n "$(PYTHON)" || { echo 'Python 3.11 or later is needed: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	@touch $@

# setuptools copies what an earlier build left in build/ into the wheel, deleted modules included.
$(VENV)/.installed: $(VENV)/.created $(PACKAGING) README.md $(SOURCES)
	@rm -rf build clients/*/build
	$(PY) -m pip install --quiet '.[zookeeper]' ./clients/mqclient
	@touch $@

$(VENV)/.test-extras: $(VENV)/.created $(PACKAGING)
	@rm -rf build clients/*/build
	$(PY) -m pip install --quiet '.[test]' ./clients/mqclient ./clients/mqspark
	@touch $@

$(VENV)/.spark-extras: $(VENV)/.created $(PACKAGING) $(SOURCES) $(SPARK_SOURCES)
	@rm -rf build clients/*/build
	$(PY) -m pip install --quiet . ./clients/mqclient ./clients/mqspark
	@touch $@

$(VENV)/.docs-extras: $(VENV)/.created $(PACKAGING)
	$(PY) -m pip install --quiet '.[docs]' ./clients/mqclient
	@touch $@

$(VENV)/.fuzz-extras: $(VENV)/.test-extras
	$(PY) -m pip install --quiet '.[test,fuzz]' ./clients/mqclient ./clients/mqspark
	@touch $@

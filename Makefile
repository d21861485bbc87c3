# Needs Rust (rustup), Go, a C compiler and make. Everything else is built or fetched by cargo and go.

CARGO ?= cargo
WORLD := target/debug/world
# Most of a test's time is waiting for the world, so more tests than cores run at once.
export RUST_TEST_THREADS ?= 4

.DEFAULT_GOAL := help
.PHONY: help build image compare-nodes demo zero-loss chaos bench bench-standin upgrade fixtures soak explore mutants e2e kubernetes-module up down status test lint advisories crds docs clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build headgate and the local world (debug)
	$(CARGO) build --locked --workspace

demo: build ## Watch a rollout lose nothing, and why it usually does (2 minutes)
	@target/debug/demo $(if $(PROFILE),--profile $(PROFILE))

zero-loss: build ## Play every departure under traffic and count what is lost (root; NODES=simulated ONLY=scale-down RESUME=1)
	@target/debug/zero-loss $(if $(NODES),--nodes $(NODES)) $(if $(ONLY),--only $(ONLY)) $(if $(RESUME),--resume)

chaos: build ## Break things in turn during rolls under traffic, and count what is lost (MINUTES=30 SEED=1; MARGIN=0: the control)
	@target/debug/chaos --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) $(if $(MARGIN),--margin $(MARGIN))

bench: ## Measure speed and size beside the floor: a table and target/bench/report.json (ONLY=quiet,memory; ONLY=killed,held: root)
	$(CARGO) build --locked --release -p headgate -p headgate-bench -p localstack-world -p localstack-elbv2 \
	  -p localstack-kubelet -p localstack-nodes --bin headgate --bin bench --bin floor --bin world --bin elbv2 \
	  --bin kubelet --bin nodes
	@target/release/bench $(if $(ONLY),--only $(ONLY))

compare-nodes: build ## Show where pods on simulated and on real nodes differ (root)
	@target/debug/compare

bench-standin: ## Measure what the local load balancers carry on this machine
	$(CARGO) bench --locked -p localstack-elbv2 --bench standin

upgrade: build ## Upgrade from the commit FROM and go back, while pods are created: none may be missed (8 minutes)
	@target/debug/upgrade --from $(or $(FROM),$(error expected a commit of this repository in FROM, as in make upgrade FROM=d4e8d02))

fixtures: build ## Make tests/fixtures again with the program of the commit FROM (d4e8d02)
	@target/debug/fixtures --from $(or $(FROM),d4e8d02)

soak: ## Simulate worlds for SECONDS (600), from seed FROM (10000) on, looking for one that breaks
	HEADGATE_SIM_SECONDS=$(or $(SECONDS),600) HEADGATE_SIM_FROM=$(or $(FROM),10000) $(CARGO) test --locked -p headgate-simulation every_invariant -- --nocapture

explore: ## Look at every state of larger small worlds (DAWDLES=1 TROUBLES=1; 2: two troubles on one path: gigabytes, and long)
	HEADGATE_EXHAUSTIVE_DAWDLES=$(or $(DAWDLES),1) HEADGATE_EXHAUSTIVE_TROUBLES=$(or $(TROUBLES),1) \
	HEADGATE_EXHAUSTIVE_FAULTS=$(or $(TROUBLES),1) HEADGATE_EXHAUSTIVE_CRASHES=$(or $(TROUBLES),1) \
	HEADGATE_EXHAUSTIVE_DEPOSALS=$(or $(TROUBLES),1) \
	  $(CARGO) test --locked -p headgate-simulation --test small_world -- --nocapture --test-threads=1

mutants: ## Test the tests of the core with all of cargo-mutants' mutants (an hour; MINUTES=120 ONLY=gate/ KEEP=1)
	@$(CARGO) mutants --version >/dev/null 2>&1 || \
	  { echo "make mutants needs cargo-mutants, which lists the mutants: cargo install --locked cargo-mutants"; exit 1; }
	$(CARGO) build --locked -q -p headgate-mutants --bin mutants
	@target/debug/mutants $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY)) $(if $(KEEP),--keep)

e2e: build ## Run end-to-end tests on another minor: KUBERNETES=1.34, without real nodes, browser, Prometheus (ONLY=name MINUTES=90)
	@target/debug/minors --kubernetes $(or $(KUBERNETES),$(error expected a minor of Kubernetes, as in make e2e KUBERNETES=1.34)) \
	  $(if $(ONLY),--only $(ONLY)) $(if $(MINUTES),--minutes $(MINUTES))

kubernetes-module: ## Write go.mod and go.sum of a version of Kubernetes that a world can be of (VERSION=v1.34.9)
	@localstack/kubernetes/module $(or $(VERSION),$(error expected a version, as in make kubernetes-module VERSION=v1.34.9))

up: build ## Start a local world: Kubernetes (KUBERNETES=1.34), nodes (NODES=real: real ones), load balancers
	@$(WORLD) up $(if $(NODES),--nodes $(NODES)) $(if $(KUBERNETES),--kubernetes $(KUBERNETES))

down: ## Stop the local world and remove its folder
	@if [ -x $(WORLD) ]; then $(WORLD) down; else echo "No world was ever built here."; fi

status: ## Show what runs of the local world
	@$(WORLD) status

# Static programs, for an image that has nothing else in it. With an explicit target, so that build scripts and macros
# stay as they are, and a folder of its own, because other flags build everything anew.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
image: ## Build the programs of headgate's image, static (debug)
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --locked --target $(HOST) --target-dir target/static \
	  -p headgate -p headgate-hold --bin headgate --bin headgate-hold
	@mkdir -p target/image
	@for program in headgate headgate-hold; do \
	  strip --strip-debug -o target/image/$$program target/static/$(HOST)/debug/$$program || exit 1; done

test: build image ## Run all tests: core, programs, local world, end to end
	$(CARGO) test --locked --workspace

lint: ## Check format, lints, licences and sources of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) deny --locked check bans licenses sources

advisories: ## Check dependencies against the RustSec database (needs to reach it)
	$(CARGO) deny --locked check advisories

crds: ## Write config/crd from the Rust types
	$(CARGO) run --locked -q -p headgate -- crd > target/crds.yaml
	mv target/crds.yaml config/crd/headgate.dev.yaml

docs: ## Write the list of metrics, the table in the chart's README and that of Kubernetes versions from what they are made of
	HEADGATE_WRITE_DOCS=1 $(CARGO) test --locked -q -p headgate --lib metrics::docs
	HEADGATE_WRITE_DOCS=1 $(CARGO) test --locked -q -p headgate-tests --test e2e chart::readme
	HEADGATE_WRITE_DOCS=1 $(CARGO) test --locked -q -p headgate-tests --test e2e kubernetes_versions::files::the_table

clean: down ## Stop the world and remove what was built here
	$(CARGO) clean

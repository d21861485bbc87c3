# Needs Rust (rustup), Go, a C compiler and make. Everything else is built or fetched by cargo and go.

CARGO ?= cargo
# Programs are in target/debug, or in the folder of the target that CARGO_BUILD_TARGET names.
DEBUG := target/$(if $(CARGO_BUILD_TARGET),$(CARGO_BUILD_TARGET)/)debug
WORLD := $(DEBUG)/world

# What `make test` builds and tests: no tools, and no core with planted bugs. Every command names all of these packages,
# because cargo builds dependencies again for a selection that needs other features of them.
TESTED := $(addprefix -p ,headgate headgate-cli headgate-core headgate-daemonset headgate-harness headgate-hold \
  headgate-simulation headgate-tests localstack-elbv2 localstack-kubelet localstack-load localstack-nodes localstack-world)
TEST := $(CARGO) test --locked $(TESTED)
# The same for everything in the repository.
TEST_ALL := $(CARGO) test --locked --workspace
TOOLS := $(addprefix -p ,headgate-bench headgate-demo headgate-upgrade headgate-zero-loss)
# The exhaustive world of `make test`.
SMALL_WORLD := of_a_pod_that_is_deleted_every_state_is_as_it_should_be_when_a_call_goes_wrong
# End-to-end tests wait for their turn in a world, and need a thread while they wait.
E2E_THREADS := --test-threads=48
# The tests that `make test` leaves to `.ci/run`: they need root, other programs, or minutes.
MORE := more:: on_real_nodes

# The minor of Kubernetes that worlds and tests are of.
ifdef KUBERNETES
export HEADGATE_KUBERNETES := $(KUBERNETES)
endif

.DEFAULT_GOAL := help
.PHONY: help build tools image demo zero-loss chaos bench bench-standin upgrade soak fuzz explore mutants e2e kubernetes-module up down status release chart workflows test test-more lint advisories crds manifests iam docs site clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build headgate and the local world (debug)
	$(CARGO) build --locked $(TESTED) --bins --tests

demo: ## Watch a rollout lose nothing, and why it usually does (2 minutes, and up to 9 to build it the first time)
	@tools/demo/build.sh $(DEBUG)
	@$(DEBUG)/demo $(if $(PROFILE),--profile $(PROFILE))

tools: ## Build everything, the tools and the core with planted bugs too (debug)
	$(CARGO) build --locked --workspace --bins --tests

zero-loss: tools ## Play every departure under traffic and count what is lost (root; NODES=simulated ONLY=scale-down RESUME=1 RECORD=1)
	@$(DEBUG)/zero-loss $(if $(NODES),--nodes $(NODES)) $(if $(ONLY),--only $(ONLY)) $(if $(RESUME),--resume) $(if $(RECORD),--record)

chaos: tools ## Break things in turn during rolls under traffic, and count what is lost (MINUTES=30 SEED=1; MARGIN=0: the control)
	@$(DEBUG)/zero-loss --chaos $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(MARGIN),--margin $(MARGIN))

bench: ## Measure speed and size beside the floor: a table and target/bench/report.json (ONLY=quiet,memory; ONLY=killed,held: root)
	$(CARGO) build --locked --release -p headgate-cli -p headgate-bench -p localstack-world -p localstack-elbv2 \
	  -p localstack-kubelet -p localstack-nodes --bin headgate --bin bench --bin floor --bin world --bin elbv2 \
	  --bin kubelet --bin nodes
	@target/release/bench $(if $(ONLY),--only $(ONLY))

bench-standin: ## Measure what the local load balancers carry on this machine
	$(CARGO) bench --locked -p localstack-elbv2 --bench standin

upgrade: tools ## Upgrade from a commit (tools/upgrade/from, or FROM) and go back, while pods are created: none may be missed (3 minutes)
	@$(DEBUG)/upgrade $(if $(FROM),--from $(FROM))

soak: ## Simulate worlds for SECONDS (600), from seed FROM (10000) on, looking for one that breaks
	HEADGATE_SIM_SECONDS=$(or $(SECONDS),600) HEADGATE_SIM_FROM=$(or $(FROM),10000) $(CARGO) test --locked --profile soak -p headgate-simulation --test worlds every_invariant -- --nocapture

fuzz: ## Change inputs of a parser for SECONDS (60), looking for one that breaks it (TARGET=reviews, annotations, notes, ledgers, sets)
	@test -f tests/fuzz/targets/$(TARGET).rs || \
	  { echo "Set TARGET to one of: $(basename $(notdir $(wildcard tests/fuzz/targets/*.rs)))"; exit 1; }
	@cp Cargo.lock tests/fuzz/Cargo.lock && mkdir -p target/fuzz/corpus/$(TARGET)
	RUSTC_WRAPPER=$(CURDIR)/tests/fuzz/rustc $(CARGO) build --manifest-path tests/fuzz/Cargo.toml --target-dir target/fuzz \
	  --bin $(TARGET)
	target/fuzz/debug/$(TARGET) -max_total_time=$(or $(SECONDS),60) -timeout=5 -rss_limit_mb=1024 \
	  -artifact_prefix=target/fuzz/$(TARGET)- target/fuzz/corpus/$(TARGET) tests/fuzz/seeds/$(TARGET)

explore: ## Look at every state of larger small worlds (DAWDLES=1 TROUBLES=1; 2: two troubles on one path: gigabytes, and long)
	HEADGATE_EXHAUSTIVE_DAWDLES=$(or $(DAWDLES),1) HEADGATE_EXHAUSTIVE_TROUBLES=$(or $(TROUBLES),1) \
	HEADGATE_EXHAUSTIVE_FAULTS=$(or $(TROUBLES),1) HEADGATE_EXHAUSTIVE_CRASHES=$(or $(TROUBLES),1) \
	HEADGATE_EXHAUSTIVE_DEPOSALS=$(or $(TROUBLES),1) HEADGATE_CLAIMS_FAULTS=$(or $(CLAIMS),2) \
	  $(CARGO) test --locked -p headgate-simulation --test small_world -- --nocapture --test-threads=1

mutants: ## Test the tests of the core with the mutants of what changed since FROM (origin/main or HEAD~1); SHARD=0/8: of all
	@$(CARGO) mutants --version >/dev/null 2>&1 || \
	  { echo "cargo-mutants is missing. Install it: cargo install --locked cargo-mutants"; exit 1; }
ifdef SHARD
	$(CARGO) mutants --shard $(SHARD)
else
	@mkdir -p target
	git diff $(or $(FROM),$(shell git rev-parse -q --verify origin/main || echo HEAD~1)) > target/mutants.diff
	$(CARGO) mutants --in-diff target/mutants.diff
endif

# What another minor of Kubernetes is not asked: tests of real nodes, whose images are of the default minor, of printed
# pages, with a browser or Prometheus, and long ones.
ON_DEFAULT_MINOR := on_real_nodes a_held_container_that_hangs installed:: ingress:: incidents:: monitoring:: page:: by_hand:: \
  as_printed::
e2e: build ## Run the end-to-end tests, on another minor with KUBERNETES=1.34, without real nodes (ONLY=gating::)
ifdef KUBERNETES
	$(WORLD) kubernetes
endif
	$(TEST) --test e2e -- $(E2E_THREADS) $(ONLY) $(if $(KUBERNETES),$(addprefix --skip ,$(ON_DEFAULT_MINOR)))

kubernetes-module: ## Write go.mod and go.sum of a version of Kubernetes that a world can be of (VERSION=v1.34.9)
	@localstack/kubernetes/module $(or $(VERSION),$(error Set VERSION, as in make kubernetes-module VERSION=v1.34.9))

up: build ## Start a local world: Kubernetes (KUBERNETES=1.34), nodes (NODES=real: real ones), load balancers
	@$(WORLD) up $(if $(NODES),--nodes $(NODES)) $(if $(KUBERNETES),--kubernetes $(KUBERNETES))

down: ## Stop the local world and remove its folder
	@if [ -x $(WORLD) ]; then $(WORLD) down; else echo "No world was ever built here."; fi

status: ## Show what runs of the local world
	@$(WORLD) status

# The processor that image and release are for: this machine's, unless ARCH says amd64 or arm64.
HOST_ARCH = $(if $(filter aarch64,$(shell uname -m)),arm64,amd64)
IMAGE = target/image$(if $(filter-out $(HOST_ARCH),$(ARCH)),-$(ARCH))
image: ## Build the programs of headgate's image, static (debug): target/image; ARCH=arm64: for another processor, target/image-arm64
	@PROGRAMS=$(PROGRAMS) tools/release/build.sh $(or $(ARCH),$(HOST_ARCH)) dev $(IMAGE)
	@mkdir -p $(IMAGE)/licenses && cp LICENSE NOTICE $(IMAGE)/licenses/

# Where image and chart of a release will be, and the URL of its files.
REGISTRY ?= ghcr.io/headgate
DOWNLOADS ?= https://github.com/headgate/headgate/releases/download/v$(VERSION)
# Of one version of Rust, so that others can build the same programs.
release: export RUSTUP_TOOLCHAIN := $(shell cat tools/release/rust-version)
release: ## Build all files of a release into target/release-files, and the image into target/release-image (VERSION=0.1.0)
	@test -n "$(VERSION)" || { echo "Set VERSION, as in make release VERSION=0.1.0"; exit 1; }
	@tools/release/version.sh $(VERSION) >/dev/null
	tools/release/build.sh amd64 release target/release-programs/amd64
	tools/release/build.sh arm64 release target/release-programs/arm64
	tools/release/files.sh target/release-files $(REGISTRY) $(DOWNLOADS)

chart: build ## Run the tests of the chart, with another helm with HELM=/path/of/helm
	$(if $(HELM),HEADGATE_HELM=$(HELM)) $(TEST) --test e2e -- $(E2E_THREADS) chart:: chart_readme:: --skip installed::

workflows: ## Check the workflows of the forge with actionlint, and that every command in them exists
	@$$(tools/release/tools.sh actionlint) -shellcheck= -pyflakes=
	$(TEST) -q --test e2e -- workflows::

test: build ## Run the tests that every change needs: units, 1,000 simulated worlds, a small world, the main paths end to end
	$(TEST) --lib --bin headgate-hold --test wire --test load
	HEADGATE_SIM_WORLDS=1000 $(TEST) --test worlds
	$(TEST) --test small_world -- $(SMALL_WORLD)
	$(TEST) --test e2e -- $(E2E_THREADS) $(addprefix --skip ,$(MORE))

test-more: tools image ## Run the other tests: real nodes, browser, alerts, chart, 10,000 worlds, all small worlds, planted bugs (root)
	$(CARGO) test --locked $(TOOLS) --lib
	$(TEST_ALL) --test worlds -- every_invariant
	$(TEST_ALL) --no-fail-fast --test small_world -- --skip $(SMALL_WORLD)
	$(TEST_ALL) --test e2e -- $(E2E_THREADS) $(MORE)
	$(TEST_ALL) --no-fail-fast --test planted --test plant --test world --test tools

lint: ## Check format, lints, plain English, licences and sources of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@tools/style/check
	@docs/pictures/deletion.py --check
	$(CARGO) deny --locked check bans licenses sources

advisories: ## Check dependencies against the RustSec database (needs to reach it)
	$(CARGO) deny --locked check advisories

crds: ## Write config/crd from the Rust types
	$(CARGO) run --locked -q -p headgate-cli -- crd > target/crds.yaml
	mv target/crds.yaml config/crd/headgate.dev.yaml

manifests: build ## Write deploy/install.yaml from the chart
	HEADGATE_WRITE_DOCS=1 $(TEST) -q --test e2e chart::install::the_manifest

iam: ## Write deploy/iam from its template
	HEADGATE_WRITE_DOCS=1 $(TEST) -q --test e2e trust::iam::the_policies_are

docs: ## Write what is generated in the docs: API, command line, metrics, limits, the chart's values, pictures
	HEADGATE_WRITE_DOCS=1 $(TEST) -q --lib docs::
	HEADGATE_WRITE_DOCS=1 $(TEST) -q --test e2e -- chart_readme:: reference::
	HEADGATE_WRITE_DOCS=1 $(TEST) -q --test e2e page::a_r
	docs/pictures/deletion.py

site: ## Build the documentation as a site with search: target/site (REPOSITORY=https://…/blob/main: for links to files)
	@tools/site/build.sh $(or $(REPOSITORY),$(error Set REPOSITORY, as in make site REPOSITORY=https://example.com/headgate/blob/main))

clean: down ## Stop the world and remove what was built here
	$(CARGO) clean

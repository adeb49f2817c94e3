# Go, make and git are all it takes; the linter is fetched and built by Go, at the version below.
# Targets that run a program pass ARGS on to it: make demo ARGS='--seed 7'.

GO            ?= go
GOLANGCI_LINT := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Go keeps its caches below HOME. Where there is none, they go below out/, in a hidden folder so
# that ./... does not find other people's packages in it, and writable so that it can be removed.
ifeq ($(strip $(HOME)),)
export HOME := $(CURDIR)/out/.home
export GOFLAGS := $(GOFLAGS) -modcacherw
endif

.DEFAULT_GOAL := help
.PHONY: help demo test race laws conformance lint bench gen check build clean-tree

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## show the product at work on this machine, with nothing installed
	@$(GO) run ./cmd/plimsoll demo $(ARGS)

test: ## vet and run all tests
	$(GO) vet ./...
	$(GO) test $(ARGS) ./...

race: ## run all tests under the race detector (needs a C compiler)
	@test "$$($(GO) env CGO_ENABLED)" = 1 || { \
		echo "make race: the race detector needs cgo, and Go found no C compiler: install gcc or clang, or set CC and CGO_ENABLED=1" >&2; \
		exit 1; }
	$(GO) test -race $(ARGS) ./...

laws: ## try the laws on new random cases, ten times as many (ARGS=-rapid.checks=... for more)
	@packages=$$($(GO) list -f '{{.ImportPath}}:{{.Dir}}' ./... | while IFS=: read -r package dir; do \
		if grep -qs 'pgregory.net/rapid' "$$dir"/*_test.go; then echo "$$package"; fi; done); \
	$(GO) test -count=1 -timeout 60m $$packages -rapid.seed=0 -rapid.checks=1000 $(ARGS)

conformance: ## hold client and emulator to what was recorded of real servers, and print how it went
	@mkdir -p out
	@$(GO) test -count=1 -timeout 20m -v -run '^(TestRecorded.*|TestEndpointsAreDeclaredAsPublished)$$' ./proxmox/pvesim > out/conformance.txt 2>&1 && \
	$(GO) test -count=1 -timeout 20m -v -run '^(TestNothingLeaksNothingForeignDies|TestHundredMachinesAtOnce)$$' ./proxmox/pve -runs 10000 >> out/conformance.txt 2>&1 && \
	$(GO) test -count=1 -timeout 20m -v -run '^TestRecordedConversation$$' ./testbed/upstream >> out/conformance.txt 2>&1 || { \
		cat out/conformance.txt; exit 1; }
	@grep -E '^ +[a-z_]+_test\.go:' out/conformance.txt

lint: ## run the linters of .golangci.yml (ARGS=--fix mends what can be mended)
	$(GOLANGCI_LINT) run $(ARGS)

bench: ## run the benchmarks, in the packages that have any
	@packages=$$($(GO) list -f '{{.ImportPath}}:{{.Dir}}' ./... | while IFS=: read -r package dir; do \
		if grep -qs '^func Benchmark' "$$dir"/*_test.go; then echo "$$package"; fi; done); \
	test -n "$$packages" || { echo "no package has a benchmark yet"; exit 0; }; \
	$(GO) test -run '^$$' -bench . -benchmem $(ARGS) $$packages

gen: ## write generated files anew, and format
	$(GO) generate ./...
	$(GO) fmt ./...

check: ## what CI runs: generated files are clean, lint, tests, tests under the race detector
	@bash .ci/run

build: ## build bin/plimsoll
	$(GO) build -trimpath -o bin/ ./cmd/plimsoll

clean-tree:
	@sh .ci/clean-tree

# Go, make and git are all it takes; the linter is fetched and built by Go, at the version below.
# Targets that run a program pass ARGS on to it: make demo ARGS='--seed 7'.

GO            ?= go
GOLANGCI_LINT := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The release that charts and image are of.
RELEASE := $(shell awk '$$1 == "appVersion:" { print $$2 }' deploy/charts/plimsoll/Chart.yaml)

# Go keeps its caches below HOME. Without HOME they go below out/, in a hidden folder so
# that ./... does not find other people's packages in it, and writable so that it can be removed.
ifeq ($(strip $(HOME)),)
export HOME := $(CURDIR)/out/.home
export GOFLAGS := $(GOFLAGS) -modcacherw
endif

# How large a cluster bench-cluster makes.
NODES     ?= 1000
PODS      ?= 30000
WORKLOADS ?= 200

# The tests of package pve that make conformance runs at length.
CONFORMING := TestNothingLeaksNothingForeignDies|TestHundredMachinesAtOnce

# How long make fuzz hands garbage to one reader: an hour over all of them.
FUZZTIME ?= 2m

.DEFAULT_GOAL := help
.PHONY: help demo test race unraced laws lives lives-test weeks conformance lint bench bench-cluster gen check build image release chart chart-test clean-tree lab lab-down lab-test lab-lint twin-test peers peers-week paper paper-test browser-test pictures template-test boot-test guests-test mutants fuzz house grades docs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## show the product at work on this machine, with nothing installed
	@$(GO) run ./cmd/plimsoll/demo demo $(ARGS)

test: ## vet and run all tests but those that need the lab or a browser
	$(GO) vet -tags lab,browser ./...
	$(GO) test $(ARGS) ./...

race: ## run under the race detector the tests of all in which something may race (needs a C compiler)
	@test "$$($(GO) env CGO_ENABLED)" = 1 || { \
		echo "make race: the race detector needs cgo, and Go found no C compiler: install gcc or clang, or set CC and CGO_ENABLED=1" >&2; \
		exit 1; }
	@packages=$$(GO='$(GO)' .ci/racy) && test -n "$$packages" && set -x && GORACE=atexit_sleep_ms=0 $(GO) test -race -timeout 30m $(ARGS) $$packages

unraced: ## run, without the race detector, what make race does not run, or runs less of (and make conformance and paper-test do not)
	@others=$$(GO='$(GO)' .ci/racy -v) && less=$$(.ci/less) && test -n "$$others" && test -n "$$less" && \
	(set -x; $(GO) test $(ARGS) $$others) && \
	echo "$$less" | while read -r package tests; do \
		echo "$$others" | grep -qx "$$package" || \
			(set -x; $(GO) test -run "$$tests" -skip '^($(CONFORMING)|TestThePaperPage.*)$$' $(ARGS) "$$package") || exit 1; \
	done

laws: ## try the laws on new random cases, ten times as many (ARGS=-rapid.checks=... for more)
	@packages=$$($(GO) list -f '{{.ImportPath}}:{{.Dir}}' ./... | while IFS=: read -r package dir; do \
		if grep -qs 'pgregory.net/rapid' "$$dir"/*_test.go; then echo "$$package"; fi; done); \
	$(GO) test -count=1 -timeout 60m $$packages -rapid.seed=0 -rapid.checks=1000 $(ARGS)

conformance: ## hold client and emulator to what was recorded of real servers, and print how it went
	@mkdir -p out
	@$(GO) test -count=1 -timeout 20m -v -run '^(TestRecorded.*|TestEndpointsAreDeclaredAsPublished)$$' ./proxmox/pvesim > out/conformance.txt 2>&1 && \
	$(GO) test -count=1 -timeout 20m -v -run '^($(CONFORMING))$$' ./proxmox/pve -runs 2000 >> out/conformance.txt 2>&1 && \
	$(GO) test -count=1 -timeout 20m -v -run '^TestRecordedConversation$$' ./testbed/upstream >> out/conformance.txt 2>&1 || { \
		cat out/conformance.txt; exit 1; }
	@grep -E '^ +[a-z_]+_test\.go:' out/conformance.txt

lab: build ## start the lab, with its programs built on first use (ARGS are those of: plimsoll testbed lab up)
	@bin/plimsoll testbed lab up $(ARGS)

lab-down: build ## stop the lab
	@bin/plimsoll testbed lab down $(ARGS)

# They wait more than they compute, so more of them run at a time than there are cores; what takes longest
# begins first. They build their k6 and ignore one on PATH. The other tests of their packages need no lab,
# and are run by make test.
lab-test: export PLIMSOLL_K6 ?= build
lab-test: lab-lint ## run the tests that need the lab, three packages at a time, with up to two labs each
	@files=$$(grep -rl --include='*_test.go' '^//go:build lab$$' testbed); \
	packages=$$(printf './%s\n' $$files | xargs -n 1 dirname | sort -u); \
	tests=$$(grep -ho '^func Test[A-Za-z0-9_]*' $$files | sed 's/^func //' | paste -s -d '|' -); \
	$(GO) test -tags lab -p 3 -parallel 2 -timeout 40m -run "^($$tests)\$$" $(ARGS) ./testbed/lab/incluster ./testbed/lab/twins ./testbed/rke2/trial $$packages

# The modules inside this one, which the other targets do not see. With the programs built, what
# these need is compiled.
lab-lint: build
	@PLIMSOLL_K6=build bin/plimsoll testbed lab tools
	@for module in testbed/lab/controlplane testbed/lab/tools/*; do (cd $$module && $(GO) mod tidy -diff) || exit 1; done
	cd testbed/lab/controlplane && $(GO) vet . && $(GOLANGCI_LINT) run --config ../../../.golangci.yml

paper: ## play the published experiments anew, and write what comes of them into docs/paper.md and docs/joint-results.md
	$(GO) test -count=1 -timeout 60m -run '^(TestThePaperPage|TestJointAblation)' ./testbed/report ./testbed/worlds -update $(ARGS)

paper-test: ## hold every table and figure of docs/paper.md, and the ablation in docs/joint-results.md, to what comes out
	$(GO) test -count=1 -timeout 60m -run '^(TestThePaperPage|TestJointAblation)' ./testbed/report ./testbed/worlds -whole $(ARGS)

twin-test: ## ask Prometheus' engine, VPA's recommender, Kubernetes' scheduler and HPA controller, and Karpenter's scheduler and controllers what ours were asked, and compare
	cd testbed/peers && $(GO) mod tidy -diff && $(GO) vet ./...
	cd testbed/peers && $(GO) test -count=1 $(ARGS) ./... # not cached: Go does not see changes outside of the module

peers: ## plan machines for the same pods with Karpenter's scheduler and ours, and compare (ARGS='-rows plain -pods 100,1000 -limit 2m')
	@$(GO) -C testbed/peers run . $(ARGS)

peers-week: ## live a week by Karpenter's controllers and by ours, and write what comes of it into docs/peers.md
	$(GO) -C testbed/peers test -count=1 -v -timeout 60m -run '^TestAWeekBesideKarpenter$$' ./disruption -days 7 -update $(ARGS)

# Without npm the pages are looked at all the same, but not by axe-core.
AXE := 4.10.3
out/axe/package/axe.min.js:
	@mkdir -p out/axe
	@if command -v npm > /dev/null; then cd out/axe && npm pack --silent axe-core@$(AXE) > /dev/null && tar xzf axe-core-$(AXE).tgz; \
		else echo "browser-test: npm is not there, so axe-core looks at no page" >&2; fi

browser-test: out/axe/package/axe.min.js ## open the pages that the program writes in Chromium, without a network (CHROMIUM=/path/to/it)
	$(GO) test -count=1 -tags browser -timeout 30m ./testbed/report/browsertest $(ARGS)

pictures: ## write the pictures of docs/dashboard.md anew, with Chromium
	$(GO) test -count=1 -tags browser -run '^TestThePicturesAreOfThePage$$' ./testbed/report/browsertest -keep

template-test: ## build a template's image and boot it in an emulated machine (needs the programs of 'plimsoll template build' and qemu-system-x86)
	$(GO) test -count=1 -tags guest -timeout 60m -v -run '^TestAGuestOfTheImageComesUp$$' ./cmd/plimsoll/internal/template $(ARGS)

# What takes no more than three minutes by emulation, on two cores.
IN_CI := TestAMachineOfTheFleetBoots
boot-test: ## boot a machine of the fleet in QEMU, with a tiny system, where QEMU is there, and name the tests that are left for make guests-test
	@$(GO) test -count=1 -tags guest -timeout 10m -v -run '^$(IN_CI)$$' ./testbed/guests $(ARGS)
	@files=$$(grep -rl --include='*_test.go' '^//go:build guest$$' testbed) && \
	echo "LEFT for make guests-test: $$(grep -ho '^func Test[A-Za-z0-9_]*' $$files | sed 's/^func //' | grep -vx '$(IN_CI)' | paste -s -d ' ')"

guests-test: export PLIMSOLL_K6 ?= build
guests-test: ## boot machines of the fleet in QEMU: with a tiny system, as agents of RKE2 and k3s, and with a kubelet that joins (needs qemu-system-x86, qemu-utils, busybox-static, linux-image-cloud-amd64 and mmdebstrap; ARGS='-accel tcg')
	$(GO) test -count=1 -tags guest -timeout 90m -v -run '^TestAMachine' ./testbed/guests $(ARGS)
	$(GO) test -count=1 -tags guest -timeout 90m -v ./testbed/lab/realnode $(ARGS)
	$(GO) test -count=1 -tags guest -timeout 60m -v -run '^TestATunedImageBootsSooner$$' ./cmd/plimsoll/internal/template

lint: ## run the linters of .golangci.yml (ARGS=--fix fixes what can be fixed)
	$(GOLANGCI_LINT) run $(ARGS)

fuzz: ## hand garbage to every reader of outside bytes, each for FUZZTIME (an hour in all)
	@$(GO) list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r package dir; do \
		for fuzz in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$$dir"/*_test.go 2> /dev/null); do \
			GOMEMLIMIT=1GiB $(GO) test -run '^$$' -fuzz "^$$fuzz\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x $(ARGS) $$package || exit 1; \
		done; done

# No more than take three minutes of two cores that do nothing else.
lives-test: ## live as many lives as CI does
	$(GO) test -count=1 -timeout 30m -run '^TestLives$$' ./cmd/plimsoll/internal/operator -lives.from 1501 -lives.n 500 $(ARGS)

lives: ## live many lives of the product in virtual time, with faults and people (ARGS='-lives.from 1 -lives.n 500')
	$(GO) test -count=1 -v -timeout 12h -run '^TestLives$$' ./cmd/plimsoll/internal/operator -lives.n 150 $(ARGS)

weeks: ## predict from recordings what 20 simulated weeks come to by other settings, live through them, and print how far off it was (ARGS='-weeks 7 -length 24h')
	GOGC=800 $(GO) test -count=1 -v -timeout 12h -run '^TestPredictionsComeTrue$$' ./testbed/whatif -weeks 20 -length 168h $(ARGS)

mutants: ## change each condition that keeps machines safe, and 300 of those that decide, one at a time, and see that a test notices
	$(GO) run ./testbed/mutants $(ARGS) testbed/mutants/targets.txt
	$(GO) run ./testbed/mutants -sample 300 -wanted 0.9 $(ARGS) testbed/mutants/decisions.txt

bench: ## run the benchmarks, in the packages that have any
	@packages=$$($(GO) list -f '{{.ImportPath}}:{{.Dir}}' ./... | while IFS=: read -r package dir; do \
		if grep -qs '^func Benchmark' "$$dir"/*_test.go; then echo "$$package"; fi; done); \
	test -n "$$packages" || { echo "no package has a benchmark yet"; exit 0; }; \
	$(GO) test -run '^$$' -bench . -benchmem $(ARGS) $$packages

bench-cluster: ## run Plimsoll in a large pretended cluster, and say what it takes (NODES=1000 PODS=30000 WORKLOADS=200)
	$(GO) test -tags lab -run '^$$' -bench '^BenchmarkCluster$$' -benchtime 1x -timeout 4h ./testbed/lab/scale \
		-args -nodes $(NODES) -pods $(PODS) -workloads $(WORKLOADS) $(ARGS)

gen: ## write generated files anew, and format
	$(GO) generate ./...
	$(GO) test -count=1 -run '^TestToolsCanBeBuiltWithoutACheckout$$' ./testbed/lab -update > /dev/null
	$(GO) test -count=1 -run '^TestReference$$' ./testbed/crd -update > /dev/null
	$(GO) test -count=1 -run '^TestReasonsPage$$' ./cmd/plimsoll/internal/reasons -update > /dev/null
	$(GO) fmt ./...

house: ## print how large the rooms are, and what is beyond its limit (ARGS='-before COMMIT' compares)
	@$(GO) run ./cmd/plimsoll/internal/archcheck/house $(ARGS)

grades: ## print how hard each page is to read: grade by Flesch and Kincaid, and words of the median sentence
	@$(GO) run ./cmd/plimsoll/internal/wordcheck/grades

docs: ## write the documentation as a site that needs no network, with search, into out/site
	@$(GO) run -C deploy/tools ./site -root ../.. -out ../../out/site

check: ## what CI runs: generated files are clean, linters, and all tests, with the seconds that each section took
	@bash .ci/run

build: ## build bin/plimsoll
	$(GO) build -trimpath -o bin/ ./cmd/plimsoll

image: ## build the container image for this machine into out/plimsoll-image.tar, without a registry
	$(GO) run -C deploy/tools ./image --platform linux/$$($(GO) env GOARCH) --tags v$(RELEASE) $(ARGS)

chart: ## pack the Helm charts into out/
	@mkdir -p out
	$(GO) -C deploy/tools tool helm package ../charts/plimsoll ../charts/plimsoll-crds --destination ../../out $(ARGS)

release: ## make what a release has into out/release: programs, lists of their contents, provenance, image and charts as OCI layouts, checksums
	$(GO) run -C deploy/tools ./release -root ../.. -version v$(RELEASE) -commit "$$(git rev-parse HEAD)" $(ARGS)

chart-test: ## hold charts, alerts, dashboards and image to what is promised of them
	$(GO) vet -C deploy/tools ./...
	cd deploy/tools && $(GO) mod tidy -diff && $(GOLANGCI_LINT) run --config ../../.golangci.yml
	@# Nothing is cached: Go does not see changes outside of the module.
	$(GO) test -C deploy/tools -count=1 $(ARGS) ./...

clean-tree:
	@sh .ci/clean-tree

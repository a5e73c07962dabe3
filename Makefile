# make demo, make test, make build: see README.md.
#
# XNNPACK=executorch  the XNNPACK inside the pinned ExecuTorch of third_party/ (default)
# XNNPACK=litert-lm   the XNNPACK inside the pinned LiteRT-LM of third_party/, which has AMX kernels
# XNNPACK=debian      the pinned XNNPACK of Debian in third_party/
# XNNPACK=system      what the system's compiler finds by itself
# XNNPACK=/prefix     what is installed under that prefix (include/, lib/)
#
# ARCH=arm64 on a machine of another architecture builds with Debian's cross compiler, against that architecture's pinned XNNPACK.
#
# SANITIZE=thread|address  builds the C library for hosts that are compiled with -fsanitize=

SHELL := /bin/bash
.DEFAULT_GOAL := help

XNNPACK ?= executorch
ARCH ?=
SANITIZE ?=
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
MODEL ?=
DATA ?=
LAYERS ?=
JSON ?=
PLOTS ?=
RUNS ?=
BENCH ?= .
FUZZ ?= 10000x
# Tests of what is too much to try whole draw from it, and print the seed (XPWC_TEST_SEED=). NIGHTLY=1 tries all.
NIGHTLY ?=

export XNNPACK ARCH SANITIZE NIGHTLY

ifneq ($(words $(CURDIR)),1)
$(error the path "$(CURDIR)" has a space in it, which make and cgo cannot handle; clone elsewhere)
endif

# scripts/with-xnnpack has cgo find XNNPACK. Other programs are built without cgo, whatever a shell has from `make env`.
with := scripts/with-xnnpack
go := $(with) go
without_cgo := CGO_ENABLED=0 GOFLAGS='$(filter-out -ldflags=-linkmode=external,$(shell go env GOFLAGS))'
pure_go := $(without_cgo) go

.PHONY: $(shell sed -n 's/^\([a-z0-9_-]*\):.*/\1/p' Makefile)

# The last lines list variants; the comments at their rules describe them.
help: ## list these
	@awk -F ':.*## ' '/^[a-z0-9_-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@for kind in demo test bench; do echo "  make $$kind-...:" \
		$$(sed -n "s/^$$kind-\([a-z0-9-]*\):.*/\1/p" Makefile | sort -u); done

third_party: xnnpack models ## fetch the pinned XNNPACK, models and headers
	@third_party/fetch-executorch
	@third_party/fetch-litert
	@third_party/fetch-litert-lm
	@third_party/fetch-onnxruntime

xnnpack:
	@$(with) --fetch

models:
	@third_party/fetch-models

tools: ## install what other architectures and systems need (as root)
	@third_party/install-tools

env: xnnpack ## print the settings for cgo: eval "$(make -s env)"
	@$(with) --print

# What is built.

# An xpwc packs for arm64 with that of bin/arm64.
tool := bin$(addprefix /,$(filter-out $(shell dpkg --print-architecture 2>/dev/null),$(ARCH)))/xpwc
build: xnnpack ## build the tool: bin/xpwc (XNNPACK=), bin/arm64/xpwc (ARCH=arm64)
	@[ -e $(tool) ] || echo "building $(tool)" >&2
	@mkdir -p $(dir $(tool))
	@$(with) scripts/build-tool $(tool)

# One file that needs nothing of the machine it is copied to.
static: ## build the tool without XNNPACK: bin/xpwc-static
	@$(pure_go) build -trimpath -ldflags '-s -w' -o bin/xpwc-static ./cmd/xpwc

lib := lib$(addprefix /,$(filter-out $(shell dpkg --print-architecture 2>/dev/null),$(ARCH)))$(addprefix /,$(SANITIZE))
lib: xnnpack ## build the C library in lib/ (XNNPACK=, ARCH=, SANITIZE=)
	@$(with) scripts/build-lib $(lib)

install = PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' $(with) scripts/install
install: install-lib install-tool ## install library and tool (PREFIX=, LIBDIR=, DESTDIR=)
	@$(install) licences

install-lib: lib
	@$(install) lib $(lib)

install-tool: xnnpack
	@$(install) tool

dist := dist$(addprefix /,$(filter-out $(shell dpkg --print-architecture 2>/dev/null),$(ARCH)))
dist: xnnpack ## build packages, wheel and image contents in dist/ (XNNPACK=, ARCH=)
	@$(with) scripts/dist $(dist)

wheel: xnnpack ## build the Python wheel in dist/ (XNNPACK=, ARCH=)
	@$(with) scripts/wheel $(dist)

dist-ios: xnnpack # build the reader in C for iOS, with its headers, in dist-ios/ (XNNPACK=)
	@third_party/fetch-zig
	@$(with) scripts/build-reader dist-ios

uninstall: ## remove what make install installed
	@$(install) --remove

# The C++ host is built as hosts elsewhere are: against an installed library.
stage := $(CURDIR)/$(lib)/stage
host: lib
	@PREFIX=$(stage) LIBDIR=$(stage)/lib DESTDIR= $(with) scripts/install lib $(lib)
	@$(with) scripts/build-host $(stage) $(lib)/host

llm: xnnpack
	@$(if $(MODEL),,third_party/fetch-llm)
	@echo "building examples/llm" >&2
	@$(go) build -o bin/llm ./examples/llm

clean: ## remove what was built and fetched
	rm -rf bin lib dist dist-ios demo third_party/.apt third_party/{amd64,arm64,models,executorch,litert,litert-lm,llama-cpp,llm,wheel,zig}

# What is shown.

demo: build $(if $(MODEL),,models) ## run a model without a cache, cold, and warm (MODEL=, DATA=)
	@bin/xpwc demo $(if $(LAYERS),--layers $(LAYERS)) $(if $(JSON),--figures '$(JSON)') \
		'$(or $(MODEL),third_party/models/pose_landmark_heavy.tflite)' $(DATA)

demo-host: host # a C++ host repeats ExecuTorch's experiments of PR 9155 and 19988 (needs cmake, 1.3 GB in demo/)
	@mkdir -p demo/host
	@lib/host/measure demo demo/host

demo-hello: lib # a C++ host of one page, twice: its first start packs, the second finds what was packed
	@mkdir -p demo/hello && rm -f demo/hello/hello.xpwc
	@$(with) sh -c '$${CXX:-g++} -std=c++17 -O2 -Wall -Wextra -Icapi/include -o $(lib)/hello examples/hello/hello.cpp \
		$(lib)/libxpwc.a $$XPWC_FLAGS -lXNNPACK -lpthreadpool -lcpuinfo -lm -ldl -pthread'
	@cd demo/hello && $(CURDIR)/$(lib)/hello && $(CURDIR)/$(lib)/hello

demo-service: xnnpack models # an HTTP service loads two models cold and warm, and a third while it serves
	@echo "building examples/service" >&2
	@$(go) build -o bin/service ./examples/service
	@examples/service/demo.sh bin/service third_party/models demo/service

demo-llm: llm # a language model answers without a cache, as a first start and as a next one (MODEL=, TOKENIZER=, PROMPT=, WEIGHTS=, ROUNDS=5)
	@mkdir -p demo/llm
	@$(go) build -o bin/starts ./internal/bench/starts
	@bin/starts -cache demo/llm/llm.xpwc -source '$(or $(MODEL),third_party/llm/SmolLM2-135M-Instruct.Q4_1.gguf)' \
		$(if $(ROUNDS),-rounds $(ROUNDS)) bin/llm $(if $(MODEL),-model '$(MODEL)') $(if $(TOKENIZER),-tokenizer '$(TOKENIZER)') $(if $(ROUNDS),,-times) $(if $(WEIGHTS),-weights $(WEIGHTS)) -- '$(or $(PROMPT),The capital of France is)'

# The stock ExecuTorch is what its wheel has.
demo-executorch bench-peers bench-operators bench-llm demo-litert peers: override XNNPACK := executorch
demo-executorch: xnnpack # the stock ExecuTorch without a cache, with its own, and with a file packed ahead of time (MODEL=, DATA=)
	@echo "building examples/executorch" >&2
	@$(MAKE) --no-print-directory -s -C examples/executorch BUILD='$(CURDIR)/bin/executorch'
	@$(go) build -o bin/executorch/ ./cmd/xpwc
	@examples/executorch/demo.sh bin/executorch demo/executorch '$(or $(MODEL),models/executorch/testdata/programs/mobilenet_v3_small_int8.pte)' $(DATA)

demo-litert: $(if $(MODEL),,models) peers # the stock LiteRT without a cache, with its own, and with a file packed ahead (MODEL=, ROUNDS=, PROCESSES=)
	@$(measure_peers) --only LiteRT --dir demo/litert '$(or $(MODEL),third_party/models/pose_landmark_heavy.tflite)'

# What is tested. `work` is every package of all modules.

check: ## while you work: vet, staticcheck, quick tests (2 minutes)
	+@scripts/in-steps $@ lint quick-tests

test: ## vet, staticcheck, all tests, races, fuzzing (NIGHTLY=1)
	+@$(if $(NIGHTLY),,FUZZED=2) scripts/in-steps $@ lint tests-without-cgo tests tests-for-races fuzz

# Tests of the whole, by subject. Many of them need no XNNPACK.
subjects := ./internal/tests/{crash,files,identity,sharing,events}

# The packages whose tests need no XNNPACK, and those that only compile without it.
pure := . $(subjects) ./internal/format ./internal/store ./internal/osdisk ./internal/entries ./internal/writer ./internal/mapped ./metrics ./models/safetensors ./cachefile ./models/executorch ./models/litert ./models/npy ./internal/tensorfile ./registry
compiled_pure := $(pure) ./xnnpack ./models ./models/described ./models/tflite ./models/litert/stock ./internal/generated ./cmd/xpwc/... \
	./internal/bench ./internal/bench/{peers,terminal}/...
plots := ./internal/bench/plots

# Lists the lines of more than 120 columns. A tab counts 4, and a character one, however many bytes it has.
too_long := LC_ALL=C awk '{ gsub(/\t/, "    "); gsub(/[\200-\277]/, "") } \
	length > 120 { print FILENAME ":" FNR ": more than 120 columns" }'

lint: third_party bin/staticcheck
	@echo "gofmt, go vet, staticcheck"
	@test -z "$$(gofmt -l $$(git ls-files '*.go') | tee -a /dev/stderr)"
	@test -z "$$($(too_long) $$(git ls-files '*.go') | tee -a /dev/stderr)"
	@$(go) vet work
	@$(with) bin/staticcheck work
	@$(pure_go) vet $(compiled_pure) $(plots)

# go test says nothing of a package before all packages ahead of it in the list have ended; gotestsum says it as each one ends.
# Tests are linked in half the time without what only a debugger reads; Debian's XNNPACK may need another linker than Go's own.
short := $(if $(NIGHTLY),,-short)
tests := $(with) bin/gotestsum --format pkgname --format-hide-empty-pkg --hide-summary skipped \
	--jsonfile-timing-events bin/tests.json -- -vet=off -ldflags='-w $(if $(filter debian,$(XNNPACK)),-linkmode=external)'
but = $$($(go) list work | grep -vE '$1')

tests-without-cgo:
	@echo "tests without cgo"
	@$(pure_go) test $(short) $(pure) $(plots)

# The race detector finds nothing in what is a program of its own, or one goroutine. What it is run on is not run without it, except
# the package xpwc and the tests of the whole, and at night.
whole := ^xpwc(/internal/tests/(crash|files|identity|sharing|events))?$$
not_raced := /capi$$|/cmd/xpwc$$|/htmlreport$$|/internal/(bench|generated|tests/optable|format|output)|/examples/|/docs$$
not_raced := $(not_raced)|/tflite$$|/described$$|/cachefile$$
# What has goroutines in its tests alone, if any, is only raced at night.
not_raced := $(not_raced)$(if $(NIGHTLY),,|/executorch$$|/models$$|/npy$$|/packing$$|/safetensors$$|/internal/tests/zoo$$)
not_raced := $(not_raced)$(if $(NIGHTLY),,|/internal/(operators|cpu|digest|flatbuf|half|tensorfile)$$)
one_goroutine := OutOfBounds|HasTrouble|IsServedAs|Kill|Power|FailedFlush|IndexIsDamaged|EveryCPU|AnyGeometry|FullDisk|ProcessesMayEnd|IsDeclaredOf
tests: third_party bin/gotestsum
	@echo "tests on the real library: a line for each package when it has ended"
	@$(tests) $(short) -timeout 120m $(if $(NIGHTLY),work,$$($(go) list work | grep -E '$(whole)|$(not_raced)'))
	@$(if $(NIGHTLY),,$(tests) -short -run '$(one_goroutine)' $(call but,$(whole)|$(not_raced)))

tests-for-races: third_party bin/gotestsum
	@echo "tests with the race detector"
	@$(tests) -race -short -timeout 60m -skip '$(one_goroutine)' $(call but,$(not_raced))

# Left out are what builds the C library or measures, and what takes seconds where the rest takes a moment: kills, power
# failures, failing disks, every flipped bit, every CPU.
slow_packages := /capi$$|/internal/(bench|bench/plots|bench/provider|generated)$$|/examples/
slow := Kill|Interrupt|Power|Flush|FullDisk|SizeLimit|Flipped|NeverCrash|Truncated|EveryCPU|AnySize|AnyGeometry|AnotherSize|ShareASeed
slow := $(slow)|CommitsWhile|OpenedClosed|CachesAreClosed|ClosingWaits|AreHashed|AThousand|WithoutXNNPACKLooks|OutOfBounds|HasTrouble
quick-tests: third_party bin/gotestsum
	@echo "quick tests: a line for each package when it has ended"
	@$(tests) -short -timeout 10m -skip '$(slow)' $(call but,$(slow_packages))

fuzz: third_party ## run every fuzz target (FUZZ=20000x or FUZZ=10m)
	@$(with) scripts/fuzz $(FUZZ)

test-zoo: xnnpack # run models of ordinary users, compare with the stock runtimes' answers, write docs/models.md
	@$(go) test -count=1 ./internal/tests/zoo -update
	@$(go) test -count=1 -run TheStockRuntimeAnswersTheSame ./examples/executorch/stock

test-llm: xnnpack # the language model's tests, which make test skips where it was not fetched
	@third_party/fetch-llm
	@$(go) test -count=1 -v -run '^Test' ./examples/llm

# What needs no XNNPACK, or the race detector, has been tested with the other one; -short leaves out the slow scenarios.
test-debian: override XNNPACK := debian
test-debian: third_party # run every package's tests on Debian's XNNPACK
	@echo "tests on Debian's XNNPACK"
	@$(go) vet work
	@$(go) test -short -timeout 60m work

# With XPWC_TEST_ALL, a test that lacks a program of Debian's fails instead of being skipped, and what is shipped is built and tried.
test-all: export XPWC_TEST_ALL = 1
test-all: # everything CI runs: make test, and all other architectures and systems (needs make tools)
	@third_party/install-tools --check
	@for target in vet-systems test test-masked test-debian test-windows test-arm64 test-targets; do $(MAKE) --no-print-directory $$target || exit 1; done
	@$(MAKE) --no-print-directory XNNPACK=debian test-arm64

test-nightly: # make test-all, with everything tried that it draws from (hours)
	@$(MAKE) --no-print-directory NIGHTLY=1 FUZZ=10m test-all

# What XNNPACK decides: operators, layouts, models.
test-litert-lm: override XNNPACK := litert-lm
test-litert-lm: third_party # run the tests of models and packing on the XNNPACK of LiteRT-LM
	@echo "tests on LiteRT-LM's XNNPACK"
	@$(go) test -short -vet=off -timeout 30m . ./xnnpack/... ./internal/ask ./internal/tests/identity ./models/...

# Other processors, architectures and systems than the one at hand: see docs/platforms.md.

# One process for each level of x86's instruction sets; `make test` runs these too, with everything else.
per_cpu := OutputsAreTheSameOnEveryCPU|OneFileServesEveryCPU|TheLayoutFingerprintDistinguishesPackings
per_cpu := $(per_cpu)|PackingsWithCollidingKeysShareAFile|EveryOperatorComputesWhatItShouldOnOtherCPUs
test-x86: xnnpack # run every operator with the kernels of each x86 CPU from SSE2 to AVX-512, and say what ran
	@mkdir -p bin
	@$(go) test -count=1 -v -run '^Test($(per_cpu))$$' ./internal/tests/{identity,optable} >bin/test-x86.log 2>&1 || { cat bin/test-x86.log; exit 1; }
	@grep -E '^ +[a-z_]+_test\.go:|^ *--- SKIP|^(ok|---) ' bin/test-x86.log

# Lesser CPUs for everything that reads what cpuinfo finds, programs that tests start among them: what is green here is green on others'
# machines. Of enum xpwc_cpu_level: SSE2, AVX2.
lesser_cpu := $(CURDIR)/bin/lesser_cpu.so
test-masked: third_party # the quick tests, with the kernels of lesser x86 CPUs in every program
	@mkdir -p bin
	@$(with) sh -c '$(CC) -shared -fPIC -O2 -Wall -Wextra -Werror $$XNNPACK_CFLAGS -o $(lesser_cpu) internal/tests/testkit/testdata/lesser_cpu.c -ldl'
	@for level in 0 5; do \
		echo "quick tests on a CPU of level $$level"; \
		$(go) test -short -vet=off -timeout 30m -exec "env LD_PRELOAD=$(lesser_cpu) LESSER_CPU=$$level" \
			. $(subjects) ./models/executorch ./models/tflite ./cmd/xpwc ./capi ./capi/reader || exit 1; \
	done

test-arm64: models # run the tests built for arm64 on emulated machines that are drawn (NIGHTLY=1: on all; needs make tools)
	@third_party/install-tools --check
	@$(MAKE) --no-print-directory ARCH=arm64 emulated

# A build machine packs for phones: see docs/guide-phones.md. The stock runtimes of arm64 use what was packed, emulated.
test-targets: export XPWC_TEST_ALL = 1
test-targets: override XNNPACK := executorch
test-targets: xnnpack models # pack for arm64, and run the stock runtimes of arm64 on it (NIGHTLY=1: the zoo; needs make tools)
	@third_party/install-tools --check
	@for runtime in executorch litert litert-lm; do third_party/fetch-$$runtime arm64 || exit 1; done
	@XPWC_TEST_TARGETS=1 $(go) test $(short) -count=1 -v -timeout 240m -run 'Phone|OfArm64|TestARealDevice|LibraryIsNamed|TableOfLayouts|SeveralPhones' ./cmd/xpwc

emulated: host
	@$(with) scripts/test-arm64 $(lib)/host/measure

# The rest is compiled against XNNPACK's header, and not linked: Debian has no XNNPACK for Windows. What looks after cache files and
# registries is vetted: it puts files in place as Unix does. The C library needs signals.
test-windows: xnnpack # cross-build for Windows: run the tests that need no XNNPACK under Wine, vet the rest (RUN=, VERBOSE=1)
	@echo "go vet for Windows, without cgo and with mingw-w64"
	@GOOS=windows GOARCH=amd64 $(pure_go) vet $(compiled_pure)
	@$(with) env GOOS=windows GOARCH=amd64 CC=x86_64-w64-mingw32-gcc CGO_LDFLAGS= sh -c 'go vet $$(go list work | grep -v /capi)'
	@$(without_cgo) RUN='$(RUN)' VERBOSE='$(VERBOSE)' scripts/test-windows $(filter-out ./cachefile ./registry,$(pure))

# Systems that nothing runs on here: what needs no cgo is compiled and vetted.
vetted := darwin/amd64 darwin/arm64 freebsd/amd64 freebsd/arm64 netbsd/amd64 openbsd/amd64 android/arm64 linux/riscv64 windows/arm64
vet-systems: # vet what needs no cgo for macOS, iOS, the BSDs, Android, riscv64 and Windows on arm64
	@for system in $(vetted); do \
		echo "go vet for $$system"; \
		GOOS=$${system%/*} GOARCH=$${system#*/} $(pure_go) vet $(compiled_pure) || exit 1; \
	done
	@echo "go build for ios/arm64" # its tests would have to be linked with cgo; the files are macOS', vetted above
	@GOOS=ios GOARCH=arm64 $(pure_go) build $(pure)

# Built without cgo: a tool must not be linked against the libraries of third_party/.
bin/staticcheck: package := honnef.co/go/tools/cmd/staticcheck
bin/gotestsum: package := gotest.tools/gotestsum
bin/staticcheck bin/gotestsum: internal/bench/go.mod internal/bench/go.sum
	@$(pure_go) build -o $@ $(package)

docs/architecture.svg: docs/architecture.dot ## draw the picture of the packages (needs Graphviz)
	dot -Tsvg $< -o $@

# What is measured.

plot = $(if $(PLOTS),$(pure_go) run $(plots) '$(abspath $1)' '$(abspath $(PLOTS))')

figures = $(or $(JSON),bin/bench.json)
bench: third_party build ## measure against every alternative (MODEL=, RUNS=, JSON=)
	@bin/xpwc bench $(if $(LAYERS),--layers $(LAYERS)) $(if $(RUNS),--runs $(RUNS)) --figures '$(figures)' $(if $(MODEL),'$(MODEL)' $(DATA))
	@$(call plot,$(figures))
	@$(go) test -run '^$$' -bench '$(BENCH)' -benchtime 1x . ./internal/tests/files

bench-host: host build # what a start costs a C++ host, one in C with the reader, and the cache's calls (needs cmake)
	@mkdir -p demo
	@$(with) scripts/bench-reader demo/reader
	@lib/host/measure starts demo/host
	@lib/host/measure bench demo/host

host-costs: xnnpack # measure what the C library costs a host, and write it into docs/guide-c.md
	@$(go) test -count=1 -run WhatItCostsAHost ./capi -update

# The peers have an XNNPACK of 2026, and ours is the one inside ExecuTorch's wheel.
peer_models := third_party/models/pose_landmark_heavy.tflite third_party/models/selfie_segmentation.tflite chain.tflite chain-int8.tflite \
	models/executorch/testdata/programs/mobilenet_v3_small_int8.pte chain.pte
peer_figures = $(or $(JSON),bin/peers/peers.json)
measure_peers = bin/peers/peers $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PROCESSES),--processes $(PROCESSES))
peers: xnnpack
	@third_party/fetch-litert
	@third_party/fetch-litert-lm
	@echo "building bin/peers" >&2
	@mkdir -p bin/peers
	@$(CC) -O2 -Wall -Wextra -o bin/peers/litert internal/bench/litert/litert.c -Lthird_party/litert/lib -lLiteRt \
		-Wl,-rpath,'$(CURDIR)/third_party/litert/lib'
	@$(with) sh -c '$(CC) -O2 -Wall -Wextra -I. -Icapi/include -Icapi/reader -o bin/peers/reader internal/bench/reader/reader.c \
		capi/reader/xpwc_reader.c $$XPWC_FLAGS -lXNNPACK -lpthreadpool -lcpuinfo -lm -ldl -pthread'
	@$(go) build -o bin/peers/ ./cmd/xpwc ./internal/bench/peers

bench-peers: xnnpack models peers # compare with LiteRT, the stock ExecuTorch and ONNX Runtime (MODELS=, ROUNDS=, PROCESSES=, JSON=, PLOTS=)
	@third_party/fetch-onnxruntime
	@$(go) build -o bin/peers/ ./internal/bench/onnxruntime
	@ln -sf '$(CURDIR)/third_party/onnxruntime/lib/libonnxruntime.so' bin/peers/
	@$(MAKE) --no-print-directory -s -C examples/executorch BUILD='$(CURDIR)/bin/peers/executorch'
	@[ "$$(uname -m)" != x86_64 ] || $(with) sh -c 'cd capi && $(CC) -O2 -Wall -Wextra -fPIC -fvisibility=hidden -I.. -Iinclude -Ireader $$XPWC_FLAGS -c -o ../bin/peers/reader.o \
		reader/xpwc_reader.c && $(CXX) -std=c++17 -O2 -Wall -Wextra -shared -fPIC -DON_READER -DXNNWeightsCache=DropIn -Iinclude -Ireader $$XPWC_FLAGS \
		-o ../bin/peers/drop_in.so @testdata/executorch/flags testdata/executorch/real.cc ../bin/peers/reader.o -ldl'
	@$(measure_peers) --json '$(peer_figures)' $(or $(MODELS),$(peer_models))
	@$(call plot,$(peer_figures))

# MODEL is a bundle of LiteRT-LM or a .pte with its tokenizer.json, and GGUF the same model for llama.cpp. Each program computes with THREADS threads.
language_figures = $(or $(JSON),bin/peers/llm.json)
bench-llm: xnnpack peers # compare language models with LiteRT-LM, llama.cpp and ExecuTorch (MODEL=, GGUF=, PYTHON=, THREADS=1, TOKENS=32, ROUNDS=, PROCESSES=4, JSON=)
	@third_party/fetch-llm
	@third_party/fetch-llama-cpp
	@ln -sfn ../../third_party/llama-cpp bin/peers/llama-cpp
	@$(CC) -O2 -Wall -Wextra -o bin/peers/llama_cpp internal/bench/llm/llama_cpp.c -Lthird_party/llama-cpp -lllama -lggml \
		-Wl,-rpath,'$(CURDIR)/third_party/llama-cpp' -Wl,-rpath-link,third_party/llama-cpp
	@$(CC) -O2 -Wall -Wextra -pthread -o bin/peers/litert_lm internal/bench/llm/litert_lm.c -Lthird_party/litert-lm/lib -llitert-lm \
		-Wl,-rpath,'$(CURDIR)/third_party/litert-lm/lib'
	@rm -f bin/peers/executorch_llm
	@[ -z '$(PYTHON)' ] || { printf '#!/bin/sh\nexec "%s" "%s" "$$@"\n' '$(PYTHON)' '$(CURDIR)/internal/bench/llm/executorch_llm.py' && \
		chmod +x /dev/stdout; } >bin/peers/executorch_llm
	@$(go) build -o bin/peers/ ./examples/llm
	@bin/peers/peers --tokens $(or $(TOKENS),32) --threads $(or $(THREADS),1) $(if $(ROUNDS),--rounds $(ROUNDS)) \
		--processes $(or $(PROCESSES),4) --dir demo/llm --json '$(language_figures)' \
		$(if $(MODEL),'$(MODEL)') '$(or $(GGUF),third_party/llm/SmolLM2-135M-Instruct.Q4_1.gguf)'

# A benchmark of the operators alone, and no test: it lists those whose time is above LIMIT times that of the stock runtime.
operators := demo/operators
bench-operators: xnnpack peers # compare every operator with the stock runtimes at two sizes (OPERATORS=pad*, LIMIT=1.5, ROUNDS=3)
	@$(MAKE) --no-print-directory -s -C examples/executorch BUILD='$(CURDIR)/bin/peers/executorch'
	@mkdir -p $(operators) && tar -xzf internal/bench/operators/operators.tar.gz -C $(operators)
	@shopt -s nullglob; bin/peers/peers --operators $(or $(LIMIT),1.5) --rounds $(or $(ROUNDS),3) --dir $(operators)/work \
		$(foreach p,$(or $(OPERATORS),*),$(operators)/$p.*.pte $(operators)/$p.*.tflite)

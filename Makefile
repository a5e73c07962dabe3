# make demo, make test, make build: see README.md. `make help` lists everything.
#
# XNNPACK=executorch  the XNNPACK inside the pinned ExecuTorch of third_party/ (default)
# XNNPACK=debian      the pinned XNNPACK of Debian in third_party/
# XNNPACK=system      what the system's compiler finds by itself
# XNNPACK=/prefix     what is installed under that prefix (include/, lib/)
#
# ARCH=arm64 on a machine of another architecture builds with Debian's cross compiler, against that architecture's pinned XNNPACK.

SHELL := /bin/bash
, := ,
.DEFAULT_GOAL := help

XNNPACK ?= executorch
ARCH ?=
MODEL ?=
DATA ?=
LAYERS ?=
JSON ?=
PLOTS ?=
RUNS ?=
BENCH ?= .
FUZZ ?= 10000x

export CGO_CFLAGS ?= -O2 -g

ifneq ($(words $(CURDIR)),1)
$(error the path "$(CURDIR)" has a space in it, which make and cgo cannot handle; clone elsewhere)
endif

# What `go env -w` set counts too: the settings below would hide it. What a shell has from `make env` does not.
user_goflags := $(filter-out -ldflags=-linkmode=external,$(shell go env GOFLAGS))
pure_go := CGO_ENABLED=0 GOFLAGS='$(user_goflags)' go

machine := $(shell dpkg --print-architecture 2>/dev/null)
arch := $(or $(ARCH),$(machine))
ifneq ($(arch),$(machine))
ifneq ($(arch),arm64)
$(error ARCH=$(ARCH): only arm64 can be built for from another machine)
endif
binutils := aarch64-linux-gnu-
cross = GOARCH=$(arch) CC=$(binutils)gcc CXX=$(binutils)g++
endif

ifeq ($(XNNPACK),debian)
root := $(CURDIR)/third_party/$(arch)
# The library directory is known only once it has been unpacked, so these are expanded when a recipe runs.
libdir = $(firstword $(wildcard $(root)/usr/lib/*-linux-gnu*))
loader = $(firstword $(wildcard $(libdir)/ld-linux*.so.*))
xnnpack_prefix := $(root)/usr
# rpath and not runpath: libXNNPACK's own dependencies are found through it. The loader and its libc come along only
# where the system's glibc is too old for libXNNPACK.
xnnpack_cflags = -I$(root)/usr/include
xnnpack_ldflags = -L$(libdir) -Wl,--disable-new-dtags,-rpath,$(libdir) $(if $(wildcard $(root)/.own-libc),$(own_libc_ldflags))
own_libc_ldflags = -Wl,--allow-shlib-undefined -Wl,--dynamic-linker=$(loader)
# Go's own linker would take the libc from the rpath but not the loader that goes with it.
goflags = $(if $(wildcard $(root)/.own-libc),-ldflags=-linkmode=external)
own_libraries = $(libdir)
fetch_xnnpack := third_party/fetch-xnnpack $(arch)
else ifeq ($(XNNPACK),executorch)
root := $(CURDIR)/third_party/executorch$(if $(cross),-$(arch))
# ExecuTorch's wheel has no header of its XNNPACK, and other names for the libraries.
xnnpack_prefix := $(CURDIR)/third_party/executorch-xnnpack
xnnpack_cflags = -I$(xnnpack_prefix)/include
xnnpack_ldflags = -L$(xnnpack_prefix)/lib -L$(root)/lib -Wl,-rpath,$(root)/lib -ldl
own_libraries = $(root)/lib
fetch_xnnpack := third_party/fetch-executorch $(arch)
else ifeq ($(XNNPACK),system)
fetch_xnnpack := true
else
ifeq ($(wildcard $(XNNPACK)/include/xnnpack.h),)
$(error XNNPACK=$(XNNPACK): there is no include/xnnpack.h; give the prefix XNNPACK is installed under, or debian, executorch or system)
endif
xnnpack_cflags = -I$(XNNPACK)/include
xnnpack_ldflags = $(if $(wildcard $(XNNPACK)/lib/libXNNPACK.so),,$(static_xnnpack)) -L$(XNNPACK)/lib -Wl,-rpath,$(XNNPACK)/lib
# A static XNNPACK has C++ in it, and since 2026 its microkernels in a library of their own. These flags come before -lXNNPACK, when
# nothing needs libstdc++ yet.
static_xnnpack := $(if $(wildcard $(XNNPACK)/lib/libxnnpack-microkernels-prod.a),-L$(CURDIR)/third_party/static-xnnpack/lib) \
	-Wl,--push-state,--no-as-needed -lstdc++ -Wl,--pop-state
fetch_xnnpack := true
endif

# A shell that has the settings of `make env`, of this clone or another, may ask for another XNNPACK: header and library of
# two do not fit. So the settings say which flags are theirs.
user_cflags = $(filter-out $(XPWC_FLAGS),$(CGO_CFLAGS))
user_ldflags = $(filter-out $(XPWC_FLAGS),$(CGO_LDFLAGS))

settings = $(if $(cross),$(cross) )CGO_ENABLED=1 GOFLAGS='$(strip $(user_goflags) $(goflags))' CGO_CFLAGS='$(strip $(user_cflags) $(xnnpack_cflags))' \
	CGO_LDFLAGS='$(strip $(user_ldflags) $(xnnpack_ldflags))' XPWC_FLAGS='$(strip $(xnnpack_cflags) $(xnnpack_ldflags))'
go = $(settings) go

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9_-]+:.*## / { line = sprintf("  make %-16s", $$1); n = split($$2, words, " "); \
		for (i = 1; i <= n; i++) { if (length(line) + length(words[i]) >= 80) { print line; line = sprintf("%23s", "") } \
		line = line " " words[i] } print line }' $(MAKEFILE_LIST)

.PHONY: third_party
third_party: xnnpack models ## fetch the pinned XNNPACK, and the models and ExecuTorch's headers for the tests
	@third_party/fetch-executorch

.PHONY: xnnpack
xnnpack:
	@$(fetch_xnnpack)

.PHONY: models
models:
	@third_party/fetch-models

.PHONY: tools
tools: ## install what the tests for other architectures and systems, registries and pages need of Debian's (as root)
	@third_party/install-tools

.PHONY: env
env: xnnpack ## print the settings for cgo: eval "$(make -s env)"
	@echo "export XNNPACK='$(XNNPACK)' $(settings)"

.PHONY: build
build: xnnpack ## build the tool: bin/xpwc (XNNPACK=)
	@[ -e bin/xpwc ] || echo "building bin/xpwc" >&2
	@$(go) build $(movable) -o bin/xpwc ./cmd/xpwc

# With a libc of its own, the path of its loader is fixed; otherwise the tool still finds its libraries when this directory
# has been moved.
movable = $(if $(own_libraries),-ldflags='-linkmode=external -extldflags "-Wl$(,)-rpath$(,)$$ORIGIN/$(call relative,bin,$(own_libraries))"')

# One file that needs nothing of the machine it is copied to.
.PHONY: static
static: ## build the tool without XNNPACK, for files and registries only: bin/xpwc-static (GOOS=, GOARCH=)
	@$(pure_go) build -trimpath -ldflags '-s -w' -o bin/xpwc-static ./cmd/xpwc

# The library has no XNNPACK: it is compiled against the header, and calls the host's. So none of the flags that find one
# may get into it, not even those that a shell has from `make env`.
version := $(shell sed -n 's/^\#define XPWC_VERSION "\(.*\)"/\1/p' capi/include/xpwc.h)
version_words := $(subst ., ,$(version))
# Before version 1, a minor version may break what the last one promised.
soversion := $(if $(filter 0,$(word 1,$(version_words))),0.$(word 2,$(version_words)),$(word 1,$(version_words)))
finds_xnnpack := -L% -ldl -lstdc++ -Wl,-rpath,% -Wl,--disable-new-dtags,-rpath,% -Wl,--push-state% -Wl,--pop-state \
	-Wl,--allow-shlib-undefined -Wl,--dynamic-linker=%
lib_go = $(settings) GOFLAGS='$(user_goflags)' CGO_LDFLAGS='$(filter-out $(finds_xnnpack),$(CGO_LDFLAGS))' \
	go build -trimpath -tags xpwc_host
exported = sed -n 's/^[a-z].* \(xpwc_[a-z_]*\)(.*/\1;/p' capi/include/xpwc.h

lib := lib$(if $(cross),/$(arch))

.PHONY: lib
lib: xnnpack ## build the C library: lib/libxpwc.a, lib/libxpwc.so (XNNPACK=, ARCH=)
	@echo "building $(lib)/libxpwc.a and $(lib)/libxpwc.so" >&2
	@mkdir -p $(lib)
	@echo "{ global: $$($(exported)) local: *; };" >$(lib)/exports.map
	@$(lib_go) -buildmode=c-archive -o $(lib)/libxpwc.a ./capi
	@$(binutils)objcopy --redefine-sym fatalf=_cgo_fatalf $(lib)/libxpwc.a # the one name of Go's runtime that a host may have too
	@$(lib_go) -buildmode=c-shared -o $(lib)/libxpwc.so.$(soversion) \
		-ldflags='-extldflags "-Wl,-soname,libxpwc.so.$(soversion) -Wl,--version-script=$(CURDIR)/$(lib)/exports.map"' ./capi
	@ln -sf libxpwc.so.$(soversion) $(lib)/libxpwc.so
	@rm -f $(lib)/*.h # what cgo declares; hosts include xpwc.h

include install.mk

.PHONY: demo
demo: build ## run a model without a cache, cold and warm (MODEL=, DATA=, LAYERS=, JSON=)
	@$(if $(MODEL),,third_party/fetch-models)
	@bin/xpwc demo $(if $(LAYERS),--layers $(LAYERS)) $(if $(JSON),--json '$(JSON)') '$(or $(MODEL),third_party/models/pose_landmark_heavy.tflite)' $(DATA)

.PHONY: demo-shared
demo-shared: build ## two runtimes that share weights, without and with the cache (MODEL=, DATA=, LAYERS=, JSON=)
	@$(if $(MODEL),,third_party/fetch-models)
	@bin/xpwc demo --shared $(if $(LAYERS),--layers $(LAYERS)) $(if $(JSON),--json '$(JSON)') '$(or $(MODEL),third_party/models/pose_landmark_heavy.tflite)' $(DATA)

# Where the host looks for XNNPACK; empty for where the compiler does.
xnnpack_root = $(or $(xnnpack_prefix),$(filter-out system,$(XNNPACK)))
stage = $(CURDIR)/$(lib)/stage

# A C++ program for another architecture brings the compiler's libraries, which that architecture's XNNPACK does not come with.
cross_cmake = $(if $(cross),-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=$(binutils)g++ \
	-DCMAKE_C_COMPILER=$(binutils)gcc)

# CMake would keep what it found for another XNNPACK=, therefore -U.
.PHONY: host
host: xnnpack
	@command -v cmake >/dev/null || { echo "examples/host needs cmake" >&2; exit 1; }
	@$(MAKE) --no-print-directory install-lib PREFIX='$(stage)' LIBDIR='$(stage)/lib' DESTDIR=
	@echo "building examples/host" >&2
	@cmake -S examples/host -B $(lib)/host --log-level=WARNING -U '*_LIBRARY' -U XNNPACK_INCLUDE_DIR \
		-DCMAKE_PREFIX_PATH='$(stage)' -DXNNPACK_ROOT='$(xnnpack_root)' \
		-DCMAKE_EXE_LINKER_FLAGS='$(xnnpack_ldflags) $(if $(cross),-static-libstdc++)' $(cross_cmake) >/dev/null
	@MAKEFLAGS= cmake --build $(lib)/host -j2 >$(lib)/host/log || { cat $(lib)/host/log; exit 1; }

.PHONY: demo-host
demo-host: host ## a C++ host repeats ExecuTorch's experiments of PR 9155 and 19988 (needs cmake, 1.3 GB in demo/)
	@mkdir -p demo/host
	@lib/host/host demo demo/host

.PHONY: bench-host
bench-host: host ## what a start costs a C++ host, and the cache's calls (needs cmake)
	@mkdir -p demo
	@lib/host/host starts demo/host
	@lib/host/host bench demo/host

.PHONY: demo-hello
demo-hello: lib ## a C++ host of one page, twice: its first start packs, the second finds what was packed
	@mkdir -p demo/hello && rm -f demo/hello/hello.xpwc
	@$(binutils)g++ -std=c++17 -O2 -Wall -Wextra -Icapi/include $(xnnpack_cflags) -o $(lib)/hello examples/hello/hello.cpp \
		$(lib)/libxpwc.a $(xnnpack_ldflags) -lXNNPACK -lpthreadpool -lcpuinfo -lm -ldl -pthread
	@cd demo/hello && $(CURDIR)/$(lib)/hello && $(CURDIR)/$(lib)/hello

.PHONY: demo-service
demo-service: xnnpack ## an HTTP service loads two models cold and warm, and a third while it serves
	@third_party/fetch-models
	@echo "building examples/service" >&2
	@$(go) build -o bin/service ./examples/service
	@$(go) build -o bin/demo-service ./examples/service/demo
	@mkdir -p demo/service
	@bin/demo-service bin/service third_party/models demo/service

.PHONY: demo-llm
demo-llm: llm ## a language model answers without a cache, as a first start and as a next one (PROMPT=, WEIGHTS=, ROUNDS=5)
	@mkdir -p demo/llm
	@$(go) build -o bin/starts ./internal/bench/starts
	@bin/starts -cache demo/llm/llm.xpwc -source third_party/llm/SmolLM2-135M-Instruct.Q4_1.gguf $(if $(ROUNDS),-rounds $(ROUNDS)) \
		bin/llm $(if $(ROUNDS),,-times) $(if $(WEIGHTS),-weights $(WEIGHTS)) -- '$(or $(PROMPT),The capital of France is)'

.PHONY: llm
llm: xnnpack
	@third_party/fetch-llm
	@echo "building examples/llm" >&2
	@$(go) build -o bin/llm ./examples/llm

.PHONY: test-llm
test-llm: xnnpack ## the language model's tests, which make test skips where it was not fetched
	@third_party/fetch-llm
	@$(go) test -count=1 -v -run '^Test' ./examples/llm

.PHONY: demo-executorch
ifeq ($(XNNPACK),executorch)
demo-executorch: xnnpack ## the stock ExecuTorch without a cache, with its own, and with a file packed ahead of time (MODEL=, DATA=)
	@echo "building examples/executorch" >&2
	@$(MAKE) --no-print-directory -s -C examples/executorch BUILD='$(CURDIR)/bin/executorch'
	@$(go) build -o bin/executorch/ ./cmd/xpwc ./examples/executorch/demo
	@mkdir -p demo/executorch
	@bin/executorch/demo bin/executorch demo/executorch $(or $(MODEL),executorch/testdata/programs/mobilenet_v3_small_int8.pte) $(DATA)
else
demo-executorch:
	@$(MAKE) --no-print-directory XNNPACK=executorch demo-executorch
endif

# Lists the lines of more than 120 columns. A tab counts 4, and a character one, however many bytes it has.
too_long = LC_ALL=C awk '{ gsub(/\t/, "    "); gsub(/[\200-\277]/, "") } \
	length > 120 { print FILENAME ":" FNR ": more than 120 columns" }'

# Runs targets one after the other, and ends with one line that says how that went and how long it took.
in_steps = rm -f $(events); for step in $1; do $(MAKE) --no-print-directory $$step || { \
	echo "make $@: FAILED after $(elapsed), in $$step:" $$(sed -n '$(failed_package)' $(events) 2>/dev/null) >&2; exit 1; }; \
	done; echo "make $@: all passed, in $(elapsed)"
elapsed = $$((SECONDS / 60)) min $$((SECONDS % 60)) s

# go test says nothing of a package before all packages ahead of it in the list have ended; gotestsum says it as each one ends.
tests = $(settings) bin/gotestsum --format pkgname --format-hide-empty-pkg --hide-summary skipped --jsonfile-timing-events $(events) --
events := bin/tests.json
failed_package := s/.*"Action":"fail","Package":"\([^"]*\)","Elapsed".*/\1/p

.PHONY: check
check: ## while you work: formatting, vet, staticcheck and the quick tests (about 2 minutes on 2 cores)
	@$(call in_steps,lint quick-tests)

.PHONY: test
test: ## formatting, vet, staticcheck, all tests, those of one process with the race detector, fuzz targets (NIGHTLY=1)
	@$(call in_steps,lint tests-without-cgo tests tests-for-races fuzz)

# Tests of what is too much to try whole draw from it, and print the seed (XPWC_TEST_SEED=). NIGHTLY=1 tries all.
NIGHTLY ?=
short := $(if $(NIGHTLY),,-short)

# Tests are linked in half the time without what only a debugger reads.
undebugged = $(if $(goflags),,-ldflags=-w)

.PHONY: lint
lint: third_party bin/staticcheck
	@echo "gofmt, go vet, staticcheck"
	@test -z "$$(gofmt -l $$(git ls-files '*.go') | tee -a /dev/stderr)"
	@test -z "$$($(too_long) $$(git ls-files '*.go') | tee -a /dev/stderr)"
	@$(go) vet work
	@$(settings) bin/staticcheck work
	@$(pure_go) vet $(compiled_pure)

.PHONY: tests-without-cgo
tests-without-cgo:
	@echo "tests without cgo"
	@$(pure_go) test $(short) $(pure)

.PHONY: tests
tests: third_party bin/gotestsum
	@echo "tests on the real library: a line for each package when it has ended"
	@$(tests) $(short) $(undebugged) -vet=off -timeout 120m work

# The race detector finds nothing in what is a program of its own, or one goroutine.
not_raced := /capi$$|/cmd/|/internal/(bench|optable|format|output)|/examples/|/docs$$
not_raced := $(not_raced)|/tflite$$|/described$$|/cachefile$$
one_goroutine := Kill|Power|FailedFlush|IndexIsDamagedWhileTheFile|EveryCPU|AnyGeometry|FullDisk

.PHONY: tests-for-races
tests-for-races: third_party bin/gotestsum
	@echo "tests with the race detector"
	@$(tests) -race -short $(undebugged) -vet=off -timeout 60m -skip '$(one_goroutine)' $$($(go) list work | grep -vE '$(not_raced)')

# Left out are what builds the C library or measures, and what takes seconds where the rest takes a moment: kills, power
# failures, failing disks, every flipped bit, every CPU.
slow_packages := /capi$$|/internal/bench|/examples/
slow := Kill|Interrupt|Power|Flush|FullDisk|SizeLimit|Flipped|NeverCrash|Truncated|EveryCPU|AnySize|AnyGeometry|AnotherSize|ShareASeed
slow := $(slow)|CommitsWhile|OpenedClosed|CachesAreClosed|ClosingWaits|AreHashed|AThousand|WithoutXNNPACKLooks

.PHONY: quick-tests
quick-tests: third_party bin/gotestsum
	@echo "quick tests: a line for each package when it has ended"
	@$(tests) -short -vet=off -timeout 10m -skip '$(slow)' $$($(go) list work | grep -vE '$(slow_packages)')

.PHONY: test-zoo
test-zoo: xnnpack ## run models of ordinary users, compare with the stock runtimes' answers, write docs/models.md
	@$(go) test -count=1 ./internal/zoo -update
	@$(go) test -count=1 -run TheStockRuntimeAnswersTheSame ./examples/executorch/demo

# What needs no XNNPACK, or the race detector, has been tested with the other one; -short leaves out the slow scenarios.
.PHONY: test-debian
ifeq ($(XNNPACK),debian)
test-debian: third_party ## run every package's tests on Debian's XNNPACK
	@echo "tests on Debian's XNNPACK"
	@$(go) vet work
	@$(go) test -short -timeout 60m work
else
test-debian:
	@$(MAKE) --no-print-directory XNNPACK=debian test-debian
endif

# The packages whose tests need no XNNPACK, and those that only compile without it.
pure := . ./internal/format ./internal/store ./internal/mapped ./metrics ./safetensors ./cachefile ./executorch ./npy ./internal/tensorfile ./registry ./internal/bench/plots
compiled_pure := $(pure) ./xnnpack ./models ./described ./tflite ./internal/bench/... ./cmd/xpwc/...

include systems.mk

# With XPWC_TEST_ALL, a test that lacks a program of Debian's fails instead of being skipped.
.PHONY: test-all
test-all: export XPWC_TEST_ALL = 1
test-all: ## everything CI runs: make test, and all other architectures and systems (needs make tools)
	@third_party/install-tools --check
	@for target in vet-systems test test-masked test-debian test-windows test-arm64; do $(MAKE) --no-print-directory $$target || exit 1; done
	@$(MAKE) --no-print-directory XNNPACK=debian test-arm64

.PHONY: test-nightly
test-nightly: ## make test-all, with everything tried that it draws from (hours)
	@$(MAKE) --no-print-directory NIGHTLY=1 FUZZ=10m test-all

# A package's targets one after the other, and as many packages at a time as there are processors.
.PHONY: fuzz
fuzz: third_party ## run every fuzz target for FUZZ=20000x inputs, or FUZZ=10m
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' . | sed 's,/[^/]*:func , ,' | sort | \
		awk '{ targets[$$1] = targets[$$1] " " $$2 } END { for (p in targets) print p targets[p] }' | $(settings) xargs -P $$(nproc) -L 1 bash -c '\
		for target in "$${@:2}"; do echo "fuzz $$1 $$target"; log=$$(go test -C $$1 -run "^$$" -fuzz "^$$target$$" -fuzztime $(FUZZ) \
			-fuzzminimizetime 10x . 2>&1) || { echo "$$log"; exit 255; }; done' fuzz

# Built without cgo: a tool must not be linked against the libraries of third_party/.
bin/staticcheck: package := honnef.co/go/tools/cmd/staticcheck
bin/gotestsum: package := gotest.tools/gotestsum
bin/staticcheck bin/gotestsum: internal/bench/go.mod internal/bench/go.sum
	@$(pure_go) build -o $@ $(package)

docs/architecture.svg: docs/architecture.dot ## draw the picture of the packages (needs Graphviz)
	dot -Tsvg $< -o $@

figures = $(or $(JSON),bin/bench.json)

.PHONY: bench
bench: third_party build ## measure against every alternative and the limit (MODEL=, DATA=, LAYERS=, RUNS=, JSON=, PLOTS=, BENCH=)
	@bin/xpwc bench $(if $(LAYERS),--layers $(LAYERS)) $(if $(RUNS),--runs $(RUNS)) --json '$(figures)' $(if $(MODEL),'$(MODEL)' $(DATA))
	@$(if $(PLOTS),$(pure_go) run ./internal/bench/plots '$(abspath $(figures))' '$(abspath $(PLOTS))')
	@$(go) test -run '^$$' -bench '$(BENCH)' -benchtime 1x .

# The peers have an XNNPACK of 2026, and ours is the one inside ExecuTorch's wheel.
peer_models := third_party/models/pose_landmark_heavy.tflite third_party/models/selfie_segmentation.tflite chain.tflite \
	executorch/testdata/programs/mobilenet_v3_small_int8.pte chain.pte
peer_figures = $(or $(JSON),bin/peers/peers.json)

.PHONY: bench-peers
ifeq ($(XNNPACK),executorch)
bench-peers: xnnpack models ## compare with LiteRT and the stock ExecuTorch (MODELS=, ROUNDS=, PROCESSES=, JSON=, PLOTS=)
	@third_party/fetch-litert
	@echo "building bin/peers" >&2
	@mkdir -p bin/peers
	@$(CC) -O2 -Wall -Wextra -o bin/peers/litert internal/bench/litert/litert.c -Lthird_party/litert/lib -lLiteRt \
		-Wl,-rpath,'$(CURDIR)/third_party/litert/lib'
	@$(MAKE) --no-print-directory -s -C examples/executorch BUILD='$(CURDIR)/bin/peers/executorch'
	@$(go) build -o bin/peers/ ./cmd/xpwc ./internal/bench/peers
	@bin/peers/peers --litert bin/peers/litert --executorch bin/peers/executorch/host --xpwc bin/peers/xpwc \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PROCESSES),--processes $(PROCESSES)) --json '$(peer_figures)' \
		$(or $(MODELS),$(peer_models))
	@$(if $(PLOTS),$(pure_go) run ./internal/bench/plots '$(abspath $(peer_figures))' '$(abspath $(PLOTS))')
else
bench-peers:
	@$(MAKE) --no-print-directory XNNPACK=executorch bench-peers
endif

.PHONY: clean
clean: ## remove what was built and fetched
	rm -rf bin lib demo third_party/.apt third_party/amd64 third_party/arm64 third_party/models third_party/executorch third_party/litert third_party/llm

# make demo, make test, make build: see README.md. `make help` lists everything.
#
# XNNPACK=debian   the pinned XNNPACK of third_party/ (default)
# XNNPACK=system   what the system's compiler finds by itself
# XNNPACK=/prefix  what is installed under that prefix (include/, lib/)
#
# ARCH=arm64 on a machine of another architecture builds with Debian's cross compiler, against that architecture's pinned XNNPACK.

SHELL := /bin/bash
.DEFAULT_GOAL := help

XNNPACK ?= debian
ARCH ?=
MODEL ?=
LAYERS ?=
JSON ?=
PLOTS ?=
RUNS ?=
BENCH ?= .
FUZZ ?= 20000x

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
# rpath and not runpath: libXNNPACK's own dependencies are found through it. The loader and its libc come along only
# where the system's glibc is too old for libXNNPACK.
xnnpack_cflags = -I$(root)/usr/include
xnnpack_ldflags = -L$(libdir) -Wl,--disable-new-dtags,-rpath,$(libdir) $(if $(wildcard $(root)/.own-libc),$(own_libc_ldflags))
own_libc_ldflags = -Wl,--allow-shlib-undefined -Wl,--dynamic-linker=$(loader)
# Go's own linker would take the libc from the rpath but not the loader that goes with it.
goflags = $(if $(wildcard $(root)/.own-libc),-ldflags=-linkmode=external)
fetch_xnnpack := third_party/fetch-xnnpack $(arch)
else ifeq ($(XNNPACK),system)
fetch_xnnpack := true
else
ifeq ($(wildcard $(XNNPACK)/include/xnnpack.h),)
$(error XNNPACK=$(XNNPACK): there is no include/xnnpack.h; give the prefix XNNPACK is installed under, or system, or debian)
endif
xnnpack_cflags = -I$(XNNPACK)/include
xnnpack_ldflags = -L$(XNNPACK)/lib -Wl,-rpath,$(XNNPACK)/lib $(if $(wildcard $(XNNPACK)/lib/libXNNPACK.so),,-lstdc++) # a static one has C++ in it
fetch_xnnpack := true
endif

settings = $(if $(cross),$(cross) )CGO_ENABLED=1 GOFLAGS='$(strip $(user_goflags) $(goflags))' CGO_CFLAGS='$(strip $(CGO_CFLAGS) $(xnnpack_cflags))' \
	CGO_LDFLAGS='$(strip $(CGO_LDFLAGS) $(xnnpack_ldflags))'
go = $(settings) go

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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
tools: ## install what the tests for other architectures and systems, and for registries, need of Debian's (as root)
	@third_party/install-tools

.PHONY: env
env: xnnpack ## print the cgo settings for a shell: eval "$(make -s env)"
	@echo "export $(settings)"

.PHONY: build
build: xnnpack ## build the tool: bin/xpwc
	@[ -e bin/xpwc ] || echo "building bin/xpwc" >&2
	@$(go) build -o bin/xpwc ./cmd/xpwc

# The library has no XNNPACK: it is compiled against the header, and calls the host's. So none of the flags that find one
# may get into it, not even those that a shell has from `make env`.
version := $(shell sed -n 's/^\#define XPWC_VERSION "\(.*\)"/\1/p' capi/include/xpwc.h)
soversion := $(firstword $(subst ., ,$(version)))
lib_go = $(settings) GOFLAGS='$(user_goflags)' CGO_LDFLAGS='$(filter-out $(xnnpack_ldflags),$(CGO_LDFLAGS))' \
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

PREFIX ?= /usr/local
dest = $(DESTDIR)$(PREFIX)
fill_in = sed 's/@VERSION@/$(version)/; s/@SOVERSION@/$(soversion)/'

.PHONY: install
install: lib ## install the C library, its headers, pkg-config files and CMake package (PREFIX=, DESTDIR=)
	@mkdir -p '$(dest)/include' '$(dest)/lib/pkgconfig' '$(dest)/lib/cmake/xpwc'
	@install -m 644 capi/include/*.h capi/include/*.hpp '$(dest)/include'
	@install -m 644 $(lib)/libxpwc.a '$(dest)/lib'
	@install -m 755 $(lib)/libxpwc.so.$(soversion) '$(dest)/lib'
	@ln -sf libxpwc.so.$(soversion) '$(dest)/lib/libxpwc.so'
	@for file in xpwc.pc xpwc-static.pc; do \
		$(fill_in) "capi/install/$$file.in" >"$(dest)/lib/pkgconfig/$$file"; done
	@for file in xpwc-config.cmake xpwc-config-version.cmake; do \
		$(fill_in) "capi/install/$$file.in" >"$(dest)/lib/cmake/xpwc/$$file"; done

.PHONY: demo
demo: build ## run a model without a cache, cold and warm (MODEL=, LAYERS=, JSON=)
	@$(if $(MODEL),,third_party/fetch-models)
	@bin/xpwc demo $(if $(LAYERS),--layers $(LAYERS)) $(if $(JSON),--json '$(JSON)') '$(or $(MODEL),third_party/models/pose_landmark_heavy.tflite)'

.PHONY: demo-shared
demo-shared: build ## two runtimes that share weights, without and with the cache (MODEL=, LAYERS=, JSON=)
	@$(if $(MODEL),,third_party/fetch-models)
	@bin/xpwc demo --shared $(if $(LAYERS),--layers $(LAYERS)) $(if $(JSON),--json '$(JSON)') '$(or $(MODEL),third_party/models/pose_landmark_heavy.tflite)'

# Where the host looks for XNNPACK; empty for where the compiler does.
xnnpack_root = $(if $(filter debian,$(XNNPACK)),$(root)/usr,$(filter-out system,$(XNNPACK)))
stage = $(CURDIR)/$(lib)/stage

# A C++ program for another architecture brings the compiler's libraries, which that architecture's XNNPACK does not come with.
cross_cmake = $(if $(cross),-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=$(binutils)g++ \
	-DCMAKE_C_COMPILER=$(binutils)gcc)

.PHONY: host
host: xnnpack
	@command -v cmake >/dev/null || { echo "examples/host needs cmake" >&2; exit 1; }
	@$(MAKE) --no-print-directory install PREFIX='$(stage)' DESTDIR=
	@echo "building examples/host" >&2
	@cmake -S examples/host -B $(lib)/host --log-level=WARNING -DCMAKE_PREFIX_PATH='$(stage)' -DXNNPACK_ROOT='$(xnnpack_root)' \
		-DCMAKE_EXE_LINKER_FLAGS='$(xnnpack_ldflags) $(if $(cross),-static-libstdc++)' $(cross_cmake) >/dev/null
	@MAKEFLAGS= cmake --build $(lib)/host -j2 >$(lib)/host/log || { cat $(lib)/host/log; exit 1; }

.PHONY: demo-host
demo-host: host ## a C++ host repeats ExecuTorch's experiments of PR 9155 and 19988 (needs cmake, 1.3 GB in demo/)
	@mkdir -p demo/host
	@lib/host/host demo demo/host

.PHONY: demo-service
demo-service: xnnpack ## an HTTP service loads two models cold and warm, and a third while it serves
	@third_party/fetch-models
	@echo "building examples/service" >&2
	@$(go) build -o bin/service ./examples/service
	@$(go) build -o bin/demo-service ./examples/service/demo
	@mkdir -p demo/service
	@bin/demo-service bin/service third_party/models demo/service

.PHONY: test
test: third_party bin/staticcheck ## run everything: formatting, vet, staticcheck, tests with the race detector, fuzz targets
	@echo "gofmt, go vet, staticcheck"
	@test -z "$$(gofmt -l $$(git ls-files '*.go') | tee /dev/stderr)"
	@$(go) vet ./...
	@$(settings) bin/staticcheck ./...
	@$(pure_go) vet $(pure)
	@echo "tests without cgo"
	@$(pure_go) test $(pure)
	@echo "tests on the real library, with the race detector (some minutes)"
	@$(go) test -race -timeout 60m ./...
	@$(MAKE) --no-print-directory fuzz

# One process for each level of x86's instruction sets; `make test` runs these too, with everything else.
per_cpu := ^Test(OutputsAreTheSameOnEveryCPU|OneFileServesEveryCPUWhatItPacks|TheLayoutFingerprintTellsPackingsApart|PackingsThatCollideInXNNPACKsKeyLiveInOneFile|EveryOperatorComputesWhatItShouldOnOtherCPUs)$$

.PHONY: test-x86
test-x86: xnnpack ## run every operator with the kernels of each x86 CPU from SSE2 to AVX-512, and say what ran
	@mkdir -p bin
	@$(go) test -count=1 -v -run '$(per_cpu)' . ./xnnpack/optable >bin/test-x86.log 2>&1 || { cat bin/test-x86.log; exit 1; }
	@grep -E '^ +[a-z_]+_test\.go:|^ *--- SKIP|^(ok|---) ' bin/test-x86.log

# The tests built for arm64, each package's as a process of its own on each emulated machine: a CPU of qemu-user's, and a page size if
# that is not 4 KiB. -short, because emulation takes ten times as long. Each is a target, so that make runs as many at a time as there are processors.
# The tests' own processes are emulated too: see internal/reexec.
emulator := qemu-aarch64-static
emulated_cpus := cortex-a53 cortex-a76 max
machines := $(emulated_cpus) cortex-a76@16384 cortex-a76@65536
emulated := xpwc xpwc/tflite xpwc/xnnpack xpwc/xnnpack/optable xpwc/internal/format xpwc/internal/mapped
emulate = XPWC_TEST_EMULATOR=$(emulator) XPWC_TEST_EMULATED_CPUS='$(emulated_cpus)' QEMU_CPU=$(firstword $(subst @, ,$1)) \
	$(addprefix QEMU_PAGESIZE=,$(word 2,$(subst @, ,$1))) $(emulator)
emulated_runs := $(foreach package,$(emulated),$(machines:%=%/$(package)))

.PHONY: test-arm64
test-arm64: models ## run the tests built for arm64, emulated: without dot product, with it, with all there is (needs make tools)
	@third_party/install-tools --check
	@$(MAKE) --no-print-directory -j$$(nproc) --output-sync=target ARCH=arm64 emulated-tests emulated-host

.PHONY: emulated-tests $(emulated_runs)
emulated-tests: $(emulated_runs)

$(emulated_runs): package = $(patsubst $(firstword $(subst /, ,$@))/%,%,$@)
$(emulated_runs): log = $(CURDIR)/bin/$(arch)/$(subst /,-,$@).log
$(emulated_runs): build-emulated
	@cd .$(patsubst xpwc%,%,$(package)) && $(call emulate,$(firstword $(subst /, ,$@))) $(CURDIR)/bin/$(arch)/$(notdir $(package)).test \
		-test.v -test.short -test.timeout 30m >$(log) 2>&1 || { cat $(log); exit 1; }
	@echo "$(arch) on $(firstword $(subst /, ,$@)): $(package): $$(grep -c '^--- PASS' $(log)) passed, $$(grep -c '^--- SKIP' $(log)) skipped"
	@grep -B1 '^--- SKIP' $(log) || true

.PHONY: build-emulated
build-emulated: xnnpack
	@echo "go vet, and building the tests, for $(arch)"
	@mkdir -p bin/$(arch)
	@$(go) vet $(emulated)
	@$(go) test -c -o bin/$(arch)/ $(emulated)

# The C++ host, on one cache file that each machine finds as the others left it: its outputs must be those without a cache, and what
# has been packed for all of them must stay as it is.
measured := $(lib)/measured
measure = $(call emulate,$1) $(lib)/host/host measure shared $(measured) $2 1 >$(measured)/$1-$3 && grep '^output' $(measured)/$1-$3 >$(measured)/$3
measure_cold = $(call measure,$1,keep,none) && $(call measure,$1,cached,cold) && cmp $(measured)/none $(measured)/cold
measure_warm = $(call measure,$1,cached,warm) && grep '^output' $(measured)/$1-none | cmp - $(measured)/warm

.PHONY: emulated-host
emulated-host: host
	@rm -rf $(measured) && mkdir -p $(measured)
	@$(foreach machine,$(machines),$(call measure_cold,$(machine)) && )true
	@sha256sum $(measured)/shared.xpwc >$(measured)/sum
	@$(foreach machine,$(machines),$(call measure_warm,$(machine)) && )sha256sum --quiet --check $(measured)/sum
	@echo "$(arch) on $(words $(machines)) machines: examples/host computes the same without a cache, cold and warm, on one file"
	@rm -rf $(measured)

# The packages that need no XNNPACK.
pure := . ./internal/format ./internal/mapped ./metrics ./safetensors ./cachefile ./executorch ./npy ./internal/tensorfile ./registry

# Tests of the packages that need no XNNPACK, cross-built and run under Wine, in a prefix of their own. The rest is compiled
# against XNNPACK's header, and not linked: Debian has no XNNPACK for Windows.
wine := $(CURDIR)/bin/wine
under_wine = WINEPREFIX='$(wine)/prefix' WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml= DISPLAY= wine
windows_go := CGO_ENABLED=0 GOOS=windows GOARCH=amd64 GOFLAGS='$(user_goflags)' go
windows_cgo = CGO_ENABLED=1 GOOS=windows GOARCH=amd64 CC=x86_64-w64-mingw32-gcc GOFLAGS='$(user_goflags)' \
	CGO_CFLAGS='-I$(root)/usr/include' CGO_LDFLAGS= go
windows_cgo_packages := . ./xnnpack/... ./tflite/... ./internal/... ./cmd/...

.PHONY: test-windows
test-windows: xnnpack ## cross-build for Windows: run the tests that need no XNNPACK under Wine, vet the rest (RUN=, VERBOSE=1)
	@for tool in wine x86_64-w64-mingw32-gcc; do \
		command -v $$tool >/dev/null || { echo "test-windows needs $$tool: make tools" >&2; exit 1; }; done
	@echo "go vet for Windows, without cgo and with mingw-w64"
	@$(windows_go) vet $(pure)
	@$(windows_cgo) vet $(windows_cgo_packages)
	@$(MAKE) --no-print-directory $(wine)/prefix/ready $(wine)/overlay.json
	@for package in $(pure); do \
		echo "tests of $$package under Wine"; \
		exe=$(wine)/$$(basename $$(realpath $$package)).test.exe; \
		$(windows_go) test -overlay $(wine)/overlay.json -c -o $$exe $$package || exit 1; \
		(cd $$package && $(under_wine) $$exe -test.timeout 30m -test.short $(if $(VERBOSE),-test.v) $(if $(RUN),-test.run '$(RUN)')) || exit 1; \
	done

# Go 1.26 needs a bcryptprimitives.dll, which Wine before 9 lacks.
$(wine)/prefix/ready: third_party/wine/bcryptprimitives.c
	@echo "making a Wine prefix"
	@rm -rf $(wine)/prefix && mkdir -p $(wine)
	@x86_64-w64-mingw32-gcc -Wall -Wextra -Werror -O2 -shared -o $(wine)/bcryptprimitives.dll $< -ladvapi32
	@$(under_wine) wineboot --init >$(wine)/wineboot.log 2>&1 || { cat $(wine)/wineboot.log; exit 1; }
	@[ -e $(wine)/prefix/drive_c/windows/system32/bcryptprimitives.dll ] || \
		cp $(wine)/bcryptprimitives.dll $(wine)/prefix/drive_c/windows/system32/
	@touch $@

# Wine 8 answers STATUS_NOT_IMPLEMENTED where Windows without POSIX deletion answers STATUS_INVALID_INFO_CLASS, so that
# os.RemoveAll, which cleans up after every test, does not try the older call.
$(wine)/overlay.json: Makefile
	@mkdir -p $(wine)
	@file="$$(go env GOROOT)/src/internal/syscall/windows/at_windows.go" && \
		sed 's/case STATUS_INVALID_INFO_CLASS,/case NTStatus(0xC0000002), STATUS_INVALID_INFO_CLASS,/' "$$file" >$(wine)/at_windows.go && \
		grep -q 0xC0000002 $(wine)/at_windows.go && \
		echo "{\"Replace\": {\"$$file\": \"$(wine)/at_windows.go\"}}" >$@

# Systems that nothing runs on here: what needs no cgo is compiled and vetted.
vetted := darwin/amd64 darwin/arm64 freebsd/amd64 freebsd/arm64 netbsd/amd64 openbsd/amd64 android/arm64 linux/riscv64 windows/arm64
.PHONY: vet-systems
vet-systems: ## vet what needs no cgo for macOS, iOS, the BSDs, Android, riscv64 and Windows on arm64
	@for system in $(vetted); do \
		echo "go vet for $$system"; \
		CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/} GOFLAGS='$(user_goflags)' go vet $(pure) || exit 1; \
	done
	@echo "go build for ios/arm64" # its tests would have to be linked with cgo; the files are macOS', vetted above
	@CGO_ENABLED=0 GOOS=ios GOARCH=arm64 GOFLAGS='$(user_goflags)' go build $(pure)

.PHONY: fuzz
fuzz: third_party ## run every fuzz target for FUZZ=20000x inputs, or FUZZ=10m
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r package; do \
		for target in $$(grep -h '^func Fuzz' $$package/*_test.go | sed 's/func \(Fuzz[A-Za-z0-9]*\).*/\1/'); do \
			echo "fuzz $$package $$target"; \
			$(go) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZ) $$package >bin/fuzz.log 2>&1 || { cat bin/fuzz.log; exit 1; }; \
		done; \
	done

# Built without cgo: a tool must not be linked against the libraries of third_party/.
bin/staticcheck: go.mod go.sum
	@$(pure_go) build -o $@ honnef.co/go/tools/cmd/staticcheck

figures = $(or $(JSON),bin/bench.json)

.PHONY: bench
bench: third_party build ## measure against every alternative and the limit (MODEL=, LAYERS=, RUNS=, JSON=, PLOTS=, BENCH=)
	@bin/xpwc bench $(if $(LAYERS),--layers $(LAYERS)) $(if $(RUNS),--runs $(RUNS)) --json '$(figures)' $(if $(MODEL),'$(MODEL)')
	@$(if $(PLOTS),$(go) run ./cmd/xpwc/plots '$(figures)' '$(PLOTS)')
	@$(go) test -run '^$$' -bench '$(BENCH)' -benchtime 1x .

.PHONY: clean
clean: ## remove what was built and fetched
	rm -rf bin lib demo third_party/.apt third_party/amd64 third_party/arm64 third_party/models third_party/executorch

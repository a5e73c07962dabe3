# make demo, make test, make build: see README.md. `make help` lists everything.
#
# XNNPACK=debian   the pinned XNNPACK of third_party/ (default)
# XNNPACK=system   what the system's compiler finds by itself
# XNNPACK=/prefix  what is installed under that prefix (include/, lib/)

SHELL := /bin/bash
.DEFAULT_GOAL := help

XNNPACK ?= debian
MODEL ?=
LAYERS ?=
JSON ?=
BENCH ?= .
FUZZ ?= 20000x

export CGO_CFLAGS ?= -O2 -g

ifneq ($(words $(CURDIR)),1)
$(error the path "$(CURDIR)" has a space in it, which make and cgo cannot handle; clone elsewhere)
endif

# What `go env -w` set counts too: the settings below would hide it.
user_goflags := $(shell go env GOFLAGS)

ifeq ($(XNNPACK),debian)
arch := $(shell dpkg --print-architecture 2>/dev/null)
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
fetch_xnnpack := third_party/fetch-xnnpack
else ifeq ($(XNNPACK),system)
fetch_xnnpack := true
else
ifeq ($(wildcard $(XNNPACK)/include/xnnpack.h),)
$(error XNNPACK=$(XNNPACK): there is no include/xnnpack.h; give the prefix XNNPACK is installed under, or system, or debian)
endif
xnnpack_cflags = -I$(XNNPACK)/include
xnnpack_ldflags = -L$(XNNPACK)/lib -Wl,-rpath,$(XNNPACK)/lib
fetch_xnnpack := true
endif

settings = CGO_ENABLED=1 GOFLAGS='$(strip $(user_goflags) $(goflags))' CGO_CFLAGS='$(strip $(CGO_CFLAGS) $(xnnpack_cflags))' \
	CGO_LDFLAGS='$(strip $(CGO_LDFLAGS) $(xnnpack_ldflags))'
go = $(settings) go

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: third_party
third_party: xnnpack models ## fetch the pinned XNNPACK and the models of the tests

.PHONY: xnnpack
xnnpack:
	@$(fetch_xnnpack)

.PHONY: models
models:
	@third_party/fetch-models

.PHONY: env
env: xnnpack ## print the cgo settings for a shell: eval "$(make -s env)"
	@echo "export $(settings)"

.PHONY: build
build: xnnpack ## build the tool: bin/xpwc
	@[ -e bin/xpwc ] || echo "building bin/xpwc" >&2
	@$(go) build -o bin/xpwc ./cmd/xpwc

.PHONY: demo
demo: build ## run a model without a cache, cold and warm (MODEL=, LAYERS=, JSON=)
	@$(if $(MODEL),,third_party/fetch-models)
	@bin/xpwc demo $(if $(LAYERS),--layers $(LAYERS)) $(if $(JSON),--json '$(JSON)') '$(or $(MODEL),third_party/models/pose_landmark_heavy.tflite)'

.PHONY: demo-shared
demo-shared: build ## two runtimes that share weights, without and with the cache (MODEL=, LAYERS=, JSON=)
	@$(if $(MODEL),,third_party/fetch-models)
	@bin/xpwc demo --shared $(if $(LAYERS),--layers $(LAYERS)) $(if $(JSON),--json '$(JSON)') '$(or $(MODEL),third_party/models/pose_landmark_heavy.tflite)'

.PHONY: test
test: third_party bin/staticcheck ## run everything: formatting, vet, staticcheck, tests with the race detector, fuzz targets
	@echo "gofmt, go vet, staticcheck"
	@test -z "$$(gofmt -l $$(git ls-files '*.go') | tee /dev/stderr)"
	@$(go) vet ./...
	@$(settings) bin/staticcheck ./...
	@CGO_ENABLED=0 go vet $(pure)
	@echo "tests without cgo"
	@CGO_ENABLED=0 go test $(pure)
	@echo "tests on the real library, with the race detector (some minutes)"
	@$(go) test -race -timeout 60m ./...
	@$(MAKE) --no-print-directory fuzz

# The packages that need no XNNPACK.
pure := . ./internal/format ./internal/mapped

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
	@CGO_ENABLED=0 go build -o $@ honnef.co/go/tools/cmd/staticcheck

.PHONY: bench
bench: third_party ## measure: ratios of cached to uncached, in one run
	@$(go) test -run '^$$' -bench '$(BENCH)' -benchtime 1x -count 7 .

.PHONY: clean
clean: ## remove what was built and fetched
	rm -rf bin demo third_party/.apt third_party/amd64 third_party/arm64 third_party/models

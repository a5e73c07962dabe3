# Other processors, architectures and systems than the one at hand: see docs/platforms.md.

# One process for each level of x86's instruction sets; `make test` runs these too, with everything else.
per_cpu := ^Test(OutputsAreTheSameOnEveryCPU|OneFileServesEveryCPUWhatItPacks|TheLayoutFingerprintTellsPackingsApart|PackingsThatCollideInXNNPACKsKeyLiveInOneFile|EveryOperatorComputesWhatItShouldOnOtherCPUs)$$

.PHONY: test-x86
test-x86: xnnpack ## run every operator with the kernels of each x86 CPU from SSE2 to AVX-512, and say what ran
	@mkdir -p bin
	@$(go) test -count=1 -v -run '$(per_cpu)' . ./internal/optable >bin/test-x86.log 2>&1 || { cat bin/test-x86.log; exit 1; }
	@grep -E '^ +[a-z_]+_test\.go:|^ *--- SKIP|^(ok|---) ' bin/test-x86.log

# Lesser CPUs for everything that reads what cpuinfo finds, programs that tests start among them: what is green here is green on others'
# machines. Of enum xpwc_cpu_level: SSE2, AVX2.
lesser_levels := 0 5
lesser_cpu := $(CURDIR)/bin/lesser_cpu.so
masked := . ./executorch ./tflite ./cmd/xpwc ./capi

.PHONY: test-masked
test-masked: third_party ## the quick tests, with the kernels of lesser x86 CPUs in every program
	@mkdir -p bin
	@$(CC) -shared -fPIC -O2 -Wall -Wextra -Werror $(xnnpack_cflags) -o $(lesser_cpu) internal/testkit/testdata/lesser_cpu.c -ldl
	@for level in $(lesser_levels); do \
		echo "quick tests on a CPU of level $$level"; \
		$(go) test -short -vet=off -timeout 30m -exec "env LD_PRELOAD=$(lesser_cpu) LESSER_CPU=$$level" $(masked) || exit 1; \
	done

# The tests built for arm64, each package's as a process of its own on each emulated machine: a CPU of qemu-user's, and a page size if
# that is not 4 KiB. -short, because emulation takes ten times as long. Each is a target, so that make runs as many at a time as there are processors.
# The tests' own processes are emulated too: see internal/reexec.
emulator := qemu-aarch64-static
ifeq ($(XNNPACK),executorch)
# Its int8 kernels for SME compute something else under this emulator; and its libraries need those of the cross compiler.
emulated_cpus := cortex-a53 cortex-a76 max$(,)sme=off
emulated_root := QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
emulated := xpwc/xnnpack xpwc/internal/optable
emulated_hosts := emulated-host emulated-stock
else
emulated_cpus := cortex-a53 cortex-a76 max
emulated := xpwc xpwc/tflite xpwc/xnnpack xpwc/internal/optable xpwc/internal/format xpwc/internal/mapped
emulated_hosts := emulated-host
endif
machines := $(emulated_cpus) cortex-a76@16384 cortex-a76@65536
emulate = $(emulated_root) XPWC_TEST_EMULATOR=$(emulator) XPWC_TEST_EMULATED_CPUS='$(emulated_cpus)' QEMU_CPU=$(firstword $(subst @, ,$1)) \
	$(addprefix QEMU_PAGESIZE=,$(word 2,$(subst @, ,$1))) $(emulator)
drawn = $(if $(NIGHTLY),$(machines),$(shell shuf -n $1 -e $(machines)))
emulated_runs := $(foreach package,$(emulated),$(addsuffix /$(package),$(call drawn,1)))
emulated_host_machines := $(call drawn,2)

.PHONY: test-arm64
test-arm64: models ## run the tests built for arm64 on emulated machines that are drawn (NIGHTLY=1: on all; needs make tools)
	@third_party/install-tools --check
	@$(MAKE) --no-print-directory -j$$(nproc) --output-sync=target ARCH=arm64 emulated-tests $(emulated_hosts)

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
	@$(foreach machine,$(emulated_host_machines),$(call measure_cold,$(machine)) && )true
	@sha256sum $(measured)/shared.xpwc >$(measured)/sum
	@$(foreach machine,$(emulated_host_machines),$(call measure_warm,$(machine)) && )sha256sum --quiet --check $(measured)/sum
	@echo "$(arch) on $(emulated_host_machines): examples/host computes the same without a cache, cold and warm, on one file"
	@rm -rf $(measured)

# The stock ExecuTorch on a file that the tool packed on the same machine: it must pack nothing, leave the file as it is, and compute what
# it does without a cache.
stock := $(CURDIR)/$(lib)/stock
program := executorch/testdata/programs/mobilenet_v3_small_int8
stock_pack = rm -f $(stock)/cache $(stock)/cache.xpwc && $(call emulate,$1) $(stock)/xpwc run $(program).pte --cache $(stock)/cache.xpwc && \
	$(call emulate,$1) $(stock)/xpwc convert $(stock)/cache.xpwc --to xpwc2 -o $(stock)/cache
stock_run = $(call emulate,$1) $(stock)/host $(program).pte --input $(program).in0.npy --output-dir $(stock)/$3 $2
stock_check = $(call stock_pack,$1) && sha256sum $(stock)/cache >$(stock)/sum && $(call stock_run,$1,,none) && \
	$(call stock_run,$1,--cache $(stock)/cache,cached) >$(stock)/report 2>&1 && \
	grep 'Loaded packed weight cache' $(stock)/report && grep '"packed_bytes": 0,' $(stock)/report && \
	cmp $(stock)/none/forward.out0.npy $(stock)/cached/forward.out0.npy && sha256sum --quiet --check $(stock)/sum

.PHONY: emulated-stock
emulated-stock: xnnpack
	@echo "building examples/executorch, and the tool, for $(arch)"
	@mkdir -p $(stock)/none $(stock)/cached
	@$(MAKE) --no-print-directory -s -C examples/executorch BUILD='$(stock)' EXECUTORCH='$(root)' CXX=$(binutils)g++
	@$(go) build -o $(stock)/ ./cmd/xpwc
	@($(foreach machine,$(emulated_host_machines),$(call stock_check,$(machine)) && )true) >$(stock)/log 2>&1 || { cat $(stock)/log; exit 1; }
	@echo "$(arch) on $(emulated_host_machines): the stock ExecuTorch packs nothing of a file that was packed for it"

# Tests of the packages that need no XNNPACK, cross-built and run under Wine, in a prefix of their own. The rest is compiled
# against XNNPACK's header, and not linked: Debian has no XNNPACK for Windows.
wine := $(CURDIR)/bin/wine
under_wine = WINEPREFIX='$(wine)/prefix' WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml= DISPLAY= wine
windows_go := CGO_ENABLED=0 GOOS=windows GOARCH=amd64 GOFLAGS='$(user_goflags)' go
windows_cgo = CGO_ENABLED=1 GOOS=windows GOARCH=amd64 CC=x86_64-w64-mingw32-gcc GOFLAGS='$(user_goflags)' \
	CGO_CFLAGS='-I$(xnnpack_prefix)/include' CGO_LDFLAGS= go

.PHONY: test-windows
test-windows: xnnpack ## cross-build for Windows: run the tests that need no XNNPACK under Wine, vet the rest (RUN=, VERBOSE=1)
	@for tool in wine x86_64-w64-mingw32-gcc; do \
		command -v $$tool >/dev/null || { echo "test-windows needs $$tool: make tools" >&2; exit 1; }; done
	@echo "go vet for Windows, without cgo and with mingw-w64"
	@$(windows_go) vet $(compiled_pure)
	@$(windows_cgo) vet $$($(go) list work | grep -v /capi) # which needs signals
	@$(MAKE) --no-print-directory $(wine)/prefix/ready $(wine)/overlay.json
	@for package in $(windows_tested); do \
		echo "tests of $$package under Wine"; \
		exe=$(wine)/$$(basename $$(realpath $$package)).test.exe; \
		$(windows_go) test -overlay $(wine)/overlay.json -c -o $$exe $$package || exit 1; \
		(cd $$package && $(under_wine) $$exe -test.timeout 30m -test.short $(if $(VERBOSE),-test.v) $(if $(RUN),-test.run '$(RUN)')) || exit 1; \
	done

# What looks after cache files and registries is vetted: it puts files in place as Unix does.
windows_tested := $(filter-out ./cachefile ./registry,$(pure))

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
		CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/} GOFLAGS='$(user_goflags)' go vet $(compiled_pure) || exit 1; \
	done
	@echo "go build for ios/arm64" # its tests would have to be linked with cgo; the files are macOS', vetted above
	@CGO_ENABLED=0 GOOS=ios GOARCH=arm64 GOFLAGS='$(user_goflags)' go build $(pure)

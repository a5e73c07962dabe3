# What is installed: the C library, with what compiles against it, and the tool. See README.md.

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
dest = $(DESTDIR)$(PREFIX)
destlib = $(DESTDIR)$(LIBDIR)

# How one installed directory leads to another, so that what is installed can be moved as a whole.
relative = $(shell realpath -ms --relative-to='$1' '$2')

.PHONY: install
install: install-lib install-tool ## install the C library and the tool, with manual pages and licences (PREFIX=, LIBDIR=, DESTDIR=)
	@$(call install_licences,./capi ./cmd/xpwc)

.PHONY: uninstall
uninstall: ## remove what make install has installed (PREFIX=, LIBDIR=, DESTDIR=)
	@rm -f $(patsubst capi/include/%,'$(dest)/include/%',$(wildcard capi/include/*)) \
		'$(destlib)'/libxpwc.a '$(destlib)'/libxpwc.so* '$(destlib)'/pkgconfig/xpwc.pc '$(destlib)'/pkgconfig/xpwc-static.pc \
		'$(dest)/bin/xpwc' '$(man)'/xpwc.1 '$(man)'/xpwc-*.1 $(foreach shell,bash zsh fish,'$(dest)/$($(shell)_completion)')
	@rm -rf '$(destlib)/cmake/xpwc' '$(destlib)/xpwc' '$(dest)/share/xpwc' '$(doc)'

fill_in = sed 's/@VERSION@/$(version)/; s/@SOVERSION@/$(soversion)/; s|@TO_PREFIX@|$(call relative,$1,$(PREFIX))|'

.PHONY: install-lib
install-lib: lib
	@mkdir -p '$(dest)/include' '$(destlib)/pkgconfig' '$(destlib)/cmake/xpwc' '$(dest)/share/xpwc/executorch'
	@install -m 644 capi/include/*.h capi/include/*.hpp '$(dest)/include'
	@install -m 644 capi/executorch/*.h capi/executorch/*.cc '$(dest)/share/xpwc/executorch'
	@install -m 644 $(lib)/libxpwc.a '$(destlib)'
	@install -m 755 $(lib)/libxpwc.so.$(soversion) '$(destlib)'
	@ln -sf libxpwc.so.$(soversion) '$(destlib)/libxpwc.so'
	@for file in xpwc.pc xpwc-static.pc; do \
		$(call fill_in,$(LIBDIR)/pkgconfig) "capi/install/$$file.in" >"$(destlib)/pkgconfig/$$file"; done
	@for file in xpwc-config.cmake xpwc-config-version.cmake; do \
		$(call fill_in,$(LIBDIR)/cmake/xpwc) "capi/install/$$file.in" >"$(destlib)/cmake/xpwc/$$file"; done

# The installed tool needs nothing of this directory: the libraries that it needs of third_party/ are installed too, and it
# finds them from where it is itself. Only the loader that a libc brings along has a path that is fixed.
# They are not looked for here, before they are fetched: make would remember that they are not there.
ifneq ($(value own_libraries),)
installed_ldflags = $(filter-out -Wl$(,)--disable-new-dtags$(,)-rpath$(,)% -Wl$(,)-rpath$(,)% -Wl$(,)--dynamic-linker=%,$(xnnpack_ldflags)) \
	-Wl,--disable-new-dtags,-rpath,$$ORIGIN/$(call relative,$(PREFIX)/bin,$(LIBDIR)/xpwc) \
	$(if $(wildcard $(root)/.own-libc),-Wl$(,)--dynamic-linker=$(LIBDIR)/xpwc/$(notdir $(loader)))
else
installed_ldflags = $(xnnpack_ldflags)
endif
tool_go = $(settings) CGO_LDFLAGS='$(strip $(user_ldflags) $(installed_ldflags))' go

man = $(dest)/share/man/man1
doc = $(dest)/share/doc/xpwc
bash_completion := share/bash-completion/completions/xpwc
zsh_completion := share/zsh/site-functions/_xpwc
fish_completion := share/fish/vendor_completions.d/xpwc.fish

# The pages and completions are written by a tool for this machine, whatever ARCH= is.
.PHONY: install-tool
install-tool: xnnpack
	@echo "building the tool to install" >&2
	@mkdir -p $(lib) '$(dest)/bin' '$(man)' $(foreach shell,bash zsh fish,'$(dir $(dest)/$($(shell)_completion))')
	@$(tool_go) build -trimpath -ldflags '-linkmode=external -s -w' -o $(lib)/xpwc ./cmd/xpwc
	@install -m 755 $(lib)/xpwc '$(dest)/bin'
	@rm -rf '$(destlib)/xpwc'
	@$(if $(own_libraries),mkdir -p '$(destlib)/xpwc' && third_party/needed-libraries $(lib)/xpwc $(own_libraries) | \
		xargs -I{} install -m 755 {} '$(destlib)/xpwc')
	@$(pure_go) build -trimpath -o $(lib)/xpwc-pages ./cmd/xpwc
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date +%s)} $(lib)/xpwc-pages man '$(man)'
	@$(foreach shell,bash zsh fish,$(lib)/xpwc-pages completion $(shell) >'$(dest)/$($(shell)_completion)' &&) true
	@rm $(lib)/xpwc $(lib)/xpwc-pages

# The licence of xpwc, and of all that is in what was installed: Go's library and modules, and the libraries of third_party/.
install_licences = rm -rf '$(doc)' && mkdir -p '$(doc)/third_party' && install -m 644 LICENSE NOTICE '$(doc)' && \
	third_party/licences '$(doc)/third_party' $1 $(if $(own_libraries),$(root))

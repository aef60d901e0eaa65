# Builds, tests, measures and installs memweir. `make` alone lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO := scripts/cargo.sh
MDBOOK_VERSION := 0.5.2

bindir := $(DESTDIR)$(PREFIX)/bin
plugindir := $(DESTDIR)$(PREFIX)/lib/memweir
includedir := $(DESTDIR)$(PREFIX)/include
mandir := $(DESTDIR)$(PREFIX)/share/man/man1
bashdir := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zshdir := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
fishdir := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
unitdir := $(DESTDIR)$(PREFIX)/lib/systemd/system
userunitdir := $(DESTDIR)$(PREFIX)/lib/systemd/user
sysusersdir := $(DESTDIR)$(PREFIX)/lib/sysusers.d
grafanadir := $(DESTDIR)$(PREFIX)/share/memweir/grafana

# Files to install. `install-built` takes another build from the command line.
memweir := target/release/memweir
plugin := target/release/libmemweir_qemu_pmu.so
preload := target/release/libmemweir_preload.so
header := plugins/preload/include/memweir_color.h

.PHONY: help build demo test bench docs man install install-built uninstall clean
.PHONY: kernel-test kernel-soak fuzz nightly wheel python-test deb

help:
	@echo 'make build      release build: $(memweir), the plugin of the software meter, the preload library'
	@echo 'make demo       a batch of real programs under three policies (five minutes from nothing)'
	@echo 'make test       format, lints, documentation, every test'
	@echo 'make wheel      the Python package with the command inside, in target/python/wheels'
	@echo 'make python-test  the tests of the Python package alone'
	@echo 'make bench      the figures of docs/performance.md, measured and judged (an hour or two)'
	@echo 'make kernel-test  the kernel series in QEMU guests; kernel-soak: longer, under KASAN and lockdep'
	@echo 'make fuzz       every parser of input under libFuzzer, FUZZ_INPUTS each (a million)'
	@echo 'make nightly    kernel budgets, planted bugs, bisect, fuzzing, benchmarks: for hours'
	@echo 'make docs       the site: manual and API documentation, in target/book'
	@echo 'make man        the manual pages, in target/man'
	@echo 'make install    into PREFIX=$(PREFIX) (DESTDIR is honored); uninstall removes it'
	@echo 'make deb        a Debian package with its SBOM and release notes, in target/deb'
	@echo 'make clean      removes what was built'

build:
	scripts/setup.sh build
	$(CARGO) build --release --locked -p memweir -p memweir-qemu-pmu -p memweir-preload

# A release build that is there already is used; without one, a profile that builds in half of the
# time does.
ifneq ($(wildcard $(memweir)),)
demo: build
	scripts/setup.sh demo
	demo/run.sh $(memweir)
else
demo:
	scripts/setup.sh demo
	$(CARGO) build --profile demo --locked -p memweir -p memweir-qemu-pmu
	demo/run.sh target/demo/memweir
endif

# Property tests try the same cases each time here, so that a failure comes from what was changed;
# plain `cargo test` tries new ones.
test: export PROPTEST_RNG_SEED ?= 1
# The tests append the skipped ones to it.
test: export MEMWEIR_SKIPS := $(CURDIR)/target/skips
test:
	scripts/setup.sh test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	scripts/build-as-tested.sh
	mkdir -p target && rm -f $(MEMWEIR_SKIPS)
	scripts/tests.sh $(CARGO); tested=$$?; scripts/skips.sh $(MEMWEIR_SKIPS) && exit $$tested
	python/test.sh

python-test:
	scripts/setup.sh python
	scripts/build-as-tested.sh
	python/test.sh

# With the command and its plugins inside.
wheel: build
	scripts/setup.sh python
	python/environment.sh
	python/wheel.sh release

# Without QEMU or the kernel's source they fail in CI (CI=true); elsewhere they say SKIPPED and why.
kernel-test:
	-scripts/setup.sh kernel
	kernel/test/run.sh test

kernel-soak:
	-scripts/setup.sh soak
	kernel/test/run.sh soak

# FUZZ_INPUTS of them for each target, on the corpus that earlier runs left below target/.
fuzz:
	scripts/setup.sh fuzz
	fuzz/run.sh

# Checks that take hours, and fail on a regression.
nightly:
	scripts/nightly.sh

bench: build
	scripts/setup.sh bench
	scripts/performance.py bench

docs:
	scripts/setup.sh docs
	test -x target/tools/bin/mdbook || \
		$(CARGO) install --locked --root target/tools --version $(MDBOOK_VERSION) mdbook
	scripts/docs.sh

man: build
	mkdir -p target/man
	$(memweir) man target/man

install: build
	$(MAKE) --no-print-directory install-built

# Modes and umask are set, so that all users can read the files, whatever the umask of the
# installer.
install-built:
	install -D -m 755 $(memweir) $(bindir)/memweir
	install -D -m 755 $(plugin) $(plugindir)/libmemweir_qemu_pmu.so
	install -D -m 755 $(preload) $(plugindir)/libmemweir_preload.so
	install -D -m 644 $(header) $(includedir)/memweir_color.h
	install -d $(mandir) $(bashdir) $(zshdir) $(fishdir)
	umask 022; $(memweir) man $(mandir)
	umask 022; $(memweir) completions bash > $(bashdir)/memweir
	umask 022; $(memweir) completions zsh > $(zshdir)/_memweir
	umask 022; $(memweir) completions fish > $(fishdir)/memweir.fish
	install -d $(unitdir) $(userunitdir)
	umask 022; sed 's,/usr/bin/,$(PREFIX)/bin/,' packaging/systemd/memweir.service \
		> $(unitdir)/memweir.service
	umask 022; sed 's,/usr/bin/,$(PREFIX)/bin/,' packaging/systemd/memweir-user.service \
		> $(userunitdir)/memweir.service
	install -D -m 644 packaging/sysusers.d/memweir.conf $(sysusersdir)/memweir.conf
	install -D -m 644 docs/grafana/memweir.json $(grafanadir)/memweir.json

uninstall:
	rm -f $(bindir)/memweir $(plugindir)/libmemweir_qemu_pmu.so $(mandir)/memweir*.1
	rm -f $(plugindir)/libmemweir_preload.so $(includedir)/memweir_color.h
	rm -f $(bashdir)/memweir $(zshdir)/_memweir $(fishdir)/memweir.fish
	rm -f $(unitdir)/memweir.service $(userunitdir)/memweir.service $(sysusersdir)/memweir.conf
	rm -f $(grafanadir)/memweir.json
	-rmdir $(plugindir)
	-rmdir $(grafanadir) $(dir $(grafanadir))

deb: build
	scripts/setup.sh deb
	packaging/deb.sh

clean:
	scripts/cargo.sh clean
	@echo 'kernels are kept outside of this clone: kernel/test/run.sh forget removes them'

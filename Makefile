# SPDX-License-Identifier: Apache-2.0
#
#   make          build/beamweave
#   make demo     install what is missing, build, record a demo VM, report
#   make check    install what is missing, build, run all tests
#   make bench    what tracing costs on this machine, as ratios
#   make lint     clang-format, shellcheck, dialyzer        make format   rewrite with clang-format
#   make install  PREFIX=/usr/local DESTDIR=        make uninstall   make deb   a Debian package
#   V=1 shows the commands.

VERSION := 0.1.0
PREFIX ?= /usr/local
DESTDIR ?=
BUILD := build

ifeq ($(origin CC),default)
CC := gcc
endif
CLANG ?= clang
BPFTOOL ?= $(shell command -v bpftool 2>/dev/null || echo /usr/sbin/bpftool)
ERLC ?= erlc
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
ERL_INCLUDE ?= /usr/lib/erlang/usr/include
ERL_LIB ?= /usr/lib/erlang/usr/lib

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-8s %s\n' $(1) $(2)
endif

.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
.PHONY: all demo check check-unit bench lint format install uninstall deb man clean deps-build deps-demo deps-test tests vmlinux dialyzer soak fuzz
.DEFAULT_GOAL := all

ROOMS := user user/cmd user/view user/timeline user/capture user/trace
INCLUDES := -I$(BUILD) -I$(BUILD)/bpf -Ierl/c_src -Ibpf $(addprefix -I,$(ROOMS)) -isystem $(ERL_INCLUDE)
WARNINGS := -Wall -Wextra -Werror -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes
CPPFLAGS += -D_GNU_SOURCE -DBEAMWEAVE_VERSION='"$(VERSION)"' $(INCLUDES)
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=c11 $(WARNINGS) $(CFLAGS) -fno-strict-aliasing -fstack-protector-strong
LDLIBS := -L$(ERL_LIB) -lbpf -lelf -lz -lzstd -ljansson -lxxhash -lseccomp -lei -lpthread -lm

# ---- packages --------------------------------------------------------------------------------

PACKAGES_BUILD := gcc make clang bpftool libbpf-dev libelf-dev zlib1g-dev libzstd-dev libjansson-dev \
	libxxhash-dev libseccomp-dev uthash-dev erlang-base erlang-dev help2man
PACKAGES_DEMO := $(PACKAGES_BUILD) jq hostname procps
PACKAGES_TEST := $(PACKAGES_DEMO) bats bats-assert bats-support libcmocka-dev protobuf-compiler \
	python3 shellcheck clang-format libclang-rt-14-dev erlang-dialyzer erlang-tools \
	erlang-runtime-tools erlang-eunit rabbitmq-server amqp-tools iproute2 util-linux git \
	mandoc zsh dpkg-dev

# $(call need,PACKAGES): install what is missing where that is allowed, otherwise name it and stop.
define need
	@missing=; for p in $(1); do \
		dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; \
	done; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "installing:$$missing"; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq \
				--no-install-recommends $$missing >/dev/null; \
		else \
			echo "missing packages:$$missing" >&2; \
			echo "install them (Debian, Ubuntu: apt-get install$$missing), then run make again" >&2; \
			exit 1; \
		fi; \
	fi
endef

deps-build:
	$(call need,$(PACKAGES_BUILD))

deps-demo:
	$(call need,$(PACKAGES_DEMO))

deps-test:
	$(call need,$(PACKAGES_TEST))

# ---- the tracer: a library without libc, so that it loads under glibc and musl ------------------

TRACER_SRC := $(filter-out erl/c_src/ring_reader%.c,$(wildcard erl/c_src/*.c))
TRACER_OBJ := $(TRACER_SRC:%.c=$(BUILD)/tracer/%.o)
TRACER := $(BUILD)/beamweave_tracer.so
# Without libgcc there are no outlined atomics.
TRACER_CFLAGS := $(if $(filter aarch64,$(shell uname -m)),-mno-outline-atomics)

$(BUILD)/tracer/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(WARNINGS) $(CFLAGS) -D_GNU_SOURCE -fPIC -fvisibility=hidden -fno-strict-aliasing \
		-fno-stack-protector -U_FORTIFY_SOURCE -fno-plt $(TRACER_CFLAGS) -Ierl/c_src -isystem $(ERL_INCLUDE) -MMD -MP -c $< -o $@

$(TRACER): $(TRACER_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -nostdlib -Wl,-z,nodelete -Wl,-z,now -Wl,--build-id -o $@ $(TRACER_OBJ)
	@! readelf -d $@ | grep NEEDED

# ---- Erlang ------------------------------------------------------------------------------------

ERL_SRC := $(wildcard erl/src/*.erl)
BEAMS := $(ERL_SRC:erl/src/%.erl=$(BUILD)/ebin/%.beam)

$(BUILD)/ebin/%.beam: erl/src/%.erl $(wildcard erl/include/*.hrl erl/src/*.hrl)
	$(call say,ERLC,$<)
	@mkdir -p $(@D)
	$(Q)$(ERLC) +debug_info +deterministic -Werror -Wall -o $(@D) $<

$(BUILD)/ebin/beamweave.app: erl/src/beamweave.app.src
	@mkdir -p $(@D)
	$(Q)sed 's/{vsn, *"[^"]*"}/{vsn, "$(VERSION)"}/' $< > $@

# ---- kernel programs ---------------------------------------------------------------------------

BPF_SRC := $(wildcard bpf/*.bpf.c)
SKELETONS := $(BPF_SRC:bpf/%.bpf.c=$(BUILD)/bpf/%.skel.h)
BPF_ARCH := $(subst x86_64,x86,$(subst aarch64,arm64,$(shell uname -m)))

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c vmlinux.h
	$(call say,BPF,$<)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -g -O2 -target bpf -D__TARGET_ARCH_$(BPF_ARCH) -Wall -Wextra -Werror \
		-Wno-missing-declarations -I. -Ibpf -I/usr/include/$(MULTIARCH) -MMD -MP -MT $@ \
		-MF $(@:.o=.d) -c $< -o $@.tmp
	$(Q)$(BPFTOOL) gen object $@ $@.tmp

$(BUILD)/bpf/%.skel.h: $(BUILD)/bpf/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

vmlinux: # a whole vmlinux.h of the running kernel, for reference
	@mkdir -p $(BUILD)
	$(BPFTOOL) btf dump file /sys/kernel/btf/vmlinux format c > $(BUILD)/vmlinux.full.h

# ---- the program -------------------------------------------------------------------------------

SRC := $(wildcard $(addsuffix /*.c,$(ROOMS)))
OBJ := $(SRC:%.c=$(BUILD)/obj/%.o)
PROGRAM := $(BUILD)/beamweave
EMBED := $(BEAMS) $(TRACER)

$(BUILD)/embedded.S: $(EMBED) Makefile
	$(Q){ n=0; echo '.section .rodata'; \
	for f in $(EMBED); do echo ".balign 16; file$$n: .incbin \"$$f\"; end$$n:; name$$n: .asciz \"$${f##*/}\""; n=$$((n+1)); done; \
	echo '.section .data.rel.ro,"aw"'; \
	echo '.balign 8; .globl embedded_files; embedded_files:'; \
	i=0; while [ $$i -lt $$n ]; do echo ".quad name$$i, file$$i, end$$i - file$$i"; i=$$((i+1)); done; \
	echo '.section .rodata'; \
	echo ".balign 8; .globl embedded_count; embedded_count: .quad $$n"; \
	echo '.section .note.GNU-stack,"",@progbits'; } > $@

$(BUILD)/embedded.h: Makefile
	@mkdir -p $(@D)
	$(Q)printf '%s\n' '/* Files inside the program. */' '#pragma once' '#include <stddef.h>' \
		'struct embedded {' '	const char *name;' '	const unsigned char *data;' '	size_t bytes;' '};' \
		'extern const struct embedded embedded_files[];' 'extern const size_t embedded_count;' > $@

$(BUILD)/embedded.o: $(BUILD)/embedded.S
	$(call say,AS,$<)
	$(Q)$(CC) -c $< -o $@

$(BUILD)/obj/%.o: %.c | $(SKELETONS) $(BUILD)/embedded.h
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

RING_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard erl/c_src/ring*.c))

# Linked statically, to be copied anywhere. The linker's remarks on static name look-ups are shown
# only when it fails: nodes are reached by address.
$(PROGRAM): $(OBJ) $(RING_OBJ) $(BUILD)/embedded.o
	$(call say,LD,$@)
	$(Q)$(CC) -static $(LDFLAGS) -o $@ $^ $(LDLIBS) 2> $@.log || { cat $@.log >&2; exit 1; }

all: $(PROGRAM) $(BUILD)/ebin/beamweave.app

-include $(OBJ:.o=.d) $(RING_OBJ:.o=.d) $(TRACER_OBJ:.o=.d) $(BPF_SRC:bpf/%.bpf.c=$(BUILD)/bpf/%.bpf.d)

# ---- tests -------------------------------------------------------------------------------------

# A unit test tests/unit/NAME_test.c is linked with everything of the program but its main; the
# ring's with a ring that has test points between its steps.
UNIT_SRC := $(wildcard tests/unit/*_test.c)
UNIT := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/tests/unit/%)
LIB_OBJ := $(filter-out $(BUILD)/obj/user/main.o,$(OBJ)) $(RING_OBJ) $(BUILD)/embedded.o
RING_SRC := $(wildcard erl/c_src/ring*.c)
RING_POINTS_OBJ := $(RING_SRC:%.c=$(BUILD)/points/%.o)

$(BUILD)/points/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -DRING_TEST -Itests/unit -MMD -MP -c $< -o $@

$(BUILD)/tests/unit/ring%: $(BUILD)/points/tests/unit/ring%.o $(RING_POINTS_OBJ)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka -lpthread

$(BUILD)/tests/unit/%: $(BUILD)/obj/tests/unit/%.o $(LIB_OBJ)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# The ring under stress: plain and with sanitizers.
STRESS_SRC := $(wildcard tests/ring/*.c) $(RING_SRC)
STRESS := $(addprefix $(BUILD)/tests/,ring_stress ring_stress_tsan ring_stress_asan)
$(BUILD)/tests/ring_stress_tsan: SANITIZE := -fsanitize=thread -Wno-tsan
$(BUILD)/tests/ring_stress_asan: SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined
$(STRESS): $(STRESS_SRC) $(wildcard tests/ring/*.h erl/c_src/ring*.h)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) $(SANITIZE) -Ierl/c_src -Itests/ring -o $@ $(STRESS_SRC) -lpthread

# A program tests/NAME/PROGRAM.c that the tests run, linked the same way.
TOOL_SRC := $(wildcard tests/trace/*.c tests/perfetto/*.c tests/timeline/*.c tests/kernel/*.c tests/tracer/*.c)
TOOLS := $(foreach s,$(TOOL_SRC),$(BUILD)/tests/$(notdir $(s:.c=)))
define tool_rule
$(BUILD)/tests/$(notdir $(1:.c=)): $(BUILD)/obj/$(1:.c=.o) $(LIB_OBJ)
	$$(call say,LD,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)
endef
$(foreach s,$(TOOL_SRC),$(eval $(call tool_rule,$(s))))

WORKLOAD_BEAMS := $(patsubst tests/workloads/%.erl,$(BUILD)/tests/ebin/%.beam,$(wildcard tests/workloads/*.erl))
$(BUILD)/tests/ebin/%.beam: tests/workloads/%.erl
	$(call say,ERLC,$<)
	@mkdir -p $(@D)
	$(Q)$(ERLC) +debug_info -Werror -o $(@D) $<

$(BUILD)/tests/plant: tests/workloads/plant.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) -o $@ $<

tests: all $(UNIT) $(STRESS) $(TOOLS) $(WORKLOAD_BEAMS) $(BUILD)/tests/plant

# The packages come first, in a make of their own: what is built depends on them.
check: deps-test
	@$(MAKE) --no-print-directory -j$$(nproc) tests $(PLT)
	@tests/run

check-unit: tests
	@tests/run $(UNIT)

$(BUILD)/tests/ring_bench: tests/bench/ring_bench.c $(RING_SRC) $(wildcard erl/c_src/ring*.h)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) -O2 -g -Ierl/c_src -o $@ tests/bench/ring_bench.c $(RING_SRC) -lpthread

# What the ring costs, what the tracer costs beside OTP's own, what a recording costs the VM.
bench: deps-demo
	@$(MAKE) --no-print-directory all $(WORKLOAD_BEAMS) $(BUILD)/tests/ring_bench $(BUILD)/tests/plant
	$(BUILD)/tests/ring_bench
	tests/bench/tracer_bench
	tests/bench/record_bench

# Longer than make check: minutes of stress and of hostile recordings.
soak: tests
	for i in 1 2 3 4 5 6 7 8 9 10; do tests/run tests/ring.bats tests/truths.bats || exit 1; done
	SOAK_SECONDS=20 tests/run tests/tracer_port.bats

fuzz: deps-test
	tests/fuzz/run 600

demo: deps-demo
	@$(MAKE) --no-print-directory -j$$(nproc) all $(WORKLOAD_BEAMS) $(BUILD)/tests/plant
	@tests/demo/run

# ---- the hand it is written in -------------------------------------------------------------------

C_FILES = $(shell git ls-files '*.c' '*.h' ':!vmlinux.h')
SHELL_FILES = $(shell git ls-files '*.bash' '*.bats'; git grep -lE '^.!/usr/bin/env bash')

lint: dialyzer
	$(call say,LINT,clang-format)
	$(Q)clang-format --dry-run -Werror $(C_FILES)
	$(call say,LINT,shellcheck)
	$(Q)shellcheck -x $(sort $(SHELL_FILES))

format:
	clang-format -i $(C_FILES)

PLT := $(BUILD)/otp.plt
$(PLT):
	$(call say,PLT,$@)
	@mkdir -p $(@D)
	$(Q)dialyzer --quiet --build_plt --output_plt $@ --apps erts kernel stdlib

dialyzer: $(PLT) $(BEAMS)
	$(call say,LINT,dialyzer)
	$(Q)dialyzer --quiet --plt $(PLT) -Wunmatched_returns $(BEAMS)

# ---- installing ----------------------------------------------------------------------------------

LIBDIR := $(PREFIX)/lib/beamweave

# ---- manual pages: what --help says, and what user/man/ adds ------------------------------------

MAN_SRC := $(wildcard user/man/*.h2m)
MAN_NAMES := $(patsubst user/man/%.h2m,%,$(MAN_SRC))
MAN := $(MAN_NAMES:%=$(BUILD)/man/%.1)
# beamweave.1 is of the program, COMMAND.1 of a command.
man_page = beamweave$(if $(filter-out beamweave,$(1)),-$(1)).1

$(BUILD)/man/%.1: user/man/%.h2m $(PROGRAM)
	$(call say,MAN,$@)
	@mkdir -p $(@D)
	$(Q)help2man --no-info --section 1 --version-string "$(VERSION)" --source "beamweave $(VERSION)" \
		--include $< "$(PROGRAM)$(if $(filter-out beamweave,$*), $*)" -o $@

man: $(MAN)

# ---- installing --------------------------------------------------------------------------------

MAN_DIR := $(DESTDIR)$(PREFIX)/share/man/man1
BASH_DIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH_DIR := $(DESTDIR)$(PREFIX)/share/zsh/site-functions

install: all man
	install -D -m 0755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/beamweave
	install -d $(DESTDIR)$(LIBDIR)/ebin $(DESTDIR)$(LIBDIR)/priv
	install -m 0644 $(BEAMS) $(BUILD)/ebin/beamweave.app $(DESTDIR)$(LIBDIR)/ebin
	install -m 0755 $(TRACER) $(DESTDIR)$(LIBDIR)/priv/beamweave_tracer.so
	$(foreach name,$(MAN_NAMES),install -D -m 0644 $(BUILD)/man/$(name).1 \
		$(MAN_DIR)/$(call man_page,$(name)) &&) true
	install -D -m 0644 user/completion/beamweave.bash $(BASH_DIR)/beamweave
	install -D -m 0644 user/completion/_beamweave $(ZSH_DIR)/_beamweave
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/doc/beamweave LICENSE LICENSES/*

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/beamweave $(BASH_DIR)/beamweave $(ZSH_DIR)/_beamweave \
		$(foreach name,$(MAN_NAMES),$(MAN_DIR)/$(call man_page,$(name)))
	rm -rf $(DESTDIR)$(LIBDIR) $(DESTDIR)$(PREFIX)/share/doc/beamweave

# What the program links against becomes what the package depends on.
DEB_ARCH := $(shell dpkg --print-architecture 2>/dev/null)
DEB := $(BUILD)/beamweave_$(VERSION)_$(DEB_ARCH).deb

deb: all man
	$(call say,DEB,$(DEB))
	$(Q)user/package/deb "$(BUILD)/deb" "$(VERSION)" "$(DEB_ARCH)" "$(DEB)"

clean:
	rm -rf $(BUILD)

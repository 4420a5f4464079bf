# cloister - build, test and install.  `make help` lists what there is.

PREFIX  ?= /usr/local
DESTDIR ?=
PYTHON  ?= /usr/bin/python3
FUZZ_SECONDS ?= 60
SUITES  ?=
ARGS    ?=

# ---- variants: the same tree of files under another build folder -----------
# VARIANT is empty (the real thing), asan, mutant or fuzz.
VARIANT ?=
B       ?= build$(addprefix /,$(VARIANT))

ifeq ($(origin CC),default)
CC := $(if $(filter fuzz,$(VARIANT)),clang,gcc)
endif
HOSTCC ?= $(CC)
AR     ?= ar
# For the libraries of what is built; those of the generators belong to this machine.
PKG_CONFIG ?= pkg-config

# WITNESS_BPF=no builds without eBPF, where no clang compiles for it: cells are then recorded as
# they are for users without root.
WITNESS_BPF ?= yes
BPF    := $(if $(filter no,$(WITNESS_BPF)),,src/witness/bpf/witness.bpf.c)
BPF_CC ?= clang
# As clang and the kernel's headers name it.
BPF_TRIPLE := $(shell $(CC) -print-multiarch 2>/dev/null)
BPF_ARCH := $(if $(findstring x86_64,$(BPF_TRIPLE)),x86,$(if $(findstring aarch64,$(BPF_TRIPLE)),arm64))

# ---- sources: found, not listed ---------------------------------------------
FILTER_GEN := $(wildcard src/confine/filter_gen.c)
CAPTURE_GEN := $(wildcard src/boundary/capture/capture_gen.c)
CALLS_GEN  := $(wildcard src/witness/calls_gen.c)
LIB_SRC    := $(filter-out src/cli/% src/proc/% %_gen.c %.bpf.c $(if $(BPF),,src/witness/bpf/%), \
                $(wildcard src/*/*.c src/*/*/*.c))
CLI_SRC    := $(if $(wildcard src/cli/main.c),$(wildcard src/cli/*.c))
PROC_SRC   := $(wildcard src/proc/*/*.c)
PROCS      := $(sort $(foreach f,$(PROC_SRC),$(word 3,$(subst /, ,$f))))
UNIT_SRC   := $(filter-out $(if $(BPF),,%/witness_bpf.c),$(wildcard tests/unit/*.c))
FUZZERS    := $(filter-out $(if $(BPF),,witness_bpf),$(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c)))
ALL_SRC    := $(sort $(wildcard src/*/*.[ch] src/*/*/*.[ch] src/*/*/*/*.[ch]))
MAN        := $(wildcard man/*.[0-9])
SCRIPTS    := $(wildcard tools/*.sh .ci/run)
PROFILES   := $(sort $(wildcard share/profiles/*.yaml))
WEB        := $(sort $(wildcard $(addprefix web/*.,html js css json svg png woff2)))

obj = $(patsubst %.c,$(B)/obj/%.o,$1)

LIB  := $(B)/libcloister.a
# What processes are made of, but for their main(): for the tests.
PARTS_SRC := $(filter-out %/main.c,$(PROC_SRC))
PARTS := $(B)/libparts.a
BIN  := $(if $(CLI_SRC),$(B)/cloister)
EXEC := $(PROCS:%=$(B)/libexec/cloister-%)
UNIT := $(if $(UNIT_SRC),$(B)/tests/unit)
BPF_OBJ := $(if $(BPF),$(B)/gen/witness.bpf.o)
GEN  := $(if $(FILTER_GEN),$(B)/gen/filter_bpf.h) $(if $(CAPTURE_GEN),$(B)/gen/capture_nft.h) \
        $(if $(CALLS_GEN),$(B)/gen/witness_calls.h) $(B)/gen/web_files.h $(B)/gen/profile_files.h \
        $(if $(BPF),$(B)/gen/witness_programs.h)
REPLAY := $(FUZZERS:%=$(B)/tests/replay_%)

# ---- flags --------------------------------------------------------------------
OPTIONAL := $(shell tools/cc_flags.sh "$(CC)" $(B)/.flags-$(subst /,_,$(subst $() ,_,$(CC))))
CPPFLAGS_ALL = -D_GNU_SOURCE -Isrc -I$(B)/gen $(if $(BPF),-DWITNESS_BPF) $(CPPFLAGS)
CFLAGS ?= -O2 -g
WARN   := -Wall -Wextra -Werror
CFLAGS_ALL = -std=gnu17 $(CFLAGS) $(WARN) $(OPTIONAL) $(VARIANT_FLAGS) \
             -fPIE -ffunction-sections -fdata-sections
LDFLAGS_ALL = -Wl,-z,relro,-z,now,-z,noexecstack,--gc-sections,--as-needed $(LDFLAGS)

# ---- what each executable links ---------------------------------------------------
# What starts with every command or cell, or runs inside the wall, is static: it is
# there at once and needs nothing around it.  What speaks to the world is not, so that
# the distribution's updates of its libraries reach it.
DYNAMIC := gate courier inspect registry dispatch serve mcp tools notify top initramfs unpack pull blobs fleet link lock state plan wasm unit replay fuzz

# LINK=portable is for archives that other distributions install: the rest needs libraries that cannot be linked
# statically, or not whole.
ifeq ($(LINK),portable)
DYNAMIC := notify unpack pull blobs fleet link state wasm unit replay fuzz
# The linker warns of name services, which these programs do not ask.
LDFLAGS_ALL += -Wl,--no-warnings
endif

# What chains and signs timelines (src/audit).
LIBS_chain    := -lhogweed -lnettle -lgmp
LIBS_cloister := -lyaml -lpcre2-8 -ljansson $(LIBS_chain)
# The linker would warn of name services that a static libcrypto could ask for, and newer ones
# note that they may be collected, also where they did not warn.
LIBS_mint     := -Wl,--no-warnings,--no-gc-sections \
                 $(shell $(PKG_CONFIG) --static --libs libcrypto 2>/dev/null || echo -lcrypto)
LIBS_vault    := -ljansson $(LIBS_chain) $(LIBS_mint)
LIBS_gate     := -lssl -lcrypto -lnghttp2
LIBS_courier  := -lssl -lcrypto -lnghttp2 -lcares -lz -lbrotlidec -lbrotlicommon -lzstd
LIBS_inspect  := -lcrypto -lpcre2-8 -ljansson -lz -lbrotlidec -lbrotlicommon -lzstd
LIBS_audit    := -ljansson $(LIBS_chain)
LIBS_supervisor := -ljansson $(LIBS_chain)
LIBS_registry := -lsqlite3 -lyaml -lpcre2-8 -ljansson $(LIBS_chain)
LIBS_dispatch := $(LIBS_registry)
LIBS_serve    := -lssl -lcrypto $(LIBS_registry)
LIBS_mcp      := -lssl -lcrypto -ljansson
# Speaks to MCP servers, stands in for their upstreams, and logs in.
LIBS_lock     := -lcurl -lcares -lssl -lcrypto -lyaml -lpcre2-8 -ljansson $(LIBS_chain)
LIBS_tools    := -lssl -lcrypto -lpcre2-8 -lyaml -ljansson $(LIBS_chain)
LIBS_stdio    := -ljansson
# Loads its engine when it runs, and needs nothing else in the cell.
LIBS_wasm     := -Wl,-Bstatic -ljansson -Wl,-Bdynamic -ldl
LIBS_notify   := -lcurl -lyaml -lnettle
# Fetches images.
LIBS_pull     := -lcurl -lcares -lcrypto -lyaml -ljansson -lnettle
# Keeps blobs in S3.
LIBS_blobs    := -lcurl -lcares -lcrypto -ljansson -lnettle
# Asks engines to start workers.
LIBS_fleet    := -lcurl -lcares -lcrypto -lyaml -ljansson -lnettle
# Speaks TLS between a service and its workers.
LIBS_link     := -lcares -lssl -lcrypto -lnettle
# Reads and writes git objects.
LIBS_state    := -lgit2 -lz -ljansson $(LIBS_chain)
LIBS_plan     := $(LIBS_registry)
LIBS_saver    := -lyaml -ljansson $(LIBS_chain)
# Its terminals are described in files, so it is not static.
LIBS_top      := $(shell $(PKG_CONFIG) --libs ncursesw 2>/dev/null || echo -lncursesw -ltinfo) -lyaml -lpcre2-8 -ljansson $(LIBS_chain)
LIBS_disk     := -lnettle
LIBS_witness  = $(LIBS_bpf) -lnettle
LIBS_init     := -lnettle
LIBS_oci      := -lyaml -lpcre2-8 -ljansson $(LIBS_chain)
LIBS_initramfs := -llzma -lzstd -llz4 -lz -lnettle
LIBS_unpack   := -larchive -lz -lzstd -lnettle
# Loads programs into the kernel.
LIBS_bpf      := $(if $(BPF),-lbpf -lelf -lz -lzstd)
LIBS_image    := -lyaml -ljansson -lnettle
LIBS_unit     := -lgit2 $(LIBS_bpf) $(LIBS_pull) $(LIBS_initramfs) $(LIBS_unpack) $(LIBS_courier) $(LIBS_inspect) $(LIBS_registry)
LIBS_layer    := -ljansson
LIBS_volume   := -ljansson $(LIBS_chain)
LIBS_build    := -lyaml -lpcre2-8 -ljansson -lz $(LIBS_chain)
# What fuzzers need must be there, used or not: with sanitizers the linker leaves nothing out.
LIBS_replay   := -Wl,--no-gc-sections $(LIBS_unit)
LIBS_fuzz     := $(LIBS_unit)

# link_how NAME: how the executable NAME (a key of the tables above) is put together.
link_how = $(if $(filter asan fuzz,$(VARIANT))$(filter $1,$(DYNAMIC)),-pie,-static-pie) \
           $(VARIANT_LINK)

ifeq ($(VARIANT),mutant)
VARIANT_FLAGS := -DCLOISTER_MUTANT
else ifneq ($(filter asan fuzz,$(VARIANT)),)
# Fortified calls would hide the originals from the sanitizer.
OPTIONAL := $(filter-out -D_FORTIFY_SOURCE=%,$(OPTIONAL))
VARIANT_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all \
                 -fno-omit-frame-pointer -DCLOISTER_SANITIZED
ifeq ($(VARIANT),fuzz)
VARIANT_FLAGS += -fsanitize=fuzzer-no-link
endif
VARIANT_LINK := $(filter -fsanitize%,$(VARIANT_FLAGS))
endif

# ---- the build ------------------------------------------------------------------
.PHONY: all lib unit run test install uninstall bench lint fuzz asan mutant \
        escape test-both test-store test-vm test-oci test-oci-engines test-docker test-kubernetes kubernetes-lab test-packages deb rpm tarball image provenance npm-package wheel vm-kernel soak crash growth matrix npm screenshots clean deps deps-test deps-lint deps-vm-kernel help tests FORCE
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# All processors, unless the command line says otherwise.  What calls a second
# make leaves it to that one: two job servers in one run confuse make.
ifeq ($(MAKELEVEL)$(filter-out all lib tests unit,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
.SUFFIXES:

ifeq ($(V),)
say = @printf '  %-6s %s\n' $1 $2;
else
say =
endif

all: $(B)/.layers $(LIB) $(BIN) $(EXEC)
	@:
lib: $(B)/.layers $(LIB)
	@:
tests: $(UNIT) $(REPLAY) $(B)/tests/resign $(B)/tests/audit_append $(B)/tests/notify_acts $(B)/tests/process_attacker \
       $(B)/tests/state_commit \
       $(if $(BPF),$(B)/tests/witness_watch)
	@:

# What is compiled again when the compiler or its flags change, and what is put
# together again when a source file comes or goes or a library is added.
STATE_FLAGS := $(CC) $(CFLAGS_ALL) $(CPPFLAGS_ALL)
STATE_FILES := $(LIB_SRC) $(CLI_SRC) $(PROC_SRC) $(UNIT_SRC) $(PARTS_SRC)
STATE_LINKS := $(LDFLAGS_ALL) $(VARIANT_LINK) $(DYNAMIC) $(foreach n,cloister mint unit replay \
               $(PROCS),$n $(LIBS_$n))
$(B)/.state-flags: STATE = $(STATE_FLAGS)
$(B)/.state-files: STATE = $(STATE_FILES)
$(B)/.state-links: STATE = $(STATE_LINKS)
$(B)/.state-web: STATE = $(WEB)
$(B)/.state-profiles: STATE = $(PROFILES)
$(B)/.state-flags $(B)/.state-files $(B)/.state-links $(B)/.state-web $(B)/.state-profiles: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(STATE))' | cmp -s - $@ || \
		printf '%s\n' '$(subst ','\'',$(STATE))' >$@

$(B)/.layers: tools/check_layers.sh $(ALL_SRC)
	@mkdir -p $(@D)
	@tools/check_layers.sh $(ALL_SRC)
	@touch $@

compile = $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
ifeq ($(VARIANT),mutant)
# Few files can switch a control off.  The objects of all others are those of the real build.
REAL := $(patsubst %/,%,$(dir $(B)))
$(B)/obj/%.o: %.c $(REAL)/obj/%.o $(B)/.state-flags | $(GEN)
	@mkdir -p $(@D)
	@if grep -oE '(src|tools)/[^ :]+\.[ch]\b' $(REAL)/obj/$*.d | sort -u | \
		xargs grep -qE 'CLOISTER_MUTANT|CONTROL_ON|filter_bpf\.h'; \
		then printf '  %-6s %s\n' CC $<; $(compile); else cp $(REAL)/obj/$*.o $@; fi
else
$(B)/obj/%.o: %.c $(B)/.state-flags | $(GEN)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(compile)
endif

$(LIB): $(call obj,$(LIB_SRC)) $(B)/.state-files
	@mkdir -p $(@D)
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(PARTS): $(call obj,$(PARTS_SRC)) $(B)/.state-files
	@mkdir -p $(@D)
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

# link NAME: NAME is the executable's key in the tables of what is linked.
define link
@mkdir -p $(@D)
$(call say,LD,$@)$(CC) $(CFLAGS_ALL) $(call link_how,$1) $(LDFLAGS_ALL) \
	$(filter %.o,$^) $(filter $(PARTS),$^) $(LIB) $(LIBS_$1) -lm $(addprefix -Xlinker -Map=,$(if $(MAPS),$@.map)) -o $@
endef

EXTRA := $(if $(filter asan,$(VARIANT)),tools/asan_options.c)

$(BIN): $(call obj,$(CLI_SRC) $(EXTRA)) $(LIB) $(B)/.state-links
	$(call link,cloister)

define proc_rule
$(B)/libexec/cloister-$1: $(call obj,$(wildcard src/proc/$1/*.c) $(EXTRA)) $(LIB) $(B)/.state-links
	$$(call link,$1)
endef
$(foreach p,$(PROCS),$(eval $(call proc_rule,$p)))

# The filters, and the messages that set up a cell's capture of connections, are
# compiled here and now, so that a cell's start only loads them.
# Named after the source: one that has moved is not asked for any more.
gen_deps = $(foreach f,$1,$(B)/gen/$(subst /,-,$f).d)
$(B)/gen/filter_gen: GEN_SRC = $(FILTER_GEN)
$(B)/gen/filter_gen: GEN_LIBS = libseccomp
$(B)/gen/capture_gen: GEN_SRC = $(CAPTURE_GEN)
$(B)/gen/capture_gen: GEN_LIBS = libnftnl libmnl
$(B)/gen/calls_gen: GEN_SRC = $(CALLS_GEN)
$(B)/gen/calls_gen: GEN_LIBS = libseccomp
$(B)/gen/filter_gen: $(FILTER_GEN)
$(B)/gen/capture_gen: $(CAPTURE_GEN)
$(B)/gen/calls_gen: $(CALLS_GEN)
$(B)/gen/filter_gen $(B)/gen/capture_gen $(B)/gen/calls_gen: $(B)/.state-flags
	@mkdir -p $(@D)
	$(call say,HOSTCC,$(GEN_SRC))$(HOSTCC) -std=gnu17 -O1 -g $(WARN) $(CPPFLAGS_ALL) \
		$(filter -DCLOISTER_%,$(VARIANT_FLAGS)) -MMD -MP -MT $@ -MF $(call gen_deps,$(GEN_SRC)) \
		$$(pkg-config --cflags $(GEN_LIBS)) $(GEN_SRC) -o $@ $$(pkg-config --libs $(GEN_LIBS))
$(B)/gen/filter_bpf.h: $(B)/gen/filter_gen
	$(call say,GEN,$@)$< >$@
$(B)/gen/capture_nft.h: $(B)/gen/capture_gen
	$(call say,GEN,$@)$< >$@
$(B)/gen/witness_calls.h: $(B)/gen/calls_gen
	$(call say,GEN,$@)$< >$@

# The programs of the witness, for the kernel.  Their lines and names of variables are of no use there, and where they
# were built is in no package.
$(BPF_OBJ): $(BPF) $(wildcard src/witness/bpf/*.h) $(B)/.state-flags
	@mkdir -p $(@D)
	@command -v $(BPF_CC) >/dev/null || { echo "$(BPF_CC) is missing, which compiles what records cells: \
	run make deps, or make WITNESS_BPF=no" >&2; exit 1; }
	$(call say,BPF,$<)$(BPF_CC) -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -D__TARGET_ARCH_$(BPF_ARCH) \
		-ffile-prefix-map=$(CURDIR)=. -Isrc -I/usr/include/$(BPF_TRIPLE) -c $< -o $@
$(B)/gen/witness_programs.h: $(BPF_OBJ)
	$(call say,GEN,$@)printf '#define WITNESS_PROGRAMS "%s"\n#define WITNESS_PROGRAMS_ID "%.16s"\n' \
		$< "$$(sha256sum <$<)" >$@
$(call obj,src/witness/bpf/bpf_load.c src/witness/bpf/bpf_pins.c): $(B)/gen/witness_programs.h

# ---- tests ----------------------------------------------------------------------
$(UNIT): $(call obj,$(UNIT_SRC)) $(PARTS) $(LIB) $(B)/.state-links
	$(call link,unit)

unit: $(B)/.layers $(UNIT)
	$(UNIT) $(T)

$(B)/tests/replay_%: $(B)/obj/tests/fuzz/fuzz_%.o $(B)/obj/tests/fuzz/replay.o $(PARTS) \
                     $(LIB) $(B)/.state-links
	$(call link,replay)

# libFuzzer brings its own main; only VARIANT=fuzz can link these.
$(B)/fuzz_%: LDFLAGS_ALL += -fsanitize=fuzzer
$(B)/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(PARTS) $(LIB) $(B)/.state-links
	$(call link,fuzz)

$(addprefix $(B)/tests/,decide mint sign_loop swap): $(B)/tests/%: $(B)/obj/tests/bench/%.o \
                                                      $(LIB) $(B)/.state-links
	$(call link,unit)

$(addprefix $(B)/tests/,resign audit_append witness_watch notify_acts process_attacker state_commit): $(B)/tests/%: \
                                              $(B)/obj/tests/scenario/%.o $(LIB) \
                                              $(B)/.state-links
	$(call link,unit)

# Taken into the program as it is.
$(call obj,src/cli/policy_schema.c): share/policy.schema.json share/policy.shapes.json
$(call obj,src/cli/completion.c): $(wildcard share/completion/*)
$(call obj,src/proc/serve/api_openapi.c): share/openapi.schemas.json
$(call obj,src/proc/wasm/wasm_engine.c): src/proc/wasm/wasi.js
$(B)/gen/web_files.h: tools/embed_files.sh $(B)/.state-web
	@mkdir -p $(@D)
	$(call say,GEN,$@)tools/embed_files.sh web $(WEB) >$@
$(B)/gen/profile_files.h: tools/embed_files.sh $(B)/.state-profiles
	@mkdir -p $(@D)
	$(call say,GEN,$@)tools/embed_files.sh profile $(PROFILES) >$@
$(call obj,src/profile/profile_files.c): $(B)/gen/profile_files.h $(PROFILES)
$(call obj,src/proc/serve/web.c): $(B)/gen/web_files.h $(WEB)

.PRECIOUS: $(B)/obj/%.o $(B)/gen/%_gen
-include $(wildcard $(B)/obj/src/*/*.d $(B)/obj/src/*/*/*.d $(B)/obj/tests/*/*.d $(B)/obj/tools/*.d $(call gen_deps,$(FILTER_GEN) $(CAPTURE_GEN) $(CALLS_GEN)))

# ---- what people type -------------------------------------------------------------
# A fresh machine has no compiler until `deps` is done, so what follows it is
# a second make.
SUB = +@$(MAKE) --no-print-directory $(JOBS)
# Python's programs that start cells, those of the build in this folder.
JUDGE = CLOISTER_BUILD=$(1) CLOISTER=$(1)/cloister tools/apparmor.sh lift $(PYTHON)

deps:
	@tools/deps.sh build
deps-test:
	@tools/deps.sh build test
deps-lint:
	@tools/deps.sh build test lint

deps-vm-kernel:
	@tools/deps.sh vm-kernel

# Large, and from elsewhere, so nobody gets them without asking.
npm: deps-test
	@tools/deps.sh large
	@mkdir -p build/npm && cp tests/npm/package.json build/npm/
	npm install --prefix build/npm --no-fund --no-audit

run: deps
	$(SUB) all
	@tools/apparmor.sh allow $(B)
	@CLOISTER=$(B)/cloister tools/demo.sh

.PHONY: demo recording site
demo: deps
	@tools/deps.sh demo
	$(SUB) all
	@tools/apparmor.sh allow $(B)
	@CLOISTER=$(B)/cloister PYTHON=$(PYTHON) tools/story.sh

site:
	@tools/deps.sh site
	@$(PYTHON) tools/site.py $(B)/site && echo "The site is $(B)/site/html/index.html."

recording: demo
	@CLOISTER=$(B)/cloister PYTHON=$(PYTHON) tools/record.py docs/recording/story.cast

test: deps-test
	$(SUB) all tests
	$(SUB) mutant
	@$(call JUDGE,$(B)) tools/run_tests.py $(SUITES)

test-store: deps-test
	$(SUB) all tests
	$(SUB) mutant
	@CLOISTER_TEST_STORE=postgres $(call JUDGE,$(B)) tools/run_tests.py $(or $(SUITES),tests/scenario/registry)

test-both: deps-test
	$(SUB) all tests
	$(SUB) mutant
	@CLOISTER_TEST_BOTH=1 $(call JUDGE,$(B)) tools/run_tests.py $(SUITES)

asan: deps-test
	$(SUB) VARIANT=asan B=$(B)/asan all tests
	@$(call JUDGE,$(B)/asan) tools/run_tests.py $(SUITES)

mutant:
	$(SUB) all
	$(SUB) VARIANT=mutant B=$(B)/mutant all

fuzz: deps-test
	$(SUB) VARIANT=fuzz B=$(B)/fuzz $(FUZZERS:%=$(B)/fuzz/fuzz_%)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz.sh $(B)/fuzz $(FUZZERS)

escape: deps-test
	$(SUB) all mutant
	@$(call JUDGE,$(B)) tests/escape/run.py --score docs/escape-score.md $(ARGS)

# Everything that is tested over several kinds of walls, in emulated virtual machines too.
test-vm: deps-test
	$(SUB) all tests mutant
	@CLOISTER_TEST_VM=1 $(call JUDGE,$(B)) -m pytest -q -p no:cacheprovider \
		$(wildcard tests/scenario/cell/test_microvm*.py) tests/scenario/cell/test_life.py \
		tests/scenario/cell/test_terminal.py tests/scenario/cell/test_environment.py \
		tests/scenario/cell/test_network.py tests/scenario/cell/test_stdio.py \
		tests/scenario/cell/test_limits.py tests/scenario/steer/test_freeze.py \
		tests/scenario/files/test_workspace.py tests/scenario/files/test_files.py \
		tests/scenario/registry/test_sandbox.py tests/scenario/tools/test_gateway_walls.py -k microvm $(ARGS)

# Docker and Podman with cloister-oci, also without root, which takes its time.
test-oci-engines: deps-test
	$(SUB) all tests
	@CLOISTER_TEST_ENGINES=1 $(call JUDGE,$(B)) -m pytest -q -p no:cacheprovider \
		tests/scenario/cell/test_cloister_oci.py tests/scenario/cell/test_oci_engines.py $(ARGS)

test-oci: deps-test
	$(SUB) all tests mutant
	@CLOISTER_TEST_OCI=1 $(call JUDGE,$(B)) -m pytest -q -p no:cacheprovider \
		tests/scenario/cell/test_oci.py tests/scenario/cell/test_life.py \
		tests/scenario/cell/test_terminal.py tests/scenario/cell/test_environment.py \
		tests/scenario/cell/test_network.py tests/scenario/cell/test_stdio.py \
		tests/scenario/cell/test_limits.py tests/scenario/steer/test_freeze.py \
		tests/scenario/files/test_workspace.py tests/scenario/files/test_files.py \
		tests/scenario/registry/test_sandbox.py -k "crun or runc or runsc or test_oci" $(ARGS)

# Everything with container engines: Docker's, Podman's, and a rootless one.
test-docker: deps-test
	$(SUB) all tests image
	@CLOISTER_TEST_ENGINES=1 $(call JUDGE,$(B)) -m pytest -q -p no:cacheprovider \
		tests/scenario/cell/test_docker.py tests/scenario/registry/test_docker_target.py \
		tests/scenario/registry/test_four_lines.py tests/scenario/registry/test_worker_image.py tests/scenario/registry/test_swarm.py \
		tests/scenario/registry/test_ten.py \
		tests/scenario/image/test_image_engines.py tests/scenario/image/test_image_judges.py -k "docker or podman or rootless or mmdebstrap or swarm or everywhere" $(ARGS)

# A real Kubernetes, built from Debian's source: no other test builds it.
kubernetes-lab:
	@tools/deps.sh kubernetes
	@tools/kubernetes_lab.sh $(B)/kubernetes
test-kubernetes: deps-test kubernetes-lab
	$(SUB) all tests image
	@CLOISTER_TEST_KUBERNETES=1 $(call JUDGE,$(B)) -m pytest -q -p no:cacheprovider tests/scenario/kubernetes \
		tests/scenario/registry/test_ten.py $(ARGS)

# No test and no other build makes it.
VM_KERNEL ?= $(B)/vm-kernel$(addprefix -,$(VM_ARCH))
# Packages: docs/install.md.
deb:
	@tools/deps.sh deb $(if $(SYSTEM),matrix)
	@tools/deb.sh $(B)/deb $(if $(SYSTEM),"$$($(PYTHON) tools/deb_root.py $(B)/deb-roots $(SYSTEM))" $(lastword $(subst -, ,$(SYSTEM))))
tarball: deps
	@tools/tarball.sh $(B)/tarball $(KEY)
rpm: tarball
	@tools/deps.sh rpm
	@tools/rpm.sh $(B)/rpm $(B)/tarball
PACKED = $(wildcard $(addprefix $(B)/,deb/*.deb rpm/*.rpm tarball/*.tar.gz clients/*.tgz clients/*.whl))
# The container image of `cloister worker`: docs/store.md.
image: deps
	@tools/deps.sh image
	@$(PYTHON) tools/worker_image.py $(B)/image
provenance:
	@[ -n "$(KEY)" ] || { echo "make provenance KEY=FILE: a private key (Ed25519, in PEM)" >&2; exit 1; }
	@$(PYTHON) tools/provenance.py $(KEY) $(PACKED) >$(B)/provenance.intoto.jsonl && echo $(B)/provenance.intoto.jsonl
npm-package:
	@tools/deps.sh clients
	@tools/clients.sh npm $(B)/clients
wheel:
	@tools/deps.sh clients
	@tools/clients.sh wheel $(B)/clients
test-packages: deps-test
	@tools/deps.sh deb rpm clients matrix policy
	$(SUB) all
	@CLOISTER_BUILD=$(B) CLOISTER=$(B)/cloister $(PYTHON) -m pytest -q -p no:cacheprovider tests/packages
	@CLOISTER_TEST_PACKAGES=1 $(call JUDGE,$(B)) -m pytest -q -p no:cacheprovider \
		tests/scenario/cell/test_contrib_iac.py

vm-kernel: deps-vm-kernel
	@JOBS=$(or $(filter -j%,$(MAKEFLAGS)),-j$(shell nproc)) tools/vm_kernel.sh $(VM_KERNEL) $(VM_ARCH)

bench: deps-test
	$(SUB) all $(addprefix $(B)/tests/,decide mint sign_loop swap)
	@$(call JUDGE,$(B)) tests/bench/run.py $(ARGS)

soak: deps-test
	$(SUB) all
	@$(call JUDGE,$(B)) tests/soak/run.py $(ARGS)

MODE ?= all
ROUNDS ?= 1000
crash: deps-test
	$(SUB) all
	$(if $(filter pool,$(MODE)),,@$(call JUDGE,$(B)) tests/soak/crash.py --mode $(MODE) \
		--rounds $(ROUNDS) $(ARGS))
	$(if $(filter all pool,$(MODE)),@CLOISTER_STRIKES=$(ROUNDS) $(call JUDGE,$(B)) -m pytest -q -s \
		-p no:cacheprovider tests/scenario/registry/test_pool_crash.py)

growth: deps-test
	$(SUB) all
	@$(call JUDGE,$(B)) tests/soak/growth.py $(ARGS)
	@CLOISTER_UPLOAD_MB=4096 $(call JUDGE,$(B)) -m pytest -q \
		-p no:cacheprovider tests/scenario/secrets/test_egress_s3.py -k flat_memory

# Makes no build here: each system gets its own.
matrix:
	@tools/deps.sh build matrix
	@B=$(B) $(PYTHON) tests/matrix/run.py $(ARGS)

screenshots: deps-test
	@CLOISTER_SHOTS=1 $(call JUDGE,$(B)) -m pytest -q -p no:cacheprovider \
		tests/scenario/steer/test_dashboard.py -k screenshots

lint: deps-lint
	$(SUB) all tests
	@B=$(B) tools/lint.sh

# What install puts where: FILE=TARGET, the target beneath PREFIX.  uninstall removes these and
# nothing else.  No target is in share/cloister: with PREFIX=~/.local that is the data folder.
to = $(foreach f,$2,$f=$1/$(notdir $f))
STATIC := share/doc/cloister
# The kernel for virtual machines, if there is one: beside cloister-initramfs, which looks for it there.
VM_PLACE := libexec/cloister/vm
VM_BUILT := $(wildcard $(addprefix $(VM_KERNEL)/,vmlinuz-*-cloister modules.builtin))
INSTALLED = $(call to,bin,$(B)/cloister) $(call to,libexec/cloister,$(EXEC)) \
            $(call to,$(STATIC),share/policy.schema.json packaging/image/seccomp.json) $(call to,$(STATIC)/profiles,$(PROFILES)) \
            $(call to,$(STATIC)/apparmor,contrib/apparmor/cloister contrib/apparmor/cloister-helpers) \
            $(call to,$(STATIC)/apparmor/abstractions,$(wildcard contrib/apparmor/abstractions/*)) \
            $(call to,$(STATIC)/selinux,$(wildcard contrib/selinux/cloister.*)) \
            $(call to,share/bash-completion/completions,share/completion/cloister) \
            $(call to,share/zsh/site-functions,share/completion/_cloister) \
            $(call to,share/fish/vendor_completions.d,share/completion/cloister.fish) \
            $(foreach d,system user sysusers tmpfiles,$(call to,$(STATIC)/systemd/$d,$(wildcard contrib/systemd/$d/*))) \
            $(foreach m,$(MAN),$(call to,share/man/man$(patsubst .%,%,$(suffix $m)),$m)) \
            $(call to,$(VM_PLACE),$(VM_BUILT))
# Earlier builds put the static files into share/cloister.
FORMERLY := $(patsubst $(STATIC)/%,share/cloister/%,$(filter $(STATIC)/%,$(subst =, ,$(INSTALLED))))
# Deepest first; a folder that holds anything else stays.
OWN_DIRS := $(VM_PLACE) libexec/cloister $(foreach d,$(STATIC) share/cloister,$(addprefix $d,/systemd/system \
            /systemd/user /systemd/sysusers /systemd/tmpfiles /systemd /apparmor/abstractions /apparmor /selinux /profiles) $d)
# A shell that leaves the tilde of PREFIX=~/.local alone leaves it to us.
PLACE = $(DESTDIR)$(patsubst ~/%,$(HOME)/%,$(PREFIX))

# take_away FILES: remove these from PLACE, and the folders that held nothing else.
define take_away
@set -e; for f in $1; do rm -f "$(PLACE)/$$f"; done; for d in $(OWN_DIRS); do \
	! [ -d "$(PLACE)/$$d" ] || rmdir --ignore-fail-on-non-empty "$(PLACE)/$$d"; done
endef

# The kernel's name has its version.
take_kernel = @rm -f "$(PLACE)/$(VM_PLACE)/"vmlinuz-*-cloister "$(PLACE)/$(VM_PLACE)/modules.builtin"

install: all
	@d="$(PLACE)"; while [ ! -e "$$d" ]; do d=$$(dirname "$$d"); done; [ -w "$$d" ] || { \
		echo "You may not write to $$d: use sudo make install, or make install PREFIX=\$$HOME/.local" >&2; exit 1; }
	$(if $(VM_BUILT),$(take_kernel))
	@set -e; for f in $(INSTALLED); do \
		case $${f#*=} in $(VM_PLACE)/*) mode=644 ;; bin/*|libexec/*) mode=755 ;; *) mode=644 ;; esac; \
		install -D -m $$mode "$${f%%=*}" "$(PLACE)/$${f#*=}"; done
	$(call take_away,$(FORMERLY))
	@echo "Now run \`cloister doctor\`. If it says that AppArmor restricts user namespaces, load" \
		"$(PREFIX)/$(STATIC)/apparmor/cloister; its first lines explain how."

uninstall:
	@[ -e "$(PLACE)/bin/cloister" ] || echo "Nothing is installed under $(PLACE): give the PREFIX of" \
		"\`make install\`, as in \`make uninstall PREFIX=\$$HOME/.local\`."
	$(take_kernel)
	$(call take_away,$(foreach f,$(INSTALLED),$(lastword $(subst =, ,$f))) $(FORMERLY))
	@echo "Your data stays: secrets, audit logs, changes of cells." \
		"\`$(B)/cloister purge\` removes it, after asking."

clean:
	rm -rf $(B)

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

FORCE:

## make             build into build/, runnable in place as build/cloister
## make run         install what is missing, build, and show what a cell does
## make demo        cloister in one screen: denied, explained, allowed, asked, swapped, revoked, proved
## make test        install what is missing, build, and run all tests
## make test SUITES="unit seeds"   only these of unit seeds tools cell-1 cell-2 egress secrets
##                  registry files steer image mcp escape
## make unit T=num  only the unit tests, only those whose name has "num" in it
## make test-both   the same, and each scenario both as root and as an ordinary user
## make test-store  the scenarios of registry and dispatch, with the registry in Postgres
## make asan        all tests under the address and undefined-behaviour sanitizers
## make test-oci-engines  containers of Docker and Podman as cells, at length
## make test-vm     cells in emulated virtual machines, at length
## make test-oci    cells in containers of OCI runtimes, at length
## make test-docker cells in containers of Docker and Podman, at length
## make test-kubernetes  workers on a real Kubernetes, which `make kubernetes-lab` builds before
## make deb         Debian packages in build/deb, judged by lintian; SYSTEM=debian13-arm64 makes those of
##                  another release or architecture, in a root of its own (docs/install.md)
## make rpm         RPM packages in build/rpm, judged by rpmlint
## make tarball     an archive that runs wherever it is unpacked, in build/tarball; KEY=FILE signs it
## make image       a container image of `cloister worker`, in build/image (docs/store.md)
## make provenance KEY=FILE   a signed statement of how the packages in build/ were made
## make npm-package, make wheel   the clients for npm and pip, in build/clients
## make test-packages  the packages, built twice, and installed in a root of their own
## make vm-kernel   build a small kernel for virtual machines from Debian's source, for `make install`
##                  (docs/boundaries.md); VM_ARCH=arm64 builds it for the other architecture
## make escape      the table of escape probes, cloister beside its peers
## make bench       measure; a table, and build/bench.json
## make soak        thousands of cells, killed at random; nothing may be left
## make crash       drivers of dispatches, the service, supervisors and couriers killed at random
##                  ROUNDS (1000) times each, and a full disk; MODE=serve: only one of them;
##                  MODE=pool: workers, the service and Postgres
## make growth      100,000 requests out of a cell, and uploads of 4 GiB to S3; no memory or
##                  descriptor may be lost
## make matrix      boot Debian 12 and 13 and Ubuntu 24.04, amd64 and arm64, and run the tests in
##                  each (docs/testing.md); ARGS=--list shows the systems and the cases
## make screenshots   the dashboard's pictures in docs/images, anew
## make site        the documentation as a site in build/site/html, which can be searched without network
## make recording   the recording of `make demo` in docs/recording, anew
## make npm         bring what some tests skip without: real agents and SDKs, from npm, 1.1 GB,
##                  and, from the distribution, OpenStack's Swift and Podman
## make fuzz        fuzz each parser for FUZZ_SECONDS (60)
## make lint        analyzers, script and man page checks, both compilers
## make install     to PREFIX (/usr/local), under DESTDIR
## make uninstall   remove those files again; your data stays
## make deps        only install the packages a build needs
## make clean       remove build/
##
## CC=clang builds with clang; B=DIR builds in DIR; V=1 shows the commands;
## ARGS=... goes to escape, bench, soak, crash, growth and matrix (ARGS=--help).

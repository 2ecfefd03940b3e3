#!/usr/bin/env bats
# What modules of others rely on: the installed contract, an example that is
# built from it alone, and modules that were built for an older one.

load helpers
load publish

setup() {
	test_setup
	dest=$PWD/dest
	old=$srcdir/tests/old-backend
}

compile() {
	# Several words, as make has them.
	# shellcheck disable=SC2086
	${CC-cc} -Wall -Wextra -Werror "$@"
}

# old_module FLAG...: the old one as modules/old.so, in one of its shapes.
old_module() {
	mkdir -p modules
	compile -fPIC -shared "$@" -o modules/old.so "$old/old.c"
	export LEASERUN_BACKEND=old:x
	echo "module-dir = \"$PWD/modules\"" >leaserun.conf
}

old_module_works() {
	run_tool 0 run -t 2s -r 200ms -g 300ms job -- \
	    sh -c 'sleep 0.5; echo "$LEASERUN_FENCE_TOKEN"'
	assert_equal "$stdout" 41
	run_tool 0 status job
	assert_matches "$stdout" 'job +held +old label +4242 .* 41 +7s '
	run_tool 0 status --json job
	assert_contains "$stdout" '"last_run": null'
	run_tool 0 check --token 41 job
	run_tool 0 revoke job
	run_tool 0 init
	run_tool 0 doctor
	assert_contains "$stdout" "as good as ever"
}

# layout HEADER: where it has everything.
layout() {
	compile -DHEADER="\"$1\"" -o layout "$old/layout.c"
	./layout
}

@test "header, page and pkg-config file are installed and uninstalled" {
	local header

	publish_install "$dest"
	header=$dest$(installed --variable=includedir)/leaserun-backend.h
	cmp "$header" "$srcdir/backends/leaserun-backend.h"
	assert_equal "$(installed --modversion)" \
	    "$("$LEASERUN" --version | grep -o '[0-9][0-9.]*')"
	[ -n "$(find "$dest" -path '*/man3/leaserun-backend.3')" ]
	publish_make -C "$builddir" uninstall DESTDIR="$dest" >uninstall.log
	assert_equal "$(find "$dest" ! -type d)" ""
}

@test "moduledir is where the program looks for modules" {
	publish_install "$dest"
	run_tool 78 run -b nosuch:x job true
	assert_contains "$stderr" \
	    "'$(installed --variable=moduledir)/nosuch.so'"
}

@test "the header can be included first and alone" {
	echo '#include "leaserun-backend.h"' >alone.c
	compile -std=c99 -pedantic -fsyntax-only -I "$srcdir/backends" alone.c
}

@test "the example is built outside the tree, and runs a job" {
	publish_install "$dest"
	publish_example example
	run nm -D --defined-only --format=posix example/example.so
	assert_matches "$output" '^leaserun_backend [A-Z] [^'$'\n'']*$'
	echo "module-dir = \"$PWD/example\"" >leaserun.conf
	export LEASERUN_BACKEND=example:$PWD/leases
	run_tool 78 run job touch ran
	assert_contains "$stderr" "leaserun init"
	run_tool 0 init
	run_tool 0 run job touch ran
	[ -e ran ]
	run_tool 78 run --once day job true
	assert_contains "$stderr" "--once"
	echo "something else" >leases
	run_tool 78 run job true
	assert_contains "$stderr" "no store of the example"
	run_tool 78 init
}

@test "the example takes what it cannot read for no free name" {
	publish_install "$dest"
	publish_example example
	echo "module-dir = \"$PWD/example\"" >leaserun.conf
	export LEASERUN_BACKEND=example:$PWD/leases
	run_tool 0 init
	mkfifo go
	bg "$LEASERUN" run job -- sh -c 'touch held; read -r _ <go'
	wait_until 20 test -e held
	# The second slot, which is the job's.
	damaged=(env "ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0"
	    timeout 60 strace -o /dev/null -P "$PWD/leases" -e trace=pread64
	    -e inject=pread64:error=EIO:when=2+ "$LEASERUN")
	run "${damaged[@]}" run --connect-timeout 2s job touch ran
	assert_equal "$status" 69
	assert_contains "$output" "cannot read"
	[ ! -e ran ]
	run "${damaged[@]}" status
	assert_equal "$status" 69
	timeout 10 sh -c 'echo >go'
}

@test "the example is installed where the program looks for it" {
	local pc

	publish_install "$dest"
	publish_example example
	pc=$(find "$dest" -name leaserun-backend.pc)
	PKG_CONFIG_LIBDIR=${pc%/*} publish_make -C example install \
	    DESTDIR="$dest"
	cmp example/example.so \
	    "$dest$(installed --variable=moduledir)/example.so"
}

@test "the example keeps the contract" {
	publish_install "$dest"
	publish_example example
	run "$builddir/tests/contract" example/example.so "example:$PWD/leases"
	printf '%s\n' "$output"
	assert_equal "$status" 0
	assert_lacks "$output" "not ok"
	assert_contains "$output" "1.."
}

@test "the header has everything where it was when it was published" {
	layout leaserun-backend-1.h >was
	[ "$(wc -l <was)" -gt 100 ]
	layout "$srcdir/backends/leaserun-backend.h" >is
	diff -u was is
}

@test "a module of the first published contract works" {
	old_module
	old_module_works
	run_tool 0 status --once job
	assert_contains "$stdout" "old label"
}

@test "a module that is older than the last function works without it" {
	old_module -DSHORT
	old_module_works
	run_tool 78 status --once job
	assert_contains "$stderr" "keeps no record"
	run_tool 78 run --events e --once day job touch ran
	[ ! -e ran ]
	assert_matches "$(cat e)" \
	    '"misconfigured","status":78.*"error":"[^"]*keeps no record'
}

@test "a module with functions that are newer than the program works" {
	old_module -DLONG
	old_module_works
	run_tool 0 status --once job
	assert_contains "$stdout" "old label"
}

@test "a module of another version is refused, with both numbers" {
	local version

	for version in 0 2 4294967295; do
		old_module -DVERSION="${version}u"
		run_tool 78 run job touch ran
		assert_contains "$stderr" "modules/old.so' is made for version \
$version of the contract, this leaserun has 1"
		run_tool 78 status
		[ ! -e ran ]
	done
}

@test "a module without a required function is refused" {
	local shape

	for shape in LACKING CUT; do
		old_module "-D$shape"
		run_tool 78 run job touch ran
		assert_contains "$stderr" "modules/old.so' lacks a function"
		[ ! -e ran ]
	done
}

@test "the conformance driver refuses what the program refuses" {
	old_module -DVERSION=2
	run "$builddir/tests/contract" modules/old.so old:x
	assert_equal "$status" 1
	assert_contains "$output" "Bail out! modules/old.so is made for version 2"
}

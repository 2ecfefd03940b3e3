# The script of contrib/shell, in the shells that are /bin/sh somewhere; and what
# contrib/quickstart shows.

load helpers

shells=(dash bash busybox)

# in_shell SHELL: from here on it is sh.
in_shell() {
	mkdir -p bin
	ln -sf "$LEASERUN" bin/leaserun
	ln -sf "$(command -v "$1")" bin/sh
	PATH=$PWD/bin:${PATH#"$PWD/bin:"}
	assert_equal "$(command -v sh)" "$PWD/bin/sh"
	rm -rf report* state go out err
	mkdir -m 700 state
}

# The script, with another collect(): the command, which may wait for `go'.
script() {
	sed "s,^	date\$,	$1," "$srcdir/contrib/shell/fenced-report" >job
	! grep -qx '	date' job
}

waiting='echo $LEASERUN_FENCE_TOKEN; echo >out; while [ ! -e go ]; do sleep 0.05; done'

# ends RC COMMAND...
ends() {
	local status=0

	timeout 60 "${@:2}" >out.log 2>err 3>&- || status=$?
	cat err
	assert_equal "$status" "$1"
}

temporary_files() {
	find . -name 'report.new*' | wc -l
}

@test "the script takes its lease, once" {
	for shell in "${shells[@]}"; do
		in_shell $shell
		script "$waiting"
		bg sh job report
		first=$!
		wait_until 20 test -e out
		ends 75 sh job report
		assert_equal "$(cat err)" ""
		# It is the run itself, not a child of it.
		assert_equal "$(cat "/proc/$first/comm")" leaserun
		: >go
		assert_ends 0 "$first"
		[ "$(cat report)" -gt 0 ]
		assert_equal "$(temporary_files)" 0
		ends 0 leaserun run nightly-report sh job report
	done
}

@test "an environment that is left over is not taken for the lease" {
	for shell in "${shells[@]}"; do
		in_shell $shell
		script "$waiting"
		: >go
		ends 0 leaserun run nightly-report -- sh -c 'env | grep LEASERUN >old'
		grep -q LEASERUN_NAME=nightly-report old
		mapfile -t old <old
		ends 0 env "${old[@]}" sh job report
		[ "$(cat report)" -gt \
		    "$(sed -n 's/^LEASERUN_FENCE_TOKEN=//p' old)" ]
		# While another one runs, it is skipped.
		rm go out
		bg sh job report
		wait_until 20 test -e out
		ends 75 env "${old[@]}" sh job report
		: >go
		assert_ends 0 $!
	done
}

@test "inside a run of another name it takes its own, inside its own none" {
	for shell in "${shells[@]}"; do
		in_shell $shell
		script 'echo "$LEASERUN_NAME $LEASERUN_CHAIN"'
		ends 0 leaserun run outer -- sh job report
		assert_matches "$(cat report)" '^nightly-report [^ ]+ [^ ]+$'
		# Through another lease it would wait for itself.
		ends 64 leaserun run nightly-report -- \
		    leaserun run other -- sh job report
		assert_contains "$(cat err)" "outer run"
	done
}

@test "a store that cannot tell is no reason to go on" {
	for shell in "${shells[@]}"; do
		in_shell $shell
		script 'echo >ran'
		ends 78 leaserun run nightly-report -- \
		    env LEASERUN_BACKEND=file:/nowhere/at/all sh job report
		[ ! -e ran ]
	done
}

@test "a write of a holder that is late is refused" {
	for shell in "${shells[@]}"; do
		in_shell $shell
		script 'leaserun fence --token 9000000000000000 report -- sh -c "echo later >report"'
		ends 75 sh job report
		assert_equal "$(cat report)" later
		assert_equal "$(temporary_files)" 0
	done
}

@test "a signal ends it, and nothing is left behind" {
	for shell in "${shells[@]}"; do
		for signal in TERM INT HUP; do
			in_shell $shell
			script "$waiting"
			bg sh job report
			wait_until 20 test -e out
			assert_equal "$(temporary_files)" 1
			kill -s $signal $!
			# HUP reaches the shell alone, which waits for a sleep.
			assert_ends $((128 + $(kill -l $signal))) $!
			assert_equal "$(temporary_files)" 0
			[ ! -e report ]
			run_tool 0 run nightly-report true
		done
	done
}

# quickstart RC: with the program that is built already, by a make that ends so.
quickstart() {
	mkdir -p bin top/{.ci,backends,man,src,tests}
	touch top/{.clang-format,.gitignore,COPYING,Makefile.am,README,configure.ac}
	cp -r "$srcdir/contrib" top
	printf '#!/bin/sh\necho : >configure; chmod +x configure\n' >bin/autoreconf
	printf '#!/bin/sh\nmkdir src; ln -s "%s" src; exit %d\n' "$LEASERUN" "$1" \
	    >bin/make
	chmod +x bin/autoreconf bin/make
	mkdir -p tmp
	PATH=$PWD/bin:$PATH XDG_CACHE_HOME=$PWD/cache TMPDIR=$PWD/tmp \
	    timeout 120 sh top/contrib/quickstart
}

@test "quickstart: a run with its token, a skip, the status in between" {
	run quickstart 0
	assert_equal "$status" 0
	assert_equal "$(grep -oE "^(running with token [0-9]|nightly +(held|free)|$(:
	    )leaserun: 'nightly': (held by|not run)|exit status [1-9]+)" \
	    <<<"$output" | tr -s ' ' | sed 's/ [0-9]$//' | paste -sd ,)" \
	    "running with token,nightly held,leaserun: 'nightly': held by,$(:
	    )leaserun: 'nightly': not run,exit status 75,nightly free,$(:
	    )running with token"
	assert_equal "$(ls tmp)" ""
	rm -r cache
	run quickstart 1
	assert_equal "$status" 1
	assert_contains "$output" "the build failed, its log is"
}

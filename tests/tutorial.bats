# leaserun-tutorial(7), typed in as it stands: its commands, in one shell and in
# the order of the page, on three hosts that are network namespaces, and a real
# PostgreSQL.  What the page shows as their output has to be their output.

load helpers
load postgres

page=$srcdir/man/leaserun-tutorial.7

# Writes each display of commands as N.sh, what it prints as N.should.
take_apart() {
	awk '
	    function unescape(text) {
		sub(/\\e$/, "\\", text)
		return text
	    }
	    /^\.Bd -literal/ { to = ++n ".sh"; printf "" >(n ".should"); next }
	    /^\.Bd -unfilled/ && !seen[n]++ { to = n ".should"; next }
	    /^\.Ed/ { to = ""; next }
	    to != "" { print unescape($0) >to }' "$page"
}

# In namespaces of its own, which go with all that is in them.
setup_file() {
	local status=0
	local -i n

	cd "$BATS_FILE_TMPDIR" || return
	chmod 711 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
	take_apart
	mkdir bin
	ln -s "$LEASERUN" bin/leaserun
	echo "module-dir = \"$BACKENDS\"" >leaserun.conf
	{
		echo "exec 2>&1"
		echo "mount -t tmpfs tmpfs /run && ip link set lo up"
		for ((n = 1; ; n++)); do
			[ -e $n.sh ] || break
			sed -e "s,/tmp/tutorial,$PWD/tutorial,g" \
			    -e "s,/usr/share/leaserun,$srcdir/contrib/sql," \
			    $n.sh >$n.run
			printf '. "%s" >"%s"\n' "$PWD/$n.run" "$PWD/$n.is"
		done
	} >all
	env -u LEASERUN_BACKEND HOME="$PWD" LEASERUN_CONFIG="$PWD/leaserun.conf" \
	    PATH="$PWD/bin:$PATH" timeout -s KILL 400 \
	    unshare --net --mount --pid --fork --kill-child --mount-proc \
	    sh -x all >log 2>&1 </dev/null 3>&- || status=$?
	echo $status >status
}

setup() {
	test_setup
	cd "$BATS_FILE_TMPDIR" || return
}

@test "the page has many steps, and many of them show their output" {
	local -a steps=([0-9]*.sh) shown

	mapfile -t shown < <(find . -name '*.should' -size +0)
	[ ${#steps[@]} -ge 18 ]
	[ ${#shown[@]} -ge 12 ]
}

@test "each step prints what the page shows" {
	local -i n bad=0

	for ((n = 1; ; n++)); do
		[ -e $n.sh ] || break
		touch $n.is
		diff -u --label "page, step $n" --label "output" \
		    $n.should $n.is || bad=1
	done
	[ $bad -eq 0 ] || { tail -n 60 log; return 1; }
}

@test "the last step is reached, and nothing is left behind" {
	assert_equal "$(cat status)" 0
	[ ! -e tutorial ]
}

@test "the files that the page shows at the end are understood" {
	awk '/^backend = / { here = 1 } /^\.Ed/ { here = 0 } here' "$page" \
	    >end.conf
	echo "module-dir = \"$BACKENDS\"" >>end.conf
	run_tool 78 run --config end.conf -o parse-only=yes weekly-digest true
	assert_contains "$stderr" "no option 'parse-only'"
}

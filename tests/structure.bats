# Holds the boundaries between the files: what may include, need, export and
# load what.

load helpers

# The headers that a file may include, as patterns.
allowed() {
	local all="conf.h log.h name.h once.h timeutil.h util.h"
	local abi=../backends/leaserun-backend.h

	case $1 in
	src/main.c) echo "$all fence.h query.h run.h" ;;
	src/run.[ch]) echo "$all run.h filter.h guard.h keeper.h leave.h" \
	    "link.h notify.h proc.h report.h signals.h store.h tree.h" ;;
	src/keeper.[ch]) echo "$all $abi account.h giveback.h keeper.h" \
	    "guard.h holder.h job.h leave.h loss.h notify.h plugin.h report.h" \
	    "signals.h store.h storehost.h tree.h" ;;
	src/giveback.[ch]) echo "$all $abi account.h giveback.h keeper.h" \
	    "loss.h report.h signals.h store.h" ;;
	src/ending.[ch]) echo "ending.h link.h" ;;
	src/job.[ch]) echo "$all ending.h job.h keeper.h leave.h link.h" \
	    "notify.h proc.h report.h signals.h tree.h" ;;
	src/holder.[ch]) echo "$abi holder.h timeutil.h" ;;
	src/store.[ch] | src/storehost.[ch]) echo "$all $abi holder.h store.h" \
	    "storehost.h keeper.h leave.h notify.h plugin.h report.h" \
	    "signals.h" ;;
	src/signals.[ch]) echo "signals.h guard.h leave.h link.h proc.h" \
	    "sigkind.h timeutil.h tree.h util.h" ;;
	src/sigkind.[ch]) echo "sigkind.h" ;;
	src/guard.[ch]) echo "guard.h link.h relay.h timeutil.h tree.h" \
	    "util.h" ;;
	src/relay.[ch]) echo "guard.h proc.h relay.h tree.h" ;;
	src/tree.[ch]) echo "filter.h proc.h timeutil.h tree.h" ;;
	src/filter.[ch]) echo "filter.h" ;;
	src/proc.[ch]) echo "proc.h util.h" ;;
	src/leave.[ch]) echo "guard.h leave.h link.h util.h" ;;
	src/link.[ch]) echo "link.h" ;;
	src/ask.[ch] | src/query.[ch]) echo "$all $abi ask.h holder.h" \
	    "plugin.h query.h" ;;
	src/status.c) echo "$all ask.h done.h query.h show.h" ;;
	src/show.[ch] | src/done.[ch]) echo "$all $abi done.h" \
	    "holder.h show.h table.h" ;;
	src/table.[ch]) echo "table.h" ;;
	src/fence.[ch]) echo "$all fence.h fencefile.h leave.h passthru.h" \
	    "record.h" ;;
	src/fencefile.[ch]) echo "$all fencefile.h ../backends/filedir.h" ;;
	src/passthru.[ch]) echo "log.h util.h leave.h passthru.h proc.h" \
	    "sigkind.h tree.h" ;;
	src/plugin.[ch]) echo "$all $abi plugin.h ../backends/file.h" ;;
	src/once.[ch]) echo "$abi conf.h name.h once.h timeutil.h" ;;
	src/conf*.[ch]) echo "$all $abi conf*.h" ;;
	src/record.[ch]) echo "record.h" ;;
	src/account.[ch]) echo "account.h report.h loss.h timeutil.h util.h" ;;
	src/report.[ch]) echo "$all $abi loss.h report.h writer.h" ;;
	src/writer.[ch]) echo "events.h metrics.h report.h writer.h" ;;
	src/events.[ch] | src/metrics.[ch] | src/promfile.[ch])
		echo "name.h timeutil.h util.h events.h holder.h loss.h metrics.h" \
		    "promfile.h report.h" ;;
	src/loss.[ch]) echo "$abi loss.h" ;;
	src/log.[ch]) echo "journal.h log.h util.h" ;;
	src/journal.[ch]) echo "journal.h" ;;
	src/name.[ch]) echo "name.h" ;;
	src/notify.[ch]) echo "log.h notify.h timeutil.h util.h" ;;
	src/timeutil.[ch]) echo "timeutil.h util.h" ;;
	src/util.[ch]) echo "util.h" ;;
	backends/file*.[ch]) echo "file*.h leaserun-backend.h" \
	    "../src/record.h" ;;
	backends/pg*.[ch] | backends/postgres.[ch])
		echo "pg*.h postgres.h resolve.h leaserun-backend.h" ;;
	backends/etcd*.[ch]) echo "etcd*.h resolve.h leaserun-backend.h" ;;
	backends/resolve.[ch]) echo "resolve.h leaserun-backend.h" ;;
	backends/*.[ch]) echo "leaserun-backend.h" ;;
	*) return 1 ;;
	esac
}

# matches TEXT PATTERN...
matches() {
	local text=$1 pattern

	shift
	for pattern; do
		# shellcheck disable=SC2053
		[[ $text != $pattern ]] || return 0
	done
	return 1
}

# Undefined symbols of an object file, without those of sanitizers.
needs() {
	nm -u "$builddir/$1" | awk '{ print $NF }' |
	    grep -vE '^__(asan|ubsan|sanitizer|sancov)_'
}

modules() {
	find "$builddir/tests/.libs" "$builddir/backends/.libs" -name '*.so' \
	    ! -name elsewhere.so 2>/dev/null
}

@test "every file includes only what its place allows" {
	local file header bad=0
	local -a list

	cd "$srcdir"
	for file in src/*.[ch] backends/*.[ch]; do
		read -ra list < <(allowed "$file") ||
		    { echo "$file: not in the table"; bad=1; continue; }
		while read -r header; do
			matches "$header" "${list[@]}" ||
			    { echo "$file: includes $header"; bad=1; }
		done < <(sed -n 's/^ *# *include *"\(.*\)".*/\1/p' "$file")
	done
	[ $bad -eq 0 ]
}

@test "no file of the program is longer than 500 lines" {
	cd "$srcdir"
	run awk 'FNR == 501 { print FILENAME }' src/*.[ch] backends/*.[ch]
	assert_equal "$output" ""
}

@test "guard, relay, tree and link need no loader and no library of a store" {
	local object

	for object in guard relay tree link; do
		needs "src/$object.o" >symbols
		[ -s symbols ]
		run grep -E '^(dl(open|sym|close)|curl_|PQ|json_|cfg_)' symbols
		assert_equal "$object: $output" "$object: "
	done
}

@test "guard, link and relay need no heap" {
	local object

	for object in guard link relay; do
		needs "src/$object.o" >symbols
		[ -s symbols ]
		run grep -E '^(x?(malloc|calloc|realloc|strn?dup|v?asprintf)|free)$' \
		    symbols
		assert_equal "$object: $output" "$object: "
	done
}

@test "the program is not linked to the libraries of a store" {
	readelf -d "$LEASERUN" >dynamic
	file_has dynamic NEEDED
	run grep -E 'NEEDED.*lib(curl|pq)' dynamic
	assert_equal "$output" ""
}

@test "a library is linked to those modules only that need it" {
	local module

	for module in $(modules); do
		readelf -d "$module" >dynamic
		file_has dynamic NEEDED
		case $module in
		*/etcds.so) run grep -E 'NEEDED.*libpq' dynamic ;;
		*/postgres*.so) run grep -E 'NEEDED.*libcurl' dynamic ;;
		*) run grep -E 'NEEDED.*lib(curl|pq)' dynamic ;;
		esac
		assert_equal "$module: $output" "$module: "
	done
}

@test "a module exports leaserun_backend and nothing else" {
	local module

	[ -n "$(modules)" ]
	for module in $(modules); do
		run nm -D --defined-only --format=posix "$module"
		assert_matches "$module: $output" \
		    "^$module: leaserun_backend [A-Z] [^"$'\n'"]*\$"
	done
}

@test "a running keeper and guard have loaded no library of a store" {
	local keeper guard

	mkfifo go
	bg "$LEASERUN" run maps -- sh -c 'echo $PPID >guard; read -r _ <go'
	keeper=$!
	wait_until 10 test -s guard
	guard=$(cat guard)
	assert_equal "$(awk '/^PPid:/ { print $2 }' "/proc/$guard/status")" \
	    "$keeper"
	cat "/proc/$keeper/maps" "/proc/$guard/maps" >maps
	file_has maps "${LEASERUN##*/}"
	run grep -E 'lib(curl|pq)' maps
	assert_equal "$output" ""
	timeout 5 sh -c 'echo >go'
	assert_ends 0 "$keeper"
}

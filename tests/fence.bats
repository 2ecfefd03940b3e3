# `leaserun fence': the highest token beside a file, and one writer at a time.

load helpers
load jobs

setup() {
	test_setup
	protected=$(cat /proc/sys/fs/protected_regular)
	open=
}

teardown() {
	local mount

	test_teardown
	for mount in full ro net; do
		# Also one whose server is gone.
		! grep -q " $PWD/$mount " /proc/mounts || umount -l "$mount"
	done
	[ "$(cat /proc/sys/fs/protected_regular)" = "$protected" ] ||
	    echo "$protected" >/proc/sys/fs/protected_regular
	[ -z "$open" ] || rm -rf "$open"
}

# refused RC TEXT ARG...: a fence of these is refused, and nothing is run.
refused() {
	local rc=$1 text=$2

	shift 2
	run_tool "$rc" fence "$@" touch started || return
	assert_contains "$stderr" "$text" || return
	assert_equal "$stdout" "" || return
	[ ! -e started ] || fail "the command was started"
}

# hold TOKEN [FILE]: a command has the fence until `touch over'; $holder.
hold() {
	rm -f over held
	bg "$LEASERUN" fence --token "$1" "${2:-data}" -- sh -c \
	    'echo $$ >held; while [ ! -e over ]; do sleep 0.02; done'
	holder=$!
	wait_until 10 test -s held
}

# Someone is in the kernel's queue for the lock.
is_waited_for() {
	grep -q -e "-> OFDLCK .*:$(stat -c %i data.fence) " /proc/locks
}

# waiter TOKEN ARG...: one that waits, $waiter; what it says is in `said'.
waiter() {
	local token=$1

	shift
	bg "$STARTWITH" -w ended "$LEASERUN" fence --wait 30s --token "$token" \
	    data -- "$@" 2>said
	wait_until 10 is_waited_for
	waiter=$(sed 's/[^0-9]//g' ended.pid)
}

# damage SLOT: of the record.
damage() {
	printf noise | dd of=data.fence bs=1 seek=$(($1 * 4096 + 20)) \
	    conv=notrunc status=none
}

# open_folder: one that everybody may enter, with the program in it; $open.
open_folder() {
	open=$(mktemp -d /tmp/leaserun-open.XXXXXX)
	chmod 755 "$open"
	cp "$LEASERUN" "$open/leaserun"
}

# as_user UID:GID ARG...: leaserun as another user, $status, what it says: err.
as_user() {
	local user=${1%:*} group=${1#*:}

	shift
	status=0
	setpriv "--reuid=$user" "--regid=$group" --clear-groups env -i \
	    "PATH=$PATH" "TEST_MARK=$TEST_MARK" "$open/leaserun" "$@" \
	    2>err || status=$?
	cat err
}

# --- Tokens ---

@test "a lower token is refused, an equal and a higher one are not" {
	run_tool 0 fence --token 33 data -- sh -c 'echo one >data'
	run_tool 0 fence --token 33 data -- sh -c 'echo two >data'
	run_tool 0 fence --token 34 data -- sh -c 'echo three >data'
	refused 75 "token 33 is stale: 34 has written" --token 33 data --
	run_tool 0 fence --token 9223372036854775807 data true
	refused 75 "9223372036854775806 is stale: 9223372036854775807" \
	    --token 9223372036854775806 data
	assert_equal "$(cat data)" three
}

@test "numbers are compared, not texts" {
	run_tool 0 fence --token 9 data true
	run_tool 0 fence --token 10 data true
	refused 75 "token 9 is stale: 10" --token 009 data
}

@test "the token comes from the job, --token goes before it" {
	export LEASERUN_FENCE_TOKEN=40
	run_tool 0 fence data true
	run_tool 0 fence --token 41 data true
	refused 75 "token 40 is stale: 41" data
	unset LEASERUN_FENCE_TOKEN
	run_tool 0 run job -- "$LEASERUN" fence other sh -c \
	    'echo "$LEASERUN_NAME $LEASERUN_FENCE_TOKEN" >token'
	assert_matches "$(cat token)" '^job [0-9]+$'
}

@test "a token that is missing or none is a usage error" {
	local token

	refused 64 "give --token, or run it inside a job" data
	for token in '' 0 -1 x 1.5 ' 1' 9223372036854775808; do
		LEASERUN_FENCE_TOKEN=$token refused 64 \
		    "LEASERUN_FENCE_TOKEN is not a token: '$token'" data
		refused 64 "--token" --token "$token" data
	done
	[ ! -e data.fence ]
}

@test "each file has a highest token of its own, by whatever path" {
	mkdir a b
	ln -s a link
	run_tool 0 fence --token 34 a/data true
	run_tool 0 fence --token 33 b/data true
	refused 75 "token 33 is stale: 34" --token 33 "$PWD/a/data"
	refused 75 "token 33 is stale: 34" --token 33 link/../a/./data
	refused 75 "token 33 is stale: 34" --token 33 link/data
	cd a
	refused 75 "token 33 is stale: 34" --token 33 data
}

@test "usage errors name the word and point at --help" {
	run_tool 64 fence --token 1
	assert_contains "$stderr" "the file is missing"
	assert_contains "$stderr" "leaserun fence --help"
	run_tool 64 fence --token 1 data
	assert_contains "$stderr" "the command is missing after 'data'"
	run_tool 64 fence --token 1 data --
	assert_contains "$stderr" "the command is missing after 'data'"
	run_tool 64 fence --token 1 data ''
	assert_contains "$stderr" "the command is empty after 'data'"
	run_tool 64 fence --token 1 '' true
	assert_contains "$stderr" "the file is empty"
	refused 64 "'more'" --token 1 data more --
	refused 64 "'--token'" data --token 1
	refused 64 "--backend" --backend file: data
	refused 64 "--wait" --wait -1 data
	[ ! -e data.fence ]
}

@test "no backend, configuration or password is needed, no module loaded" {
	export LEASERUN_BACKEND=nonsense://cron:secret@host/db
	export LEASERUN_CONFIG=/nowhere HOME=/nowhere
	strace -f -o trace -e trace=open,openat \
	    "$LEASERUN" fence --token 5 data true
	run grep -E 'leaserun[^ ]*\.(conf|so)|nowhere|libpq|libcurl' trace
	assert_equal "$output" ""
}

# --- The command ---

@test "the command gets its words, input, output and environment untouched" {
	echo in | "$LEASERUN" fence --token 5 data -- cat >out
	assert_equal "$(cat out)" in
	run_tool 0 fence --token 5 data -- printf '<%s>' -v '' -- '$X *'
	assert_equal "$stdout" '<-v><><--><$X *>'
	run_tool 0 fence --token 5 data printf '<%s>' --help -b
	assert_equal "$stdout" '<--help><-b>'
	env -i A=1 LEASERUN_FENCE_TOKEN=3 "$LEASERUN" fence --token 5 data \
	    /usr/bin/env >is
	printf '%s\n' A=1 LEASERUN_FENCE_TOKEN=3 | diff - is
}

@test "the command's status comes through, and so does its signal" {
	local n

	for n in 1 2 63 64 75 126 127 128 255; do
		run_tool "$n" fence --token 5 data -- sh -c "exit $n"
		assert_equal "$output" ""
	done
	no_sanitizer
	for n in 1 2 3 6 9 10 11 13 14 15; do
		"$STARTWITH" -d $((n == 9 ? 15 : n)) -w ended "$LEASERUN" fence --token 5 \
		    data -- sh -c "kill -$n \$\$"
		assert_equal "$(cat ended)" "killed $n"
	done
}

@test "a command that cannot be run is 126 or 127, and says which" {
	run_tool 127 fence --token 5 data no-such-command
	assert_contains "$stderr" "'no-such-command': No such file"
	run_tool 127 fence --token 5 data ./none
	: >plain
	run_tool 126 fence --token 5 data ./plain
	assert_contains "$stderr" "'./plain': Permission denied"
	printf '#!/no/interpreter\n' >script
	chmod 755 script
	run_tool 126 fence --token 5 data ./script
	assert_contains "$stderr" "its interpreter is missing"
	# It is not one of these that had an exit status of its own.
	run_tool 1 fence --token 5 data false
	assert_equal "$output" ""
}

@test "signal mask, dispositions and descriptors are what they were" {
	local with=(-i 17 -i 15 -i 64 -b 10 -b 2)

	"$STARTWITH" "${with[@]}" grep '^Sig[BIC]' /proc/self/status >should
	"$STARTWITH" "${with[@]}" "$LEASERUN" fence --token 5 data \
	    grep '^Sig[BIC]' /proc/self/status >is
	diff should is
	"$STARTWITH" -k "$LEASERUN" fence --token 5 data \
	    find /proc/self/fd -lname '/*' -printf '%f %l\n' |
	    grep -v ' /proc' >descriptors
	assert_matches "$(tail -n +4 descriptors)" '^2[0-9]+ /.*/data.fence$'
}

@test "closed standard descriptors are /dev/null, and never the record" {
	"$STARTWITH" -c 0 -c 1 -c 2 "$LEASERUN" fence --token 5 data -- \
	    sh -c 'readlink /proc/$$/fd/0 /proc/$$/fd/1 >names; echo junk'
	assert_equal "$(cat names)" "/dev/null"$'\n'"$PWD/names"
	refused 75 "4 is stale: 5" --token 4 data
}

# recorder: a command that notes signals below a fence; $fence, $recorder.
recorder() {
	bg "$@" "$SIGRECORD" got 3>&-
	fence=$!
	wait_until 10 file_has got ready
	recorder=$(sed -n 's/^ready //p' got)
}

got() {
	grep -c "^$1 " got || :
}

@test "a signal to fence reaches the command, and once" {
	local signo

	recorder "$LEASERUN" fence --token 5 data
	for signo in 1 2 3 10 12 14 15 23 28 34 64; do
		kill -"$signo" "$fence"
		wait_until 10 file_has got "$signo $recorder"
	done
	# Each way is in order, so a second one would have come before.
	for signo in 1 2 3 10 12 14 15 23 28 34; do
		assert_equal "$signo: $(got "$signo")" "$signo: 1"
	done
	kill -KILL "$recorder"
	assert_ends 137 "$fence"
}

@test "a TERM to a run reaches the fenced command once" {
	local keeper

	recorder "$LEASERUN" run --max-run 100s job -- "$LEASERUN" fence data
	keeper=$fence
	kill -TERM "$keeper"
	wait_until 10 file_has got "15 $recorder"
	kill -USR1 "$keeper"
	wait_until 10 file_has got "10 $recorder"
	assert_equal "$(got 15)" 1
	kill -KILL "$recorder"
	assert_ends 137 "$keeper"
}

@test "fence stops with the command, and both go on" {
	hold 5
	kill -STOP "$(cat held)"
	wait_until 10 state "$holder" T
	kill -CONT "$holder"
	wait_until 10 state "$holder" S
	wait_until 10 state "$(cat held)" S
	touch over
	assert_ends 0 "$holder"
}

# --- The lock ---

@test "one at a time; who waits too long is told the token in progress" {
	hold 33
	refused 75 "token 33 is in progress, token 34 waited 100ms" \
	    --wait 100ms --token 34 data
	assert_contains "$stderr" "data.fence"
	refused 75 "token 33 is in progress" --wait 0 --token 33 data
	refused 75 "token 32 is stale: 33" --wait inf --token 32 data
	touch over
	assert_ends 0 "$holder"
	run_tool 0 fence --wait 0 --token 33 data true
}

@test "a waiter sleeps in the kernel and goes on when it is its turn" {
	hold 33
	bg strace -o trace "$LEASERUN" fence --wait inf --token 34 data \
	    touch waited
	waiter=$!
	wait_until 10 is_waited_for
	touch over
	assert_ends 0 "$waiter"
	[ -e waited ]
	assert_equal "$(grep -c 'F_OFD_SETLKW' trace)" 1
	run grep -E 'nanosleep|poll|timer_settime' trace
	assert_equal "$output" ""
}

@test "a waiter with a limit is woken once, by the limit" {
	no_sanitizer
	hold 33
	strace -o trace "$LEASERUN" fence --wait 700ms --token 34 data \
	    touch started || [ $? -eq 75 ]
	[ ! -e started ]
	[ "$(grep -c 'F_OFD_SETLKW' trace)" -le 2 ]
}

@test "a waiter that cannot have its limit says so" {
	hold 33
	code=0
	prlimit --sigpending=0 "$LEASERUN" fence --wait 2s --token 34 data \
	    touch started 2>stderr || code=$?
	cat stderr
	assert_equal "$code" 70
	grep -q "ulimit -i" stderr
	[ ! -e started ]
}

@test "whoever waits is refused when a higher token went before it" {
	hold 33
	waiter 34 touch started
	cp data.fence record
	# The holder's successor, in the very file.
	run_tool 0 fence --token 40 other true
	cat other.fence >data.fence
	touch over
	assert_ends 0 "$holder"
	wait_until 10 test -s ended
	assert_equal "$(cat ended)" "exited 75"
	assert_contains "$(cat said)" "token 34 is stale: 40 has written"
	[ ! -e started ]
}

@test "a command that asks to be traced: no signal of its stop ends fence" {
	local fence command

	bg "$LEASERUN" fence --token 5 data -- "$STARTWITH" -t true
	fence=$!
	wait_until 30 eval 'command=$(cat "/proc/$fence/task/$fence/children") &&
	    [ -n "$command" ] && state "${command% }" t'
	# Whoever does not take it for a stop of the job sleeps.
	wait_until 30 state "$fence" S
	kill -KILL "${command% }"
	assert_ends 137 "$fence"
}

@test "told to stop while it waits: 128 + N, and nothing is run" {
	local signo

	hold 33
	for signo in 1 2 3 15; do
		rm -f ended ended.pid
		waiter 34 touch started
		kill -"$signo" "$waiter"
		wait_until 10 test -s ended
		assert_equal "$(cat ended)" "exited $((128 + signo))"
	done
	touch over
	assert_ends 0 "$holder"
	[ ! -e started ]
	# The token of a waiter is not counted.
	run_tool 0 fence --token 33 data true
}

@test "a TERM between lock and command: the command never starts" {
	local call

	no_sanitizer
	# The last look at what is pending comes right before the fork.
	for call in fdatasync rt_sigpending; do
		rm -f data.fence
		status=0
		strace -o trace -e trace=$call,clone,clone3,fork,vfork \
		    -e inject=$call:signal=TERM:when=1 \
		    "$LEASERUN" fence --token 5 data touch started || status=$?
		assert_equal "$status" 143
		[ ! -e started ]
		file_has trace $call
		run grep -E 'clone|fork' trace
		assert_equal "$output" ""
	done
}

@test "what the command leaves behind keeps the lock while it lives" {
	local pid

	run_tool 0 fence --token 33 data -- sh -c \
	    'setsid sleep 1000 >/dev/null 2>&1 & echo $! >daemon'
	pid=$(cat daemon)
	refused 75 "token 33 is in progress" --wait 0 --token 34 data
	kill -KILL "$pid"
	run_tool 0 fence --wait 10s --token 34 data true
}

@test "a command that closes what it inherits does not open the fence" {
	bg "$LEASERUN" fence --token 33 data -- "$STARTWITH" -k sh -c \
	    'echo $$ >held; while [ ! -e over ]; do sleep 0.02; done'
	holder=$!
	wait_until 10 test -s held
	[ -z "$(find "/proc/$(cat held)/fd" -lname '*.fence')" ]
	refused 75 "token 33 is in progress" --wait 0 --token 34 data
	touch over
	assert_ends 0 "$holder"
}

@test "fence killed: the command dies with it, the rest keeps the lock" {
	bg "$LEASERUN" fence --token 33 data -- sh -c \
	    'sleep 1000 & echo $! $$ >held; wait'
	holder=$!
	wait_until 10 test -s held
	kill -KILL "$holder"
	assert_ends 137 "$holder"
	wait_until 10 is_gone "$(cut -d' ' -f2 held)"
	refused 75 "token 33 is in progress" --wait 0 --token 34 data
	kill -KILL "$(cut -d' ' -f1 held)"
	run_tool 0 fence --token 34 data true
}

@test "a record that is replaced while somebody waits for it is not used" {
	hold 33
	waiter 34 touch waited
	cp data.fence copy
	mv copy data.fence
	touch over
	wait_until 10 test -s ended
	assert_equal "$(cat ended)" "exited 0"
	refused 75 "33 is stale: 34" --token 33 data
}

@test "a directory that is replaced while somebody waits is not used" {
	local written

	mkdir dir
	bg "$LEASERUN" fence --token 5 dir/x -- sh -c \
	    'echo >held; while [ ! -e over ]; do sleep 0.02; done'
	wait_until 10 test -s held
	bg "$LEASERUN" fence --wait 30s --token 6 dir/x touch started 2>said
	written=$!
	wait_until 10 grep -q -e "-> OFDLCK .*:$(stat -c %i dir/x.fence) " \
	    /proc/locks
	mv dir dir.old
	mkdir dir
	run_tool 0 fence --token 9 dir/x true
	touch over
	assert_ends 75 "$written"
	grep -q "6 is stale: 9" said
	[ ! -e started ]
}

# --- The record ---

@test "a higher token is on the disk before the command runs" {
	strace -f -o trace -e trace=fsync,fdatasync,execve,pwrite64 \
	    "$LEASERUN" fence --token 5 data true
	# Name, first copy, second copy.
	awk '/ execve\("[^"]*\/true"/ { exit } / (f|fdata)sync\(/ { print $2 }
	    / pwrite64\(/ { print $2 }' trace | sed 's/(.*//' >order
	[ "$(head -1 order)" = fsync ]
	[ "$(tail -1 order)" = fdatasync ]
	assert_equal "$(grep -c pwrite64 order)" 2
	strace -f -o trace -e trace=fsync,fdatasync,pwrite64 \
	    "$LEASERUN" fence --token 5 data true
	run grep -E 'sync|pwrite' trace
	assert_equal "$output" ""
}

@test "one damaged copy never lets a lower token in, and is written anew" {
	local slot

	for slot in 0 1 0 1; do
		run_tool 0 fence --token $((n += 1000)) data true
		damage "$slot"
		refused 75 "$((n - 1)) is stale: $n" --token $((n - 1)) data
		run_tool 0 fence --token "$n" data true
		assert_contains "$stderr" "one copy in 'data.fence' was damaged"
		damage $((1 - slot))
		refused 75 "$((n - 1)) is stale: $n" --token $((n - 1)) data
		run_tool 0 fence --token "$n" data true
	done
}

@test "a damaged record stops every writer, and the repair works" {
	local damage

	run_tool 0 fence --token 50 data true
	cp data.fence good
	for damage in 'printf 4' 'printf -- -5' 'head -c 8192 /dev/zero' \
	    'head -c 100000 /dev/urandom' 'head -c 4000 good | tail -c 3000'; do
		sh -c "$damage" >data.fence
		cp data.fence before
		refused 78 "'data.fence' is damaged" --token 60 data
		assert_contains "$stderr" "leaserun fence --token N 'data'"
		cmp before data.fence
	done
	mv data.fence away
	run_tool 0 fence --token 50 data -- true
	refused 75 "49 is stale: 50" --token 49 data
}

@test "a record that is cut short never lets a lower token in" {
	local size

	run_tool 0 fence --token 50 data true
	run_tool 0 fence --token 70 data true
	cp data.fence good
	for size in 1 100 991 992 4096 5000 5088 8191; do
		cp good data.fence
		truncate -s "$size" data.fence
		run "$LEASERUN" fence --token 69 data touch started
		[ "$status" -eq 75 ] || [ "$status" -eq 78 ]
	done
	[ ! -e started ]
}

@test "a record of a newer version is left alone" {
	run_tool 0 fence --token 50 data true
	# The first 16 bytes of one of version 2, with their checksum.
	printf 'leaserun\2\0\0\0' >version2
	printf '%b' "$(crc32c version2)" >>version2
	dd if=version2 of=data.fence conv=notrunc status=none
	refused 78 "newer leaserun" --token 60 data
}

@test "a bad sector, and a file system without locks: nothing is run" {
	local call expected

	run_tool 0 fence --token 50 data true
	for call in pread64:error=EIO fcntl:error=ENOLCK; do
		status=0 expected=69
		ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -qq -o trace \
		    -P "$PWD/data.fence" -e "trace=${call%:*}" -e inject="$call" \
		    "$LEASERUN" fence --token 60 data touch started 2>err ||
		    status=$?
		cat err
		case $call in
		p*) file_has err "Input/output error; look for disk errors" ;;
		*)
			file_has err "choose a local file system that keeps"
			expected=78
			;;
		esac
		assert_equal "$status" "$expected"
	done
	[ ! -e started ]
}

# crc32c FILE: as four escaped bytes, the lowest first.
crc32c() {
	local -i sum=0xffffffff byte bit

	for byte in $(od -An -v -tu1 "$1"); do
		((sum ^= byte))
		for ((bit = 0; bit < 8; bit++)); do
			((sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78 : 0)))
		done
	done
	((sum ^= 0xffffffff))
	printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((sum & 255)) \
	    $((sum >> 8 & 255)) $((sum >> 16 & 255)) $((sum >> 24))
}

# killed_at CALL NUMBER: fence is killed there; false when there is no such call.
killed_at() {
	local status=0

	strace -o /dev/null -e trace="$1" -e inject="$1:signal=KILL:when=$2" \
	    "$LEASERUN" fence --token 50 data touch started || status=$?
	[ "$status" -eq 137 ]
}

@test "killed at each call that writes: the next one goes on, none goes back" {
	local call slot
	local -i n killed=0

	for call in pwrite64 fdatasync fsync ftruncate openat fcntl; do
		for ((n = 1; n < 20; n++)); do
			for slot in 0 1; do
				rm -f data.fence started
				"$LEASERUN" fence --token 33 data true
				killed_at "$call" "$n" || break 2
				killed+=1
				refused 75 "32 is stale" --token 32 data
				run_tool 0 fence --token 50 data true
				damage "$slot"
				refused 75 "49 is stale: 50" --token 49 data
			done
		done
	done
	for call in pwrite64 fdatasync fsync ftruncate; do
		for ((n = 1; n < 20; n++)); do
			rm -f data.fence started
			killed_at "$call" "$n" || break
			killed+=1
			run_tool 0 fence --token 50 data true
			refused 75 "49 is stale: 50" --token 49 data
		done
	done
	echo "killed $killed times"
	[ "$killed" -ge 20 ]
}

# In the order in which they were written, under the lock.
assert_rising() {
	sort -n -s written | cmp - written || { cat written; return 1; }
}

@test "kill -9 at any moment, 400 rounds: no lower token after a higher one" {
	# Not in this shell: bats makes each step of a loop slow.
	cat >rounds <<-'END'
	now() { echo "${EPOCHREALTIME/./}"; }
	start=$(now)
	"$1" fence --token 1 data -- sh -c 'echo 1 >>written'
	span=$((($(now) - start) * 3 / 2))
	for ((i = 2; i <= 400; i++)); do
		# A third of them is late.
		token=$((i % 3 ? i : i - 2))
		"$1" fence --token $token data -- \
		    sh -c 'echo "$0" >>written' $token 2>/dev/null &
		end=$((${EPOCHREALTIME/./} + (RANDOM * 32768 + RANDOM) % span))
		while ((${EPOCHREALTIME/./} < end)); do :; done
		kill -KILL $! 2>/dev/null
		wait $! 2>/dev/null
	done
	exit 0
	END
	timeout 100 bash rounds "$LEASERUN" 3>&-
	run_tool 0 fence --token 1000 data -- sh -c 'echo 1000 >>written'
	assert_rising
	echo "$(wc -l <written) have written"
	[ "$(wc -l <written)" -gt 5 ]
	[ "$(wc -l <written)" -lt 390 ]
}

@test "twenty writers with mixed tokens: one at a time, never back" {
	local -i i
	local pid

	cat >writer <<-'END'
	mkdir inside || { echo overlap >>overlap; exit 1; }
	echo "$1" >>written
	rmdir inside
	END
	for ((i = 0; i < 20; i++)); do
		bg bash -c 'for ((j = 1; j <= 10; j++)); do
			t=$((j * 10 + ($2 * 7 + j * 3) % 25)) rc=0
			"$1" fence --wait 60s --token $t data -- \
			    sh writer $t 2>>said || rc=$?
			echo "$rc" >>ended
		done' bash "$LEASERUN" "$i"
	done
	for pid in "${bg_pids[@]}"; do
		wait_until 60 is_gone "$pid"
	done
	[ ! -e overlap ]
	assert_rising
	assert_equal "$(wc -l <ended)" 200
	assert_equal "$(sort -u ended | xargs)" "0 75"
	assert_equal "$(grep -c '^0$' ended)" "$(wc -l <written)"
	assert_equal "$(grep -c 'is stale' said)" "$(grep -c 75 ended)"
}

# --- Files, directories, users ---

@test "FILE need not exist, and is never touched; its directory must be there" {
	run_tool 0 fence --token 5 data true
	[ ! -e data ]
	assert_equal "$(stat -c %a data.fence)" 600
	refused 78 "cannot open directory 'none/': No such file" --token 5 \
	    none/data
	assert_contains "$stderr" "make it first"
	refused 78 "Not a directory" --token 5 data.fence/data
}

@test "a FILE that is no plain file is refused" {
	local kind

	for kind in fifo directory device link dangling socket; do
		rm -rf data
		make_odd "$kind" data
		refused 78 "'data'" --token 5 data
	done
	for kind in . .. / ./ "$PWD/" ../; do
		refused 78 "which need not exist" --token 5 "$kind"
	done
	[ ! -e data.fence ]
}

# make_odd KIND FILE
make_odd() {
	case $1 in
	fifo) mkfifo "$2" ;;
	directory) mkdir "$2" ;;
	device) mknod "$2" c 1 3 ;;
	link) : >target; ln -s target "$2" ;;
	dangling) ln -s nowhere "$2" ;;
	socket) timeout 5 perl -MIO::Socket::UNIX -e \
	    'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1)' "$2" ;;
	hard) : >other; chmod 600 other; ln other "$2" ;;
	esac
}

@test "a record that is no plain file is refused, and nothing hangs" {
	local kind

	for kind in fifo directory device link dangling socket hard; do
		rm -rf data.fence other
		make_odd "$kind" data.fence
		refused 78 "data.fence" --token 5 data
		assert_contains "$stderr" "move it away"
	done
	[ ! -e nowhere ]
	[ ! -s target ]
}

@test "names up to the limit work, longer ones are told so" {
	local name

	printf -v name '%0249d' 0
	run_tool 0 fence --token 5 "$name" true
	refused 78 "at most 249 bytes" --token 5 "0$name"
	refused 78 "at most 249 bytes" --token 5 "$name$name"
	printf -v name '%05000d' 0
	refused 78 "File name too long" --token 5 "$name/$name"
}

@test "a record that others may write or block is refused" {
	local mode

	run_tool 0 fence --token 5 data true
	for mode in 666 602 604 644; do
		chmod "$mode" data.fence
		refused 78 "mode 0$mode" --token 5 data
		assert_contains "$stderr" "chmod o-rw 'data.fence'"
	done
	chmod 600 data.fence
	chown nobody data.fence
	refused 78 "belongs to uid 65534" --token 5 data
}

@test "a directory in which others could replace the record is refused" {
	mkdir theirs
	chmod 777 theirs
	refused 78 "chmod o-w 'theirs/'" --token 5 theirs/data
	chmod 755 theirs
	chown nobody theirs
	refused 78 "belongs to uid 65534" --token 5 theirs/data
	[ -z "$(ls -A theirs)" ]
}

@test "the umask does not open the record" {
	(umask 0; "$LEASERUN" fence --token 5 data true)
	assert_equal "$(stat -c %a data.fence)" 600
	(umask 777; "$LEASERUN" fence --token 5 other true)
	assert_equal "$(stat -c %a other.fence)" 600
	assert_equal "$( (umask 027; "$LEASERUN" fence --token 5 data \
	    sh -c umask) )" 0027
}

@test "two users of a group share it in a setgid directory, and only there" {
	open_folder
	mkdir "$open/shared" "$open/plain"
	chown 1001:2000 "$open/shared" "$open/plain"
	chmod 2770 "$open/shared"
	chmod 770 "$open/plain"
	as_user 1001:2000 fence --token 5 "$open/shared/data" true
	assert_equal "$status" 0
	assert_equal "$(stat -c '%a %u %g' "$open/shared/data.fence")" \
	    "660 1001 2000"
	as_user 1002:2000 fence --token 4 "$open/shared/data" true
	assert_equal "$status" 75
	as_user 1002:2000 fence --token 6 "$open/shared/data" true
	assert_equal "$status" 0
	as_user 1001:2000 fence --token 5 "$open/shared/data" true
	assert_equal "$status" 75
	as_user 1003:2001 fence --token 7 "$open/shared/data" true
	assert_equal "$status" 77
	as_user 1001:2000 fence --token 5 "$open/plain/data" true
	assert_equal "$status" 0
	assert_equal "$(stat -c %a "$open/plain/data.fence")" 600
	as_user 1002:2000 fence --token 6 "$open/plain/data" true
	assert_equal "$status" 78
	assert_contains "$(cat err)" "belongs to uid 1001"
}

@test "someone without rights is told whose it is, and exits 77" {
	open_folder
	"$LEASERUN" fence --token 5 "$open/data" true
	as_user 65534:65534 fence --token 6 "$open/data" true
	assert_equal "$status" 77
	assert_contains "$(cat err)" "owned by uid 0 with mode 0600"
	as_user 65534:65534 fence --token 6 "$open/new" true
	assert_equal "$status" 77
	assert_contains "$(cat err)" "cannot make '$open/new.fence'"
}

@test "fs.protected_regular in a sticky directory" {
	mkdir sticky
	chmod 1777 sticky
	echo 2 >/proc/sys/fs/protected_regular
	run_tool 0 fence --token 5 sticky/data true
	run_tool 0 fence --token 5 sticky/data true
	chown nobody sticky/data.fence
	refused 78 "belongs to uid 65534" --token 6 sticky/data
}

@test "a full disk: nothing is run, and the token before it stands" {
	mkdir full
	mount -t tmpfs -o size=16k none full
	run_tool 0 fence --token 5 full/data true
	cat /dev/zero >full/filler 2>/dev/null || :
	refused 69 "No space left" --token 6 full/new
	assert_contains "$stderr" "free some space"
	# This one has its place already.
	run_tool 0 fence --token 6 full/data true
	refused 75 "5 is stale: 6" --token 5 full/data
	rm full/filler
	run_tool 0 fence --token 6 full/new true
}

@test "a read-only file system, a limit of the file size: nothing is run" {
	mkdir ro
	mount -t tmpfs none ro
	run_tool 0 fence --token 5 ro/data true
	mount -o remount,ro ro
	refused 78 "Read-only" --token 6 ro/data
	refused 78 "Read-only" --token 6 ro/new
	# In blocks of 1024 bytes: not even the second place.
	status=0
	(ulimit -f 4; "$LEASERUN" fence --token 6 data touch started) \
	    >said 2>&1 || status=$?
	assert_equal "$status" 78
	assert_contains "$(cat said)" "raise the limit of the file size"
	[ ! -e started ]
}

@test "a write that fails: nothing is run, and what stood stands" {
	local call

	no_sanitizer
	run_tool 0 fence --token 5 data true
	for call in pwrite64 fdatasync; do
		status=0
		strace -o /dev/null -e trace=$call \
		    -e inject=$call:error=EIO:when=1 \
		    "$LEASERUN" fence --token 6 data touch started 2>said ||
		    status=$?
		assert_equal "$status" 69
		assert_contains "$(cat said)" "Input/output error"
		[ ! -e started ]
		refused 75 "4 is stale" --token 4 data
	done
	run_tool 0 fence --token 6 data true
}

@test "a network file system is refused" {
	# FUSE stands for them: it is there without a server.
	mkdir lower upper work net
	fuse-overlayfs -o lowerdir=lower,upperdir=upper,workdir=work net
	refused 78 "is on fuse" --token 5 net/data
	assert_contains "$stderr" "run fence on the host that has the disk"
	[ -z "$(ls -A net)" ]
}

@test "too few descriptors are no reason to run it without the fence" {
	no_sanitizer
	run "$STARTWITH" -k -l 4 "$LEASERUN" fence --token 5 data touch started
	assert_equal "$status" 70
	assert_contains "$output" "limit of open files"
	[ ! -e started ]
}

# --- What it is for ---

# frozen PREFIX...: a holder is frozen past its lease, its job lives on.  A
# successor adds 10 to what it reads; then the old job, which had read before,
# writes what it has added 1 to.  The PREFIX comes before each write.
frozen() {
	local keeper

	STORE=$BATS_TEST_TMPDIR/store
	mkdir store
	FAKE=(--module-dir "$MODULES" -b "fake:$STORE" -t 2s -g 300ms -r 400ms)
	cat >job <<-'END'
		#!/bin/bash
		# job ADD NAME PREFIX...: reads, waits, writes.
		add=$1 name=$2
		shift 2
		read=$(cat balance)
		echo "$PPID $LEASERUN_FENCE_TOKEN" >"$name.read.new"
		mv "$name.read.new" "$name.read"
		[ ! -p "$name.go" ] || read -r _ <"$name.go"
		echo $((read + add)) >"balance.$name"
		"$@" mv "balance.$name" balance 2>"$name.out"
		echo $? >"$name.status.new"
		mv "$name.status.new" "$name.status"
	END
	chmod 755 job
	echo 0 >balance
	mkfifo old.go
	bg "$LEASERUN" run "${FAKE[@]}" account -- ./job 1 old "$@" 2>old.err
	keeper=$!
	wait_until 20 test -s old.read
	guard=$(cut -d' ' -f1 old.read)
	freeze "$keeper"
	freeze "$guard"
	run_tool 0 run -w 15s "${FAKE[@]}" account -- ./job 10 new "$@"
	assert_contains "$stderr" 'took over'
	[ "$(cut -d' ' -f2 new.read)" -gt "$(cut -d' ' -f2 old.read)" ]
	assert_equal "$(cat new.status) $(cat balance)" "0 10"
	timeout 10 sh -c 'echo >old.go'
	wait_until 20 test -s old.status
	kill -CONT "$guard" "$keeper"
	assert_ends 79 "$keeper"
}

@test "a frozen holder's job that lives on is refused by the fence" {
	frozen "$LEASERUN" fence balance
	assert_equal "$(cat old.status)" 75
	assert_contains "$(cat old.out)" "token $(cut -d' ' -f2 old.read) is \
stale: $(cut -d' ' -f2 new.read) has written"
	assert_equal "$(cat balance)" 10
}

@test "the alarm of a timer from before is for the command" {
	timeout -s KILL 20 perl -e 'alarm 1; exec @ARGV' "$LEASERUN" fence \
	    --token 5 data -- sleep 300 || status=$?
	assert_equal "$status" 142
}

@test "without the fence a frozen holder's job undoes the successor's work" {
	frozen
	assert_equal "$(cat old.status)" 0
	# The ten of the successor are lost.
	assert_equal "$(cat balance)" 1
}

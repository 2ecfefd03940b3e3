#!/usr/bin/env bats
# The file backend on what file systems and other users do to it.

load helpers

setup() {
	test_setup
	protected=$(cat /proc/sys/fs/protected_regular)
	open=
}

teardown() {
	local mount

	test_teardown
	for mount in full/over full ro net; do
		! mountpoint -q "$mount" || umount -l "$mount"
	done
	[ "$(cat /proc/sys/fs/protected_regular)" = "$protected" ] ||
	    echo "$protected" >/proc/sys/fs/protected_regular
	[ -z "$open" ] || rm -rf "$open"
}

# hold NAME [OPTION]...: holds it until `touch over'; $holder.
hold() {
	local name=$1

	shift
	rm -f token
	bg "$LEASERUN" run "$@" "$name" -- sh -c \
	    'echo "$LEASERUN_FENCE_TOKEN" >token
	    while [ ! -e over ]; do sleep 0.02; done'
	holder=$!
	wait_until 10 test -s token
}

# token: of a fresh run.
token() {
	"$LEASERUN" run job -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
}

# open_folder: one that everybody may enter, with the program in it; $open.
open_folder() {
	open=$(mktemp -d /tmp/leaserun-open.XXXXXX)
	chmod 755 "$open"
	cp "$LEASERUN" "$open/leaserun"
}

# as_nobody ARG...: leaserun as another user without any configuration.  VARIABLE=
# VALUE words before it replace HOME.
as_nobody() {
	local -a environ=("HOME=$open/home")

	status=0
	[[ $1 != *=* ]] || environ=()
	while [[ $1 == *=* ]]; do
		environ+=("$1")
		shift
	done
	setpriv --reuid=65534 --regid=65534 --clear-groups env -i \
	    "PATH=$PATH" "TEST_MARK=$TEST_MARK" "${environ[@]}" \
	    "$open/leaserun" "$@" >out 2>err || status=$?
	cat out
	cat err
}

@test "the lock outlives all of leaserun while the job lives" {
	bg "$LEASERUN" run job -- sh -c \
	    '(exec setsid sh -c "echo \$\$ >daemon; exec sleep 1000") &
	    echo $PPID >guard; wait'
	holder=$!
	wait_until 10 test -s daemon
	wait_until 10 test -s guard
	# Both at the same instant: neither can clean up after the other.
	kill -STOP "$holder" "$(cat guard)"
	kill -KILL "$(cat guard)" "$holder"
	wait_until 10 is_gone "$holder"
	is_alive "$(cat daemon)"
	run_tool 75 run job true
	kill -KILL "$(cat daemon)"
	is_free() {
		"$LEASERUN" status job | grep -q ' free .* not released'
	}
	wait_until 10 is_free
	run_tool 0 run -v job true
	assert_contains "$stderr" "without releasing"
	run_tool 0 status job
	assert_contains "$stdout" "exit 0"
}

@test "a keeper that is stopped loses nothing" {
	hold job -t 2s -r 200ms -g 200ms
	kill -STOP "$holder"
	is_past() {
		[ "$(($(date +%s%N) - start))" -gt 3000000000 ]
	}
	start=$(date +%s%N)
	wait_until 10 is_past
	run_tool 75 run job true
	kill -CONT "$holder"
	touch over
	assert_ends 0 "$holder"
}

@test "a skip makes no process, and checks whose the files are" {
	local status=0

	hold job
	ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -f -o trace \
	    -e trace=process "$LEASERUN" run job -- touch ran || status=$?
	assert_equal "$status" 75
	file_has trace execve
	run grep -E '(clone|fork)[3(]' trace
	assert_equal "$output" ""
	chmod o+r state/job.lock
	run_tool 78 run job -- touch ran
	assert_contains "$stderr" "chmod o-rw"
	[ ! -e ran ]
}

# nameless [OPTION]...: a run of job that is stopped between lock and record,
# $taker.
nameless() {
	ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 bg strace -qq -o trace \
	    -P "$PWD/state/job.token" -e trace=pread64 \
	    -e inject=pread64:signal=STOP:when=1 \
	    "$LEASERUN" run "$@" --owner taker job -- sh -c \
	    ': >up; while [ ! -e over ]; do sleep 0.02; done' 2>err
	taker=$!
	wait_until 20 grep -q 'stopped by' trace
}

# Lets it go on.
record() {
	run_tool 78 revoke --force job
	kill -CONT "$(grep -o 'held by [0-9]*' <<<"$stderr" | cut -d' ' -f3)"
	wait_until 20 test -e up
}

@test "who is not recorded yet has no name, and not the last one's token" {
	local last unknown="held by somebody who is not recorded yet"

	last=$(token)
	nameless
	run_tool 75 run -v --events e job -- touch ran
	assert_contains "$stderr" "'job': $unknown"
	assert_lacks "$stderr" "''"
	run_tool 0 status job
	assert_matches "$stdout" "job +held +not recorded yet +- +- "
	run_tool 0 status --json job
	assert_equal "$(jq -c '.[0] | [.state, .owner, .label, .host, .pid,
	    .acquired_at, .renewed_at, .held_for_ms]' stdout)" \
	    '["held",null,null,null,null,null,null,null]'
	run_tool 75 check --token "$last" job
	assert_contains "$stderr" "$unknown"
	run_tool 69 revoke --connect-timeout 200ms job
	assert_contains "$stderr" "try again"
	run_tool 69 revoke --connect-timeout 200ms --token "$last" job
	assert_equal "$(jq -c 'select(.event == "busy").holder' e)" \
	    "$(jq -nc '{label: null, host: null, pid: null, token: null,
	    held_for_ms: null, expires_in_ms: null}')"
	record
	run_tool 0 check --token $((last + 1)) job
	: >over
	assert_ends 0 "$taker"
	[ ! -e ran ]
}

# switches PID: how often it has waited for something.
switches() {
	awk '/^voluntary/ { print $2 }' "/proc/$1/status"
}

@test "a request to end waits until it is known for whom it is" {
	token
	nameless -r 100ms -g 100ms
	bg "$LEASERUN" revoke --connect-timeout 60s job >answer 2>&1
	asker=$!
	wait_until 20 eval '[ "$(switches "$asker")" -gt 9 ]'
	assert_equal "$(cat answer)" ""
	record
	assert_ends 0 "$asker"
	assert_contains "$(cat answer)" "asked the holder of token"
	assert_ends 79 "$taker"
}

@test "who waits is told of the holder once it is recorded, and of the next" {
	local -a busy=(jq -rs
	    'map(select(.event == "busy").holder.label // empty) | join(" ")')
	local first second third

	token
	nameless
	first=$taker
	bg "$LEASERUN" run -v -w 60s --owner second --events b job -- sh -c \
	    ': >next; while [ ! -e enough ]; do sleep 0.02; done' 2>said
	second=$!
	wait_until 20 file_has said "not recorded yet"
	record
	wait_until 30 file_has said "held by 'taker'"
	bg "$LEASERUN" run -w 60s --owner third --events c job -- true
	third=$!
	wait_until 20 grep -qs busy c
	wait_until 20 eval '[ "$("$LEASERUN" status --json job |
	    jq ".[0].waiting")" = 2 ]'
	: >over
	assert_ends 0 "$first"
	wait_until 20 test -e next
	wait_until 30 grep -q '"label":"second"' c
	: >enough
	assert_ends 0 "$second"
	assert_ends 0 "$third"
	assert_equal "$(jq -s '.[0].holder.label' b)" null
	assert_equal "$("${busy[@]}" b)" taker
	assert_equal "$("${busy[@]}" c)" "taker second"
}

@test "a holder that has noted its end is not told of as somebody else" {
	local second before

	token
	ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 bg strace -qq -o trace \
	    -P "$PWD/state/job.token" -e trace=pwrite64 \
	    -e inject=pwrite64:signal=STOP:when=2 \
	    "$LEASERUN" run --owner first job -- sh -c \
	    ': >up; while [ ! -e over ]; do sleep 0.02; done'
	wait_until 20 test -e up
	bg "$LEASERUN" run -w 60s --events e job true
	second=$!
	wait_until 20 eval '[ "$("$LEASERUN" status --json job |
	    jq ".[0].waiting")" = 1 ]'
	wait_until 20 grep -qs busy e
	before=$(switches "$second")
	: >over
	wait_until 20 grep -q 'stopped by' trace
	wait_until 20 eval '[ "$(switches "$second")" -gt "$before" ]'
	kill -CONT "$(jq 'select(.event == "busy").holder.pid' e)"
	assert_ends 0 "$second"
	assert_equal "$(jq -r 'select(.event == "busy").holder.label' e)" first
}

@test "who waits is told of the next holder when the record is replaced" {
	local first second third

	bg "$LEASERUN" run --owner first job -- sh -c \
	    ': >up; while [ ! -e over ]; do sleep 0.02; done'
	first=$!
	wait_until 20 test -e up
	bg "$LEASERUN" run -w 60s --owner second --events b job -- sh -c \
	    'while [ ! -e enough ]; do sleep 0.02; done'
	second=$!
	wait_until 20 grep -qs busy b
	wait_until 20 eval '[ "$("$LEASERUN" status --json job |
	    jq ".[0].waiting")" = 1 ]'
	bg "$LEASERUN" run -w 60s --owner third --events c job -- true
	third=$!
	wait_until 20 eval '[ "$("$LEASERUN" status --json job |
	    jq ".[0].waiting")" = 2 ]'
	wait_until 20 grep -qs busy c
	cp -p state/job.token copy
	mv copy state/job.token
	: >over
	assert_ends 0 "$first"
	wait_until 30 grep -q '"label":"second"' c
	: >enough
	assert_ends 0 "$second"
	assert_ends 0 "$third"
}

@test "a holder whose record cannot be read is told as that" {
	hold job
	for at in 40 4136; do
		printf 'noise' | dd of=state/job.token bs=1 seek=$at \
		    conv=notrunc status=none
	done
	run_tool 75 run -v job true
	assert_contains "$stderr" "held by somebody unknown (the record cannot"
	touch over
	wait_until 20 is_gone "$holder"
}

@test "a daemon left behind on purpose does not keep the lock" {
	run_tool 0 run --leftovers leave job -- sh -c \
	    'setsid sleep 1000 & echo $! >daemon'
	run_tool 0 run job true
	is_alive "$(cat daemon)"
}

@test "a lock file that is removed or replaced while held is a loss" {
	hold job -r 100ms -g 100ms
	rm state/job.lock
	assert_ends 79 "$holder"
	hold job -r 100ms -g 100ms
	cp state/job.lock copy
	mv copy state/job.lock
	assert_ends 79 "$holder"
	rm -f over
	run_tool 0 run job true
}

@test "a directory that is moved away while held is a loss" {
	hold job -r 100ms -g 100ms
	mv state gone
	assert_ends 79 "$holder"
}

@test "the token is on the disk before the command runs" {
	ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -f -y -o trace \
	    -e trace=pwrite64,fsync,fdatasync,execve \
	    "$LEASERUN" run job -- sh -c :
	# Synced after it was written; of a new file the name as well.
	awk '/pwrite64\(.*job\.token>/ { written = 1; synced = 0 }
	    /f(data)?sync\(.*job\.token>/ { synced = 1 }
	    /fsync\(.*state>/ { named = 1 }
	    /execve\(.*\["sh"/ { exit }
	    END { exit !(written && synced && named) }' trace || { cat trace; false; }
}

@test "a damaged slot costs two tokens, never one back" {
	first=$(token)
	second=$(token)
	for at in 0 4096; do
		before=$(token)
		printf 'noise' | dd of=state/job.token bs=1 seek=$((at + 40)) \
		    conv=notrunc status=none
		after=$(token)
		[ "$after" -gt "$before" ]
	done
	[ "$second" -gt "$first" ]
}

@test "a record that cannot be read refuses, and the repair works" {
	last=$(token)
	for damage in 'printf 4' 'printf "41\0\0\0"' 'printf -- -5' \
	    'printf 99999999999999999999' 'head -c 100000 /dev/urandom'; do
		cp state/job.token good
		sh -c "$damage" >state/job.token
		run_tool 78 run job -- touch started
		assert_contains "$stderr" "job.token"
		assert_contains "$stderr" "--raise-token"
		[ ! -e started ]
		cp good state/job.token
	done
	printf broken >state/job.token
	run_tool 78 status job
	run_tool 0 status
	assert_contains "$stdout" "unreadable"
	mv state/job.token moved
	run_tool 0 init --raise-token "$((last + 1000000000000))"
	[ "$(token)" -gt "$((last + 1000000000000))" ]
}

@test "a floor that is damaged refuses, and the repair works" {
	local floor

	last=$(token)
	floor=$((last + 1000000))
	run_tool 0 init --raise-token "$floor"
	run_tool 0 init --raise-token "$floor"
	assert_contains "$stdout" "already"
	# One slot alone: the other one may have had a higher number.
	printf noise | dd of=state/.floor bs=1 seek=16 conv=notrunc status=none
	run_tool 78 run new -- touch started
	assert_contains "$stderr" "'$PWD/state/.floor' is damaged"
	run_tool 0 init --raise-token "$floor"
	run_tool 0 run new true
	printf broken >state/.floor
	run_tool 78 run newer -- touch started
	assert_contains "$stderr" "move it away"
	run_tool 78 init --raise-token "$((floor + 1))"
	[ ! -e started ]
	mv state/.floor moved
	run_tool 0 init --raise-token "$((floor + 2))"
	run_tool 0 run newer -- sh -c 'echo "$LEASERUN_FENCE_TOKEN" >new'
	[ "$(cat new)" -gt "$((floor + 2))" ]
}

# newer FILE: begins with what every version knows, of version 255.
newer() {
	printf 'leaserun\xff\0\0\0\xf9\x41\x2c\xb3' |
	    dd of="$1" conv=notrunc status=none
}

@test "a record of a newer version is told as that by every command" {
	local command

	token
	newer state/job.token
	for command in "run job -- touch started" "status job" "check --token 1 job" \
	    "revoke job" "revoke --force job"; do
		# shellcheck disable=SC2086
		run_tool 78 $command
		assert_contains "$stderr" "job.token' was written by a newer"
		assert_contains "$stderr" "use that version"
	done
	[ ! -e started ]
	run_tool 0 status
	assert_matches "$stdout" "job +unreadable"
	run_tool 78 doctor
	assert_contains "$stdout" "newer version of leaserun; use that version"
	assert_contains "$stdout" "records: 0 of 1 in order"
}

@test "a floor of a newer version is left alone" {
	local command

	run_tool 0 init --raise-token 50
	newer state/.floor
	cp state/.floor before
	for command in "run job -- touch started" "init --raise-token 60" \
	    "init --print" doctor; do
		# shellcheck disable=SC2086
		run_tool 78 $command
		assert_contains "$stderr" ".floor' was written by a newer"
	done
	cmp state/.floor before
	[ ! -e started ]
}

@test "doctor tells what is wrong with a record, and what is to be done" {
	token
	run_tool 0 init --raise-token 50
	printf noise | dd of=state/job.token bs=1 seek=40 conv=notrunc \
	    status=none
	run_tool 0 doctor
	assert_matches "$stdout" "warning +record: 'job.token' is half damaged"
	assert_contains "$stdout" "floor: no token up to 50 is granted"
	token
	run_tool 0 doctor
	assert_contains "$stdout" "records: 1 of 1 in order"
	printf broken >state/job.token
	run_tool 78 doctor
	assert_matches "$stdout" "bad +record: 'job.token' is damaged; move it"
	rm state/job.token
	mkdir state/job.token
	run_tool 78 doctor
	assert_matches "$stdout" "bad +record: cannot read 'job.token'; "
	run_tool 78 status job
	assert_contains "$stderr" "job.token' is not a regular file; move it"
}

@test "doctor does not print what moves the cursor" {
	token
	echo broken >state/$'x\e[31mred.token'
	run "$LEASERUN" doctor
	assert_contains "$output" "red.token"
	assert_lacks "$output" $'\e'
}

@test "a record that could not be written is one that was not" {
	local status=0

	prlimit --fsize=4096 "$LEASERUN" run job touch started 2>err ||
	    status=$?
	[ "$status" -ne 0 ] && [ ! -e started ]
	[ -e state/job.token ]
	token
	# Emptied by hand, in mid-run.
	run_tool 0 run job truncate -s 0 state/job.token
	run_tool 0 run job touch started
	[ -e started ]
}

@test "who lost the lock while another had the lease does not go on" {
	bg "$LEASERUN" run -t 60s -r 8s job -- perl -e 'open(F, "+<&=", 200)
	    or die; $none = pack("s s x4 q q l x4", 2, 0, 0, 0, 0);
	    fcntl(F, 37, $none) or die; open(G, ">", "unlocked");
	    sleep 1000' 2>first
	holder=$!
	wait_until 10 test -e unlocked
	run_tool 3 run job -- sh -c 'exit 3'
	assert_ends 79 "$holder"
	run_tool 0 status --json job
	assert_contains "$stdout" '"status": 3'
	assert_contains "$stdout" '"unclean_end": false'
}

@test "a min-hold that is ended by force is not waited for" {
	run_tool 0 run --min-hold 1h job true
	bg "$LEASERUN" run -v --wait 60s job touch waited 2>second
	waiter=$!
	wait_until 10 file_has second "min-hold"
	run_tool 0 revoke --force job
	wait_until 20 test -e waited
	assert_ends 0 "$waiter"
}

@test "a umask that takes everything away makes no useless directory" {
	open_folder
	mkdir "$open/home"
	chown nobody "$open/home"
	(umask 0277; as_nobody run job true)
	as_nobody run job true
	assert_equal "$status" 0
}

@test "the highest token there is: no floor above it, and no grant after it" {
	local last=9223372036854775806

	run_tool 78 init --raise-token 9223372036854775807
	assert_contains "$stderr" "give a lower number"
	run_tool 0 init --raise-token "$last"
	run_tool 0 init --print --raise-token "$last"
	assert_contains "$stdout" "the floor is $last already"
	assert_equal "$(token)" 9223372036854775807
	run_tool 78 run job -- touch started
	assert_contains "$stderr" "used up its tokens; choose another name"
	[ ! -e started ]
}

# doctor_of DIR TEXT: its verdicts have that.
doctor_of() {
	run_tool 0 doctor -b "file:$1"
	assert_contains "$stdout" "$2"
}

@test "doctor tells what kind of directory and file system it is" {
	local memory

	mkdir shared sticky
	chmod 770 shared
	doctor_of "$PWD/shared" "run chmod g+s"
	chmod 2770 shared
	doctor_of "$PWD/shared" "shared with group"
	chmod 1777 sticky
	doctor_of "$PWD/sticky" "choose a directory of your own"
	memory=$(mktemp -d /dev/shm/leaserun.XXXXXX)
	run doctor_of "$memory" "in memory"
	rm -r "$memory"
	[ "$status" -eq 0 ]
	doctor_of "$PWD/state" "lock: works"
	mkdir full
	mount -t tmpfs none full
	mkdir full/{lower,upper,work,over}
	mount -t overlay -o lowerdir=full/lower,upperdir=full/upper \
	    -o workdir=full/work none full/over
	doctor_of "$PWD/full/over" "end with the container"
}

@test "an empty or lost record starts above what was" {
	last=$(token)
	: >state/job.token
	next=$(token)
	[ "$next" -gt "$last" ]
	rm state/job.token
	[ "$(token)" -gt "$next" ]
}

@test "a truncated record never gives a lower token" {
	last=$(token)
	last=$(token)
	cp state/job.token good
	for size in 1 100 1000 4096 4100 5000 8191; do
		cp good state/job.token
		truncate -s "$size" state/job.token
		status=0
		next=$(token 2>err) || status=$?
		if [ "$status" -eq 0 ]; then
			[ "$next" -gt "$last" ]
		else
			assert_equal "$status" 78
			assert_contains "$(cat err)" "--raise-token"
		fi
	done
}

@test "a full disk gives no grant, and a token after it is higher" {
	mkdir full
	mount -t tmpfs -o size=16k none full
	export LEASERUN_BACKEND=file:$PWD/full
	first=$(token)
	cat /dev/zero >full/filler 2>/dev/null || :
	run_tool 69 run --connect-timeout 500ms new -- touch started
	assert_contains "$stderr" "No space left"
	[ ! -e started ]
	run_tool 69 init --raise-token 50
	assert_contains "$stderr" ".floor': No space left on device; free some"
	run_tool 69 doctor
	assert_contains "$stdout" "new names will not fit"
	assert_contains "$stderr" ".doctor': No space left on device; free some"
	rm full/filler
	[ "$(token)" -gt "$first" ]
}

@test "a read-only file system is an error, not a grant" {
	mkdir ro
	mount -t tmpfs none ro
	mount -o remount,ro ro
	LEASERUN_BACKEND=file:$PWD/ro run_tool 78 run job -- touch started
	assert_contains "$stderr" "Read-only"
	[ ! -e started ]
}

@test "what is not a plain file is refused and nothing hangs" {
	for kind in fifo directory device link dangling socket hard; do
		rm -rf state/job.lock
		case $kind in
		fifo) mkfifo state/job.lock ;;
		directory) mkdir state/job.lock ;;
		device) mknod state/job.lock c 1 3 ;;
		link) install -m 600 /dev/null target; ln -s ../target state/job.lock ;;
		dangling) ln -s ../nowhere state/job.lock ;;
		socket) timeout 5 perl -MIO::Socket::UNIX -e \
		    'IO::Socket::UNIX->new(Local => "state/job.lock",
		    Listen => 1)' ;;
		hard) install -m 600 /dev/null other; ln other state/job.lock ;;
		esac
		run_tool 78 run job -- touch started
		assert_contains "$stderr" "job.lock"
		[ ! -e started ]
	done
	[ ! -e nowhere ]
}

@test "other people's files and open directories are refused" {
	run_tool 0 run job true
	chown nobody state/job.lock
	run_tool 77 run job -- touch started ||
	    run_tool 78 run job true
	assert_contains "$stderr" "job.lock"
	rm state/job.lock
	chmod 777 state
	run_tool 78 run job true
	assert_contains "$stderr" "chmod"
	run_tool 78 revoke job
	assert_contains "$stderr" "anyone could replace the locks; run chmod o-w"
	chmod 700 state
	chown nobody state
	run_tool 78 run job true || run_tool 77 run job true
	[ ! -e started ]
}

@test "someone without rights is told owner, mode and what to do" {
	open_folder
	mkdir -m 700 "$open/state"
	LEASERUN_BACKEND=file:$open/state run_tool 0 run job true
	as_nobody run -b "file:$open/state" job -- touch "$open/started"
	assert_equal "$status" 77
	assert_contains "$(cat err)" "$open/state"
	chmod 755 "$open/state"
	as_nobody run -b "file:$open/state" job -- touch "$open/started"
	assert_equal "$status" 77
	assert_contains "$(cat err)" "uid 0"
	[ ! -e "$open/started" ]
}

@test "revoke --force of who cannot be seen says who can see it" {
	open_folder
	mkdir -m 2770 "$open/state"
	chgrp 65534 "$open/state"
	chmod g+s "$open/state"
	LEASERUN_BACKEND=file:$open/state hold job
	as_nobody revoke --force -b "file:$open/state" job
	assert_equal "$status" 78
	assert_contains "$(cat err)" "cannot be seen from here; look for them"
	touch over
	assert_ends 0 "$holder"
}

@test "a run of another user is none that has lost its owner" {
	open_folder
	mkdir -m 2770 "$open/state"
	chgrp 65534 "$open/state"
	chmod g+s "$open/state"
	mkdir -m 777 "$open/out"
	bg "$LEASERUN" run -t 60s -r 200ms -b "file:$open/state" job -- setpriv \
	    --reuid=65534 --regid=65534 --clear-groups \
	    sh -c 'echo >"$1"; exec sleep 1000' sh "$open/out/up" 2>first
	holder=$!
	wait_until 10 test -s "$open/out/up"
	as_nobody status --json -b "file:$open/state" job
	assert_contains "$(cat out)" '"orphaned": false'
	as_nobody revoke -b "file:$open/state" job
	assert_equal "$status" 0
	assert_ends 79 "$holder"
}

@test "revoke --force names ten of those that hold it, and no more" {
	bg "$LEASERUN" run job -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do
	    sleep 1000 & done; echo >up; wait'
	wait_until 20 test -s up
	run_tool 78 revoke --force job
	assert_matches "$stderr" "held by ([0-9]+, ){9}[0-9]+ and more; end these"
}

@test "revoke does not write where somebody else could" {
	hold job
	chmod o+r state/job.token
	run_tool 78 revoke job
	assert_contains "$stderr" "run chmod o-rw '$PWD/state/job.token'"
	chmod o-r state/job.token
	touch over
	assert_ends 0 "$holder"
}

@test "revoke --token spares the --min-hold of another grant" {
	run_tool 0 run --min-hold 1h job true
	run_tool 75 revoke --force --token 1 job
	assert_contains "$stderr" "not 1; nothing was done"
	run_tool 75 run job true
}

@test "a bad sector: no grant, and where to look" {
	local command

	token
	for command in "run --connect-timeout 200ms job -- touch started" \
	    "status --connect-timeout 200ms job"; do
		status=0
		# shellcheck disable=SC2086
		ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -qq -o trace \
		    -P "$PWD/state/job.token" -e trace=pread64 \
		    -e inject=pread64:error=EIO "$LEASERUN" $command 2>err ||
		    status=$?
		cat err
		assert_equal "$status" 69
		file_has err "job.token': Input/output error; look for disk"
	done
	[ ! -e started ]
}

@test "a file system without locks is told as that" {
	status=0
	ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -qq -o trace \
	    -P "$PWD/state/job.lock" -e trace=fcntl \
	    -e inject=fcntl:error=ENOLCK "$LEASERUN" run \
	    --connect-timeout 200ms job -- touch started 2>err || status=$?
	cat err
	assert_equal "$status" 78
	file_has err "choose a local file system that keeps locks"
	[ ! -e started ]
}

@test "a relative or foreign path is refused" {
	for url in file:state file://host/dir file:./state; do
		LEASERUN_BACKEND=$url run_tool 78 run job true
		assert_contains "$stderr" "${url#file:}"
	done
	run_tool 78 run -o nonsense=1 job true
	assert_contains "$stderr" "nonsense"
}

@test "init makes one directory, and tells why it cannot" {
	run_tool 78 init -b "file:$PWD/no/state"
	assert_contains "$stderr" "make its parent first"
	[ ! -e no ]
	: >file
	run_tool 78 init -b "file:$PWD/file"
	assert_contains "$stderr" "cannot open directory '$PWD/file': Not a dir"
	open_folder
	as_nobody init -b "file:$open/state"
	assert_equal "$status" 77
	assert_contains "$(cat err)" "make directory '$open/state': Permission"
	# Its parent cannot be synced, which is no reason.
	mkdir -m 300 "$open/blind"
	chown nobody "$open/blind"
	as_nobody init -b "file:$open/blind/state"
	assert_equal "$status" 0
	assert_contains "$(cat out)" "made '$open/blind/state' with mode 0700"
	mkdir state/.floor
	run_tool 78 init --raise-token 50
	assert_contains "$stderr" ".floor' is not a regular file; move it away"
	mkdir state/.doctor
	run_tool 78 doctor
	assert_contains "$stderr" ".doctor' is not a regular file; move it away"
	rm state/.floor.lock state/.doctor.lock
	mkdir state/.floor.lock state/.doctor.lock
	run_tool 78 init --raise-token 50
	assert_contains "$stderr" ".floor.lock' is not a regular file"
	run_tool 78 doctor
	assert_contains "$stderr" ".doctor.lock' is not a regular file"
}

# stopped_with FILE ARG...: leaserun is stopped once it has locked it, $!.
stopped_with() {
	ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 bg strace -qq -o "$1.trace" \
	    -P "$PWD/state/$1" -e trace=fcntl \
	    -e inject=fcntl:signal=STOP:when=1 "$LEASERUN" "${@:2}" >"$1.out"
	wait_until 20 grep -q 'stopped by' "$1.trace"
}

@test "an init and a doctor at work are not disturbed by others" {
	local first second pids

	stopped_with .floor.lock init --raise-token 60
	first=$!
	run_tool 69 init --raise-token 50
	assert_contains "$stderr" "another init is at work in '$PWD/state'; try"
	stopped_with .doctor.lock doctor
	second=$!
	run_tool 0 doctor
	assert_contains "$stdout" "lock: not tried: another doctor is at work"
	assert_contains "$stdout" "sync: "
	mapfile -t -d ' ' pids < <(cat "/proc/$first/task/$first/children" \
	    "/proc/$second/task/$second/children")
	kill -CONT "${pids[@]}"
	assert_ends 0 "$first"
	assert_ends 0 "$second"
	file_has .floor.lock.out "no token up to 60 is granted"
	file_has .doctor.lock.out "lock: works"
}

@test "a floor that is just being written is not damaged" {
	local init

	ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 bg strace -qq -o trace \
	    -e trace=fdatasync -e inject=fdatasync:delay_enter=500000 \
	    "$LEASERUN" init --raise-token 1900000000000
	init=$!
	wait_until 20 test -s trace
	assert_equal "$(token)" 1900000000001
	assert_ends 0 "$init"
}

@test "doctor: locks that are granted and do not hold" {
	status=0
	ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -qq -o trace \
	    -P "$PWD/state/.doctor.lock" -e trace=fcntl \
	    -e inject=fcntl:retval=0:when=1 "$LEASERUN" doctor >out || status=$?
	cat out
	assert_equal "$status" 78
	grep -q '^bad  *lock: was taken, but nobody sees it; choose a local' out
}

@test "a link to nothing is told as that, by init as well" {
	local command

	ln -s nowhere link
	for command in "run job true" init doctor; do
		# shellcheck disable=SC2086
		LEASERUN_BACKEND=file:$PWD/link run_tool 78 $command
		assert_contains "$stderr" \
		    "'$PWD/link' is a link that points nowhere"
	done
}

@test "a directory by a link that somebody else has made is refused" {
	ln -s state link
	LEASERUN_BACKEND=file:$PWD/link run_tool 0 run job true
	chown -h nobody link
	LEASERUN_BACKEND=file:$PWD/link run_tool 78 run job true
	assert_contains "$stderr" "link made by uid $(id -u nobody); name the"
}

@test "a path that is too long for the files in it is refused" {
	run_tool 78 run -b "file:/$(printf '%04000d' 0)" job true
	assert_contains "$stderr" "too long; choose a shorter one"
}

@test "where the state directory is: XDG_STATE_HOME, HOME, the user's own" {
	open_folder
	as_nobody HOME=/ "XDG_STATE_HOME=$open/xdg" doctor
	assert_equal "$status" 0
	assert_contains "$(cat out)" "'$open/xdg/leaserun' is not there yet"
	as_nobody "HOME=$open/home" XDG_STATE_HOME=relative doctor
	assert_contains "$(cat out)" "'$open/home/.local/state/leaserun' is not"
	as_nobody NO=home doctor
	assert_contains "$(cat out)" \
	    "'$(getent passwd nobody | cut -d: -f6)/.local/state/leaserun'"
	as_nobody HOME=relative run job true
	assert_equal "$status" 78
	assert_contains "$(cat err)" "set HOME or give file:/path"
}

@test "without a backend the state directory of the user is made" {
	open_folder
	mkdir "$open/home"
	chown nobody "$open/home"
	as_nobody run job true
	assert_equal "$status" 0
	assert_equal "$(stat -c %a "$open/home/.local/state/leaserun")" 700
	[ -e "$open/home/.local/state/leaserun/job.lock" ]
	rm -r "${open:?}/home"
	as_nobody run job true
	assert_equal "$status" 77
	assert_contains "$(cat err)" \
	    "make directory '$open/home/.local/state/leaserun': Permission"
	assert_contains "$(cat err)" "--backend file:DIRECTORY"
}

@test "the queue: waiters come before newcomers" {
	hold job
	bg "$LEASERUN" run --wait 20s job -- touch waited
	waiter=$!
	waits() {
		"$LEASERUN" status --json job | grep -q '"waiting": 1'
	}
	wait_until 10 waits
	touch over
	# Newcomers try as fast as they can; the waiter must still get it.
	until [ -e waited ] || is_gone "$waiter"; do
		"$LEASERUN" run -E 0 job true
	done
	assert_ends 0 "$waiter"
	[ -e waited ]
}

@test "the queue: a newcomer does not take what a waiter is about to get" {
	local pid helper=

	hold job
	bg "$LEASERUN" run --wait 60s job -- touch waited
	waiter=$!
	wait_until 20 eval '"$LEASERUN" status --json job |
	    grep -q "\"waiting\": 1"'
	for pid in $(cat "/proc/$waiter/task/$waiter/children"); do
		[ "$(cat "/proc/$pid/comm")" != leaserun ] || helper=$pid
	done
	# It is woken and does not get its turn.
	kill -STOP "$helper"
	wait_until 20 grep -q '^State:.T' "/proc/$helper/status"
	touch over
	assert_ends 0 "$holder"
	run_tool 75 run job -- touch stolen
	run_tool 75 run -v --wait 200ms job -- touch stolen
	assert_contains "$stderr" "held by somebody who is not recorded"
	kill -CONT "$helper"
	assert_ends 0 "$waiter"
	[ -e waited ] && [ ! -e stolen ]
}

@test "status counts those that wait, for each name alone" {
	local i

	wait_are() {
		"$LEASERUN" status --json "$1" | grep -q "\"waiting\": $2,"
	}
	hold job
	bg "$LEASERUN" run other sh -c 'echo >up; exec sleep 1000'
	wait_until 20 test -s up
	for i in 1 2 3 4 5; do
		bg "$LEASERUN" run --wait 60s job true
		pids[i]=$!
	done
	bg "$LEASERUN" run --wait 60s other true
	wait_until 20 wait_are job 5
	wait_until 20 wait_are other 1
	run_tool 0 status job
	assert_contains "$stdout" "5 waiting"
	kill -KILL "${pids[2]}"
	kill -TERM "${pids[4]}"
	wait_until 20 wait_are job 3
	touch over
	wait_until 20 wait_are job 0
}

@test "a waiter that is killed, or times out, leaves nothing behind" {
	hold job
	for _ in 1 2 3 4 5; do
		bg "$LEASERUN" run --wait 20s job true
		waiter=$!
		waits() {
			"$LEASERUN" status --json job | grep -q '"waiting": 1'
		}
		wait_until 10 waits
		kill -KILL "$waiter"
		wait_until 10 is_gone "$waiter"
		run_tool 75 run --wait 50ms job true
	done
	touch over
	assert_ends 0 "$holder"
	run_tool 0 run --wait 5s job true
}

@test "ten contenders, a hundred rounds: one at a time, tokens in order" {
	cat >job.sh <<-'EOF'
	mkdir inside || { echo overlap >>overlap; exit 1; }
	echo "$LEASERUN_FENCE_TOKEN" >>tokens
	rmdir inside
	EOF
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		bg sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do
		    "$0" run --wait 60s job -- sh job.sh; done' "$LEASERUN"
	done
	for pid in "${bg_pids[@]}"; do
		wait_until 60 is_gone "$pid"
	done
	[ ! -e overlap ]
	assert_equal "$(wc -l <tokens)" 100
	sort -n -u tokens | cmp - tokens
}

@test "the token survives kill -9 at any moment" {
	last=0
	for i in $(seq 2 2 60); do
		"$LEASERUN" run job -- sh -c \
		    'echo "$LEASERUN_FENCE_TOKEN" >>issued' 3>&- &
		pid=$!
		for ((n = 0; n < i * 40; n++)); do :; done
		kill -KILL "$pid" 2>/dev/null || :
		wait "$pid" 2>/dev/null || :
	done
	wait_until 10 "$LEASERUN" run job -- sh -c \
	    'echo "$LEASERUN_FENCE_TOKEN" >>issued'
	sort -n -u issued | cmp - issued
}

# rebooted SECONDS ARG...: leaserun in another boot, so long after its begin.
rebooted() {
	local offset

	offset=$(awk -v at="$1" '{ printf "%.0f", at - $1 }' /proc/uptime)
	shift
	unshare --mount --time --fork --boottime "$offset" sh -c \
	    'mount --bind boot /proc/sys/kernel/random/boot_id && exec "$@"' \
	    sh "$LEASERUN" "$@"
}

@test "a reboot: --min-hold goes on, tokens grow, and a killed run is told of" {
	local status=0 before pids seconds

	echo 01234567-89ab-cdef-0123-456789abcdef >boot
	run_tool 0 run --min-hold 1h kept true
	run_tool 0 run --min-hold 1s over true
	before=$(token)
	hold job
	mapfile -t pids < <(test_processes)
	kill -KILL "${pids[@]}"
	# The clock of a lease begins anew, and may be anywhere then.
	for seconds in 60 10000000; do
		rebooted $seconds run kept -- touch ran || status=$?
		assert_equal "$status" 75
	done
	rebooted 60 status kept | grep -q ' min-hold '
	wait_until 20 rebooted 60 run over true
	rebooted 60 run -v job -- sh -c 'echo "$LEASERUN_FENCE_TOKEN" >after' 2>err
	file_has err "took over from '$(hostname)'"
	file_has err "which ended without releasing"
	[ "$(cat after)" -gt "$(cat token)" ] && [ "$(cat token)" -gt "$before" ]
	run_tool 75 run kept true
	[ ! -e ran ]
}

@test "fs.protected_regular in a sticky directory" {
	mkdir sticky
	chmod 1777 sticky
	echo 2 >/proc/sys/fs/protected_regular
	LEASERUN_BACKEND=file:$PWD/sticky run_tool 0 run job true
	LEASERUN_BACKEND=file:$PWD/sticky run_tool 0 run job true
}

@test "a network file system is refused unless it is allowed" {
	# FUSE stands for them: it is there without a server.
	mkdir lower upper work net
	fuse-overlayfs -o lowerdir=lower,upperdir=upper,workdir=work net
	export LEASERUN_BACKEND=file:$PWD/net
	run_tool 78 run job -- touch started
	assert_contains "$stderr" "allow-network-fs"
	[ ! -e started ]
	run_tool 0 run -o allow-network-fs=yes job true
	run_tool 0 doctor -o allow-network-fs=yes
	assert_contains "$stdout" "fuse: locks may not hold for other hosts"
	run_tool 78 run -o allow-network-fs=perhaps job true
	assert_contains "$stderr" "is 'yes' or 'no', not 'perhaps'"
}

@test "a resize of the terminal does not end a wait" {
	hold job
	bg "$LEASERUN" run --connect-timeout 100ms --wait 20s job true
	waiter=$!
	waits() {
		"$LEASERUN" status --json job | grep -q '"waiting": 1'
	}
	wait_until 10 waits
	# Longer than a store may be silent that cannot be reached.
	is_past() {
		[ "$(($(date +%s%N) - start))" -gt 500000000 ]
	}
	start=$(date +%s%N)
	wait_until 10 is_past
	for _ in $(seq 1 30); do
		kill -WINCH "$waiter"
		kill -CONT "$waiter"
		is_alive "$waiter"
	done
	run_tool 75 run job true
	is_alive "$waiter"
	touch over
	assert_ends 0 "$waiter"
}

@test "names that lie about never reach the terminal as they are" {
	run_tool 0 run job true
	: >"state/$(printf 'x\033]0;pwn\007\033[31mred').lock"
	: >"state/$(printf 'bad\xff').lock"
	# No name is so long.
	: >"state/$(printf 'a%.0s' {1..242}).lock"
	run_tool 0 status
	assert_lacks "$stdout" $'\033'
	assert_lacks "$stdout" $'\007'
	run_tool 0 status --json
	assert_equal "$(grep -c '"name"' <<<"$stdout")" 3
}

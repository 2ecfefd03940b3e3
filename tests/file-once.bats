# The records of --once in the file backend, and what crashes, full disks and
# other users do to them.

load helpers

teardown() {
	local mount

	test_teardown
	for mount in full state/job.once; do
		! mountpoint -q "$mount" || umount -l "$mount"
	done
}

# once KEY [OPTION]...: a run that succeeds, or none.
once() {
	run_tool 0 run --once "$@" job -- sh -c 'echo "$0" >>ran' "$1"
}

# runs KEY: how many there were.
runs() {
	grep -cxF -e "$1" ran 2>/dev/null || :
}

# keys: those that are done, newest first.
keys() {
	run_tool 0 status --once --json job >&2
	sed -n 's/^ *"key": "\(.*\)",$/\1/p' <<<"$stdout"
}

# seed BYTES [OPTION]...: a file that is at least as long, of valid lines for
# the key old.
seed() {
	local bytes=$1

	shift
	run_tool 0 run --once old "$@" job -- true
	yes "$(cat state/job.once)" | head -n $((bytes /
	    $(stat -c %s state/job.once) + 1)) >seed
	cat seed >state/job.once
}

# older_than SECONDS FILE
older_than() {
	[ "$(($(date +%s%N) - $(date -r "$2" +%s%N)))" -gt "$(($1 * 1000000000))" ]
}

@test "a last line that was cut off anywhere does not count" {
	local -i whole cut

	once one
	once two
	whole=$(stat -c %s state/job.once)
	once three
	cp state/job.once good
	for ((cut = $(stat -c %s good) - 1; cut > whole; cut -= 1)); do
		rm ran
		cp good state/job.once
		truncate -s "$cut" state/job.once
		"$LEASERUN" run --once three job -- touch ran
		[ -e ran ] || fail "$cut bytes: three is done"
		# The length of a line depends on how long the job took.
		[ "$(wc -l <state/job.once)" -eq 3 ]
	done
	assert_equal "$(keys)" $'three\ntwo\none'
}

@test "a line that is damaged: 78, nothing is run, and the repair works" {
	local -i at size line

	once one
	once two
	once three
	rm ran
	cp state/job.once good
	size=$(stat -c %s good)
	for ((at = 0; at < size - 1; at += 7)); do
		cp good state/job.once
		printf '\377' | dd of=state/job.once bs=1 seek=$at \
		    conv=notrunc status=none
		line=$(head -c $((at + 1)) good | wc -l)
		line+=1
		[ "$(head -c $((at + 1)) good | tail -c 1 | wc -l)" -eq 0 ] ||
		    line=$((line - 1))
		run_tool 78 run --once four job -- touch ran
		assert_contains "$stderr" \
		    "line $line of '$PWD/state/job.once' is damaged"
	done
	run_tool 78 status --once job
	# Other keys are not concerned, nor is a run without one.
	[ ! -e ran ]
	run_tool 0 run job -- touch ran
	rm ran
	run_tool 78 run --once four job -- touch ran
	eval "${stderr##*: }"
	once four
	assert_equal "$(keys | grep -c .)" 3
}

@test "a line in the middle that is gone in part or holds NUL: 78" {
	local how

	once one
	once two
	once three
	cp state/job.once good
	rm ran
	for how in '2s/.$//' '2s/ /\x00/' '2s/^.//' '2s/$/ /' '2s/.*//' '1s/^/ /' \
	    '2s/\(.*\)/\1\1/' '3s/ / \n/2'; do
		sed "$how" good >state/job.once
		run_tool 78 run --once four job -- touch ran
		assert_contains "$stderr" "is damaged"
	done
	[ ! -e ran ]
}

@test "a full disk while it is recorded: kept, and 74 after ten ttls" {
	mkdir full
	mount -t tmpfs -o size=32k none full
	export LEASERUN_BACKEND=file:$PWD/full
	bg "$LEASERUN" run -t 2s -r 500ms -g 200ms --once key job -- \
	    sh -c 'echo >>ran; cat /dev/zero >full/filler; :' 2>err
	holder=$!
	wait_until 20 file_has err "cannot record that it is done"
	file_has err "No space left on device; free some space there"
	run_tool 75 run --once key job -- touch never
	wait_until 30 is_gone "$holder"
	assert_ends 74 "$holder"
	file_has err "could not be recorded"
	assert_equal "$(keys)" ""
	rm full/filler
	once key
	assert_equal "$(keys)" key
	[ ! -e never ]
}

@test "ten ttls that are longer than time itself: it is recorded" {
	run_tool 0 run -t 36525d --once today job -- true
	assert_equal "$(keys)" today
}

@test "a disk that is full for a while: it is recorded" {
	mkdir full
	mount -t tmpfs -o size=32k none full
	export LEASERUN_BACKEND=file:$PWD/full
	bg "$LEASERUN" run --once key job -- \
	    sh -c 'cat /dev/zero >full/filler; :' 2>err
	holder=$!
	wait_until 20 file_has err "cannot record that it is done"
	bg "$LEASERUN" run -w 60s --once key job -- touch never
	rm full/filler
	assert_ends 0 "$holder"
	assert_ends 0 "$!"
	assert_equal "$(keys)" key
	[ ! -e never ]
}

# unrecorded JOB: a run in the background, $holder, whose disk is full when it
# is to be recorded; for ten minutes it would be tried again.
unrecorded() {
	mkdir full
	mount -t tmpfs -o size=32k none full
	export LEASERUN_BACKEND=file:$PWD/full
	bg "$LEASERUN" run --events e -t 60s --once key job -- sh -c "$1
	    cat /dev/zero >full/filler; :" 2>err
	holder=$!
}

@test "a TERM while it is recorded: 74 in time, and the key is not done" {
	unrecorded
	wait_until 20 file_has err "cannot record that it is done"
	kill -TERM "$holder"
	assert_ends 74 "$holder"
	file_has err "told to stop"
	grep -qE 'could not be recorded(: | in time)' err
	jq -se 'any(.[]; .event == "release_failed") and
	    any(.[]; .event == "end" and .status == 74)' e
	assert_equal "$(keys)" ""
	rm full/filler
	once key
	assert_equal "$(keys)" key
}

@test "a Ctrl-C while it is recorded: the same; a signal for the job: not so" {
	unrecorded
	wait_until 20 file_has err "cannot record that it is done"
	kill -USR1 "$holder"
	kill -WINCH "$holder"
	kill -CONT "$holder"
	run_tool 75 run -w 3s --once key job touch never
	is_alive "$holder"
	run grep -c "told to stop" err
	assert_equal "$output" 0
	kill -INT "$holder"
	assert_ends 74 "$holder"
	[ ! -e never ]
}

@test "a TERM that the job has survived: recording it takes no longer, either" {
	unrecorded 'trap "echo >asked" TERM
	    echo >up
	    until [ -e asked ]; do sleep 0.05; done'
	wait_until 20 test -s up
	kill -TERM "$holder"
	assert_ends 74 "$holder"
	file_has err "told to stop"
}

@test "a TERM while it is recorded, and then there is room: it is recorded" {
	unrecorded
	wait_until 20 file_has err "cannot record that it is done"
	kill -STOP "$holder"
	wait_until 20 grep -q '^State:.T' "/proc/$holder/status"
	kill -TERM "$holder"
	rm full/filler
	kill -CONT "$holder"
	assert_ends 0 "$holder"
	assert_equal "$(keys)" key
}

@test "a file that becomes read-only: 74 with the reason" {
	: >state/job.once
	chmod 600 state/job.once
	run_tool 74 run --once key job -- sh -c '
		mount --bind state/job.once state/job.once &&
		    mount -o remount,bind,ro state/job.once'
	assert_contains "$stderr" "Read-only file system"
	umount state/job.once
	assert_equal "$(keys)" ""
	once key
}

@test "what is not a plain file of ours is refused, nothing is run" {
	local kind

	for kind in fifo directory device link dangling hard other mode; do
		rm -rf state/job.once
		case $kind in
		fifo) mkfifo state/job.once ;;
		directory) mkdir state/job.once ;;
		device) mknod state/job.once c 1 3 ;;
		link) : >target; ln -s ../target state/job.once ;;
		dangling) ln -s ../nowhere state/job.once ;;
		hard) : >second; ln second state/job.once ;;
		other) : >state/job.once; chown nobody state/job.once ;;
		mode) : >state/job.once; chmod 666 state/job.once ;;
		esac
		run_tool 78 run --once key job -- touch started
		assert_contains "$stderr" "job.once"
		[ ! -e started ]
		# It matters with a key only, and is not held.
		run_tool 0 run job -- true
	done
	[ ! -e nowhere ]
	[ ! -s target ]
}

@test "a key that is done: 0 as well while another run has the lease" {
	local more

	once one
	mkfifo end
	bg "$LEASERUN" run job -- sh -c ': >started; read line <end'
	wait_until 20 test -e started
	rm ran
	for more in "" "--wait 20" "--complain-after 0"; do
		# shellcheck disable=SC2086
		run_tool 0 run -v $more --once one job -- touch ran
		assert_contains "$stderr" "it is done"
		assert_lacks "$stderr" "held by"
	done
	run_tool 75 run --once two job -- touch ran
	[ ! -e ran ]
	echo >end
	assert_ends 0 "$!"
}

@test "what is put there while the job runs: 74, and it is not written to" {
	run_tool 74 run --once key job -- \
	    sh -c 'echo mine >target; ln -s ../target state/job.once'
	assert_contains "$stderr" "job.once"
	assert_equal "$(cat target)" mine
}

@test "a file that is too large is refused, with what to do" {
	truncate -s $((65 << 20)) state/job.once
	chmod 600 state/job.once
	run_tool 78 run --once key job -- touch started
	assert_contains "$stderr" "too large to be read"
	[ ! -e started ]
}

@test "a large file is read and written in time" {
	seed $((20 << 20))
	once new
	once new
	once old
	assert_equal "$(runs new)" 1
	assert_equal "$(runs old)" 0
}

@test "what is older than keep goes when there is much of it, not before" {
	seed 66000 -o keep=1s
	chmod 640 state/job.once
	# Under 30 days nothing goes.
	once one
	[ "$(stat -c %s state/job.once)" -gt 66000 ]
	wait_until 20 older_than 1 seed
	once two
	[ "$(stat -c %s state/job.once)" -gt 66000 ]
	once three -o keep=1s
	assert_equal "$(keys | grep -cx old)" 0
	assert_equal "$(keys | head -n 1)" three
	[ "$(stat -c %s state/job.once)" -lt 1000 ]
	[ ! -e state/job.once-new ]
	assert_equal "$(stat -c %a state/job.once)" 600
	once three
	assert_equal "$(runs three)" 1
}

@test "a long file that cannot be shortened is kept as it is" {
	seed 66000 -o keep=1s
	chmod 640 state/job.once
	mkdir state/job.once-new
	wait_until 20 older_than 1 seed
	run_tool 0 run -vv --once two -o keep=1s job true
	assert_contains "$stderr" "cannot shorten 'job.once'"
	assert_equal "$(keys | head -n 1)" two
	[ "$(stat -c %s state/job.once)" -gt 66000 ]
}

@test "what stands there already is not recorded twice" {
	once key
	mv state/job.once saved
	run_tool 0 run --once key job -- mv saved state/job.once
	assert_equal "$(keys)" key
}

@test "a period of less than whole seconds is told with its milliseconds" {
	run_tool 0 run --once-per 1500ms job true
	assert_matches "$(keys)" '^1s500ms@[0-9T:-]*\.(000|500)Z$'
}

@test "what is done, of a directory that is not there" {
	run_tool 78 status --once -b "file:$PWD/none" job
	assert_contains "$stderr" "run 'leaserun init --backend file:$PWD/none'"
}

@test "a small file keeps what is older" {
	once one -o keep=1s
	touch begun
	wait_until 20 older_than 1 begun
	once two -o keep=1s
	assert_equal "$(keys)" $'two\none'
}

@test "the file of a hostile name is in the directory" {
	local name

	for name in .. . ../../x / 'a b' job.once .once; do
		run_tool 0 run --once key "$name" -- true
		run_tool 0 run --once key "$name" -- touch never
		run_tool 0 status --once "$name"
		assert_contains "$stdout" " key "
	done
	assert_equal "$(find . -name '*.once*' | grep -cv '^./state/[^/]*$')" 0
	assert_equal "$(find state -name '*.once' | wc -l)" 7
	[ ! -e never ]
	run_tool 0 status --once
	assert_equal "$(grep -c ' key ' <<<"$stdout")" 7
}

# killed_at SYSCALL N KEY: the keeper is killed as it makes that call the Nth
# time.  False: it never did.
killed_at() {
	local status=0

	timeout 20 strace -o trace -e "trace=$1" \
	    -e "inject=$1:signal=KILL:when=$2" "$LEASERUN" run -o keep=1s \
	    --once "$3" job -- sh -c 'echo "$0" >>ran' "$3" \
	    2>err 3>&- || status=$?
	[ "$status" -eq 0 ] || [ "$status" -eq 137 ] || {
		cat err
		fail "status $status"
	}
	[ "$status" -eq 137 ]
}

# Some of it replaces the file, since most is old.
@test "a crash at any call forgets nothing and makes nothing up" {
	local -i n crashes=0
	local call key

	export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
	seed 66000 -o keep=1s
	wait_until 20 older_than 1 seed
	for call in pwrite64 ftruncate fdatasync fsync renameat openat; do
		for ((n = 1; n < 60; n++)); do
			key=$call-$n
			cat seed >state/job.once
			"$LEASERUN" run --once before job -- true
			killed_at "$call" "$n" "$key" || break
			crashes+=1
			[ -z "$(keys | grep -xF "$key")" ] ||
			    [ "$(runs "$key")" -eq 1 ]
			[ "$(keys | grep -cx before)" -eq 1 ]
			if keys | grep -qxF "$key"; then
				once "$key" -w 10s
				assert_equal "$(runs "$key")" 1
			else
				once "$key" -w 10s
				[ "$(runs "$key")" -ge 1 ]
			fi
			[ "$(keys | grep -cx "$key")" -eq 1 ]
			[ "$(keys | grep -cx before)" -eq 1 ]
		done
		assert_contains "$(keys)" "$key"
		assert_equal "$(runs "$key")" 1
		[ "$n" -lt 60 ]
	done
	[ "$crashes" -ge 15 ]
}

# However leaserun is started, the command finds what it would have found
# without it, and leaserun works all the same.

load helpers
load jobs

# --- Descriptors ---

# What is open there, without another descriptor in the way.
standard='fds=$(for fd in 0 1 2; do readlink /proc/$$/fd/$fd; done)
echo "$fds" >fds'

# With FD closed the command finds /dev/null there, and the others as they are.
closed() {
	local fd

	for fd in 0 1 2; do
		: >"was$fd"
	done
	timeout 20 "$STARTWITH" "$@" "$LEASERUN" run "${FAKE[@]}" job -- \
	    sh -c "$standard" <was0 >was1 2>was2
}

@test "standard input closed" {
	closed -c 0
	assert_equal "$(tr '\n' ' ' <fds)" "/dev/null $PWD/was1 $PWD/was2 "
}

@test "standard output closed" {
	closed -c 1
	assert_equal "$(tr '\n' ' ' <fds)" "$PWD/was0 /dev/null $PWD/was2 "
}

@test "standard error closed" {
	closed -c 2
	assert_equal "$(tr '\n' ' ' <fds)" "$PWD/was0 $PWD/was1 /dev/null "
}

@test "all three closed, and the file backend" {
	timeout 20 "$STARTWITH" -c 0 -c 1 -c 2 "$LEASERUN" run -vv job -- \
	    sh -c "$standard; exit 5" || status=$?
	assert_equal "$status" 5
	assert_equal "$(tr '\n' ' ' <fds)" "/dev/null /dev/null /dev/null "
}

@test "all three closed while held elsewhere: nothing but the status" {
	first -- tree
	wait_until 10 ticking 4
	timeout 20 "$STARTWITH" -c 0 -c 1 -c 2 "$LEASERUN" run "${FAKE[@]}" \
	    job -- true || status=$?
	assert_equal "$status" 75
}

# The descriptors of a process, without those of bats.
descriptors() {
	"$@" sh -c 'ls /proc/$$/fd' 3>&- 4>&- | sort -n
}

@test "no descriptor of ours leaks, the lock of the file backend excepted" {
	descriptors >direct
	descriptors timeout 20 "$LEASERUN" run "${FAKE[@]}" job -- >fake
	descriptors timeout 20 "$LEASERUN" run job -- >file
	run diff direct fake
	assert_equal "$output" ""
	run diff direct file
	assert_matches "$output" '^[0-9]+a[0-9]+'$'\n''> 2[0-9][0-9]$'
}

@test "five thousand inherited descriptors, and a limit of a million" {
	ulimit -n 1048576 || ulimit -n "$(ulimit -H -n)"
	timeout 20 "$STARTWITH" -n 5000 "$LEASERUN" run "${FAKE[@]}" job -- \
	    sh -c 'ls /proc/$$/fd | wc -l' >count
	[ "$(cat count)" -ge 5003 ]
	timeout 20 "$STARTWITH" -n 5000 "$LEASERUN" run job -- \
	    "$PROBE" out ticks=3 exit=3 || status=$?
	assert_equal "$status" 3
	assert_equal "$(lines tick)" 3
}

@test "five thousand inherited descriptors, and the guard is killed" {
	bg "$STARTWITH" -n 5000 "$LEASERUN" run "${FAKE[@]}" job -- \
	    "$PROBE" out tree
	first=$!
	wait_until 10 ticking 4
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$first"
	job_gone ""
}

@test "few descriptors: success, or one clear line and no run" {
	local n code url good=0 unloaded=0

	no_sanitizer
	for url in "fake:$STORE" "$LEASERUN_BACKEND"; do
		for n in 4 5 6 7 8 9 10 11 12 13 14 15 16 24; do
			code=0
			rm -f out
			timeout -s KILL 20 "$STARTWITH" -k -l $n "$LEASERUN" \
			    run "${FAKE[@]}" -b "$url" --connect-timeout \
			    300ms job -- "$PROBE" out ticks=1 \
			    >said 2>&1 || code=$?
			case $code in
			0)
				[ -s out ]
				good=$n
				;;
			69 | 70 | 78)
				[ ! -e out ]
				assert_equal "$(wc -l <said)" 1
				file_has said "Too many open files"
				[ $code -ne 70 ] ||
				    file_has said "ulimit -n), it is $n"
				if file_has said "cannot load the backend"; then
					assert_equal $code 70
					unloaded=$n
				fi
				[ "$url" != "$LEASERUN_BACKEND" ] ||
				    assert_equal $code 70
				;;
			*)
				cat said
				fail "status $code with $n descriptors"
				;;
			esac
		done
		assert_equal "$good" 24
	done
	[ "$unloaded" -gt 0 ]
}

@test "few descriptors: an error at once, whatever the time to connect" {
	local n

	no_sanitizer
	for n in 8 9 10 11; do
		run_few_descriptors $n
	done
}

# run_few_descriptors N: an hour is not waited for.
run_few_descriptors() {
	local code=0

	timeout -s KILL 20 "$STARTWITH" -k -l "$1" "$LEASERUN" run \
	    --connect-timeout 1h job -- "$PROBE" out ticks=1 2>said || code=$?
	[ $code -eq 0 ] || assert_equal $code 70
}

@test "few descriptors: whoever starts a job can end it, keeper or guard" {
	local n victim

	no_sanitizer
	for n in 9 10 11 12 13 14; do
		for victim in keeper guard; do
			rm -f out
			bg "$STARTWITH" -k -l $n "$LEASERUN" run "${FAKE[@]}" \
			    --wait 5s --connect-timeout 300ms job -- \
			    "$PROBE" out tree 2>first
			first=$!
			wait_until 10 eval 'is_gone "$first" ||
			    { [ -e out ] && ticking 4; }'
			[ -e out ] || continue
			if [ $victim = keeper ]; then
				kill -KILL "$first"
			else
				kill -KILL "$(guard "$first")"
			fi
			wait_until 10 job_gone ""
			wait_until 10 is_gone "$first"
		done
	done
	[ -e out ]
}

@test "input is the command's, byte for byte" {
	head -c 50M /dev/urandom >in
	timeout 60 "$LEASERUN" run job -- cat <in | cmp - in
	cat in | timeout 60 "$LEASERUN" run job -- cat | cmp - in
	head -c 1M in >short
	{ timeout 60 "$LEASERUN" run job -- true; cat; } <short | cmp - short
	{ timeout 60 "$LEASERUN" run job -- head -c 10; cat; } \
	    < <(cat short) | head -c 10 | cmp - <(head -c 10 short)
}

@test "output that nobody reads any more: SIGPIPE is the command's" {
	timeout 20 "$LEASERUN" run job -- yes | head -n 1 >/dev/null
	assert_equal "${PIPESTATUS[0]}" 141
}

# --- Messages that cannot be written ---

# full_pipe: standard error will be one, on descriptor 9.
full_pipe() {
	mkfifo pipe
	exec 9<>pipe
	timeout 1 dd if=/dev/zero of=pipe bs=4096 oflag=nonblock \
	    2>/dev/null || :
	flags=$(grep flags /proc/$$/fdinfo/9)
}

@test "a full pipe on standard error: renewals are not delayed" {
	full_pipe
	script renew log-flood
	bg "$LEASERUN" run "${FAKE[@]}" --owner first -vv job -- \
	    "$PROBE" out cleanup=1 2>&9 9>&-
	first=$!
	wait_until 20 calls_reach renew first ok 10
	kill -TERM "$first"
	assert_ends 0 "$first"
	called release first ok
	assert_equal "$(grep flags /proc/$$/fdinfo/9)" "$flags"
	exec 9>&-
}

@test "a full pipe on standard error: the job is killed in time" {
	full_pipe
	bg "$LEASERUN" run "${FAKE[@]}" --owner first -vv job -- \
	    "$PROBE" out tree ignore 2>&9 9>&-
	first=$!
	wait_until 10 ticking 4
	second
	script renew unavailable
	assert_ends 79 "$first"
	assert_ends 0 "$second"
	assert_order
	assert_equal "$(grep flags /proc/$$/fdinfo/9)" "$flags"
	exec 9>&-
}

@test "a pipe that is full before anything is said, and the guard is killed" {
	full_pipe
	bg "$LEASERUN" run -vv job -- "$PROBE" out tree 2>&9 9>&-
	first=$!
	wait_until 10 ticking 4
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$first"
	job_gone ""
	exec 9>&-
}

@test "standard error without a reader, or on a full disk: no matter" {
	mkfifo pipe
	exec 9<>pipe 8>pipe 9>&-
	timeout 20 "$LEASERUN" run -vv job -- sh -c 'exit 3' 2>&8 || status=$?
	assert_equal "$status" 3
	exec 8>&-
	status=0
	timeout 20 "$LEASERUN" run -vv job -- sh -c 'exit 4' 2>/dev/full ||
	    status=$?
	assert_equal "$status" 4
}

# --- Signals that are ignored or blocked ---

@test "SIGCHLD ignored: the status is known all the same" {
	local code=0

	timeout 20 "$STARTWITH" -i 17 "$LEASERUN" run job -- \
	    "$PROBE" out ticks=1 exit=7 || code=$?
	assert_equal "$code" 7
	first_with -i 17
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$first"
	job_gone ""
}

# first_with OPTION...: of startwith.
first_with() {
	bg "$STARTWITH" "$@" "$LEASERUN" run "${FAKE[@]}" --owner first job -- \
	    "$PROBE" out tree
	first=$!
	wait_until 10 ticking 4
}

@test "HUP ignored, as by nohup: it does not end the run" {
	first_with -i 1
	kill -HUP "$first"
	wait_until 10 ticks_exceed $(($(ticks) + 40))
	is_alive "$first"
	kill -TERM "$first"
	assert_ends 143 "$first"
}

@test "HUP not ignored: it ends the command" {
	bg "$LEASERUN" run "${FAKE[@]}" --owner first job -- "$PROBE" out
	first=$!
	wait_until 10 ticking 1
	kill -HUP "$first"
	assert_ends 129 "$first"
	called release first ok
}

@test "everything blocked: TERM ends a wait" {
	bg "$LEASERUN" run "${FAKE[@]}" job -- "$PROBE" out tree
	wait_until 10 ticking 4
	bg "$STARTWITH" -b 1 -b 2 -b 14 -b 15 -b 17 "$LEASERUN" run \
	    "${FAKE[@]}" --owner second --wait inf job -- true
	second=$!
	wait_until 10 called acquire second
	kill -TERM "$second"
	assert_ends 143 "$second"
}

@test "everything blocked: the command's end is seen, and a lost lease" {
	local code=0

	timeout 20 "$STARTWITH" -b 1 -b 2 -b 14 -b 15 -b 17 "$LEASERUN" run \
	    "${FAKE[@]}" job -- sh -c 'exit 6' || code=$?
	assert_equal "$code" 6
	first_with -b 1 -b 2 -b 14 -b 15 -b 17
	second
	script renew unavailable
	assert_ends 79 "$first"
	assert_ends 0 "$second"
	assert_order
}

@test "everything blocked: a release that hangs is cut short" {
	script release hang
	bg "$STARTWITH" -b 14 -b 15 -b 17 -b 64 "$LEASERUN" run "${FAKE[@]}" \
	    job -- sh -c 'exit 8'
	assert_ends 8 "$!"
}

# --- The command's world ---

# What a process can say of itself.
cat_world() {
	cat >world <<-'END'
		#!/bin/sh
		umask
		nice
		pwd
		cut -d ' ' -f 6,7,19 /proc/$$/stat
		grep -E '^(Umask|[UG]id|Groups|Sig(Blk|Ign|Cgt)|ShdPnd)' \
		    /proc/self/status
		grep -E '^(Cap|Cpus|NoNewPrivs|Seccomp|Speculation)' \
		    /proc/self/status
		cat /proc/self/limits /proc/self/cgroup /proc/self/oom_score_adj
		cat /proc/self/personality /proc/self/timerslack_ns
		readlink /proc/self/ns/* /proc/self/cwd /proc/self/root
		env | grep -v '^LEASERUN_\|^_=' | sort
	END
	chmod 755 world
}

# same PREFIX... -- COMMAND...: says the same with leaserun.
same() {
	local -a prefix=()

	while [ "$1" != -- ]; do
		prefix+=("$1")
		shift
	done
	shift
	timeout 20 "${prefix[@]}" "$@" >direct
	[ -s direct ]
	timeout 20 "${prefix[@]}" "$LEASERUN" run "${FAKE[@]}" job -- "$@" >fake
	timeout 20 "${prefix[@]}" "$LEASERUN" run job -- "$@" >file
	run diff direct fake
	assert_equal "$output" ""
	run diff direct file
	assert_equal "$output" ""
}

# same_world PREFIX...: a shell changes some of its signals when it starts.
same_world() {
	same "$@" -- grep -E '^(Sig(Blk|Ign|Cgt|Pnd)|ShdPnd)' /proc/self/status
	same "$@" -- ./world
	[ "$(wc -l <direct)" -ge 40 ]
}

@test "the command's world is what it is without leaserun" {
	cat_world
	same_world env
}

@test "the command's world is what an odd caller has made it" {
	cat_world
	echo 300 >/proc/self/oom_score_adj
	umask 027
	mkdir deep
	ln -s ../world deep/world
	mkdir deep/er
	cd deep
	ulimit -S -c 1000 -f 100000 -s 4096 -n 500
	same_world nice -n 5 chrt --idle 0 taskset -c 0 \
	    "$STARTWITH" -i 1 -i 13 -i 20 -b 10 -b 15 -b 34 -i 64 -i 22
}

@test "ignored and blocked signals are the command's, all of them" {
	local signo
	local -a ignored=() blocked=()
	local -a signals=(grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status)

	no_sanitizer
	for ((signo = 1; signo <= 64; signo++)); do
		case $signo in
		9 | 19 | 32 | 33) continue ;;
		*) ignored+=(-i "$signo") ;;
		esac
		blocked+=(-b "$signo")
	done
	same "$STARTWITH" "${ignored[@]}" -- "${signals[@]}"
	same "$STARTWITH" "${blocked[@]}" -- "${signals[@]}"
	same "$STARTWITH" -i 17 -- "${signals[@]}"
}

@test "without an environment" {
	env -i TEST_MARK="$TEST_MARK" "$LEASERUN" run --config leaserun.conf \
	    -b "file:$PWD/state" job -- /usr/bin/env >variables
	run grep -v '^LEASERUN_[A-Z_]*=.' variables
	assert_equal "$output" "TEST_MARK=$TEST_MARK"
	env -i TEST_MARK="$TEST_MARK" "$LEASERUN" run --config leaserun.conf \
	    "${FAKE[@]}" job -- true
	# The system's default path.
	(cd / && env -i TEST_MARK="$TEST_MARK" "$LEASERUN" run --config \
	    "$LEASERUN_CONFIG" -b "file:$BATS_TEST_TMPDIR/state" job -- true)
}

@test "a limit on the size of files: an error, no grant, no signal" {
	local code=0

	(ulimit -f 0 && exec timeout 20 "$LEASERUN" run --connect-timeout \
	    300ms job -- "$PROBE" /dev/null) 2>&1 | cat >said
	code=${PIPESTATUS[0]}
	cat said
	assert_equal "$code" 78
	file_has said "File too large"
}

# --- Process namespaces ---

# namespace OPTION... -- COMMAND...: in the background, as process 1 of a new
# one; $first is that process.
namespace() {
	bg unshare --fork --pid "$@"
	outer=$!
	wait_until 10 eval 'first=$(cat "/proc/$outer/task/$outer/children") &&
	    [ -n "$first" ]'
	first=${first% }
}

@test "as process 1: orphans do not pile up, the status is the command's" {
	namespace --mount-proc "$LEASERUN" run job -- sh -c '
		for i in 1 2 3 4 5 6 7 8 9 10; do
			(for j in 1 2 3 4 5 6 7 8 9 10; do
				sleep 0.1 &
			done)
		done
		# All of them, alive or not: a zombie would never go.
		n=0
		while [ $n -lt 200 ]; do
			left=$(cat /proc/[0-9]*/stat 2>/dev/null |
			    grep -c "(sleep)")
			[ "$left" -gt 0 ] || break
			n=$((n + 1))
			sleep 0.02
		done
		echo "$left" >zombies
		exit 7'
	assert_ends 7 "$outer"
	assert_equal "$(cat zombies)" 0
}

@test "as process 1: the group of the outside stays the one of the job" {
	unshare --fork --pid --mount-proc "$LEASERUN" run job -- sh -c \
	    'cut -d" " -f5 /proc/1/stat /proc/self/stat >groups'
	assert_equal "$(paste -sd ' ' groups)" "0 0"
}

@test "as process 1: TERM acts, 128 + 15 as an exit status" {
	bg "$STARTWITH" -w status unshare --fork --pid --mount-proc \
	    "$LEASERUN" run "${FAKE[@]}" --owner first job -- "$PROBE" out tree
	wait_until 10 ticking 4
	outer=$(cat status.pid)
	kill -TERM "$(cat "/proc/$outer/task/$outer/children")"
	wait_until 10 test -s status
	assert_equal "$(cat status)" "exited 143"
	called release first ok
}

@test "as process 1: TERM ends a wait" {
	first -- tree
	wait_until 10 ticking 4
	namespace --mount-proc "$LEASERUN" run "${FAKE[@]}" --owner second \
	    --wait inf job -- true
	wait_until 10 called acquire second
	kill -TERM "$first"
	assert_ends 143 "$outer"
}

@test "as process 1: USR1 is passed on" {
	namespace --mount-proc "$LEASERUN" run job -- "$SIGRECORD" got
	wait_until 10 file_has got ready
	kill -USR1 "$first"
	wait_until 10 file_has got '10 '
	kill -KILL "$first"
	wait_until 10 is_gone "$outer"
}

@test "as process 1: the guard is killed, and the job with it" {
	namespace --mount-proc "$LEASERUN" run "${FAKE[@]}" --owner first \
	    job -- "$PROBE" out tree
	wait_until 10 ticking 4
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$outer"
	called release first ok
}

@test "as process 1: what is put into the namespace is not the job" {
	namespace --mount-proc "$LEASERUN" run "${FAKE[@]}" --owner first \
	    job -- "$PROBE" out ticks=100
	wait_until 10 ticking 1
	# An orphan of a stranger comes to process 1, and ends before the job.
	nsenter -t "$first" -p sh -c 'sleep 0.3 & echo >entered'
	[ -e entered ]
	assert_ends 0 "$outer"
	assert_equal "$(lines tick)" 100
}

@test "the /proc of another namespace: 78, nothing is run" {
	local code=0

	no_sanitizer
	unshare --fork --pid timeout 20 "$LEASERUN" run job -- \
	    touch ran 2>said || code=$?
	cat said
	assert_equal "$code" 78
	file_has said "another pid namespace"
	[ ! -e ran ]
}

# As after `unshare --pid' without --fork: a guard could not end the job.
@test "only children are in another namespace: 78, nothing is run" {
	no_sanitizer
	bg unshare --pid "$LEASERUN" run job -- touch ran 2>said
	assert_ends 78 $!
	file_has said "another pid or time namespace"
	bg unshare --pid "$LEASERUN" fence --token 1 data -- touch ran 2>said
	assert_ends 78 $!
	file_has said "another pid or time namespace"
	# Where somebody is in it already, who is its process 1.
	bg unshare --pid sh -c 'sleep 600 & exec "$@" 2>said' sh \
	    "$LEASERUN" run job -- touch ran
	assert_ends 78 $!
	file_has said "another pid or time namespace"
	[ ! -e ran ]
}

@test "whose orphans could not be found: 78, nothing is run" {
	bg "$STARTWITH" -r subreaper "$LEASERUN" run job -- touch ran 2>said
	assert_ends 78 $!
	file_has said "prctl(PR_SET_CHILD_SUBREAPER) is refused"
	[ ! -e ran ]
}

@test "without /proc: 78, nothing is run" {
	local code=0

	unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh \
	    "$LEASERUN" run job -- touch ran 2>said || code=$?
	cat said
	# A sanitizer, which cannot be told anything without /proc, fails.
	[ "$code" -eq 78 ] || file_has said LeakSanitizer
	file_has said "leaserun: /proc cannot be used"
	[ ! -e ran ]
}

# --- Children from before ---

# with_children WORD...: first, with three children that are not its job's.
# They end with strangers_end.
with_children() {
	mkfifo go
	exec 8<>go
	bg "$STARTWITH" -c 8 -p go -p go -p go "$LEASERUN" run "${FAKE[@]}" \
	    --owner first job -- "$PROBE" out "$@"
	first=$!
	wait_until 10 ticking 1
	strangers=$(ps -o pid= --ppid "$first" | grep -vw "$(guard "$first")")
	[ "$(wc -w <<<"$strangers")" -eq 3 ]
}

strangers_live() {
	local pid

	for pid in $strangers; do
		is_alive "$pid" || return
	done
}

strangers_end() {
	exec 8>&-
}

@test "children from before: neither waited for nor killed" {
	with_children ticks=20 exit=4
	assert_ends 4 "$first"
	strangers_live
	strangers_end
}

@test "children from before: not killed when the guard is" {
	with_children tree
	wait_until 10 ticking 4
	second
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$first"
	job_gone "$(token 1)"
	strangers_live
	assert_ends 0 "$second"
	assert_order
	strangers_end
}

@test "children from before: not killed when the lease is lost" {
	with_children tree
	script renew lost
	assert_ends 79 "$first"
	strangers_live
	strangers_end
}

@test "children from before: a signal for the job is not for them" {
	with_children tree
	kill -TERM "$first"
	assert_ends 143 "$first"
	strangers_live
	strangers_end
}

@test "children from before: reaped, their end is not the command's" {
	with_children cleanup=1
	strangers_end
	wait_until 10 eval '[ "$(ps -o pid= --ppid "$first" | wc -l)" -eq 1 ]'
	ticks=$(ticks)
	wait_until 10 ticks_exceed $((ticks + 20))
	kill -TERM "$first"
	assert_ends 0 "$first"
}

@test "children from before: reaped after the guard was killed" {
	with_children tree
	kill -STOP "$first"
	strangers_end
	kill -KILL "$(guard "$first")"
	kill -CONT "$first"
	assert_ends 70 "$first"
	job_gone ""
}

# with_orphan WORD...: a run of these words, $first, whose child from before leaves
# an orphan, and ends, once something is written to go.
with_orphan() {
	mkfifo go
	bg sh -c '
		(read -r _ <go; sleep 300 & echo $! >orphan.new
		mv orphan.new orphan) &
		echo $! >stranger
		exec "$@"' sh "$LEASERUN" run "$@"
	first=$!
	wait_until 10 has_guard "$first"
}

# The orphan has come to the keeper, who has looked and waits again.
orphan_came() {
	timeout 10 sh -c 'echo >go'
	wait_until 10 test -s orphan
	orphan=$(cat orphan)
	wait_until 10 eval '[ "$(ps -o ppid= -p "$orphan")" -eq "$first" ]'
	wait_until 10 eval '[ ! -e "/proc/$(cat stranger)" ]'
	wait_until 10 grep -q '^State:.S' "/proc/$first/status"
}

@test "children from before: an orphan that just came is not the job" {
	with_orphan job -- "$PROBE" out tree
	wait_until 10 ticking 4
	orphan_came
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$first"
	job_gone ""
	is_alive "$orphan"
}

@test "children from before: an orphan that came during the wait is not the job" {
	local holder command status

	for status in 70 127; do
		mkdir "$status"
		cd "$status"
		: >out
		command=("$PROBE" out tree)
		[ "$status" -eq 70 ] || command=(./missing)
		bg "$LEASERUN" run job -- sh -c 'echo >held; exec sleep 300'
		holder=$!
		wait_until 10 test -s held
		with_orphan --wait 30s job -- "${command[@]}"
		orphan_came
		kill -TERM "$holder"
		assert_ends 143 "$holder"
		[ "$status" -eq 127 ] || {
			wait_until 10 ticking 4
			kill -KILL "$(guard "$first")"
		}
		assert_ends "$status" "$first"
		is_alive "$orphan"
		cd ..
	done
}

@test "children from before: their orphans are not the job" {
	local orphan

	mkfifo go
	exec 8<>go
	# The shell's child leaves an orphan, which comes to the keeper.
	bg sh -c '
		(read -r _ <go; sleep 300 & echo $! >orphan) &
		exec "$@"' sh "$LEASERUN" run "${FAKE[@]}" --owner first \
	    job -- "$PROBE" out tree 8>&-
	first=$!
	wait_until 10 ticking 4
	echo >&8
	wait_until 10 test -s orphan
	orphan=$(cat orphan)
	wait_until 10 eval '[ "$(ps -o ppid= -p "$orphan")" -eq "$first" ]'
	ticks=$(call_count renew first ok)
	wait_until 10 calls_reach renew first ok $((ticks + 1))
	kill -KILL "$(guard "$first")"
	assert_ends 70 "$first"
	job_gone ""
	is_alive "$orphan"
	exec 8>&-
}

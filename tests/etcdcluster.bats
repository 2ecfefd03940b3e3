# Three members of etcd, each with a network of its own, of which one is killed,
# frozen or cut off.

load helpers
load etcd

setup() {
	test_setup
	unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
	unset ETCDCTL_API
	opts=(-t 10s -r 1s -g 300ms)
	cluster_start
}

# at N COMMAND...: in the network of member N, 0 being everybody else's.
at() {
	local n=$1

	shift
	nsenter -t "${net[0]}" -U --preserve-credentials \
	    nsenter -t "${net[$n]}" -n "$@"
}

# has_net PID: it has left the network of the test.
has_net() {
	[ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]
}

# differs_net PID PID
differs_net() {
	[ "$(readlink "/proc/$1/ns/net")" != "$(readlink "/proc/$2/ns/net")" ]
}

nets_start() {
	local i

	bg unshare -rn sleep 1000
	net=("$!")
	wait_until 10 has_net "${net[0]}"
	at 0 ip link add hub type bridge
	at 0 ip addr add 10.77.0.254/24 dev hub
	at 0 ip link set hub up
	at 0 ip link set lo up
	for i in 1 2 3; do
		bg nsenter -t "${net[0]}" -U --preserve-credentials \
		    nsenter -t "${net[0]}" -n unshare -n sleep 1000
		net[i]=$!
		wait_until 10 has_net "${net[i]}"
		wait_until 10 differs_net "${net[0]}" "${net[i]}"
		at 0 ip link add "v$i" type veth peer name e0
		at 0 ip link set e0 netns "${net[i]}"
		at 0 ip link set "v$i" master hub up
		at "$i" ip addr add "10.77.0.$i/24" dev e0
		at "$i" ip link set e0 up
		at "$i" ip link set lo up
	done
}

# member_start N
member_start() {
	local all=one=http://10.77.0.1:2380,two=http://10.77.0.2:2380
	local names=(none one two three) url=http://10.77.0.$1

	all+=,three=http://10.77.0.3:2380
	mkdir -p "m$1"
	# No function, so that the pid is etcd's.
	nsenter -t "${net[0]}" -U --preserve-credentials \
	    nsenter -t "${net[$1]}" -n \
	    etcd --name "${names[$1]}" --data-dir "$PWD/m$1/data" \
	    --listen-client-urls "$url:2379,http://127.0.0.1:2379" \
	    --advertise-client-urls "$url:2379" \
	    --listen-peer-urls "$url:2380" \
	    --initial-advertise-peer-urls "$url:2380" \
	    --initial-cluster "$all" --initial-cluster-state new \
	    >>"m$1/log" 2>&1 3>&- &
	member[$1]=$!
	bg_pids+=("$!")
}

ctl() {
	at 0 env ETCDCTL_API=3 etcdctl --command-timeout=3s \
	    --endpoints "${endpoints-10.77.0.1:2379,10.77.0.2:2379,10.77.0.3:2379}" \
	    "$@"
}

all_healthy() {
	[ "$(ctl endpoint health 2>&1 | grep -c 'is healthy')" -eq 3 ]
}

cluster_start() {
	local i

	nets_start
	for i in 1 2 3; do
		member_start "$i"
	done
	wait_until 30 all_healthy
	use etcd://10.77.0.1,10.77.0.2,10.77.0.3/test
	{
		echo '#!/bin/bash'
		printf 'exec nsenter -t %s -U --preserve-credentials ' \
		    "${net[0]}"
		printf 'nsenter -t %s -n %q "$@"\n' "${net[0]}" "$LEASERUN"
	} >leaserun
	chmod 755 leaserun
	program=$LEASERUN
	LEASERUN=$PWD/leaserun
	find_leader
}

# Sets leader, and the two followers.
find_leader() {
	local i

	followers=()
	for i in 1 2 3; do
		if endpoints=10.77.0.$i:2379 ctl endpoint status -w simple |
		    grep -q ', true, false'; then
			leader=$i
		else
			followers+=("$i")
		fi
	done
	[ ${#followers[@]} -eq 2 ]
}

cut_off() {
	at 0 ip link set "v$1" down
}

heal() {
	at 0 ip link set "v$1" up
}

# holder NAME [OPTION]...: sets holder; its job writes to out.NAME.
holder() {
	local name=$1

	shift
	bg "$LEASERUN" run "${opts[@]}" "$@" "$name" -- \
	    "$builddir/tests/probe" "out.$name" 2>"err.$name"
	holder=$!
	wait_until 20 grep -qs ^tick "out.$name"
}

waiter() {
	local name=$1

	shift
	bg "$LEASERUN" run -v -w 100s "${opts[@]}" "$@" "$name" -- \
	    "$builddir/tests/probe" "out.$name" ticks=3 2>"wait.$name"
	waiter=$!
	wait_until 20 grep -q 'held by' "wait.$name"
}

# The lease of the name was confirmed by etcd after what is so many
# milliseconds away.
renewed() {
	run_tool 0 status --json "$1" >/dev/null &&
	    [ "$(date +%s%3N -d "$(sed -n \
	    's/.*"renewed_at": "\(.*\)".*/\1/p' <<<"$stdout")")" -ge "$2" ]
}

# goes_on NAME: it is renewed after now, and its job is alive.
goes_on() {
	wait_until 30 renewed "$1" $(($(date +%s%3N) + 1000)) || return
	is_alive "$holder"
}

# No sign of life of a run after that of the next one.
assert_order() {
	sort -s -n -k 3 "$1" | awk '
	    $2 + 0 < top { print "late:", $0; bad = 1 }
	    $2 + 0 > top { top = $2 + 0; n++ }
	    END { exit bad || n != want }' want="$2"
}

ends() {
	kill -TERM "$holder"
	assert_ends 143 "$holder"
}

@test "the leader is killed: no job ends, waiters wait" {
	local -a pids=()
	local name

	for name in a b c; do
		holder "$name"
		pids+=("$holder")
	done
	waiter a
	kill -KILL "${member[$leader]}"
	for name in a b c; do
		goes_on "$name"
	done
	for name in a b c; do
		kill -TERM "${pids[0]}"
		assert_ends 143 "${pids[0]}"
		pids=("${pids[@]:1}")
	done
	assert_ends 0 "$waiter"
	assert_order out.a 2
}

@test "the leader is frozen: no job ends, a new one starts" {
	holder a
	waiter a
	kill -STOP "${member[$leader]}"
	goes_on a
	run_tool 0 run "${opts[@]}" new true
	ends
	assert_ends 0 "$waiter"
	assert_order out.a 2
}

@test "a leader comes back from a freeze: no two run, or it is a loss" {
	local status=0

	holder a -t 6s -r 500ms
	waiter a
	kill -STOP "${member[$leader]}"
	goes_on a
	kill -CONT "${member[$leader]}"
	# Etcd may revoke what was renewed meanwhile; then it is a loss.
	wait_until 20 all_healthy
	if is_alive "$holder"; then
		kill -TERM "$holder"
	fi
	wait_until 20 is_gone "$holder"
	wait "$holder" || status=$?
	echo "status $status"
	assert_ends 0 "$waiter"
	[ $status -eq 143 ] || [ $status -eq 79 ]
	# What it revoked is somebody else's before the next heartbeat, which is
	# what the token is for.
	if grep -qE 'was removed|another holder has it' err.a; then
		assert_equal "$status" 79
		assert_equal "$(awk '$1 == "start" { print $2 }' out.a |
		    sort -u | wc -l)" 2
	else
		assert_order out.a 2
	fi
}

@test "the leader is cut off: no job ends, and none when it is back" {
	holder a
	waiter a
	cut_off "$leader"
	goes_on a
	run_tool 0 run "${opts[@]}" new true
	heal "$leader"
	wait_until 30 all_healthy
	goes_on a
	ends
	assert_ends 0 "$waiter"
	assert_order out.a 2
}

@test "a holder that is cut off with the leader ends before the next starts" {
	bg nsenter -t "${net[0]}" -U --preserve-credentials \
	    nsenter -t "${net[$leader]}" -n "$program" run -t 6s -r 500ms \
	    -g 300ms -b etcd://127.0.0.1/test a -- "$builddir/tests/probe" \
	    out.a 2>err.a
	holder=$!
	wait_until 20 grep -qs ^tick out.a
	waiter a
	cut_off "$leader"
	assert_ends 79 "$holder"
	wait_until 30 is_gone "$waiter"
	assert_ends 0 "$waiter"
	assert_order out.a 2
}

@test "no majority for longer than the lease: every job ends in time" {
	holder a -t 6s -r 500ms
	waiter a --connect-timeout 60s
	kill -STOP "${member[${followers[0]}]}" "${member[${followers[1]}]}"
	assert_ends 79 "$holder"
	kill -CONT "${member[${followers[0]}]}" "${member[${followers[1]}]}"
	wait_until 40 is_gone "$waiter"
	assert_ends 0 "$waiter"
	assert_order out.a 2
}

# recorded NAME: that `today' is done for it, and by how many.
recorded() {
	run_tool 0 status --once --json "$1" >/dev/null
	grep -c '"key": "today"' <<<"$stdout"
}

some_wait() {
	grep -q 'cannot record that it is done' err.?
}

@test "--once: the leader is killed while it is recorded: once, or 74" {
	local -A first=() second=()
	local name status runs

	for name in a b c d e; do
		bg "$LEASERUN" run "${opts[@]}" --once today "$name" -- \
		    sh -c 'echo >>"ran.$0"; until [ -e go ]; do
			sleep 0.02; done' "$name" 2>"err.$name"
		first[$name]=$!
		wait_until 20 test -s "ran.$name"
		bg "$LEASERUN" run -v -w 100s "${opts[@]}" --once today \
		    "$name" -- sh -c 'echo >>"ran.$0"' "$name" 2>"wait.$name"
		second[$name]=$!
		wait_until 20 grep -q 'held by' "wait.$name"
	done
	# No election before somebody has tried without success.
	kill -STOP "${member[${followers[0]}]}"
	touch go
	kill -KILL "${member[$leader]}"
	wait_until 30 some_wait
	kill -CONT "${member[${followers[0]}]}"
	for name in a b c d e; do
		wait_until 60 is_gone "${first[$name]}"
		status=0
		wait "${first[$name]}" || status=$?
		wait_until 60 is_gone "${second[$name]}"
		wait "${second[$name]}"
		runs=$(wc -l <"ran.$name")
		echo "$name: status $status, run $runs times"
		[ "$status" -eq 0 ] || [ "$status" -eq 74 ]
		# Only what is not known to be recorded may be run again.
		[ "$status" -eq 74 ] || assert_equal "$runs" 1
		assert_equal "$(recorded "$name")" 1
		run_tool 0 run "${opts[@]}" --once today "$name" touch again
		[ ! -e again ]
	done
}

@test "a member that is cut off and frozen ones are passed over" {
	cut_off "${followers[0]}"
	for _ in 1 2 3 4; do
		run_tool 0 run "${opts[@]}" a true
		assert_equal "$output" ""
	done
	heal "${followers[0]}"
	kill -STOP "${member[${followers[0]}]}"
	for _ in 1 2 3 4; do
		run_tool 0 run "${opts[@]}" a true
		assert_equal "$output" ""
	done
}

@test "doctor tells leader, followers and what is missing" {
	run_tool 0 doctor
	assert_contains "$stdout" "3 members, any 1 may fail"
	assert_equal "$(grep -c ', follower,' <<<"$stdout")" 2
	run_tool 0 doctor -b etcd://10.77.0.1:2379/test
	assert_matches "$stdout" \
	    "note +cluster: 3 members, 1 in the URL; name all of them"
	kill -KILL "${member[${followers[0]}]}"
	wait_until 10 is_gone "${member[${followers[0]}]}"
	run_tool 0 doctor
	assert_matches "$stdout" \
	    "warning +member: http://10.77.0.${followers[0]}:2379: "
	assert_matches "$stdout" \
	    "warning +cluster: 3 members, 1 did not answer: none more may fail"
}

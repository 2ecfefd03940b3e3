# What every store has to do, seen from the command line.  Runs against
# $CONTRACT_URL (the file backend without it) with the options $CONTRACT_OPTS
# ("-o table=ops.lease") and the module in $CONTRACT_MODULES; names are new in
# every test, so the store may be one that others use too.  Under a link
# BACKEND-contract.bats, BACKEND.bash starts such a store for all tests and
# stops it.

load helpers

ROUNDS=$builddir/tests/rounds

backend=${BATS_TEST_FILENAME##*/}
backend=${backend%contract.bats}
backend=${backend%-}
[ -z "$backend" ] || load "$backend"

setup_file() {
	[ -z "$backend" ] || contract_store
}

teardown_file() {
	[ -z "$backend" ] || contract_store_stop
}

setup() {
	test_setup
	opts=()
	# Words without blanks, as on a command line.
	# shellcheck disable=SC2206
	[ -z "${CONTRACT_OPTS-}" ] || opts=($CONTRACT_OPTS)
	program=$LEASERUN
	if [ -n "${CONTRACT_URL-}" ]; then
		export LEASERUN_BACKEND=$CONTRACT_URL
		echo "module-dir = \"${CONTRACT_MODULES-$MODULES}\"" \
		    >leaserun.conf
		with_options
	fi
	name=c$BATS_TEST_NUMBER-$$-$RANDOM$RANDOM
	quick=(-t 4s -r 200ms -g 300ms)
	export LEASERUN
	run_tool 0 init
}

# Every leaserun of the test, nested ones too, gets the options of the store.
with_options() {
	[ ${#opts[@]} -gt 0 ] || return 0
	{
		echo '#!/bin/bash'
		echo 'command=$1'
		echo 'shift'
		printf 'exec %q "$command"' "$LEASERUN"
		printf ' %q' "${opts[@]}"
		echo ' "$@"'
	} >leaserun
	chmod 755 leaserun
	LEASERUN=$BATS_TEST_TMPDIR/leaserun
}

without_options() {
	LEASERUN=$program
}

# start FILE WORD...: a run in the background, $holder, whose job soon writes
# something to FILE.  WORDs are options, name and command.
start() {
	local file=$1

	shift
	bg "$LEASERUN" run "${quick[@]}" "$@" 2>holder.err
	holder=$!
	wait_until 20 test -s "$file" || { cat holder.err; return 1; }
}

# hold [OPTION]...: one that has the lease until let_go.  Its token is in the
# file held.
hold() {
	mkfifo go
	start held "$@" "$name" -- sh -c '
		echo "$LEASERUN_FENCE_TOKEN" >held.new
		mv held.new held
		read -r _ <go'
}

let_go() {
	timeout 10 sh -c 'echo >go'
}

lengthen_name() {
	while [ ${#name} -lt "$1" ]; do
		name+=n
	done
}

# token [NAME]: of a run of its own.
token() {
	run_tool 0 run "${1-$name}" -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"' >&2
	echo "$stdout"
}

# field KEY: what status says of the name, as JSON has it.
field() {
	run_tool 0 status --json "$name" >&2
	sed -n "s/^ *\"$1\": \(.*[^,]\),*\$/\1/p" <<<"$stdout"
}

state_is() {
	[ "$(field state)" = "\"$1\"" ]
}

# renewed_since TIME: the lease was renewed after what field renewed_at said.
renewed_since() {
	[ "$(field renewed_at)" != "$1" ]
}

# all_but_one_gone PID...: sets $winner to the one.
all_but_one_gone() {
	local -a left=()
	local pid

	for pid; do
		is_gone "$pid" || left+=("$pid")
	done
	winner=${left[0]-}
	[ ${#left[@]} -eq 1 ]
}

uptime_ms() {
	local seconds

	read -r seconds _ </proc/uptime
	echo "$((10#${seconds/./} * 10))"
}

# --- A run ---

@test "a command runs, its input and output are its own" {
	printf 'in\nput' >in
	run_tool 0 run "$name" cat <in
	assert_equal "$stdout" $'in\nput'
	assert_equal "$stderr" ""
	run_tool 0 run "$name" -- sh -c 'echo error >&2'
	assert_equal "$stderr" error
}

@test "the exit status is the command's own" {
	local n

	for n in 0 1 2 63 64 69 70 74 75 77 78 79 124 126 127 128 200 255; do
		run_tool $n run "$name" -- sh -c "exit $n"
		assert_equal "$output" ""
	done
}

@test "the arguments reach the command as they are" {
	run_tool 0 run "$name" -- printf '<%s>' -v --help -- '' 'a  b' '$HOME' \
	    '*'
	assert_equal "$stdout" '<-v><--help><--><><a  b><$HOME><*>'
	run_tool 0 run "$name" echo -v --help
	assert_equal "$stdout" '-v --help'
}

@test "the token is decimal and grows with every run" {
	local last=0 next

	for _ in 1 2 3 4 5; do
		next=$(token)
		assert_matches "$next" '^[1-9][0-9]{0,18}$'
		[ "$next" -gt "$last" ] || fail "$next after $last"
		last=$next
	done
}

@test "the token grows over runs that fail, die or cannot start" {
	local last

	last=$(token)
	run_tool 3 run "$name" -- sh -c 'exit 3'
	run_tool 137 run "$name" -- sh -c 'kill -KILL $$'
	run_tool 127 run "$name" -- ./missing
	run_tool 126 run "$name" -- ./leaserun.conf
	[ "$(token)" -ge $((last + 3)) ]
}

@test "the token grows over init" {
	local last

	last=$(token)
	run_tool 0 init
	[ "$(token)" -gt "$last" ]
}

@test "init --raise-token is a floor for all names" {
	local floor

	floor=$(($(token) + 1000))
	run_tool 0 init --raise-token "$floor"
	[ "$(token)" -gt "$floor" ]
	[ "$(token "$name-other")" -gt "$floor" ]
}

@test "init --print prints and changes nothing" {
	local last

	last=$(token)
	run_tool 0 init --print --raise-token $((last + 1000))
	[ -n "$stdout" ]
	[ "$(token)" -lt $((last + 1000)) ]
}

@test "doctor finds nothing bad" {
	run_tool 0 doctor
	[ -n "$stdout" ]
	assert_equal "$stderr" ""
}

@test "the command finds its lease in its environment" {
	export LEASERUN_NAME=wrong LEASERUN_FENCE_TOKEN=wrong
	export LEASERUN_OWNER=wrong LEASERUN_TTL=wrong LEASERUN_RUN_ID=wrong
	run_tool 0 run -t 7s --owner 'my label' --token-env OUTER "$name/x y" \
	    -- env
	assert_contains $'\n'"$stdout"$'\n' $'\n'"LEASERUN_NAME=$name/x y"$'\n'
	assert_contains "$stdout" 'LEASERUN_OWNER=my label'
	assert_contains "$stdout" 'LEASERUN_TTL=7'
	assert_matches "$stdout" 'LEASERUN_RUN_ID=[0-9a-f]{32}'
	assert_matches "$stdout" 'LEASERUN_CHAIN=my%20label:[0-9a-f]{32}'
	assert_matches "$stdout" 'LEASERUN_FENCE_TOKEN=([1-9][0-9]*)'
	assert_contains "$stdout" "OUTER=${BASH_REMATCH[1]}"
	assert_lacks "$stdout" =wrong
}

# --- Held elsewhere ---

@test "a name that is held: 75, silent, not run" {
	hold
	run_tool 75 run "$name" touch ran
	assert_equal "$output" ""
	[ ! -e ran ]
	let_go
	assert_ends 0 "$holder"
	run_tool 0 run "$name" touch ran
	[ -e ran ]
}

@test "-v says who holds it" {
	hold --owner 'the other one'
	run_tool 75 run -v "$name" touch ran
	assert_equal "$stdout" ""
	assert_contains "$stderr" "'the other one'"
	assert_contains "$stderr" "pid $holder"
	assert_contains "$stderr" "token $(cat held)"
	assert_contains "$stderr" "host '$(uname -n)'"
	[ ! -e ran ]
}

@test "-E sets the status of a skip, also to 0" {
	hold
	run_tool 0 run -E 0 "$name" touch ran
	assert_equal "$output" ""
	run_tool 99 run --conflict-exit-code 99 "$name" touch ran
	[ ! -e ran ]
}

@test "--complain-after makes a skip loud once it has been held for longer" {
	complains() {
		! "$LEASERUN" run -E 0 --complain-after 2s "$name" touch ran \
		    2>loud
	}

	hold --owner stuck
	run_tool 9 run -E 9 --complain-after 1h "$name" touch ran
	assert_equal "$output" ""
	wait_until 20 complains
	run_tool 75 run -E 9 --complain-after 2s "$name" touch ran
	assert_contains "$stderr" "'stuck' (host '$(uname -n)', pid $holder"
	run_tool 75 run -q -E 0 -w 3s --complain-after 2s "$name" touch ran
	assert_contains "$stderr" "has been blocked"
	let_go
	assert_ends 0 "$holder"
	[ ! -e ran ]
}

@test "--complain-after counts how long the holder had it during the wait" {
	hold
	run_tool 75 run -E 9 -w 4s --complain-after 3s --events ev "$name" \
	    touch ran
	assert_contains "$stderr" "has been blocked"
	assert_matches "$(grep -F '"not_run"' ev)" \
	    '"blocked".*"held_for_ms":([3-9][0-9]{3}|[0-9]{5,}),'
	[ ! -e ran ]
}

@test "--wait gets the lease when it is released" {
	local waiter

	hold
	bg "$LEASERUN" run -v -w 60s "$name" -- sh -c \
	    'echo "$LEASERUN_FENCE_TOKEN" >got' 2>waiter.err
	waiter=$!
	wait_until 20 file_has waiter.err "pid $holder"
	let_go
	assert_ends 0 "$waiter"
	assert_ends 0 "$holder"
	[ "$(cat got)" -gt "$(cat held)" ]
}

@test "--wait that runs out: 75 after that time, not run" {
	local -i from to

	hold
	from=$(uptime_ms)
	run_tool 75 run -w 3s "$name" touch ran
	to=$(uptime_ms)
	assert_equal "$output" ""
	[ ! -e ran ]
	# The clock has steps of 10 ms.
	[ $((to - from)) -ge 1480 ]
	[ $((to - from)) -le 6500 ]
	let_go
	assert_ends 0 "$holder"
	run_tool 0 run "$name" true
}

@test "a waiter that is stopped: 128+N, nothing stays held" {
	local waiter

	hold
	bg "$LEASERUN" run -v -w inf "$name" touch ran 2>waiter.err
	waiter=$!
	wait_until 20 file_has waiter.err "pid $holder"
	kill -TERM "$waiter"
	assert_ends 143 "$waiter"
	let_go
	assert_ends 0 "$holder"
	[ ! -e ran ]
	run_tool 0 run "$name" true
}

@test "of eight that start at once one runs" {
	local -a pids=()
	local pid

	mkfifo go
	for _ in 1 2 3 4 5 6 7 8; do
		bg "$LEASERUN" run "${quick[@]}" "$name" -- sh -c \
		    'echo run >>ran; read -r _ <go'
		pids+=("$!")
	done
	wait_until 30 all_but_one_gone "${pids[@]}"
	let_go
	for pid in "${pids[@]}"; do
		if [ "$pid" = "$winner" ]; then
			assert_ends 0 "$pid"
		else
			assert_ends 75 "$pid"
		fi
	done
	assert_equal "$(cat ran)" run
}

@test "waiters run one after another, with growing tokens" {
	local -a pids=()
	local pid

	for _ in 1 2 3 4 5 6; do
		bg "$LEASERUN" run -w 60s "$name" -- sh -c '
			mkdir inside || exit 9
			echo "$LEASERUN_FENCE_TOKEN" >>tokens
			rmdir inside'
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		assert_ends 0 "$pid"
	done
	assert_equal "$(wc -l <tokens)" 6
	assert_equal "$(sort -nu tokens)" "$(cat tokens)"
}

# --- status and check ---

@test "status shows who holds the name" {
	hold --owner 'the other one'
	run_tool 0 status "$name"
	assert_matches "$stdout" "$name +held +the other one +$holder "
	assert_contains "$stdout" " $(cat held) "
	run_tool 0 status
	assert_contains "$stdout" "$name "
	let_go
	assert_ends 0 "$holder"
	run_tool 0 status "$name"
	assert_matches "$stdout" "$name +free "
	assert_contains "$stdout" " $(cat held) "
}

@test "status --json has every field" {
	hold --owner 'the other one'
	assert_equal "$(field name)" "\"$name\""
	assert_equal "$(field state)" '"held"'
	assert_equal "$(field label)" '"the other one"'
	assert_equal "$(field host)" "\"$(uname -n)\""
	assert_equal "$(field pid)" "$holder"
	assert_equal "$(field token)" "$(cat held)"
	assert_matches "$(field owner)" '^"the%20other%20one:[0-9a-f]{32}"$'
	assert_matches "$(field acquired_at)" '^"20[0-9T:.-]+Z"$'
	assert_matches "$(field renewed_at)" '^"20[0-9T:.-]+Z"$'
	assert_matches "$(field held_for_ms)" '^[0-9]+$'
	assert_matches "$(field expires_in_ms)" '^([0-9]+|null)$'
	assert_equal "$(field last_run)" null
	let_go
	assert_ends 0 "$holder"
	assert_equal "$(field state)" '"free"'
	assert_equal "$(field owner)" null
	assert_equal "$(field token)" "$(cat held)"
	assert_equal "$(field status)" 0
}

@test "status of a name never heard of: free, without a token" {
	assert_equal "$(field state)" '"free"'
	assert_equal "$(field token)" null
	assert_equal "$(field last_run)" null
	run_tool 0 status -v "$name"
	assert_contains "$stderr" "no lease '$name' was ever granted in '"
	run_tool 0 run "$name" -- true
	run_tool 0 status -v "$name"
	assert_lacks "$stderr" "ever granted"
}

@test "status tells how the last run ended" {
	run_tool 7 run "$name" -- sh -c 'exit 7'
	assert_equal "$(field status)" 7
	assert_matches "$(field ran_ms)" '^[0-9]+$'
	run_tool 143 run "$name" -- sh -c 'kill -TERM $$'
	assert_equal "$(field status)" 143
	run_tool 127 run "$name" -- ./missing
	run_tool 0 status "$name"
}

@test "the heartbeat renews the lease" {
	local first

	hold
	first=$(field renewed_at)
	wait_until 20 renewed_since "$first"
	assert_equal "$(field token)" "$(cat held)"
}

@test "check tells the holder's token from others" {
	local token

	run_tool 75 check --token 1 "$name"
	hold
	token=$(cat held)
	run_tool 0 check --token "$token" "$name"
	assert_equal "$output" ""
	run_tool 75 check --token $((token - 1)) "$name"
	run_tool 75 check --token $((token + 1)) "$name"
	let_go
	assert_ends 0 "$holder"
	run_tool 75 check --token "$token" "$name"
}

@test "check inside the job knows its token" {
	run_tool 0 run "$name" -- "$LEASERUN" check "$name"
	run_tool 75 run "$name" -- "$LEASERUN" check --token 1 "$name"
}

@test "a store that cannot tell: 69 for check, status, revoke and run" {
	local -a fake=(--module-dir "$MODULES" -b "fake:$PWD/fake")
	local op

	without_options
	run_tool 0 init "${fake[@]}"
	for op in acquire list revoke; do
		echo unavailable >"fake/script.$op"
	done
	run_tool 69 check "${fake[@]}" --token 1 "$name"
	run_tool 69 status "${fake[@]}"
	run_tool 69 revoke "${fake[@]}" "$name"
	run_tool 69 run "${fake[@]}" --connect-timeout 300ms "$name" touch ran
	assert_contains "$stderr" unavailable
	[ ! -e ran ]
}

# --- revoke ---

@test "revoke ends the job, all of it, with 79" {
	local file

	start pid.command "$name" -- sh -c '
		setsid sh -c "trap \"\" TERM; echo \$\$ >pid.session
		    while :; do sleep 0.1; done" &
		sh -c "trap \"\" TERM; echo \$\$ >pid.child
		    while :; do sleep 0.1; done" &
		echo $$ >pid.command
		wait'
	for file in pid.session pid.child; do
		wait_until 20 test -s "$file"
	done
	run_tool 0 revoke "$name"
	assert_contains "$stdout" asked
	assert_ends 79 "$holder"
	for file in pid.*; do
		is_gone "$(cat "$file")" || fail "$file is alive"
	done
	assert_contains "$(cat holder.err)" revoked
	run_tool 0 run "$name" true
}

@test "revoke of a name that was never granted says so" {
	run_tool 0 revoke "$name-mistyped"
	assert_contains "$stdout" "is not held"
	assert_contains "$stdout" "never granted"
	run_tool 0 run "$name" true
	run_tool 0 revoke "$name"
	assert_contains "$stdout" "is not held"
	assert_lacks "$stdout" "never granted"
}

@test "check, status, run and revoke inside a job find its store" {
	mkdir elsewhere
	run_tool 79 run "${quick[@]}" "$name" -- sh -c '
		cd elsewhere
		env >../env
		"$1" check "$2" && "$1" status "$2" >../seen &&
		    "$1" run "$2-in" -- "$1" check "$2-in" &&
		    "$1" revoke "$2" && exec sleep 60' \
		- "$program" "$name"
	file_has seen "$name"
}

@test "revoke of a job that obeys TERM lets it clean up" {
	start held "$name" -- sh -c '
		trap "echo clean >cleaned; exit 0" TERM
		echo >held
		while :; do sleep 0.05; done'
	run_tool 0 revoke "$name"
	assert_ends 79 "$holder"
	assert_equal "$(cat cleaned)" clean
}

@test "--lost-exit-code is the status after a revoke" {
	hold --lost-exit-code 5
	run_tool 0 revoke "$name"
	assert_ends 5 "$holder"
}

@test "--lost-exit-code 0 does not make a success of what was revoked" {
	hold --lost-exit-code 0 --once today
	run_tool 0 revoke "$name"
	assert_ends 0 "$holder"
	run_tool 0 run --once today "$name" touch ran
	[ -e ran ]
}

@test "revoke --wait returns when the name is free" {
	hold
	run_tool 0 revoke --wait 20s "$name"
	run_tool 0 run "$name" true
	assert_ends 79 "$holder"
}

@test "revoke --wait that runs out: 75" {
	hold -t 60s -r 20s
	run_tool 75 revoke --wait 300ms "$name"
	is_alive "$holder"
	state_is revoking
}

@test "revoke --token of another token: 75, nothing is done" {
	local token

	hold
	token=$(cat held)
	run_tool 75 revoke --token $((token + 1)) "$name"
	assert_contains "$stderr" "$token"
	state_is held
	run_tool 0 revoke --token "$token" "$name"
	assert_ends 79 "$holder"
}

@test "revoke of a name that is not held: 0 and says so" {
	run_tool 0 revoke "$name"
	assert_contains "$stdout" 'not held'
	run_tool 0 run "$name" true
	run_tool 0 revoke "$name"
	assert_contains "$stdout" 'not held'
	run_tool 0 revoke --wait 5s "$name"
}

@test "a revoke that its holder never saw is not for the next one" {
	local first

	hold -t 60s -r 20s
	run_tool 0 revoke "$name"
	let_go
	wait_until 20 is_gone "$holder"
	rm go held
	hold
	first=$(field renewed_at)
	wait_until 20 renewed_since "$first"
	state_is held
	let_go
	assert_ends 0 "$holder"
}

# --- Names ---

@test "hostile names are independent of each other" {
	local -a names=(job job2 'job/1' job/ jo J 'a  b' "o'brien" '"q"' .. .
	    %2F 'j%2F' 'jö€' '*' '$(id)' '; DROP TABLE lease' NULL "\\" 0
	    "$(printf 'n%.0s' {1..200})")
	local -a args=(sh -c '"$LEASERUN" status --json "$@" >list' sh)
	local this

	for this in "${names[@]}"; do
		args+=("$name$this")
	done
	# Each inside the one before it, so that all are held at a time.
	for this in "${names[@]}"; do
		args=("$LEASERUN" run "$name$this" -- "${args[@]}")
	done
	"${args[@]}" 3>&- || fail "exit status $?"
	assert_equal "$(grep -c '"state": "held"' list)" ${#names[@]}
	assert_equal "$(sed -n 's/^ *"owner": //p' list | sort -u | wc -l)" \
	    ${#names[@]}
	for this in "${names[@]}"; do
		run_tool 0 status "$name$this"
		assert_contains "$stdout" "$name$this "
		assert_lacks "$stdout" ' held '
	done
}

@test "names of only dots, slashes and dashes can be held" {
	local this

	for this in . .. / // a- %; do
		run_tool 0 run -w 20s "$this" echo "$this"
		assert_equal "$stdout" "$this"
	done
}

@test "what is not a name is refused by every command" {
	local this

	for this in '' $'a\nb' $'a\tb' $'\033[1m' $'\xff' $'\xc0\xaf' \
	    "$(printf 'n%.0s' {1..241})" "$(printf '€%.0s' {1..27})"; do
		run_tool 64 run "$this" touch ran
		run_tool 64 status "$this"
		run_tool 64 check --token 1 "$this"
		run_tool 64 revoke "$this"
	done
	[ ! -e ran ]
}

@test "the longest name works" {
	lengthen_name 240
	hold
	run_tool 75 run "$name" true
	run_tool 0 run "${name:0:239}" true
	assert_equal "$(field state)" '"held"'
}

# --- Minimum hold, own chain, unclean ends ---

@test "--min-hold keeps the name after a short job" {
	local -i from to

	from=$(uptime_ms)
	run_tool 0 run --min-hold 4s "$name" true
	[ $(($(uptime_ms) - from)) -lt 4000 ]
	run_tool 75 run "$name" touch ran
	state_is min-hold
	assert_equal "$(field pid)" null
	assert_equal "$(field unclean_end)" false
	run_tool 0 run -w 15s "$name" true
	to=$(uptime_ms)
	[ $((to - from)) -ge 3980 ]
	[ ! -e ran ]
	run_tool 0 run "$name" touch ran
}

@test "--min-hold of a run that was killed is not shortened" {
	hold --min-hold 60s
	# shellcheck disable=SC2046
	kill -KILL $(test_processes)
	assert_ends 137 "$holder"
	wait_until 20 state_is min-hold
	assert_equal "$(field pid)" null
	assert_equal "$(field unclean_end)" true
	run_tool 75 run "$name" touch ran
	[ ! -e ran ]
	run_tool 75 check --token "$(cat held)" "$name"
	assert_contains "$stderr" "(ended, token $(cat held) is kept by"
	run_tool 0 revoke --force "$name"
	assert_contains "$stdout" "the --min-hold of token $(cat held) is ended"
	run_tool 0 revoke --force "$name"
	assert_contains "$stdout" "is not held"
	run_tool 0 run "$name" true
}

@test "--min-hold shorter than the job changes nothing" {
	hold --min-hold 1ms
	run_tool 75 run "$name" true
	let_go
	assert_ends 0 "$holder"
	run_tool 0 run "$name" true
}

@test "a run inside its own lease is refused at once, not waited for" {
	local -i from

	run_tool 64 run "$name" -- "$LEASERUN" run "$name" touch ran
	assert_contains "$stderr" outer
	from=$(uptime_ms)
	run_tool 64 run "$name" -- "$LEASERUN" run -w inf "$name" touch ran
	run_tool 64 run "$name" -- "$LEASERUN" run "$name-inner" -- \
	    sh -c '"$LEASERUN" run -w 60s "$1" touch ran; exit $?' sh "$name"
	[ $(($(uptime_ms) - from)) -lt 10000 ]
	[ ! -e ran ]
	run_tool 0 run "$name" -- "$LEASERUN" run "$name-inner" touch ran
	[ -e ran ]
}

# daemon [OPTION]...: of a run that is over, with all that it inherited; it
# executes what is put into the file order, and has ended when there is a file
# over.  The token of the run is in the file outer.
daemon() {
	cat >daemon <<-'END'
		echo "$LEASERUN_FENCE_TOKEN" >outer
		until [ -e order ]; do sleep 0.02; done
		sh order >said 2>&1
		echo $? >status
		mv status over
	END
	run_tool 0 run --leftovers leave "$@" "$name" -- \
	    sh -c 'setsid sh daemon >daemon.out 2>&1 &'
	wait_until 20 test -s outer
}

# order SCRIPT: of the daemon, with the name in $1.
order() {
	printf 'set -- %q\n%s\n' "$name" "$1" >order.new
	mv order.new order
}

assert_obeyed() {
	wait_until 60 test -e over
	cat said
	assert_equal "$(cat over)" "$1"
}

@test "a daemon that outlived its run is not inside it" {
	daemon
	order '"$LEASERUN" check "$1"
		[ $? -eq 75 ] || exit
		"$LEASERUN" run "$1" -- sh -c '\''
			echo "$LEASERUN_FENCE_TOKEN" >first
			exec "$LEASERUN" run --token-env INNER "$1-inner" -- \
			    sh -c "echo \$LEASERUN_FENCE_TOKEN \$INNER >both"
		'\'' sh "$1" || exit
		"$LEASERUN" run -w 60s "$1" -- sh -c \
		    '\''echo "$LEASERUN_FENCE_TOKEN" >second'\'''
	assert_obeyed 0
	[ "$(cat first)" -gt "$(cat outer)" ]
	[ "$(cat second)" -gt "$(cat first)" ]
	assert_matches "$(cat both)" '^([0-9]+) ([0-9]+)$'
	assert_equal "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
}

@test "a daemon that outlived its run skips and waits as others do" {
	daemon
	hold
	order '"$LEASERUN" check "$1"
		[ $? -eq 75 ] || exit
		"$LEASERUN" run "$1" touch ran.never
		[ $? -eq 75 ] || exit
		echo >skipped
		exec "$LEASERUN" run -w 60s "$1" touch ran'
	wait_until 60 test -e skipped
	let_go
	assert_obeyed 0
	assert_ends 0 "$holder"
	[ -e ran ]
	[ ! -e ran.never ]
}

@test "a daemon that outlived its run waits for the rest of --min-hold" {
	daemon --min-hold 6s
	order '"$LEASERUN" run "$1" touch ran.never
		[ $? -eq 75 ] || exit
		exec "$LEASERUN" run -w 60s "$1" touch ran'
	assert_obeyed 0
	[ -e ran ]
	[ ! -e ran.never ]
}

@test "a daemon that its run still waits for is inside it" {
	run_tool 0 run "$name" -- sh -c '
		echo "exec \"\$LEASERUN\" run -w inf \"$1\" touch ran" >inner
		setsid sh -c "sh inner 2>said; echo \$? >over" &' sh "$name"
	assert_obeyed 64
	assert_contains "$(cat said)" outer
	[ ! -e ran ]
}

@test "the name is free after a command that died or could not start" {
	run_tool 143 run "$name" -- sh -c 'kill -TERM $$'
	state_is free
	run_tool 137 run "$name" -- sh -c 'kill -KILL $$'
	state_is free
	run_tool 127 run "$name" -- ./missing
	state_is free
	run_tool 126 run "$name" -- ./leaserun.conf
	state_is free
}

@test "the lease is kept until the last process of the job has ended" {
	mkfifo go
	start command "$name" -- sh -c '
		(read -r _ <go) &
		echo $$ >command
		exit 3'
	wait_until 20 is_gone "$(cat command)"
	run_tool 75 run "$name" true
	let_go
	assert_ends 3 "$holder"
	run_tool 0 run "$name" true
}

@test "what is left of a run that was killed is taken over" {
	hold
	# Keeper, guard and job, so that nobody can release it.
	# shellcheck disable=SC2046
	kill -KILL $(test_processes)
	assert_ends 137 "$holder"
	run_tool 0 run -w 15s "$name" -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
	[ "$stdout" -gt "$(cat held)" ]
	assert_contains "$stderr" 'took over'
	assert_contains "$stderr" "$(cat held)"
	run_tool 0 run "$name" true
	assert_equal "$output" ""
}

# --- Once ---

# keys [NAME]: those that are done, newest first, as JSON has them.
keys() {
	run_tool 0 status --once --json "${1-$name}" >&2
	sed -n 's/^ *"key": \(.*\),$/\1/p' <<<"$stdout"
}

# once KEY [OPTION]...: a run of its own that says so in the file ran.
once() {
	run_tool 0 run --once "$@" "$name" -- sh -c 'echo run >>ran'
}

# has_run COUNT
has_run() {
	[ "$(cat ran 2>/dev/null | wc -l)" -eq "$1" ] ||
	    fail "not $1 runs: $(cat ran)"
}

@test "--once: a second run is not one, silently; -v says so" {
	once today
	once today
	assert_equal "$output" ""
	once today -w 20s -v
	assert_contains "$stderr" "'$name': not run, it is done (today)"
	has_run 1
	once tomorrow -v
	assert_contains "$stderr" "done for tomorrow"
	has_run 2
	run_tool 0 run "$name" -- sh -c 'echo run >>ran'
	has_run 3
	state_is free
}

@test "--once: who fails is replaced by the next one" {
	run_tool 3 run --once today "$name" -- sh -c 'exit 3'
	run_tool 127 run --once today "$name" -- ./missing
	run_tool 137 run --once today "$name" -- sh -c 'kill -KILL $$'
	assert_equal "$(keys)" ""
	once today
	once today
	has_run 1
}

@test "--once: the last end stays when nothing is run" {
	local last

	once today
	last=$(field ended_at)
	once today
	assert_equal "$(field ended_at)" "$last"
	assert_equal "$(field status)" 0
	assert_equal "$(field unclean_end)" false
}

# contenders COUNT [OPTION]...: they start at the same instant, but for each
# third that comes as late as $late says.  The statuses are in $statuses.
contenders() {
	local -i i n=$1
	local -a pids=()
	local pid status

	shift
	mkfifo gate
	for ((i = 0; i < n; i++)); do
		bg sh -c 'echo >"ready.$0"
			read -r _ <gate
			sleep "$1"
			shift
			exec "$@"' "$i" "${late[i % 3]}" \
		    "$LEASERUN" run --connect-timeout 60s "$@" "$name" -- \
		    sh -c 'echo run >>ran'
		pids+=("$!")
	done
	for ((i = 0; i < n; i++)); do
		wait_until 20 test -e "ready.$i"
	done
	# Whoever opens it for reading waits for this, all of them.
	timeout 10 sh -c ': >gate'
	statuses=
	for pid in "${pids[@]}"; do
		status=0
		wait_until 100 is_gone "$pid"
		wait "$pid" || status=$?
		statuses+=" $status"
	done
}

@test "--once: of eighteen that start at the same instant one runs" {
	local late=(0 0 0)

	contenders 18 --once today
	has_run 1
	assert_matches "$statuses " "^( 0| 75)+ $"
	assert_equal "$(keys)" '"today"'
}

@test "--once: of eighteen that start 0, 200 ms and 1 s late one runs" {
	local late=(0 0.2 1)

	contenders 18 --once today
	has_run 1
	# Those that come late find that it is done, or still being done.
	assert_matches "$statuses " "^( 0| 75)+ $"
}

@test "--once: round after round, within a millisecond: one run each" {
	timeout 100 "$ROUNDS" 50 40 8 ran "$LEASERUN" run --once @round \
	    -w @wait "$name" -- sh -c 'echo r >>ran' >said 2>&1 3>&- ||
	    fail "$(cat said)"
	cat said
	[ "$(keys | sort -u | wc -l)" -eq "$(wc -l <ran)" ]
}

@test "--once: eighteen that wait all end with 0, and one runs" {
	local late=(0 0 0)

	contenders 18 --once today -w 60s
	has_run 1
	assert_equal "${statuses// 0/}" ""
}

@test "--once: waiters go with 0 when the holder succeeds" {
	local -a pids=()
	local pid i

	hold --once today
	for i in 1 2 3; do
		bg "$LEASERUN" run -v -w 60s --once today "$name" touch ran \
		    2>waiter.$i
		pids+=("$!")
		wait_until 20 file_has waiter.$i "pid $holder"
	done
	let_go
	assert_ends 0 "$holder"
	for pid in "${pids[@]}"; do
		assert_ends 0 "$pid"
	done
	[ ! -e ran ]
	file_has waiter.1 "it is done (today)"
}

@test "--once: a waiter runs when the holder fails" {
	local -a pids=()
	local pid

	mkfifo go
	start held --once today "$name" -- sh -c '
		echo >held; read -r _ <go; exit 4'
	for _ in 1 2 3; do
		bg "$LEASERUN" run -w 60s --once today "$name" -- \
		    sh -c 'echo run >>ran'
		pids+=("$!")
	done
	let_go
	assert_ends 4 "$holder"
	for pid in "${pids[@]}"; do
		assert_ends 0 "$pid"
	done
	has_run 1
}

@test "--once: a holder that is killed, all of it, is replaced" {
	hold --once today
	# shellcheck disable=SC2046
	kill -KILL $(test_processes)
	assert_ends 137 "$holder"
	once today -w 15s
	has_run 1
	assert_equal "$(keys)" '"today"'
}

@test "--once: a holder that is revoked is replaced" {
	start held --once today "$name" -- sh -c '
		trap "exit 0" TERM
		echo >held
		while :; do sleep 0.05; done'
	run_tool 0 revoke "$name"
	assert_ends 79 "$holder"
	assert_equal "$(keys)" ""
	once today
	has_run 1
}

@test "--once: odd keys are independent, and are shown as they are" {
	local -a odd=(a A 'a  b' 'a b' "o'brien" .. % %25 'ö€' '*' '$(id)'
	    '; DROP TABLE lease' 0 "$(printf 'k%.0s' {1..240})" -)
	local key

	for key in "${odd[@]}"; do
		once "$key"
		once "$key"
	done
	has_run ${#odd[@]}
	assert_equal "$(keys | wc -l)" ${#odd[@]}
	for key in "${odd[@]}"; do
		assert_contains "$(keys)" "\"$key\""
	done
	assert_equal "$(keys "$name-")" ""
}

@test "--once: what is not a key is refused, before anything is run" {
	local key

	for key in '' $'a\nb' $'\033[1m' $'\xff' "$(printf 'k%.0s' {1..241})" \
	    "$(printf '€%.0s' {1..27})"; do
		run_tool 64 run --once "$key" "$name" touch ran
		assert_contains "$stderr" once
	done
	run_tool 64 run --once-per soon "$name" touch ran
	assert_contains "$stderr" soon
	run_tool 64 run --once-per 0 "$name" touch ran
	run_tool 64 run --once a --once-per 1d "$name" touch ran
	assert_contains "$stderr" "exclude each other"
	run_tool 64 run -o keep=junk --once a "$name" touch ran
	assert_contains "$stderr" junk
	run_tool 64 run -o keep=0 --once a "$name" touch ran
	[ ! -e ran ]
	assert_equal "$(keys)" ""
}

@test "--once and --once-per in the configuration file" {
	cp leaserun.conf all.conf
	cat >>leaserun.conf <<-END
		job "$name" { once = "from the file" }
		job "$name-per" { once-per = "9999d" }
	END
	run_tool 0 run "$name" -- sh -c 'echo run >>ran'
	run_tool 0 run "$name" -- sh -c 'echo run >>ran'
	has_run 1
	assert_equal "$(keys)" '"from the file"'
	# The command line counts.
	once other
	has_run 2
	run_tool 0 run "$name-per" -- sh -c 'echo run >>ran'
	run_tool 0 run "$name-per" -- sh -c 'echo run >>ran'
	has_run 3
	assert_matches "$(keys "$name-per")" '^"9999d@[-0-9T:]+Z"$'
	cat all.conf - >leaserun.conf <<<'once = "x"
		once-per = "1d"'
	run_tool 78 run "$name" touch never
	cat all.conf - >leaserun.conf <<<'option { keep = "junk" }'
	run_tool 78 run "$name" touch never
	assert_contains "$stderr" junk
	cat all.conf - >leaserun.conf <<<'option { keep = "90d" }'
	once again
	[ ! -e never ]
}

@test "--once with --min-hold: what is done is not waited for" {
	once today --min-hold 60s
	state_is min-hold
	once today
	once today -w 60s
	has_run 1
	run_tool 75 run --once tomorrow "$name" touch ran.too
	[ ! -e ran.too ]
}

@test "--once-per: one run in each period" {
	local -i i

	for ((i = 0; i < 400; i++)); do
		run_tool 0 run --once-per 1s "$name" -- sh -c 'echo run >>ran'
		[ "$(wc -l <ran)" -lt 4 ] || break
		sleep 0.02
	done
	has_run 4
	[ "$i" -ge 4 ]
	assert_equal "$(keys | sort -u | wc -l)" 4
	assert_matches "$(keys | head -n 1)" \
	    '^"1s@20[0-9-]+T[0-9:]+Z"$'
	# The name of the newest period comes first.
	assert_equal "$(keys)" "$(keys | sort -r)"
}

@test "--once-per: one length does not count for another, nor a key" {
	run_tool 0 run --once-per 9999d "$name" -- sh -c 'echo run >>ran'
	run_tool 0 run --once-per 9998d "$name" -- sh -c 'echo run >>ran'
	once today
	has_run 3
	run_tool 0 run --once-per 239976h "$name" -- sh -c 'echo run >>ran'
	has_run 3
}

@test "status --once shows what is done, when, by whom, how long" {
	local token

	run_tool 0 status --once "$name"
	assert_equal "$(wc -l <<<"$stdout")" 1
	run_tool 0 run --once 'day 1' --owner 'my label' "$name" -- \
	    sh -c 'echo "$LEASERUN_FENCE_TOKEN"; sleep 0.2'
	token=$stdout
	once 'day 2'
	run_tool 0 status --once "$name"
	assert_matches "$stdout" \
	    "$name +day 1 +20[0-9T:.-]+Z +$token +my label +$(uname -n) +[0-9ms]+"
	assert_matches "$(sed -n 2p <<<"$stdout")" 'day 2'
	run_tool 0 status --once
	assert_contains "$stdout" "day 1"
	assert_contains "$stdout" "$name "
	run_tool 0 status --once --json "$name"
	assert_contains "$stdout" "\"name\": \"$name\""
	assert_contains "$stdout" '"label": "my label"'
	assert_contains "$stdout" "\"host\": \"$(uname -n)\""
	assert_contains "$stdout" "\"token\": $token"
	assert_matches "$stdout" '"owner": "my%20label:[0-9a-f]{32}"'
	assert_matches "$stdout" '"done_at": "20[0-9T:.-]+Z"'
	assert_matches "$stdout" '"ran_ms": [2-9][0-9]{2,}|"ran_ms": 1[0-9]{3,}'
	run_tool 0 status --once --json "$name-unknown"
	assert_equal "$stdout" "[]"
	run_tool 0 status --once "$name" "$name-unknown"
	assert_contains "$stdout" "day 1"
	run_tool 0 status "$name"
	assert_lacks "$stdout" "day 1"
}

# What contrib/container/README says of containers, with what they are made of:
# namespaces.  That process 1 reaps orphans, ends with TERM and passes the exit
# status on is in start.bats.

load helpers
load jobs

readme=$srcdir/contrib/container/README

# container COMMAND...: in the background; $outer ends with it, $first is its
# process 1.
container() {
	bg unshare --fork --pid --mount-proc "$@"
	outer=$!
	wait_until 20 eval 'first=$(cat "/proc/$outer/task/$outer/children" \
	    2>/dev/null) && [ -n "$first" ]'
	first=${first% }
}

# entrypoint TEXT: the script of README with that line, as it stands but for
# what it runs, in the file `entrypoint'.
entrypoint() {
	awk -v line="    $1" '
	    /^    #!/ { script = "" }
	    /^    / { script = script substr($0, 5) "\n" }
	    $0 == line { found = 1 }
	    /^$/ && found { printf "%s", script; exit }' "$readme" |
	    sed -e "s,leaserun run weekly-digest,\"\$LEASERUN\" run job," \
	    -e "s,/usr/local/bin/send-digest,sh $PWD/job," \
	    -e "s,/usr/local/bin/prepare,touch prepared," >entrypoint
	[ "$(wc -l <entrypoint)" -ge 3 ] || fail "no such script"
	cat entrypoint
}

is_free() {
	run_tool 0 status job && [[ $stdout == *free* ]]
}

@test "an entry point that executes leaserun: TERM acts, the job may clean up" {
	export LEASERUN
	echo 'trap "echo cleaned >said; exit 3" TERM; echo up >up
	    while :; do sleep 0.02; done' >job
	entrypoint 'exec leaserun run weekly-digest -- /usr/local/bin/send-digest'
	container sh entrypoint
	wait_until 20 test -s up
	[ -e prepared ]
	kill -TERM "$first"
	assert_ends 3 "$outer"
	assert_equal "$(cat said)" cleaned
	is_free
}

@test "an entry point that passes TERM on: the job may clean up" {
	export LEASERUN
	echo 'trap "echo cleaned >said; exit 3" TERM; echo up >up
	    while :; do sleep 0.02; done' >job
	entrypoint "trap 'kill -TERM \$!' TERM"
	container sh entrypoint
	wait_until 20 test -s up
	[ "$(awk '/^NSpid:/ { print $3 }' \
	    "/proc/$(pgrep -P "$first")/status")" != 1 ]
	kill -TERM "$first"
	assert_ends 3 "$outer"
	assert_equal "$(cat said)" cleaned
	is_free
}

@test "an entry point that passes TERM on: the status is the command's" {
	export LEASERUN
	echo 'exit 7' >job
	entrypoint "trap 'kill -TERM \$!' TERM"
	run timeout 30 unshare --fork --pid --mount-proc sh entrypoint
	assert_equal "$status" 7
}

@test "as a child of process 1: orphans of the job are waited for" {
	export LEASERUN
	echo '(setsid sh -c "while [ ! -e over ]; do sleep 0.02; done
	    echo last >said" &) ; echo up >up' >job
	entrypoint "trap 'kill -TERM \$!' TERM"
	container sh entrypoint
	wait_until 20 test -s up
	run_tool 75 run job touch ran
	touch over
	assert_ends 0 "$outer"
	assert_equal "$(cat said)" last
	[ ! -e ran ]
}

@test "as process 1 that waits: orphans of others are reaped" {
	local -i n

	bg "$LEASERUN" run job -- sh -c 'echo >held; exec sleep 300'
	wait_until 20 test -s held
	container setsid "$LEASERUN" run --wait 2m job -- touch ran
	# The guard, and what the backend waits with.
	children() {
		[ "$(ps -o pid= --ppid "$first" | wc -l)" -eq 2 ]
	}
	wait_until 20 has_guard "$first"
	wait_until 20 children
	for ((n = 0; n < 3; n++)); do
		nsenter --target "$first" --pid setsid --wait sh -c 'sleep 0.1 &'
	done
	wait_until 20 children
	kill -TERM "$first"
	assert_ends 143 "$outer"
	[ ! -e ran ]
}

@test "process 1 is killed: nothing is left of the job, the next takes over" {
	container "$LEASERUN" run job -- sh -c \
	    '(setsid sleep 1000 &); trap "" TERM; echo up >up; sleep 1000'
	wait_until 20 test -s up
	kill -KILL "$first"
	wait_until 20 is_gone "$outer"
	wait_until 20 is_free
	run_tool 0 run -v job true
	assert_contains "$stderr" "took over"
}

@test "containers that share a directory exclude each other" {
	container "$LEASERUN" run --owner one job -- sh -c \
	    'echo up >up; while [ ! -e over ]; do sleep 0.02; done'
	wait_until 20 test -s up
	run unshare --fork --pid --mount-proc "$LEASERUN" run -v job touch ran
	assert_equal "$status" 75
	assert_contains "$output" "held by 'one'"
	[ ! -e ran ]
	run unshare --fork --pid --mount-proc "$LEASERUN" status job
	assert_matches "$output" 'job +held +one +1 '
	touch over
	assert_ends 0 "$outer"
	is_free
}

@test "the words of the Dockerfile make a command line" {
	local -a words

	mapfile -t words < <(sed -nE 's/^(ENTRYPOINT|# +CMD) //p' \
	    "$srcdir/contrib/container/Dockerfile" | tac | jq -r '.[]')
	assert_equal "${words[*]}" "leaserun run weekly-digest -- \
/usr/local/bin/send-digest"
	run_tool 127 "${words[@]:1}"
}

#!/usr/bin/env bats
# The command line as a user sees it, on the file backend.

load helpers

# hold NAME: a run in the background that holds it until `touch over'.
hold() {
	bg "$LEASERUN" run "$1" -- sh -c \
	    'echo "$LEASERUN_FENCE_TOKEN" >token
	    while [ ! -e over ]; do sleep 0.02; done'
	holder=$!
	wait_until 10 test -s token
}

@test "help goes to standard output and exits 0" {
	run_tool 0 --help
	assert_contains "$stdout" "usage: leaserun COMMAND"
	assert_equal "$stderr" ""
	for command in run status check revoke init doctor fence; do
		run_tool 0 "$command" --help
		assert_contains "$stdout" "usage: leaserun $command"
		assert_equal "$stderr" ""
	done
	run_tool 0 --version
	assert_matches "$stdout" '^leaserun [0-9.]+'
}

@test "a usage error names the word, points at --help and exits 64" {
	run_tool 64
	assert_contains "$stderr" "see 'leaserun --help'"
	run_tool 64 rum job true
	assert_contains "$stderr" "'rum' is not a command"
	run_tool 64 run --ttk 5s job true
	assert_contains "$stderr" "--ttk"
	assert_contains "$stderr" "leaserun run --help"
	run_tool 64 run
	assert_contains "$stderr" "name of the lease is missing"
	run_tool 64 run job
	assert_contains "$stderr" "command is missing after 'job'"
	run_tool 64 run job --
	assert_contains "$stderr" "command is missing after 'job'"
	run_tool 64 run job ''
	assert_contains "$stderr" "command is empty"
	run_tool 64 check
	run_tool 64 revoke
	run_tool 64 init surplus
	assert_contains "$stderr" "'surplus' is one word too many"
	assert_equal "$stdout" ""
}

@test "two words in front of -- are refused" {
	run_tool 64 run job --max-run 2s true
	assert_contains "$stderr" "options come before the name"
	run_tool 64 -v run job true
	assert_contains "$stderr" "options come after"
	run_tool 64 run nightly job -- true
	assert_contains "$stderr" "'job' stands before '--'"
}

@test "a forgotten name or file is not taken from the command" {
	for words in "run -- touch ran" "run -- touch a b" "run -v -- touch" \
	    "run -- -x touch ran" "fence --token 1 -- touch ran" \
	    "fence -- touch"; do
		# shellcheck disable=SC2086
		run_tool 64 $words
		assert_contains "$stderr" "is missing in front of '--'"
		assert_contains "$stderr" "-- COMMAND"
	done
	[ ! -e ran ]
	run_tool 0 run -- -x -- touch ran
	[ -e ran ]
	run_tool 0 fence --token 1 -- report -- true
	[ -e report.fence ]
	run_tool 75 check --token 1 -- -x
}

@test "an unknown backend: what there is, and what a URL looks like" {
	mkdir modules
	touch modules/other.so modules/another.so modules/not-one.so \
	    modules/libx.so.1 modules/another.la
	run_tool 78 run --module-dir modules -b odd://h job touch ran
	assert_contains "$stderr" "no backend for 'odd:'"
	assert_contains "$stderr" "begins with file:, another: or other: here"
	run_tool 78 doctor --module-dir nowhere -b odd://h
	assert_contains "$stderr" "begins with file: here"
	run_tool 64 status -b odd
	assert_contains "$stderr" "postgres://"
	assert_contains "$stderr" "etcd://"
	run_tool 0 run --help
	assert_contains "$stdout" "postgres://"
	[ ! -e ran ]
}

@test "an unknown option of a backend: all that there are, also keep" {
	run_tool 78 run -o kep=1d job true
	assert_contains "$stderr" "allow-network-fs"
	assert_contains "$stderr" "keep"
	[ -z "${BACKENDS:-}" ] || {
		run_tool 78 run --module-dir "$BACKENDS" -b etcd://h -o x=y j true
		assert_contains "$stderr" "keep"
		run_tool 78 run --module-dir "$BACKENDS" -b postgres://h -o x=y \
		    j true
		assert_contains "$stderr" "keep"
	}
}

@test "options for the store of all jobs do not stop one with another" {
	cat >leaserun.conf <<-END
		backend = "etcd://127.0.0.1:1"
		option { user = cron password-file = none }
		job other { backend = "file:$PWD/state" }
	END
	run_tool 0 run other touch ran
	[ -e ran ]
	run_tool 0 run -b "file:$PWD/state" job true
	LEASERUN_BACKEND=file:$PWD/state run_tool 0 status
	run_tool 78 run -o user=cron other true
	assert_contains "$stderr" "no option 'user'"
	echo 'job other { option { usr = x } }' >>leaserun.conf
	run_tool 78 run other true
	assert_contains "$stderr" "no option 'usr'"
}

@test "a password on the command line is one only if it is there" {
	local at=(--module-dir "$PWD")

	for url in postgres:/cron@h/ops postgres:///cron@h postgres:cron@h \
	    etcd:/cron@h; do
		run_tool 78 run "${at[@]}" -b "$url" job true
		assert_lacks "$stderr" "shows in ps"
	done
	for url in postgres:/cron:x@h/ops postgres://:x@h postgres:cron:x@h \
	    'etcd:/h?password=x'; do
		run_tool 78 run "${at[@]}" -b "$url" job true
		assert_contains "$stderr" "shows in ps"
		run_tool 78 status "${at[@]}" -b "$url" job
		assert_contains "$stderr" "shows in ps"
	done
}

@test "habits of flock are answered with what to write" {
	run_tool 64 run -n job true
	assert_contains "$stderr" "without --wait a lease that is held is skipped"
	run_tool 64 run job -c 'true'
	assert_contains "$stderr" "write NAME -- sh -c 'COMMAND'"
	run_tool 64 run job --wait 5s -- true
	assert_contains "$stderr" "options come before the name"
	run_tool 64 fence --token 1 data --wait 5s -- true
	assert_contains "$stderr" "options come before the file"
	run_tool 64 run -x job true
	assert_contains "$stderr" "each lease is exclusive"
	assert_equal "$(ls -A state)" ""
}

@test "values out of range are refused before anything is done" {
	for bad in '--ttl 1s' '--ttl 0' '--ttl -5' '--ttl 1e12' '--ttl 10x' \
	    '--ttl 18446744073709551616' '--wait -1' '--wait 0.5' \
	    '--renew-every 0' '--grace 10m' '-E 256' '-E 600' '-E -1' \
	    '-E 0x1' '--lost-exit-code 300' '--max-run 0' \
	    '--leftovers maybe' '--token-env 1X' '--token-env LEASERUN_X' \
	    '--log file' '-b nonsense' '-o novalue'; do
		# shellcheck disable=SC2086
		run_tool 64 run $bad job -- touch started
		assert_contains "$stderr" "leaserun run --help"
	done
	[ ! -e started ]
	assert_equal "$(ls -A state)" ""
}

@test "a schedule that does not fit is refused with its numbers" {
	run_tool 64 run --ttl 10s --renew-every 4s --grace 2s job true
	for number in 10s 4s 2s 400ms; do
		assert_contains "$stderr" "$number"
	done
}

@test "options end at the name, and the command's words are its own" {
	run_tool 0 run job printf '<%s>' -v --help --version -b --ttl ''
	assert_equal "$stdout" "<-v><--help><--version><-b><--ttl><>"
	run_tool 0 run job -- printf '<%s>' - -- --name
	assert_equal "$stdout" "<-><--><--name>"
	run_tool 0 run job echo '$HOME; `id` *'
	assert_equal "$stdout" '$HOME; `id` *'
}

@test "the command's status comes through, from 0 to 255" {
	for status in $(seq 0 255); do
		code=0
		"$LEASERUN" run job -- sh -c "exit $status" || code=$?
		assert_equal "$code" "$status"
	done
}

@test "busy, a failing job and a broken store look different" {
	hold job
	run_tool 75 run job -- false
	run_tool 75 run job -- true
	run_tool 1 run other -- sh -c 'exit 1'
	chmod 777 state
	run_tool 78 run job -- false
}

@test "a skip is silent, -v says who holds it" {
	hold job
	run_tool 75 run job true
	assert_equal "$output" ""
	run_tool 75 run -v --owner me job true
	assert_contains "$stderr" "held by '$(hostname)'"
	assert_contains "$stderr" "token $(cat token)"
	assert_equal "$stdout" ""
	run_tool 0 run -E 0 job true
	run_tool 42 run --conflict-exit-code 42 job true
}

@test "-v says at once that the command runs, and that it does not" {
	bg "$LEASERUN" run -v job -- sh -c \
	    'while [ ! -e over ]; do sleep 0.02; done' 2>said
	wait_until 30 file_has said "started process"
	touch over
	assert_ends 0 $!
	run_tool 127 run -v job -- ./nothing
	assert_lacks "$stderr" "started process"
}

@test "--complain-after makes a long skip loud whatever -E says" {
	hold job
	run_tool 0 run -E 0 --complain-after 1h job true
	assert_equal "$output" ""
	complains() {
		"$LEASERUN" run -E 0 --complain-after 1s job true 2>loud
		[ $? -eq 75 ]
	}
	wait_until 10 complains
	assert_contains "$(cat loud)" "has been blocked by"
	assert_contains "$(cat loud)" "token $(cat token)"
}

@test "messages into a pipe that nobody reads change no exit status" {
	quiet() {
		local want=$1 status=0

		shift
		timeout -s KILL 20 "$LEASERUN" "$@" 2>&6 3>&- || status=$?
		assert_equal "$status" "$want"
	}

	hold job
	mkfifo dead
	exec 7<>dead 6>dead 7<&-
	quiet 64 run --nonsense
	quiet 75 run -v job -- touch ran
	quiet 75 check --token 1 job
	quiet 3 run -vv other -- sh -c 'touch ran; exit 3'
	[ -e ran ]
	quiet 3 fence -v --token 1 file -- sh -c 'touch written; exit 3'
	[ -e written ]
	# That of the command is its own.
	quiet 141 run other -- sh -c 'echo >&2; echo >&2'
	exec 6>&-
}

@test "without standard input and /dev/null nothing is run: 70" {
	status=0
	unshare --mount sh -c 'mount -t tmpfs none /dev && exec "$@" <&-' sh \
	    "$LEASERUN" run job touch ran 2>err || status=$?
	assert_equal "$status" 70
	file_has err "cannot open /dev/null in place of a missing"
	[ ! -e ran ]
}

@test "what would control a terminal is not in a message" {
	run_tool 78 status -b $'file:/x\033[1m\302\23331m\177' job
	assert_contains "$stderr" "'/x?[1m??31m?'"
}

@test "a limit of the file size is an error and no signal" {
	limited() {
		(ulimit -c 0 && ulimit -f 0 && exec timeout -s KILL 20 \
		    "$LEASERUN" "$@") 3>&-
	}
	# says STATUS ARG...: what it writes goes through a pipe.
	says() {
		local want=$1

		shift
		{ limited "$@" 2>&1 || echo "status $?"; } | cat >said
		cat said
		file_has said "status $want"
		file_has said "raise the limit of the file size"
	}

	hold job
	for words in "run -v job -- true" "check --token 1 job"; do
		: >said
		status=0
		# shellcheck disable=SC2086
		limited $words 2>>said || status=$?
		assert_equal "$status" 75
		[ ! -s said ]
	done
	says 78 revoke job
	says 78 init --raise-token 2000000000000
	says 78 doctor
}

@test "a wait that runs out is 75 and names the holder" {
	hold job
	run_tool 75 run -v --wait 200ms job -- touch started
	assert_contains "$stderr" "the wait ran out"
	[ ! -e started ]
}

@test "a waiter gets the lease when it is released" {
	hold job
	bg "$LEASERUN" run --wait inf job -- sh -c \
	    'echo "$LEASERUN_FENCE_TOKEN" >second'
	waiter=$!
	waits() {
		[ "$("$LEASERUN" status --json | grep -c '"waiting": 1')" = 1 ]
	}
	wait_until 10 waits
	touch over
	assert_ends 0 "$waiter"
	assert_ends 0 "$holder"
	[ "$(cat second)" -gt "$(cat token)" ]
}

@test "the command gets its environment, replaced and not added" {
	local name

	export LEASERUN_FENCE_TOKEN=7 LEASERUN_NAME=old LEASERUN_CHAIN=x:1 \
	    LEASERUN_OWNER=old LEASERUN_TTL=7 LEASERUN_RUN_ID=old TOK=7
	run_tool 0 run --ttl 90s --owner 'web 03' --token-env TOK 'a/b c' env
	for name in LEASERUN_{NAME,FENCE_TOKEN,OWNER,TTL,RUN_ID,CHAIN} TOK \
	    LEASERUN_BACKEND; do
		assert_equal "$name $(grep -c "^$name=" <<<"$stdout")" "$name 1"
	done
	assert_contains "$stdout" 'LEASERUN_NAME=a/b c'
	assert_matches "$stdout" 'LEASERUN_FENCE_TOKEN=[1-9][0-9]{12}'
	assert_matches "$stdout" 'TOK=[1-9][0-9]{12}'
	assert_contains "$stdout" 'LEASERUN_OWNER=web 03'
	assert_contains "$stdout" 'LEASERUN_TTL=90'
	assert_matches "$stdout" 'LEASERUN_RUN_ID=[0-9a-f]{32}'
	assert_matches "$stdout" 'LEASERUN_CHAIN=x:1 web%2003:[0-9a-f]{32}'
	assert_contains "$stdout" "LEASERUN_BACKEND=$LEASERUN_BACKEND"
}

@test "nested leases work, and one in its own chain is refused at once" {
	run_tool 0 run a -- "$LEASERUN" run --token-env INNER b -- sh -c \
	    'echo "$LEASERUN_NAME $LEASERUN_CHAIN" | wc -w'
	assert_equal "$stdout" 3
	run_tool 64 run --wait inf a -- "$LEASERUN" run --wait inf a -- true
	assert_contains "$stderr" "outer run"
	run_tool 64 run a -- "$LEASERUN" run b -- "$LEASERUN" run a -- true
}

@test "tokens grow by every grant, decimal, without a sign" {
	last=0
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		run_tool 0 run job -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
		assert_matches "$stdout" '^[1-9][0-9]*$'
		[ "$stdout" -gt "$last" ]
		last=$stdout
	done
}

@test "death by a signal comes through as death by that signal" {
	for signal in TERM KILL SEGV USR1 INT; do
		status=0
		bash -c '"$@"; exit $?' - "$LEASERUN" run job -- \
		    bash -c "kill -$signal \$\$" 2>/dev/null || status=$?
		assert_equal "$status" "$((128 + $(kill -l "$signal")))"
	done
	run_tool 0 run job true
	[ -z "$(find . -name 'core*')" ]
}

@test "what cannot be executed is 126 or 127, and the lease is free again" {
	run_tool 127 run job -- no-such-command
	assert_contains "$stderr" "'job': cannot run 'no-such-command'"
	assert_contains "$stderr" "PATH"
	: >plain
	chmod 644 plain
	run_tool 126 run job -- ./plain
	run_tool 126 run job -- ./home
	printf '#!/no/such/interpreter\n' >script
	chmod 755 script
	run_tool 126 run job -- ./script
	assert_contains "$stderr" "interpreter"
	ln -s nowhere dangling
	run_tool 127 run job -- ./dangling
	run_tool 0 run job true
}

@test "an argument that is too long is 126 and says so" {
	run_tool 126 run job -- sh -c 'env BIG="$(head -c 131072 /dev/zero |
	    tr "\0" x)" true'
	big=$(head -c 131070 /dev/zero | tr '\0' x)
	status=0
	"$LEASERUN" run job -- true "$big" || status=$?
	assert_equal "$status" 0
}

@test "odd names are independent of each other" {
	for name in job job2 job/1 job/ jo . .. .hidden 'a b' '%41' A ü \
	    "'); drop table x" '-' kickoff:ACH; do
		run_tool 0 run -- "$name" -- sh -c 'echo "$LEASERUN_NAME"'
		assert_equal "$stdout" "$name"
	done
	hold job
	for name in job2 job/1 job/ jo JOB 'job '; do
		run_tool 0 run "$name" true
	done
	assert_equal "$(find . -maxdepth 2 -newer leaserun.conf -name '*%*' |
	    sort -u | wc -l)" "$(find state -name '*%*' | wc -l)"
}

@test "names that cannot be are refused" {
	run_tool 64 run '' true
	run_tool 64 run $'a\nb' true
	run_tool 64 run $'\xff\xfe' true
	run_tool 64 run $'a\x7f' true
	run_tool 64 run "$(printf 'x%.0s' $(seq 241))" true
	assert_contains "$stderr" "240"
	run_tool 0 run "$(printf 'x%.0s' $(seq 240))" true
}

@test "an empty LEASERUN_BACKEND is a configuration error" {
	LEASERUN_BACKEND='' run_tool 78 run job true
	assert_contains "$stderr" "LEASERUN_BACKEND"
	assert_contains "$stderr" "unset it"
	LEASERUN_CONFIG='' run_tool 78 run job true
	assert_contains "$stderr" "LEASERUN_CONFIG"
}

@test "a backend that is not installed is named" {
	run_tool 78 run -b nosuch://host/db job -- touch started
	assert_contains "$stderr" "nosuch"
	[ ! -e started ]
}

@test "a module of another contract, or none at all, is refused" {
	mkdir modules
	: >modules/empty.so
	run_tool 78 run --module-dir "$PWD/modules" -b empty:x job true
	assert_contains "$stderr" "empty"
	run_tool 78 run --module-dir "$PWD/modules" -b ../empty:x job true ||
	    run_tool 64 run -b ../empty:x job true
	cp "$MODULES/elsewhere.so" modules
	run_tool 78 run --module-dir "$PWD/modules" -b elsewhere:x job true
	assert_contains "$stderr" "elsewhere.so' is not a backend of leaserun"
	run_tool 78 run -b "$(printf 'a%.0s' {1..99}):x" job true
	assert_contains "$stderr" "too long; write one such as file:"
}

@test "a password in the URL is never shown again" {
	run_tool 78 run -vv -b 'nosuch://cron:sEcret@db/ops' job true
	assert_lacks "$output" sEcret
	assert_contains "$stderr" "shows in ps"
	LEASERUN_BACKEND='nosuch://cron:sEcret@db/ops' \
	    run_tool 78 run -vv job true
	assert_lacks "$output" sEcret
}

@test "an option behind a name is no name" {
	for command in status check revoke; do
		run_tool 64 "$command" job --json
		assert_contains "$stderr" "options come before the name"
		assert_contains "$stderr" "'--json'"
		assert_equal "$stdout" ""
	done
	run_tool 64 status job -- other
	run_tool 0 status -- -v --json
	assert_contains "$stdout" "--json"
}

@test "a password in a word that is in the wrong place is not shown" {
	local word

	for word in --backend=nosuch://cron:sEcret@db/ops \
	    -bnosuch://cron:sEcret@db/ops nosuch://cron:sEcret@db/ops \
	    --option=password=sEcret backend=nosuch://cron:sEcret@db/ops; do
		run_tool 64 "$word" run job -- true
		assert_lacks "$output" sEcret
		for words in "job $word -- true" "-- $word" "-- $word --"; do
			# shellcheck disable=SC2086
			run_tool 64 run $words
			assert_lacks "$output" sEcret
			# shellcheck disable=SC2086
			run_tool 64 fence --token 1 $words
			assert_lacks "$output" sEcret
		done
		run_tool 64 run -- "$word"$'\n' -- true
		assert_lacks "$output" sEcret
		run_tool 127 run job -- "$word"
		assert_lacks "$output" sEcret
		run_tool 127 fence --token 1 job -- "$word"
		assert_lacks "$output" sEcret
		for command in check revoke; do
			run_tool 64 "$command" job "$word"
			assert_lacks "$output" sEcret
			run_tool 64 "$command" -- "$word"$'\n'
			assert_lacks "$output" sEcret
		done
		for command in init doctor; do
			run_tool 64 "$command" -- "$word"
			assert_lacks "$output" sEcret
		done
	done
}

@test "no part of a password is shown, whatever is not encoded" {
	for word in 'sEcret' 'x@sEcret' 'x#sEcret' 'x?sEcret' 'x/sEcret' \
	    '1/sEcret' '1?a=sEcret' 'sEcret@x' 'sEcret/x@y' 'x@y/sEcret?z'; do
		for url in "nosuch://cron:$word@db/ops" \
		    "file://cron:$word@db/ops" "no such://cron:$word@db/ops" \
		    "nosuch://cron:x${word//@/}"; do
			export LEASERUN_BACKEND=$url
			run_tool 78 run -vv --events ev job true
			assert_lacks "$output" sEcret
			[ ! -e ev ] || assert_lacks "$(cat ev)" sEcret
			echo "backend = '$url'" >leaserun.conf
			chmod 600 leaserun.conf
			unset LEASERUN_BACKEND
			run_tool 78 run -vv --events ev job true
			assert_lacks "$output" sEcret
			[ ! -e ev ] || assert_lacks "$(cat ev)" sEcret
			: >leaserun.conf
		done
	done
	[ -s ev ]
}

@test "a leaserun inside a job gets its options and configuration" {
	unset LEASERUN_CONFIG LEASERUN_BACKEND
	mkdir elsewhere leases
	echo "backend = \"file:$PWD/leases\"" >site.conf
	run_tool 0 run --config site.conf -o allow-network-fs=no job -- sh -c '
		env
		cd elsewhere
		"$1" check job && "$1" status && "$1" run inner -- \
		    env' - "$LEASERUN"
	assert_contains "$stdout" "LEASERUN_CONFIG=$PWD/site.conf"
	assert_equal "$(grep -c '^LEASERUN_OPTIONS=allow-network-fs=no$' \
	    <<<"$stdout")" 2
	assert_contains "$(ls leases)" inner
	[ ! -e home/.local ]
	# None are left where there are none.
	run_tool 0 run --config site.conf job -- env
	assert_lacks "$stdout" LEASERUN_OPTIONS
	LEASERUN_OPTIONS=password=sEcret LEASERUN_BACKEND=file: \
	    run_tool 0 run -b "file:$PWD/leases" job -- env
	assert_lacks "$stdout" LEASERUN_OPTIONS
	# The variable is as it was, unless the option is given.
	LEASERUN_CONFIG=site.conf run_tool 0 run job -- env
	assert_contains "$stdout" "LEASERUN_CONFIG=site.conf"
	LEASERUN_CONFIG=/nowhere run_tool 0 run --config site.conf job -- env
	assert_contains "$stdout" "LEASERUN_CONFIG=$PWD/site.conf"
	assert_equal "$(grep -c '^LEASERUN_CONFIG=' <<<"$stdout")" 1
}

@test "LEASERUN_OPTIONS that are malformed are a configuration error" {
	LEASERUN_OPTIONS=nonsense run_tool 78 run job -- touch started
	assert_contains "$stderr" "LEASERUN_OPTIONS"
	[ ! -e started ]
	LEASERUN_OPTIONS=allow-network-fs=maybe run_tool 78 status
	LEASERUN_OPTIONS=nonsense run_tool 0 run -b "$LEASERUN_BACKEND" job true
}

@test "configuration, environment and command line count in this order" {
	cat >leaserun.conf <<-'EOF'
	ttl = 40s
	owner = "from-file"
	job "night*" { ttl = 50s }
	job "nightly" { owner = "exact" }
	EOF
	show='echo "$LEASERUN_TTL $LEASERUN_OWNER"'
	run_tool 0 run job -- sh -c "$show"
	assert_equal "$stdout" "40 from-file"
	run_tool 0 run nightly -- sh -c "$show"
	assert_equal "$stdout" "50 exact"
	run_tool 0 run --ttl 70s nightly -- sh -c "$show"
	assert_equal "$stdout" "70 exact"
	echo "backend = \"file:$PWD/elsewhere\"" >>leaserun.conf
	run_tool 0 run job true
	unset LEASERUN_BACKEND
	run_tool 78 run job true
	assert_contains "$stderr" "elsewhere"
}

@test "a bad configuration is named with file and line" {
	printf 'ttl = 40s\nttk = 5\n' >leaserun.conf
	run_tool 78 run job -- touch started
	assert_contains "$stderr" "leaserun.conf:2"
	assert_contains "$stderr" "ttk"
	chmod 666 leaserun.conf
	run_tool 78 run job -- touch started
	assert_contains "$stderr" "chmod"
	LEASERUN_CONFIG=/proc/self/mem run_tool 78 run job -- touch started
	assert_contains "$stderr" "mem: cannot be read: Input/output error"
	rm leaserun.conf
	run_tool 78 run job -- touch started
	[ ! -e started ]
}

# without_daemons COMMAND...: where no system log is, as in a container.
without_daemons() {
	timeout 60 unshare --mount sh -c 'mount -t tmpfs none /run &&
	    mount -t tmpfs none dev &&
	    mknod -m 666 dev/null c 1 3 && mknod -m 666 dev/urandom c 1 9 &&
	    ln -s /proc/self/fd dev/fd && mount --move dev /dev && exec "$@"' \
	    - "$@" 3>&-
}

@test "--log syslog without a system log: standard error" {
	mkdir dev
	status=0
	without_daemons "$LEASERUN" run --log syslog -v job false 2>err ||
	    status=$?
	assert_equal "$status" 1
	grep "leaserun: 'job': released, ended with 1 after " err
	assert_lacks "$(cat err)" "<"
	status=0
	without_daemons "$LEASERUN" run --log syslog 2>err || status=$?
	assert_equal "$status" 64
	assert_contains "$(cat err)" "leaserun: run: the name"
	status=0
	without_daemons "$LEASERUN" status --log syslog -b file:relative \
	    2>err || status=$?
	assert_equal "$status" 78
	assert_contains "$(cat err)" "absolute path"
}

@test "--log syslog: a daemon that goes away loses nothing" {
	cat >in-namespace <<-'XX'
	"$LISTEN" /dev/log >got &
	listen=$!
	until [ -S /dev/log ]; do sleep 0.02; done
	"$LEASERUN" run --log syslog -v job -- sh -c '
		until grep -q acquired got; do sleep 0.02; done
		kill "$1"
		while kill -0 "$1" 2>/dev/null; do sleep 0.02; done
		rm -f /dev/log' - $listen &
	wait $listen
	wait $!
	XX
	mkdir dev
	LISTEN=$builddir/tests/listen without_daemons sh in-namespace 2>err
	grep "leaserun\[[0-9]*\]: 'job': acquired" got
	grep -x "leaserun: 'job': released.*" err
}

@test "full disks of output are not a success" {
	status=0
	"$LEASERUN" --help >/dev/full 2>err || status=$?
	assert_equal "$status" 74
	assert_contains "$(cat err)" "standard output"
}

@test "status shows who holds what and how the last run ended" {
	run_tool 0 status job
	assert_contains "$stdout" "free"
	hold job
	run_tool 0 status
	assert_matches "$stdout" "job +held +$(hostname) +[0-9]+ .*$(cat token)"
	touch over
	assert_ends 0 "$holder"
	run_tool 3 run job -- sh -c 'exit 3'
	run_tool 0 status
	assert_contains "$stdout" "exit 3"
	run_tool 0 status --json job other
	assert_contains "$stdout" '"status": 3'
	assert_contains "$stdout" '"name": "other"'
	assert_contains "$stdout" '"state": "free"'
}

# on_terminal COLUMNS ARG...: what leaserun shows on one that is so wide.
on_terminal() {
	script -qec "stty -onlcr cols $1; $(printf '%q ' "$LEASERUN" "${@:2}")" \
	    typescript >/dev/null 3>&-
	sed '/^Script [a-z]* on /d' typescript | tee shown
}

# fits COLUMNS: no line of `shown' is wider.
fits() {
	run awk -v n="$1" 'length() > n' shown
	assert_equal "$output" ""
}

@test "status on a terminal: no line is wider than that, and nothing is cut" {
	local label=web-frontend-03.eu-west-1.example.com long i

	long=$(printf 'long-name-%.0s' {1..6})end
	for i in {1..12}; do
		run_tool 7 run "job-$i" -- sh -c 'exit 7'
	done
	run_tool 7 run 日本語 -- sh -c 'exit 7'
	on_terminal 80 status
	fits 80
	# What is empty in every row is left out.
	assert_matches "$(head -n 1 shown)" '^NAME +STATE +TOKEN +LAST RUN$'
	assert_equal "$(grep -c '^job-[0-9]*  *free  *[0-9]*  exit 7 ' shown)" 12
	# A character that takes two columns is counted as two.
	assert_equal "$(grep -o '^日本語 *' shown)" "日本語  "
	on_terminal 200 status
	assert_matches "$(head -n 1 shown)" 'HOLDER +PID +.*EXPIRES IN +LAST RUN'
	bg "$LEASERUN" run --owner "$label" "$long" -- sh -c \
	    'echo "$LEASERUN_FENCE_TOKEN" >token
	    while [ ! -e over ]; do sleep 0.02; done'
	wait_until 10 test -s token
	on_terminal 80 status "$long" job-1
	fits 80
	assert_matches "$(cat shown)" "^job-1  free
    token [0-9]+, last run exit 7 .* ago, ran [0-9a-z]+
$long  held
    holder $label, pid $!, held for [0-9a-z]+,
    token $(cat token)\$"
	# Elsewhere than on a terminal, always the same columns.
	run_tool 0 status "$long"
	assert_matches "$(cat stdout)" "^NAME .* EXPIRES IN  LAST RUN
$long  held +$label +$! .* $(cat token) +- +-\$"
	touch over
	assert_ends 0 "$!"
}

@test "status --once on a terminal" {
	run_tool 0 run --once "$(printf 'long-key-%.0s' {1..7})" job true
	on_terminal 80 status --once
	fits 80
	assert_matches "$(cat shown)" "^job  long-key-.*
    done at .*Z, token [0-9]+, by .*,[[:space:]]+host .*,[[:space:]]+ran [0-9a-z]+\$"
	on_terminal 200 status --once
	assert_matches "$(head -n 1 shown)" '^NAME +KEY +DONE AT +TOKEN +BY'
}

@test "status asks the store of each name" {
	mkdir a b
	cat >leaserun.conf <<-E
	backend = "file:$PWD/state"
	job "a*" { backend = "file:$PWD/a" }
	job "b" { backend = "file:$PWD/b" }
	E
	unset LEASERUN_BACKEND
	run_tool 3 run a1 -- sh -c 'exit 3'
	run_tool 4 run b -- sh -c 'exit 4'
	run_tool 5 run c -- sh -c 'exit 5'
	run_tool 0 status c a1 b
	assert_matches "$stdout" "a1 .*exit 3.*b .*exit 4.*c .*exit 5"
	run_tool 0 status -v --json -- a1 b
	assert_equal "$(grep -c '"status": [34]' stdout)" 2
	# Without a name, only what is not in a job block.
	run_tool 0 status
	assert_contains "$stdout" "exit 5"
	assert_lacks "$stdout" "exit 3"
	# The option beats all blocks.
	run_tool 0 status -b "file:$PWD/b" a1 b
	assert_lacks "$stdout" "exit 3"
	assert_contains "$stdout" "exit 4"
	# A default store that is not there does not matter.
	rm -r state
	run_tool 0 status a1 b
	run_tool 78 status a1 c
	assert_contains "$stderr" "$PWD/state"
}

# called NAME ARG...: on a host of that name; see $output.
called() {
	run unshare --uts sh -c 'printf "%s\n" "$1" >/proc/sys/kernel/hostname
	    shift; exec "$@"' sh "$1" "$LEASERUN" "${@:2}"
	[ "$status" -eq 0 ]
}

@test "a host without a name, or with a hostile one" {
	local show=("$LEASERUN" status job)

	called $'a\033 b%c' run --once one --events e job "${show[@]}"
	assert_matches "$output" 'job +held +a\? b%c +[0-9]'
	assert_equal "$(jq -r '.label, .host' e | sort -u)" 'a? b%c'
	called 'a b%c' run --once two job "${show[@]}"
	assert_matches "$output" 'job +held +a b%c +[0-9]'
	called '' run --once three job "${show[@]}"
	assert_matches "$output" 'job +held +localhost +[0-9]'
	run_tool 0 status --once --json job
	assert_equal "$(jq -rs '.[] | map(.label + "@" + .host) | join(" ")' \
	    stdout)" 'localhost@- a b%c@a b%c a? b%c@?'
}

@test "check tells the holder's token from others" {
	hold job
	run_tool 0 check --token "$(cat token)" job
	run_tool 75 check --token 1 job
	assert_contains "$stderr" "held with $(cat token)"
	run_tool 75 check -q --token 1 job
	assert_equal "$output" ""
	LEASERUN_FENCE_TOKEN=$(cat token) run_tool 0 check job
	run_tool 64 check job
	assert_contains "$stderr" "--token"
	LEASERUN_FENCE_TOKEN=x run_tool 64 check job
	run_tool 64 check --token -1 job
	touch over
	assert_ends 0 "$holder"
	run_tool 75 check --token "$(cat token)" job
	run_tool 0 run job -- "$LEASERUN" check job
	run_tool 75 run inner -- "$LEASERUN" check job
	assert_contains "$stderr" "of another lease"
}

@test "revoke asks the holder to end, which exits 79" {
	bg "$LEASERUN" run -r 100ms -g 100ms job -- sh -c \
	    'echo "$LEASERUN_FENCE_TOKEN" >token; exec sleep 1000'
	holder=$!
	wait_until 10 test -s token
	run_tool 75 revoke --token 1 job
	assert_contains "$stderr" "$(cat token)"
	is_alive "$holder"
	run_tool 0 revoke --wait 10s --token "$(cat token)" job
	assert_ends 79 "$holder"
	run_tool 0 revoke job
	assert_contains "$stdout" "not held"
}

@test "revoke --wait gives up with 75 while the job takes its time" {
	bg "$LEASERUN" run -r 1000ms -g 1s --ttl 20s job -- sh -c \
	    'trap "" TERM; echo x >token; while :; do sleep 0.1; done'
	holder=$!
	wait_until 10 test -s token
	run_tool 75 revoke --wait 100ms job
	assert_contains "$stderr" "still held"
	assert_ends 79 "$holder"
}

@test "revoke --force is refused for a kernel lock, with the pids" {
	hold job
	run_tool 78 revoke --force job
	assert_contains "$stderr" "$holder"
	is_alive "$holder"
}

@test "init prepares, --print changes nothing, tokens can be raised" {
	run_tool 0 init --print -b "file:$PWD/new"
	[ ! -e new ]
	run_tool 78 run -b "file:$PWD/new" job true
	assert_contains "$stderr" "leaserun init"
	run_tool 0 init -b "file:$PWD/new"
	assert_equal "$(stat -c %a new)" 700
	run_tool 0 init -b "file:$PWD/new"
	run_tool 0 init -b "file:$PWD/new" --raise-token 5000000000000
	run_tool 0 run -b "file:$PWD/new" job -- sh -c \
	    'echo "$LEASERUN_FENCE_TOKEN"'
	[ "$stdout" -gt 5000000000000 ]
	run_tool 64 init --raise-token 9223372036854775808
}

@test "doctor finds nothing wrong with a good store, and what is wrong" {
	run_tool 0 doctor
	assert_contains "$stdout" "this host"
	chmod 777 state
	run_tool 78 doctor
	assert_contains "$output" "chmod"
}

@test "--min-hold keeps the name after the command has ended" {
	run_tool 0 run --min-hold 1h job true
	run_tool 75 run job true
	run_tool 0 status job
	assert_contains "$stdout" "min-hold"
	assert_contains "$stdout" "59m"
	run_tool 75 run -v job true
	assert_contains "$stderr" "min-hold"
	run_tool 0 revoke job
	assert_contains "$stdout" "not held"
	run_tool 0 revoke --force job
	run_tool 0 run job true
	run_tool 0 run --min-hold 100ms short true
	run_tool 0 run --wait 10s short true
}

@test "--max-run ends the job with 124" {
	run_tool 124 run --max-run 100ms -g 100ms job -- sh -c \
	    'trap "" TERM; while :; do sleep 0.1; done'
	assert_contains "$stderr" "max-run"
	run_tool 0 run --max-run 1h job true
}

@test "standard input and output are the job's own" {
	head -c 5000000 /dev/urandom >data
	"$LEASERUN" run job -- cat <data >copy
	cmp data copy
	run_tool 0 run job -- sh -c 'yes | head -1'
	assert_equal "$output" y
}

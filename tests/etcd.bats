# The etcd backend against real servers of the test's own.

load helpers
load etcd

setup() {
	test_setup
	unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
	curl_opts=()
	ctl_opts=()
	quick=(-t 6s -r 500ms -g 300ms)
}

# --- The contract, in C ---

@test "the etcd backend keeps the contract" {
	etcd_start
	run "$builddir/tests/contract" "$builddir/backends/.libs/etcd.so" \
	    "$ETCD"
	printf '%s\n' "$output"
	assert_equal "$status" 0
	assert_lacks "$output" "not ok"
	assert_contains "$output" "1.."
}

@test "it does so over TLS, with certificates, users and passwords" {
	etcd_secure
	run "$builddir/tests/contract" "$builddir/backends/.libs/etcds.so" \
	    "$ETCD" "${secure_opts[@]}"
	printf '%s\n' "$output"
	assert_equal "$status" 0
	assert_lacks "$output" "not ok"
	assert_contains "$output" "1.."
}

# --- URL and options ---

@test "what is wrong with URL or options: 78, and no password is shown" {
	local url

	use etcd://127.0.0.1:1
	for url in etcd: etcd:/h etcd:// etcd:///p etcd://h:0 etcd://h:x \
	    etcd://h:65536 etcd://[::1 'etcd://h,,' 'etcd://h h' 'etcd://h/a b' \
	    etcd://user@h etcd://u:s3cret/x@h 'etcd://u:s3cret%zz@h' \
	    'etcd://u:s3cret@h?x' "etcd://u:s3cret@h/$(printf 'p%.0s' {1..300})"
	do
		run_tool 78 run -b "$url" "$BATS_TEST_NUMBER" touch ran
		assert_lacks "$output" s3cret
	done
	run_tool 78 run -o tabel=x job touch ran
	assert_contains "$stderr" "'tabel'"
	assert_contains "$stderr" password-file
	run_tool 78 run -o cacert=/etc/ca.pem job touch ran
	assert_contains "$stderr" etcds://
	run_tool 78 run -b etcds://h -o cert=x job touch ran
	for url in h:1 socks5://h:1 http://h http://u:s3cret@h:1 http://h:1/ \
	    http://:1x; do
		run_tool 78 run -o "proxy=$url" job touch ran
		assert_contains "$stderr" http://host:port
		assert_lacks "$output" s3cret
	done
	# One module in the place of the other, as an older one had it.
	ln -sf etcd.so modules/etcds.so
	run_tool 78 run -b etcds://h job touch ran
	assert_contains "$stderr" etcds.so
	run_tool 78 run -o user=x job touch ran
	run_tool 78 run -o user=x -o password-file=/nowhere job touch ran
	[ ! -e ran ]
}

# told TEXT ARG...: 78 with that text and nothing else.
told() {
	run_tool 78 run "${@:2}" job touch ran
	assert_contains "$stderr" "$1"
	[ ! -e ran ]
}

@test "which endpoint, and what is wrong with it" {
	use etcd://127.0.0.1:1
	told "bracket is open at endpoint 2" -b 'etcd://h,[::1'
	told "follows the bracket at endpoint 1" -b 'etcd://[::1]h'
	told "no port at endpoint 2" -o endpoints=h:1,h:
	told "too many endpoints at endpoint 17" \
	    -b "etcd://$(seq -f 'h%g,' 1 16 | tr -d '\n')h"
	told "other characters as %XX" -b "etcd://$(printf 'u%.0s' {1..999}):p@h"
}

@test "what is wrong with the file of a password" {
	local file

	use etcd://127.0.0.1:1
	echo s3cret >password
	chmod 600 password
	told "give -o user=" -o password-file=password
	mkdir -m 700 dir
	install -m 600 /dev/null empty
	install -m 600 <(printf '%04000d\n' 0) long
	install -m 600 <(printf 's3cret\xff\n') binary
	for file in "nowhere: No such file" "dir: it is not a regular file" \
	    "empty: it is empty" "long: its first line is too long" \
	    "/proc/self/mem: Input/output error"; do
		told "password from '${file%%: *}': ${file#*: }" \
		    -o user=x -o "password-file=${file%%: *}"
	done
	told "not UTF-8" -o user=x -o password-file=binary
	assert_lacks "$stderr" s3cret
	# What follows the first line does not count, however long it is.
	printf '%04000d\n' 0 >>password
	run_tool 69 run -o user=x -o password-file=password \
	    --connect-timeout 200ms job true
}

@test "doctor: a user for an etcd without users, and an alarm of corruption" {
	etcd_start
	use "$ETCD"
	install -m 600 <(echo s3cret) password
	run_tool 0 doctor -o user=x -o password-file=password
	assert_matches "$stdout" "warning +auth: user 'x' is given, but auth"
	curl -s "http://127.0.0.1:$etcd_port/v3/maintenance/alarm" \
	    -d '{"action": "ACTIVATE", "memberID": "1", "alarm": "CORRUPT"}' \
	    >answer
	run_tool 78 doctor
	assert_equal "$stderr" ""
	assert_matches "$stdout" "bad +alarm: CORRUPT: the members differ"
	assert_contains "$stdout" "replace the member that is wrong"
	assert_matches "$stdout" "note +rights: not tried"
	run_tool 69 run --connect-timeout 500ms job touch ran
	assert_contains "$stderr" "corrupt cluster (CORRUPT); look at etcd's"
	[ ! -e ran ]
}

@test "several endpoints, in the URL or as an option" {
	etcd_start
	use "etcd://127.0.0.1:1,127.0.0.1:$etcd_port,127.0.0.1:2/test"
	for _ in 1 2 3 4 5 6; do
		run_tool 0 run job true
		assert_equal "$output" ""
	done
	use etcd://127.0.0.1:1/test
	run_tool 0 run -o "endpoints=127.0.0.1:2,localhost:$etcd_port" job true
	use etcd:///test
	run_tool 0 run -o "endpoints=localhost:$etcd_port" job true
	run_tool 0 status -o "endpoints=localhost:$etcd_port" job
	assert_matches "$stdout" 'job +free +- +- +- +[0-9]'
}

@test "an IPv6 address" {
	[ -e /proc/net/if_inet6 ] || fail "this machine has no IPv6"
	use etcd://[::1]:1/test
	run_tool 69 run --connect-timeout 300ms job true
	assert_contains "$stderr" "[::1]:1"
	# With a zone.
	use etcd://[fe80::1%25none]:1/test
	run_tool 69 run --connect-timeout 300ms job true
	assert_contains "$stderr" "'fe80::1%none': "
	use etcds://[::1%251]:1/test
	run_tool 69 run --connect-timeout 2s job true
	assert_contains "$stderr" "connect to ::1 port 1"
	for url in '[::1%]' '[::1%25]' '[::1%1]' '[%251]' '[::1%25a b]'; do
		use "etcd://$url:1/test"
		run_tool 78 run job true
	done
	etcd_start
	etcd_stop
	etcd_run "$etcd_dir" --listen-client-urls \
	    "http://127.0.0.1:$etcd_port,http://[::1]:$etcd_port"
	use "etcd://[::1%251]:$etcd_port/test"
	run_tool 0 run job true
	assert_equal "$output" ""
	# Which is for nobody else.
	relay_start "$etcd_port"
	order "cut-once Host: [::1]:"
	run_tool 0 run -o "proxy=http://127.0.0.1:$relay_port" job true
	[ ! -e relay ]
}

@test "two prefixes are two stores" {
	etcd_start
	use "$ETCD"
	mkfifo go
	bg "$LEASERUN" run job -- sh -c 'echo >held; read -r _ <go'
	wait_until 20 test -s held
	run_tool 75 run job true
	run_tool 0 run -b "${ETCD}2" job true
	run_tool 0 run -b "$ETCD/job" job true
	run_tool 0 run -b "${ETCD%test}" job true
	run_tool 75 run job true
}

@test "proxies of the environment are not asked, one of -o proxy is" {
	etcd_start
	use "$ETCD"
	export http_proxy=http://127.0.0.1:1 all_proxy=http://127.0.0.1:1
	run_tool 0 run job true
	run_tool 69 run -o proxy=http://127.0.0.1:1 --connect-timeout 300ms \
	    job true
	relay_start "$etcd_port"
	run_tool 0 run -o "proxy=http://127.0.0.1:$relay_port" \
	    -b "etcd://127.0.0.1:$relay_port/test" job true
}

@test "nobody there: 69 within the time that was given" {
	local -i from

	use etcd://127.0.0.1:1
	from=$(date +%s%3N)
	run_tool 69 run --connect-timeout 1s job touch ran
	[ $(($(date +%s%3N) - from)) -lt 4000 ]
	assert_contains "$stderr" 127.0.0.1:1
	[ ! -e ran ]
}

# --- Answers that are lost ---

# The text that only this request has.
acquiring='"create_revision":"0"'
releasing='"target":"LEASE","result":"EQUAL"'

# With a relay in front of a server, and the name `job' free.
with_relay() {
	etcd_start
	relay_start "$etcd_port"
	use "etcd://127.0.0.1:$relay_port/test"
	direct=(-b "$ETCD")
}

@test "an acquire whose answer is lost finds its own grant" {
	local how what token

	with_relay
	for how in swallow lose cut; do
		for what in /v3/kv/txn /v3/lease/grant "$acquiring"; do
			order "$how-once $what"
			run_tool 0 run --connect-timeout 3s job -- \
			    sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
			assert_equal "$stderr" ""
			token=$stdout
			[ ! -e relay ] || fail "$how $what was not met"
			run_tool 0 status "${direct[@]}" job
			assert_contains "$stdout" " $token "
			assert_matches "$stdout" 'job +free '
		done
	done
	# Each was granted once: a grant changes the key `last'.
	assert_equal "$(ctl get /test/lease/job/last -w fields |
	    awk '/"Version"/ { print $3 }')" 9
}

@test "whom it took over is told, if its answer is lost, too" {
	local how

	with_relay
	for how in swallow lose cut; do
		ctl put /test/lease/job/last '{"layout": 1, "owner":
		    "away:1", "label": "away"}' >/dev/null
		order "$how-once $acquiring"
		run_tool 0 run --connect-timeout 3s job true
		assert_contains "$stderr" "took over from 'away'"
		[ ! -e relay ]
		order "$how-once $acquiring"
		run_tool 0 run --connect-timeout 3s job true
		assert_equal "$stderr" ""
	done
}

@test "a release whose answer is lost is no loss" {
	local how what

	with_relay
	for how in swallow lose cut; do
		for what in "$releasing" /v3/lease/revoke; do
			order "$how-once $what"
			run_tool 3 run job -- sh -c 'exit 3'
			assert_equal "$output" ""
			[ ! -e relay ] || fail "$how $what was not met"
			run_tool 0 status "${direct[@]}" --json job
			assert_contains "$stdout" '"state": "free"'
			assert_contains "$stdout" '"status": 3'
			run_tool 0 run "${direct[@]}" job true
			assert_equal "$output" ""
		done
	done
}

@test "renewals whose answers are lost are repeated" {
	local how

	with_relay
	for how in swallow lose cut; do
		order "$how-once /v3/lease/keepalive"
		run_tool 0 run "${quick[@]}" job -- sh -c \
		    'while [ -e relay ]; do sleep 0.05; done; sleep 1'
		[ ! -e relay ]
	done
}

@test "an acquire that is given up leaves nothing" {
	with_relay
	order "swallow $acquiring"
	run_tool 69 run --connect-timeout 1s job touch ran
	[ ! -e ran ]
	rm relay
	# What took effect without an answer was given back by owner alone.
	run_tool 0 run "${direct[@]}" job true
	assert_equal "$output" ""
	order "stall"
	run_tool 69 run --connect-timeout 1s job touch ran
	[ ! -e ran ]
}

@test "an acquire that is given up leaves no --min-hold" {
	with_relay
	# Granted without an answer; and the lease runs out before it is given up.
	order "swallow-once $acquiring"
	bg "$LEASERUN" run -t 3s --min-hold 1h --connect-timeout 9s job \
	    touch ran 2>given.up
	wait_until 20 test -e relay.done
	order "cut /v3/lease/keepalive"
	assert_ends 69 $!
	[ ! -e ran ]
	rm relay
	run_tool 0 run "${direct[@]}" job touch ran
	[ -e ran ]
}

# --- Renewing ---

# holder [OPTION]...: a run in the background with a job, tests/probe.c, that
# writes to the file out.
holder() {
	: >out
	bg "$LEASERUN" run "${quick[@]}" "$@" job -- "$builddir/tests/probe" \
	    out 2>holder.err
	holder=$!
	wait_until 20 grep -q ^tick out
}

# More ticks, of 10 ms, than a lease of outlived=(-t 3s) lasts without renewals.
outlived=(-t 3s)

outlives() {
	goes_on 350
}

ticks_exceed() {
	[ "$(grep -c ^tick out)" -gt "$1" ]
}

goes_on() {
	wait_until 60 ticks_exceed $(($(grep -c ^tick out) + ${1-10}))
}

# The lease of etcd that the key is bound to, as etcdctl writes it.
lease_of() {
	local id

	id=$(ctl get /test/lease/job/held -w fields |
	    sed -n 's/^"Lease" : //p')
	printf '%x\n' "$id"
}

# The header of an answer of now.
header() {
	ctl endpoint status -w json |
	    sed -E 's/.*"raft_term":([0-9]+).*/{"raft_term":"\1"}/'
}

# lost TEXT: the run ends with 79 and says why.
lost() {
	assert_ends 79 "$holder"
	assert_contains "$(cat holder.err)" "$1"
}

@test "a lease that is revoked from outside is lost" {
	etcd_start
	use "$ETCD"
	holder
	ctl lease revoke "$(lease_of)"
	lost removed
	run_tool 0 run job true
	assert_contains "$stderr" 'took over'
}

@test "a key that is deleted or written over is lost" {
	etcd_start
	use "$ETCD"
	holder
	ctl del /test/lease/job/held
	lost removed
	holder
	ctl put /test/lease/job/held nonsense
	lost removed
	run_tool 78 run job true
	assert_contains "$stderr" "etcdctl get"
	run_tool 0 revoke --force job
	run_tool 0 run job true
}

@test "an answer without a TTL is loss, whatever the HTTP status" {
	local ttl id

	with_relay
	for ttl in '' ',"TTL":"0"' ',"TTL":"-1"' ',"TTL":0'; do
		# So long that it does not run out meanwhile.
		holder -t 120s
		id=$((16#$(lease_of)))
		printf 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s\n' \
		    "{\"result\":{\"header\":$(header),\"ID\":\"$id\"$ttl}}" \
		    >gone
		order "answer $PWD/gone /v3/lease/keepalive"
		lost 'ran out'
		rm relay
		run_tool 0 revoke --force job
	done
}

@test "a connection that ends behind an answer is no failed renewal" {
	local body

	with_relay
	holder -t 120s -r 500ms
	body="{\"result\":{\"header\":$(header),\"ID\":\"$(\
	    )$((16#$(lease_of)))\",\"TTL\":\"120\"}}"
	printf 'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s' \
	    "${#body}" "$body" >alive
	for _ in 1 2 3 4 5; do
		order "answer-once $PWD/alive /v3/lease/keepalive"
		wait_until 20 test -e relay.done
		rm relay.done
	done
	# The next heartbeat comes when this one is over.
	wait_until 20 heartbeats_exceed $(($(heartbeats) + 1))
	kill -TERM "$holder"
	assert_ends 143 "$holder"
	assert_lacks "$(cat holder.err)" 'cannot renew'
}

# So many heartbeats have reached etcd.
heartbeats() {
	curl -s --noproxy '*' "$scheme://127.0.0.1:$etcd_port/metrics" |
	    awk '/^grpc_server_started_total.*"LeaseKeepAlive"/ {
		printf "%d\n", $2 }'
}

heartbeats_exceed() {
	[ "$(heartbeats)" -gt "$1" ]
}

@test "an hour's heartbeats write no history" {
	local before

	etcd_start
	use "$ETCD"
	holder -t 60s -r 50ms
	before=$(revision)
	# As many as of a lease of 60 s, and one more.
	wait_until 100 heartbeats_exceed $(($(heartbeats) + 180))
	assert_equal "$(revision)" "$before"
	[ "$before" -gt 1 ]
	is_alive "$holder"
}

@test "a server that is restarted in mid-run costs nothing" {
	etcd_start
	use "$ETCD"
	holder -t 10s
	etcd_stop
	etcd_again
	goes_on
	goes_on
	kill -TERM "$holder"
	assert_ends 143 "$holder"
	run_tool 0 run job true
}

@test "a server that is frozen: the job is gone before another gets it" {
	local waiter start last

	etcd_start
	use "$ETCD"
	holder -t 3s
	bg "$LEASERUN" run -w 60s job -- "$builddir/tests/probe" out ticks=3
	waiter=$!
	kill -STOP "$etcd_pid"
	assert_ends 79 "$holder"
	kill -CONT "$etcd_pid"
	assert_ends 0 "$waiter"
	last=$(awk '$1 == "tick" { t[$2] = $3 } END { for (i in t)
	    print i, t[i] }' out | sort -n | head -1 | cut -d ' ' -f 2)
	start=$(awk '$1 == "start" { print $3 }' out | tail -1)
	[ "$last" -lt "$start" ] || fail "tick $last, start $start"
}

@test "a network that goes silent: the job is gone in time" {
	local waiter

	with_relay
	holder -t 3s
	bg "$LEASERUN" run "${direct[@]}" -w 60s job -- \
	    "$builddir/tests/probe" out ticks=3
	waiter=$!
	order stall
	assert_ends 79 "$holder"
	assert_ends 0 "$waiter"
	sort -k 3 -n out | awk '$2 < top { print "late:", $0; bad = 1 }
	    $2 > top { top = $2 } END { exit bad }'
}

@test "the shortest lease is what etcd grants, and that is what counts" {
	etcd_start --heartbeat-interval 1000 --election-timeout 5000
	use "$ETCD"
	run_tool 0 run -vv -t 3s -r 1s -g 100ms job -- sh -c \
	    'echo "$LEASERUN_TTL"; "$LEASERUN" status job'
	assert_matches "$stdout" '^[78]'
	assert_matches "$stdout" ' [78]s +-$'
}

# --- Users and passwords ---

@test "no user, a wrong password, no rights: 77 and the reason" {
	local tried

	etcd_start
	use "$ETCD"
	etcd_users
	ctl auth enable
	ctl_opts=(--user root:rootpw)
	run_tool 77 run job touch ran
	assert_contains "$stderr" "-o user="
	run_tool 77 run -o user=nobody -o password-file=password job touch ran
	echo wrong >wrong
	chmod 600 wrong
	tried=$(requests)
	run_tool 77 run -o user=runner -o password-file=wrong job touch ran
	assert_contains "$stderr" "invalid user ID or password"
	assert_contains "$stderr" "user 'runner', the password is that of 'wrong'"
	run_tool 77 run -b "etcd://runner:b%61d@127.0.0.1:$etcd_port/test" \
	    job touch ran
	assert_contains "$stderr" "user 'runner', the password is that of the URL"
	assert_lacks "$output" bad
	[ $(($(requests) - tried)) -le 3 ]
	run_tool 77 run -o user=runner -o password-file=password \
	    -b "${ETCD}2" job touch ran
	assert_contains "$stderr" "permission denied"
	assert_contains "$stderr" "user 'runner' needs a role"
	assert_contains "$stderr" \
	    "grant-permission ROLE --prefix=true readwrite '/test2/'"
	chmod 644 password
	run_tool 78 run -o user=runner -o password-file=password job touch ran
	assert_contains "$stderr" "chmod 600"
	[ ! -e ran ]
	chmod 600 password
	run_tool 0 run -o user=runner -o password-file=password job true
	run_tool 0 run -b "etcd://runner:r%70w@127.0.0.1:$etcd_port/test" \
	    job -- sh -c 'echo "$LEASERUN_BACKEND"'
	assert_lacks "$output" rpw
	assert_lacks "$output" r%70w
}

# with_users [ETCD-OPTION]...: authentication is on, `known' is what to give.
with_users() {
	etcd_start "$@"
	use "$ETCD"
	etcd_users
	ctl auth enable
	ctl_opts=(--user root:rootpw)
	known=(-o user=runner -o password-file=password)
}

@test "a minimal role is enough for everything" {
	with_users
	run_tool 0 init "${known[@]}" --raise-token 1000
	run_tool 0 doctor "${known[@]}"
	assert_contains "$stdout" "user 'runner'"
	holder "${known[@]}" --min-hold 2s
	run_tool 0 status "${known[@]}"
	assert_contains "$stdout" 'job '
	run_tool 0 revoke "${known[@]}" job
	assert_ends 79 "$holder"
	run_tool 0 run -w 20s "${known[@]}" job true
	[ ! -s stderr ] || assert_lacks "$(cat stderr)" denied
}

@test "doctor goes on without rights, and what it says mends it" {
	with_users
	run_tool 78 doctor "${known[@]}" -b "${ETCD}2"
	assert_matches "$stdout" "bad *rights: .*permission denied"
	assert_contains "$stdout" "user 'runner'"
	ctl role grant-permission locker --prefix=true read /test2/
	run_tool 78 doctor "${known[@]}" -b "${ETCD}2"
	assert_contains "$stdout" "round trip"
	assert_matches "$stdout" "bad *rights: .*permission denied"
	eval "ctl $(sed -n 's/.*etcdctl \(.*\)ROLE/\1locker/p' <<<"$stdout")"
	run_tool 0 doctor "${known[@]}" -b "${ETCD}2"
}

@test "what is done is forgotten by what the manual says" {
	local page=$srcdir/man/leaserun-etcd.7

	etcd_start
	use "${ETCD%/test}/ops"
	run_tool 0 run --once today nightly-report true
	run_tool 0 run --once-per 1d nightly-report true
	run_tool 0 run --once-per 1d nightly-report touch again
	[ ! -e again ]
	sed -n 's/^etcdctl del /ctl del /p' "$page" >forget
	[ "$(wc -l <forget)" -eq 3 ]
	# shellcheck source=/dev/null
	. ./forget
	run_tool 0 status --once nightly-report
	assert_lacks "$stdout" today
	run_tool 0 run --once-per 1d nightly-report touch again
	[ -e again ]
}

# inside: what a job of its own asks for, from another folder.
inside() {
	mkdir -p elsewhere
	cat >inside <<-'XX'
	cd elsewhere || exit
	env >../env
	"$LEASERUN" check "$LEASERUN_NAME" || exit
	"$LEASERUN" status >../seen || exit
	"$LEASERUN" run in -- "$LEASERUN" check in
	XX
	export LEASERUN
	rm -f env seen
}

@test "a leaserun inside a job: user and password are found" {
	with_users
	inside
	run_tool 0 run "${known[@]}" job -- sh "$PWD/inside"
	assert_equal "$stderr" ""
	file_has seen 'job '
	file_has env "password-file=$PWD/password"
	# With the configuration file that holds them.
	inside
	{
		cat leaserun.conf
		echo "backend = \"$ETCD\""
		echo 'option { user = runner password-file = password }'
	} >site.conf
	unset LEASERUN_BACKEND
	(
		unset LEASERUN_CONFIG
		run_tool 0 run --config site.conf job -- sh "$PWD/inside"
		assert_equal "$stderr" ""
	)
	file_has seen 'job '
	# And with a password in its URL.
	inside
	{
		cat leaserun.conf
		echo "job job { backend = \"${ETCD/:\/\//://runner:r%70w@}\" }"
	} >site.conf
	chmod 600 site.conf
	run_tool 0 run --config site.conf job -- sh "$PWD/inside"
	assert_equal "$stderr" ""
	file_has seen 'job '
	run grep -E 'rpw|r%70w' env
	assert_equal "$output" ""
}

@test "a user or password that is not encoded is refused, and not shown" {
	etcd_start
	use "$ETCD"
	for word in x@sEcret x#sEcret x?sEcret x/sEcret 1/sEcret 1?a=sEcret; do
		run_tool 78 run -b "etcd://cron:$word@127.0.0.1:$etcd_port/t" \
		    job touch ran
		assert_contains "$stderr" "%40"
		assert_lacks "$output" sEcret
	done
	# The host was forgotten.
	for word in sEcret 1/sEcret%3F 1,sEcret! sEcret/x; do
		run_tool 78 run -b "etcd://cron:$word" job touch ran
		assert_lacks "$output" sEcret
	done
	[ ! -e ran ]
}

@test "a token that ran out during the job: renewals and the release work" {
	with_users --auth-token-ttl 1
	# The heartbeats are longer apart than a token lasts.
	holder "${known[@]}" -t 12s -r 4s
	wait_until 20 ticks_exceed 500
	kill -TERM "$holder"
	assert_ends 143 "$holder"
	assert_lacks "$(cat holder.err)" released
	run_tool 0 run "${known[@]}" job true
	assert_equal "$output" ""
}

@test "authentication is switched on and off in mid-run" {
	etcd_start
	use "$ETCD"
	etcd_users
	known=(-o user=runner -o password-file=password)
	holder "${known[@]}" "${outlived[@]}"
	ctl auth enable
	ctl_opts=(--user root:rootpw)
	outlives
	ctl auth disable
	# shellcheck disable=SC2034
	ctl_opts=()
	outlives
	kill -TERM "$holder"
	assert_ends 143 "$holder"
	run_tool 0 run job true
	assert_equal "$output" ""
}

@test "a password that is changed in mid-run is read again" {
	with_users
	holder "${known[@]}" -t 9s
	echo newpw >password
	ctl user passwd runner --interactive=false <password
	goes_on 950
	etcd_stop
	etcd_again
	goes_on 950
	kill -TERM "$holder"
	assert_ends 143 "$holder"
	run_tool 0 run "${known[@]}" job true
	assert_equal "$output" ""
}

@test "a password that is changed elsewhere ends the job in time" {
	local before

	with_users
	holder "${known[@]}" -t 15s
	ctl user passwd runner --interactive=false <<<other
	etcd_stop
	etcd_again
	before=$(requests)
	assert_ends 79 "$holder"
	assert_contains "$(cat holder.err)" password
	[ $(($(requests) - before)) -le 60 ]
}

# With such a key a token has more than a kilobyte.
@test "tokens of the other kind, and users that are added meanwhile" {
	openssl genrsa -out jwt.key 5632 2>/dev/null
	openssl rsa -in jwt.key -pubout -out jwt.pub 2>/dev/null
	with_users --auth-token \
	    "jwt,pub-key=$PWD/jwt.pub,priv-key=$PWD/jwt.key,sign-method=RS256,ttl=5m"
	holder "${known[@]}" "${outlived[@]}"
	ctl user add another:pw
	outlives
	ctl user add another2:pw
	kill -TERM "$holder"
	assert_ends 143 "$holder"
	run_tool 0 run "${known[@]}" job true
	assert_equal "$output" ""
}

# --- TLS ---

@test "over TLS certificates are advised where a server was met only" {
	use etcds://no.host.invalid:1
	run_tool 69 run --connect-timeout 1s job touch ran
	assert_contains "$stderr" no.host.invalid
	assert_lacks "$stderr" "client certificate"
	run_tool 69 run -b etcds://127.0.0.1:1 --connect-timeout 1s job true
	assert_lacks "$stderr" "client certificate"
	scheme=http etcd_start
	run_tool 69 run -b "etcds${ETCD#etcd}" --connect-timeout 1s job true
	assert_contains "$stderr" "client certificate"
}

@test "over TLS everybody is who he should be, or the reason is told" {
	etcd_secure
	use "$ETCD"
	run_tool 0 run "${secure_opts[@]}" job true
	make_ca other
	run_tool 77 run "${secure_opts[@]}" -o "cacert=$PWD/other.pem" job \
	    touch ran
	assert_contains "$stderr" certificate
	run_tool 77 run "${secure_opts[@]}" \
	    -b "etcds://localhost:$etcd_port/test" job touch ran
	assert_matches "$stderr" "name|subject"
	run_tool 69 run --connect-timeout 1s -o "cacert=$PWD/ca.pem" \
	    -o user=runner -o "password-file=$PWD/password" job touch ran
	assert_contains "$stderr" "client certificate"
	run_tool 78 run "${secure_opts[@]}" -o cacert=/nowhere job touch ran
	run_tool 69 run --connect-timeout 1s \
	    -b "etcd://127.0.0.1:$etcd_port/test" job touch ran
	make_cert named ca /CN=named
	run_tool 77 run "${secure_opts[@]}" -o "cert=$PWD/named.pem" \
	    -o "key=$PWD/named.key" job touch ran
	assert_contains "$stderr" "common name"
	[ ! -e ran ]
	run_tool 0 doctor "${secure_opts[@]}"
	assert_contains "$stdout" "certificate is good for"
}

@test "a certificate that has ended: 77" {
	make_ca ca
	make_cert server ca /O=server IP:127.0.0.1 -1
	# shellcheck disable=SC2034
	curl_opts=(-k) scheme=https
	etcd_start --cert-file "$PWD/server.pem" --key-file "$PWD/server.key"
	use "$ETCD"
	run_tool 77 run -o cacert=ca.pem job touch ran
	assert_contains "$stderr" expired
	[ ! -e ran ]
}

# --- Answers that are not etcd's ---

# answers: files with the most various things that come back from a port.
answers() {
	local http='HTTP/1.1'

	printf '%s 502 Bad Gateway\r\n\r\n<html>502</html>' "$http" >a.502
	printf '%s 503 x\r\n\r\n<html>503</html>' "$http" >a.503
	printf '%s 504 x\r\n\r\n' "$http" >a.504
	printf '%s 429 x\r\n\r\n{"error":"slow down","code":8}' "$http" >a.429
	printf '%s 200 OK\r\n\r\n' "$http" >a.empty
	printf 'HTTP/1.0 200 OK\r\n\r\n{"header":{},"su' >a.cut
	printf '%s 200 OK\r\nContent-Length: 99\r\n\r\n{}' "$http" >a.short
	printf '%s 200 OK\r\n\r\n{}' "$http" >a.nothing
	printf '%s 200 OK\r\n\r\n[]' "$http" >a.array
	printf '%s 200 OK\r\n\r\n%s' "$http" \
	    '{"result":{"header":{}}}' >a.result
	printf '%s 200 OK\r\n\r\n%s' "$http" \
	    '{"error":{"grpc_code":14,"message":"no leader"}}' >a.stream
	printf '%s 301 x\r\nLocation: http://127.0.0.1:%s/\r\n\r\n' "$http" \
	    "$etcd_port" >a.redirect
	printf '%s 404 x\r\n\r\n{"code":5,"message":"Not Found"}' "$http" \
	    >a.404
	{
		printf '%s 200 OK\r\nContent-Encoding: gzip\r\n\r\n' "$http"
		echo '{"succeeded":true}' | gzip -c
	} >a.gzip
	{ printf '%s 200 OK\r\n\r\n' "$http"; printf '[%.0s' {1..20000}; } \
	    >a.deep
	{ printf '%s 200 OK\r\n\r\n"' "$http"; head -c 9000000 /dev/zero; } \
	    >a.big
	printf '\001\002\003' >a.noise
	: >a.nil
}

@test "what is not an answer of etcd is none: 69, nothing is run" {
	local file

	with_relay
	answers
	for file in a.*; do
		order "answer $PWD/$file"
		run_tool 69 run --connect-timeout 300ms job touch ran
		assert_contains "$stderr" "127.0.0.1:$relay_port"
	done
	[ ! -e ran ]
	rm relay
	run_tool 0 run job true
}

@test "one answer that is none: status, check and revoke ask again" {
	local what token

	with_relay
	answers
	holder "${direct[@]}" -t 20s
	token=$(head -1 out | awk '{ print $2 }')
	for what in "status job" "status --once job" "check --token $token job" \
	    "revoke job"; do
		order "answer-once $PWD/a.502"
		# shellcheck disable=SC2086
		run_tool 0 $what
		[ -e relay.done ] || fail "no answer was spoilt for $what"
		rm relay.done
	done
	assert_ends 79 "$holder"
}

@test "to a holder it is neither loss nor a renewal" {
	local file

	with_relay
	answers
	holder -t 20s -g 1s
	for file in a.*; do
		order "answer-once $PWD/$file"
		wait_until 20 test -e relay.done
		rm relay.done
	done
	wait_until 20 file_has holder.err "renewed again"
	is_alive "$holder"
	order "answer $PWD/a.502"
	assert_ends 79 "$holder"
	assert_contains "$(cat holder.err)" 502
}

# take_space, give_space: the alarm NOSPACE, and its end.
take_space() {
	local i

	head -c 400000 /dev/zero | tr '\0' x >blob
	for ((i = 0; i < 30; i++)); do
		ctl put "junk$i" <blob >/dev/null 2>&1 || break
	done
}

give_space() {
	local i

	for ((i = 0; i < 30; i++)); do
		ctl del "junk$i"
	done
	ctl compact "$(revision)"
	ctl defrag
	ctl alarm disarm
}

# leases COUNT: etcd has so many.
leases() {
	[ "$(ctl lease list | grep -c '^[0-9a-f]*$')" -eq "$1" ]
}

@test "no space left: new runs 69, a job that runs is not harmed" {
	etcd_start --quota-backend-bytes $((4 * 1024 * 1024))
	use "$ETCD"
	run_tool 7 run job -- sh -c 'exit 7'
	holder "${outlived[@]}"
	take_space
	run_tool 69 run --connect-timeout 500ms other touch ran
	assert_contains "$stderr" NOSPACE
	[ ! -e ran ]
	outlives
	run_tool 78 doctor
	assert_matches "$stdout" 'bad +alarm: NOSPACE: .*alarm disarm'
	assert_contains "$stdout" 'round trip'
	kill -TERM "$holder"
	assert_ends 143 "$holder"
	assert_lacks "$(cat holder.err)" 'could not be released'
	# That it ended so was not recorded, and nothing else is told instead.
	run_tool 0 status --json job
	assert_contains "$stdout" '"state": "free"'
	assert_lacks "$stdout" '"status": 7'
	leases 0
	give_space
	run_tool 0 run job true
	assert_equal "$output" ""
	run_tool 0 doctor
	assert_contains "$stdout" 'alarm: none'
}

# --- Waiting ---

# waiter FILE [OPTION]...: a run that waits, and then writes its token to FILE.
waiter() {
	local file=$1

	shift
	bg "$LEASERUN" run -v -w 60s "${quick[@]}" "$@" job -- sh -c \
	    'echo "$LEASERUN_FENCE_TOKEN" >"$0"' "$file" 2>"$file.err"
	waiter=$!
	wait_until 20 grep -q 'held by' "$file.err"
}

# queued COUNT: so many have a place.
queued() {
	[ "$(ctl get --prefix --keys-only /test/wait/job/ | grep -c .)" -eq "$1" ]
}

# A holder that ends when it is told to, and leaves the time of that.
hold() {
	mkfifo go
	bg "$LEASERUN" run "${quick[@]}" "$@" job -- sh -c \
	    'echo >held; read -r _ <go'
	holder=$!
	wait_until 20 test -s held
}

let_go() {
	timeout 10 sh -c 'echo >go'
	date +%s%3N >gone_at
}

# woken FILE: its waiter ran soon after let_go.
woken() {
	wait_until 20 test -s "$1"
	[ $(($(date +%s%3N -r "$1") - $(cat gone_at))) -lt "${2-1000}" ]
}

@test "a waiter is woken by the release" {
	etcd_start
	use "$ETCD"
	hold
	waiter got
	wait_until 10 queued 1
	run_tool 0 status --json job
	assert_contains "$stdout" '"waiting": 1'
	let_go
	woken got
	assert_ends 0 "$waiter"
	wait_until 10 queued 0
}

# put_held NAME...: as a run does, all bound to one lease of etcd.
put_held() {
	local lease name

	lease=$(ctl lease grant 600 | sed -E 's/^lease ([0-9a-f]+) .*/\1/')
	for name; do
		ctl put --lease="$lease" "/test/lease/$name/held" \
		    '{"layout":1,"owner":"a:1","label":"a","host":"h","ttl_ms":600000}'
	done >ctl.out
}

# waiting NAME
waiting() {
	jq -r --arg name "$1" 'map(select(.name == $name))[0].waiting' all.json
}

@test "status of all names counts the waiters of each" {
	etcd_start
	use "$ETCD"
	# Not in the order in which keys are.
	put_held a a-b a.b a%20b c
	for i in {1..16}; do
		{
			printf '\n'
			printf "put /test/wait/a/$i.%s {}\n" {1..126}
			printf 'put /test/wait/b/%s {}\n\n\n' "$i"
		} | ctl txn -i >ctl.out
	done
	for key in 0/x a-b/1 a-b/2 a%20b/1 a.a/1 c/1 c/2 c/3 z/x; do
		ctl put "/test/wait/$key" '{}'
	done >ctl.out
	run_tool 0 status --json
	jq -s 'flatten' <<<"$stdout" >all.json
	assert_equal "$(waiting a)" 2016
	assert_equal "$(waiting a-b)" 2
	assert_equal "$(waiting a.b)" 0
	assert_equal "$(waiting 'a b')" 1
	assert_equal "$(waiting c)" 3
}

@test "status of more names than can be asked for in time is an answer" {
	with_relay
	put_held n{100..160}
	order delay 50
	run_tool 0 status --json --connect-timeout 4s
	printf '%s\n' "$stdout" >late.json
	assert_equal "$(jq -s 'flatten | length' late.json)" 61
	# How long those last that were not asked for: the ttl, at most.
	assert_equal "$(jq -s 'flatten | map(select(.state == "held")) |
	    length' late.json)" 61
}

@test "a waiter is woken although the watch was compacted or broken" {
	local how

	with_relay
	for how in compact restart cut; do
		rm -f go held got got.err
		hold "${direct[@]}" -t 20s
		waiter got -t 20s
		wait_until 10 queued 1
		case $how in
		compact)
			ctl put junk x
			ctl compact "$(revision)"
			;;
		restart)
			etcd_stop
			etcd_again
			;;
		cut)
			order "cut-once create_request"
			etcd_stop
			etcd_again
			wait_until 20 test -e relay.done
			rm relay.done
			;;
		esac
		let_go
		# The place of a waiter outlives all that.
		wait_until 25 test -s got
		assert_ends 0 "$waiter"
		assert_ends 0 "$holder"
	done
}

# It looks 10 s after the watch began at the earliest, if nothing makes it.
@test "a release between the look and the watch is seen" {
	with_relay
	hold "${direct[@]}" -t 60s -r 10s
	order "delay 300"
	waiter got -t 60s -r 10s -w 9s
	wait_until 20 queued 1
	let_go
	assert_ends 0 "$waiter"
	[ -s got ]
}

@test "a waiter whose watch stays silent polls" {
	with_relay
	hold "${direct[@]}" -t 60s -r 10s
	order "swallow create_request"
	waiter got -t 60s -r 10s -w 110s
	# It has looked, and watches: no event gets through to it from now on.
	wait_until 20 queued 1
	let_go
	wait_until 80 test -s got
	grep -q swallow relay
	assert_ends 0 "$waiter"
}

@test "a waiter that was killed stands in nobody's way" {
	local first

	etcd_start
	use "$ETCD"
	hold
	waiter first -t 60s -r 10s
	first=$waiter
	wait_until 10 queued 1
	waiter second
	wait_until 10 queued 2
	kill -KILL "$first"
	let_go
	woken second
	assert_ends 0 "$waiter"
	[ ! -e first ]
}

# ran_times COUNT: so many have run.
ran_times() {
	[ "$(wc -l <ran)" -eq "$1" ]
}

@test "who was passed over has no place any more" {
	local i killed

	etcd_start
	use "$ETCD"
	hold -t 300s -r 10s
	mkfifo stay
	for i in 1 2 3 4 5 6 7; do
		bg "$LEASERUN" run -w 100s -t 300s -r 10s job -- sh -c \
		    'echo >>ran; read -r _ <stay'
		[ "$i" -gt 1 ] || killed=$!
		wait_until 20 queued "$i"
	done
	kill -KILL "$killed"
	let_go
	wait_until 20 test -s ran
	# Of seven one runs, and nobody waits for the lease of the dead one.
	wait_until 20 queued 5
	for i in 2 3 4 5 6 7; do
		wait_until 30 ran_times $((i - 1))
		timeout 10 sh -c 'echo >stay'
	done
	wait_until 20 queued 0
}

# watches COUNT: so many watch something.
watches() {
	curl -s --noproxy '*' "$scheme://127.0.0.1:$etcd_port/metrics" |
	    grep -qx "etcd_debugging_mvcc_watcher_total $1"
}

# Whoever is first when he gets it says so in the record: all before him are out.
@test "a place whose answer was lost is still the first" {
	local first i stopped=()

	with_relay
	hold "${direct[@]}" -t 300s -r 10s
	order "swallow $acquiring"
	mkfifo stay
	bg "$LEASERUN" run -w 200s --connect-timeout 100s -t 300s -r 10s job \
	    -- sh -c 'echo >ran; read -r _ <stay'
	first=$!
	wait_until 20 queued 1
	for i in 1 2 3 4 5; do
		bg "$LEASERUN" run "${direct[@]}" -w 200s -t 300s -r 10s job \
		    -- true
		stopped+=($!)
		wait_until 20 queued $((i + 1))
	done
	i=$(ctl get --prefix --sort-by=CREATE /test/wait/job/ -w json |
	    jq '.kvs[0].create_revision')
	rm relay
	wait_until 60 watches 6
	kill -STOP "${stopped[@]}"
	let_go
	wait_until 60 test -s ran
	assert_equal "$(ctl get /test/lease/job/held --print-value-only |
	    jq '.queued | tonumber')" "$i"
	wait_until 10 queued 5
	kill -CONT "${stopped[@]}"
	timeout 10 sh -c 'echo >stay'
	assert_ends 0 "$first"
}

# The four in front try one after the other, a moment apart, which a busy
# machine may mix up.  Whoever is behind them does not even watch the name.
@test "every waiter gets its turn, and none overtakes more than three" {
	local i turn=0

	etcd_start
	use "$ETCD"
	hold -t 60s -r 10s
	for i in 1 2 3 4 5 6 7 8; do
		waiter "w$i" -t 60s -r 10s -w 100s
		wait_until 20 queued "$i"
	done
	let_go
	for i in 1 2 3 4 5 6 7 8; do
		wait_until 40 test -s "w$i"
	done
	# By their tokens, in the order in which they got it.
	for i in $(grep . w? | sort -t : -k 2 -n | sed 's/w\(.\):.*/\1/'); do
		turn=$((turn + 1))
		echo "turn $turn: waiter $i"
		[ "$turn" -ge $((i - 3)) ]
	done
	assert_equal "$turn" 8
	assert_equal "$(cat w? | sort -u | wc -l)" 8
}

@test "forty waiters and one release: no stampede" {
	local i before during

	etcd_start
	use "$ETCD"
	hold -t 60s -r 15s
	for ((i = 0; i < 40; i++)); do
		bg "$LEASERUN" run -w 60s -t 60s -r 15s job -- sh -c \
		    'echo >>ran; read -r _ <stay'
	done
	mkfifo stay
	wait_until 60 queued 40
	before=$(requests)
	let_go
	wait_until 20 test -s ran
	wait_until 10 queued 39
	during=$(($(requests) - before))
	echo "$during requests"
	assert_equal "$(wc -l <ran)" 1
	[ "$during" -le 30 ]
}

# is_old FILE SECONDS: it was last changed so long ago.
is_old() {
	[ $(($(date +%s) - $(stat -c %Y "$1"))) -gt "$2" ]
}

@test "a short outage is no end of a wait" {
	etcd_start
	use "$ETCD"
	hold -t 20s
	waiter got -t 20s --connect-timeout 3s
	# Who held it was told longer ago than a store may be silent.
	wait_until 20 is_old got.err 4
	etcd_stop
	etcd_again
	wait_until 10 queued 1
	is_alive "$waiter"
	let_go
	wait_until 20 test -s got
	assert_ends 0 "$waiter"
}

@test "a store that stays away ends a wait with 69" {
	etcd_start
	use "$ETCD"
	hold
	waiter got --connect-timeout 2s
	etcd_stop
	assert_ends 69 "$waiter"
	[ ! -e got ]
}

@test "a wait that runs out while the store is silent: 75" {
	with_relay
	hold "${direct[@]}" -t 60s
	bg "$LEASERUN" run -v -t 6s -w 12s --connect-timeout 60s job \
	    touch ran 2>w.err
	waiter=$!
	wait_until 20 grep -q 'held by' w.err
	# It keeps its place, or asks again, and is not answered.
	order stall
	assert_ends 75 "$waiter"
	[ ! -e ran ]
}

@test "a wait that runs out on a lost grant: 75, and nobody died" {
	with_relay
	hold "${direct[@]}" -t 60s
	waiter got -w 8s -t 6s --min-hold 1h
	order "swallow $acquiring"
	let_go
	assert_ends 75 "$waiter"
	[ ! -e got ]
	rm relay
	run_tool 0 run "${direct[@]}" job true
	assert_equal "$output" ""
}

@test "a wait that runs out leaves no place in the queue" {
	etcd_start
	use "$ETCD"
	hold
	run_tool 75 run -w 3s job touch ran
	queued 0
	bg "$LEASERUN" run -v -w 60s job touch ran 2>w.err
	waiter=$!
	wait_until 10 queued 1
	kill -TERM "$waiter"
	assert_ends 143 "$waiter"
	queued 0
	[ ! -e ran ]
}

@test "a skip writes nothing" {
	local before

	etcd_start
	use "$ETCD"
	hold
	before=$(revision)
	run_tool 75 run job true
	assert_equal "$(revision)" "$before"
	assert_equal "$(ctl lease list | grep -c '^[0-9a-f]*$')" 1
}

# --- Tokens ---

@test "after a restored snapshot: init --raise-token, and the token grows" {
	local i highest

	etcd_start
	use "$ETCD"
	for i in 1 2 3; do
		run_tool 0 run job true
	done
	ctl snapshot save snapshot
	run_tool 0 init --raise-token 5000
	for i in 1 2 3; do
		run_tool 0 run job -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
		highest=$stdout
	done
	[ "$highest" -gt 5000 ]
	etcd_stop
	rm -rf "$etcd_dir/data"
	etcdctl snapshot restore snapshot --name one --data-dir \
	    "$etcd_dir/data" --initial-advertise-peer-urls \
	    "http://127.0.0.1:$((etcd_port + 1))" --initial-cluster \
	    "one=http://127.0.0.1:$((etcd_port + 1))"
	etcd_again
	run_tool 0 run other -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
	[ "$stdout" -lt "$highest" ] || fail "the snapshot is no older one"
	run_tool 0 init --print --raise-token "$highest"
	assert_contains "$stdout" "would raise"
	run_tool 0 init --raise-token "$highest"
	run_tool 0 doctor
	assert_contains "$stdout" "next one is above $((highest + 1)), floor "
	run_tool 0 run job -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
	[ "$stdout" -gt "$highest" ]
	highest=$stdout
	run_tool 0 status job
	assert_contains "$stdout" " $highest "
	run_tool 0 init --raise-token $((highest - 100))
	run_tool 0 run job -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
	[ "$stdout" -gt "$highest" ]
}

@test "a floor that is raised in mid-run changes no token of a holder" {
	local token

	etcd_start
	use "$ETCD"
	run_tool 0 init --raise-token 1000
	holder "${outlived[@]}"
	run_tool 0 status --json job
	token=$(sed -n 's/.*"token": \([0-9]*\).*/\1/p' <<<"$stdout")
	run_tool 0 init --raise-token 1000000
	run_tool 0 init --raise-token 2000000
	outlives
	run_tool 0 check --token "$token" job
	kill -TERM "$holder"
	assert_ends 143 "$holder"
	run_tool 0 run job -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
	[ "$stdout" -gt 2000000 ]
}

@test "tokens above 2^53 are exact, and those above 2^63 are not granted" {
	local token

	etcd_start
	use "$ETCD"
	run_tool 0 init --raise-token 9007199254740993
	run_tool 0 run job -- sh -c \
	    'echo "$LEASERUN_FENCE_TOKEN"; "$LEASERUN" check job'
	token=$stdout
	assert_matches "$token" '^9007199254740[0-9]{3}$'
	run_tool 0 init --raise-token 9223372036854775804
	run_tool 0 run job -- sh -c 'echo "$LEASERUN_FENCE_TOKEN"'
	assert_equal "$stdout" 9223372036854775806
	run_tool 78 run job touch ran
	assert_contains "$stderr" "used up"
	run_tool 0 status job
	assert_matches "$stdout" 'job +free'
	[ ! -e ran ]
}

@test "keys of a newer version are left alone: 78" {
	local value

	etcd_start
	use "$ETCD"
	run_tool 0 run job true
	value=$(ctl get --print-value-only /test/lease/job/last)
	ctl put /test/lease/job/last "${value/\"layout\":1/\"layout\":2}"
	run_tool 78 run job touch ran
	assert_contains "$stderr" newer
	run_tool 78 status job
	run_tool 0 status
	assert_contains "$stdout" unreadable
	[ ! -e ran ]
	run_tool 0 run other true
}

# --- Once ---

# once KEY [OPTION]...: a run for this key that writes a line to the file ran.
once() {
	run_tool 0 run --once "$@" job -- sh -c 'echo run >>ran'
}

has_run() {
	assert_equal "$(cat ran 2>/dev/null | wc -l)" "$1"
}

# done_keys [OPTION]...
done_keys() {
	run_tool 0 status "$@" --once --json job >/dev/null
	sed -n 's/^ *"key": \(.*\),$/\1/p' <<<"$stdout"
}

# record_ttl KEY: what is left of a key's lease, in seconds.
record_ttl() {
	local id

	id=$(ctl get "$1" -w fields | sed -n 's/^"Lease" : //p')
	ctl lease timetolive "$(printf '%x' "$id")" |
	    sed -n 's/.*remaining(\([0-9]*\)s).*/\1/p'
}

@test "--once: what is done stays done, over a restart of etcd" {
	etcd_start
	use "$ETCD"
	run_tool 3 run --once today job -- sh -c 'exit 3'
	assert_equal "$(done_keys)" ""
	once today
	once today -v
	assert_contains "$stderr" today
	etcd_stop
	etcd_again
	once today
	has_run 1
	once 'to morrow/a'
	has_run 2
	assert_equal "$(done_keys)" $'"to morrow/a"\n"today"'
	run_tool 0 status --once
	assert_contains "$stdout" 'to morrow/a'
	run_tool 0 status
	assert_equal "$(wc -l <<<"$stdout")" 2
	run_tool 0 run job true
	assert_equal "$output" ""
}

@test "--once: a waiter does not run, and one is replaced that was killed" {
	etcd_start
	use "$ETCD"
	hold --once today
	waiter got --once today
	let_go
	assert_ends 0 "$holder"
	assert_ends 0 "$waiter"
	[ ! -e got ]
	queued 0
	holder --once tomorrow
	waiter got --once tomorrow
	# shellcheck disable=SC2046
	kill -KILL "$holder" $(ps -o pid= --ppid "$holder")
	assert_ends 0 "$waiter"
	[ -s got ]
	assert_equal "$(done_keys)" $'"tomorrow"\n"today"'
}

@test "--once: what --min-hold keeps is not waited for when it is done" {
	etcd_start
	use "$ETCD"
	hold --once today --min-hold 60s
	waiter got --once today
	waiter other --once tomorrow
	let_go
	assert_ends 0 "$holder"
	wait_until 10 queued 1
	[ ! -e got ]
	[ ! -e other ]
	run_tool 75 run job true
	run_tool 0 revoke --force job
	wait_until 10 test -s other
}

@test "--once: a record lasts as long as it is to be kept, and no longer" {
	local ttl

	etcd_start
	use "$ETCD"
	once today
	ttl=$(record_ttl /test/once/job/today)
	[ "$ttl" -ge 2591990 ]
	[ "$ttl" -le 2592005 ]
	once short -o keep=1500ms
	once long -o keep=9999d
	has_run 3
	ttl=$(record_ttl /test/once/job/long)
	[ "$ttl" -ge $((9999 * 86400 - 10)) ]
	ttl=$(record_ttl /test/once/job/short)
	[ "$ttl" -ge 2 ]
	[ "$ttl" -le 7 ]
	once short
	has_run 3
	lacks_short() {
		! done_keys | grep -q short
	}
	wait_until 20 lacks_short
	once short
	has_run 4
	run_tool 0 run --once-per 1d -o keep=1h job true
	ttl=$(record_ttl "$(ctl get --prefix --keys-only /test/period/job/ |
	    head -n 1)")
	[ "$ttl" -ge $((2 * 86400 - 10)) ]
	[ "$ttl" -le $((2 * 86400 + 5)) ]
}

@test "--once-per: one run in each period, and none in an older one" {
	local key later

	etcd_start
	use "$ETCD"
	for _ in 1 2; do
		run_tool 0 run --once-per 9999d job -- sh -c 'echo run >>ran'
	done
	has_run 1
	# Another length, and a key that is no period.
	run_tool 0 run --once-per 9998d job -- sh -c 'echo run >>ran'
	once 9999d@2999
	has_run 3
	run_tool 0 run --once "$(done_keys | sed -n 's/"\(9998.*\)"/\1/p')" \
	    job -- sh -c 'echo run >>ran'
	has_run 3
	key=$(ctl get --prefix --keys-only /test/period/job/ | grep 9999d)
	later=$(sed -E 's/%40[0-9]{4}/%402999/' <<<"$key")
	ctl del --prefix /test/once/job/
	ctl del --prefix /test/period/job/
	ctl put "$later" x
	run_tool 0 run --once-per 9999d job -- sh -c 'echo run >>ran'
	has_run 3
	ctl del "$later"
	run_tool 0 run --once-per 9999d job -- sh -c 'echo run >>ran'
	has_run 4
}

# An answer that nothing is done, by a clock that is so far from ours.
clock_off() {
	local body='{"header":{"revision":"5"},"responses":[{"response_range":{}},{"response_range":{}}]}'

	printf 'HTTP/1.1 200 OK\r\nConnection: close\r\nDate: %s\r\n\r\n%s\n' \
	    "$(LC_ALL=C date -u -d "$1" '+%a, %d %b %Y %H:%M:%S GMT')" \
	    "$body" >off
	order "answer-once $PWD/off /v3/kv/txn"
}

@test "--once-per: a clock that is wrong by a tenth of the period: 78" {
	with_relay
	clock_off '10 minutes ago'
	run_tool 78 run --once-per 1h job touch ran
	assert_matches "$stderr" '(598|599|600|601)\.[0-9]* s ahead of'
	clock_off '10 minutes'
	run_tool 78 run --once-per 1h job touch ran
	assert_matches "$stderr" '(59[0-9]|60[0-9])\.[0-9]* s behind'
	[ ! -e ran ]
	clock_off '10 minutes ago'
	run_tool 0 run --once-per 2h job true
	clock_off '10 minutes ago'
	run_tool 0 run --once today job true
	run_tool 0 run --once-per 1s job true
}

@test "answers that come late do not make what is recorded early" {
	local ended

	with_relay
	order "delay 1200"
	run_tool 0 run -t 60s -r 20s --connect-timeout 60s job \
	    date -u +%FT%T
	ended=$stdout
	run_tool 0 status "${direct[@]}" --json job
	[[ ! $(sed -n 's/.*"ended_at": "\(.*\)".*/\1/p' <<<"$stdout") < $ended ]]
}

@test "--once: a release whose answer is lost has recorded it, once" {
	local how what n=0

	with_relay
	for how in swallow lose cut; do
		for what in "$releasing" /v3/lease/grant /v3/lease/revoke \
		    /v3/kv/txn; do
			n=$((n + 1))
			bg "$LEASERUN" run -t 6s --once "key$n" job -- sh -c \
			    'echo >go; echo run >>ran; while [ -e go ]; do
				sleep 0.02; done'
			run=$!
			wait_until 10 test -e go
			order "$how-once $what"
			rm go
			assert_ends 0 "$run"
			[ ! -e relay ] || fail "$how $what was not met"
			once "key$n" "${direct[@]}"
			has_run "$n"
		done
	done
	assert_equal "$(done_keys "${direct[@]}" | wc -l)" "$n"
	# Only theirs are left, and nothing that is kept for as long.
	wait_until 20 leases "$n"
}

@test "--once: a release is known by its record when others had the name" {
	local run

	with_relay
	order "swallow $releasing"
	bg "$LEASERUN" run -t 10s --once today job true
	run=$!
	recorded() {
		[ -n "$(done_keys "${direct[@]}")" ]
	}
	wait_until 10 recorded
	run_tool 0 run "${direct[@]}" job true
	rm relay
	assert_ends 0 "$run"
	once today "${direct[@]}"
	has_run 0
	wait_until 20 leases 1
}

@test "--once: who lost the lease records nothing and leaves no lease" {
	etcd_start
	use "$ETCD"
	hold -r 2s --once today
	run_tool 0 revoke --force job
	let_go
	assert_ends 79 "$holder"
	assert_equal "$(done_keys)" ""
	wait_until 20 leases 0
}

@test "--once: who loses the lease over the record leaves no lease for it" {
	with_relay
	hold -t 30s -r 10s --once today
	order "cut $releasing"
	let_go
	# Its own one, and that of the record that does not get through.
	wait_until 20 leases 2
	run_tool 0 revoke "${direct[@]}" --force job
	rm relay
	assert_ends 79 "$holder"
	assert_equal "$(done_keys "${direct[@]}")" ""
	wait_until 20 leases 0
}

@test "--once: with rights for the prefix only" {
	with_users
	once today "${known[@]}"
	once today "${known[@]}"
	run_tool 0 run "${known[@]}" --once-per 1d job -- sh -c 'echo run >>ran'
	run_tool 0 run "${known[@]}" --once-per 1d job -- sh -c 'echo run >>ran'
	has_run 2
	assert_equal "$(done_keys "${known[@]}" | wc -l)" 2
}

@test "--once: what cannot be recorded for want of space waits for it" {
	etcd_start --quota-backend-bytes $((4 * 1024 * 1024))
	use "$ETCD"
	hold -t 3s -r 500ms -g 200ms --once today 2>err
	take_space
	let_go
	wait_until 10 grep -q NOSPACE err
	run_tool 75 run job true
	give_space
	assert_ends 0 "$holder"
	once today
	has_run 0
}

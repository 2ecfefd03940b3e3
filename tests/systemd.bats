# The units of contrib/systemd, run by a systemd.

load helpers
load jobs
load systemd

teardown() {
	stop_systemd
}

# job HOST NAME COMMAND...: what the units run under that name.
job() {
	printf '#!/bin/sh\n%s\n' "${*:3}" >"$1/etc/leaserun/$2"
	chmod 755 "$1/etc/leaserun/$2"
}

# probe HOST NAME WORD...: probe is the job.
probe() {
	job "$1" "$2" "exec /etc/tests/probe /var/lib/test/out ${*:3}"
}

# drop_in HOST UNIT LINE...: in [Service], or what the first line says.
drop_in() {
	local dir=$1/etc/systemd/system/$2.d section='[Service]'

	mkdir -p "$dir"
	[[ $3 != '['* ]] || section=
	printf '%s\n' "$section" "${@:3}" >"$dir/test.conf"
	ctl "$1" daemon-reload
}

# hosts HOST...: that many.
hosts() {
	local host

	for host; do
		start_systemd "$host" || return
	done
}

# ran COUNT: so many have started.
ran() {
	[ "$(lines start)" -ge "$1" ]
}

# No process of a job is left there.
gone() {
	! inside "$1" pgrep -x probe
}

# One of the two leads, the other one waits for it.
lead_by() {
	assert_unit "$1" leaserun-leader@web StatusText \
	    "running 'web' with token *"
	assert_unit "$2" leaserun-leader@web StatusText \
	    "waiting for 'web', held by '$1' (host '$1', pid *"
}

@test "systemd-analyze finds nothing in the units" {
	mkdir units bin
	ln -s "$LEASERUN" bin/leaserun
	unit_files units "$PWD/bin"
	run systemd-analyze verify --man=no --recursive-errors=no \
	    units/leaserun@.timer units/leaserun@.service \
	    units/leaserun-leader@.service
	assert_equal "$status $output" "0 "
	# It would find something.
	echo 'KillMood=mixed' >>units/leaserun@.service
	run systemd-analyze verify --man=no --recursive-errors=no \
	    units/leaserun@.service
	assert_contains "$output" KillMood
}

@test "a job runs under the lease, and the manager is told" {
	hosts a
	job a report 'echo "$LEASERUN_NAME $LEASERUN_FENCE_TOKEN" \
	    "${NOTIFY_SOCKET-unset}" >/var/lib/ran
	    while [ ! -e /var/lib/go ]; do sleep 0.02; done'
	ctl a start --no-block leaserun@report.service
	wait_until 40 test -s a/var/ran
	read -r name token socket <a/var/ran
	assert_equal "$name $socket" "report unset"
	assert_unit a leaserun@report StatusText \
	    "running 'report' with token $token"
	assert_equal "$(show a leaserun@report ActiveState)" activating
	: >a/var/go
	assert_unit a leaserun@report ActiveState inactive
	assert_equal "$(show a leaserun@report Result)" success
	assert_equal "$(show a leaserun@report StatusText)" \
	    "'report' has ended, status 0 (token $token)"
}

@test "a unit of another user leaves him none of root's leases" {
	hosts a
	mkdir -m 700 a/var/leaserun
	: >a/var/leaserun/job.token
	job a other true
	drop_in a leaserun@other.service User=nobody
	ctl a start leaserun@other.service || :
	assert_equal "$(stat -c %u a/var/leaserun a/var/leaserun/job.token |
	    sort -u)" 0
}

@test "a job that another host runs is skipped, which is no failure" {
	hosts a b
	probe a report
	probe b report ticks=1
	ctl a start --no-block leaserun@report.service
	wait_until 40 ran 1
	ctl b start leaserun@report.service
	assert_equal "$(show b leaserun@report Result)" success
	assert_equal "$(show b leaserun@report ExecMainStatus)" 75
	assert_matches "$(show b leaserun@report StatusText)" \
	    "^'report' not run: held by 'a' \(host 'a', pid [0-9]+, token [0-9]+\)$"
	ctl a stop leaserun@report.service
	ctl b start leaserun@report.service
	assert_equal "$(show b leaserun@report ExecMainStatus)" 0
	assert_order 2
}

@test "a stop reaches every process once, and is over when all are gone" {
	hosts a
	probe a report tree cleanup=300
	ctl a start --no-block leaserun@report.service
	wait_until 40 ticking 4
	ctl a stop leaserun@report.service
	assert_equal "$(show a leaserun@report ActiveState)" inactive
	gone a
	assert_equal "$(awk '$1 == "term" { print $4 }' out | sort | uniq -d)" ""
	assert_equal "$(lines term)" 4
	assert_equal "$(lines end)" 1
}

@test "a job that takes too long to end is killed, and the next one comes after it" {
	hosts a b
	drop_in a leaserun@report.service TimeoutStopSec=1s
	probe a report tree ignore
	probe b report ticks=3
	ctl a start --no-block leaserun@report.service
	wait_until 40 ticking 4
	drop_in b leaserun@report.service ExecStart= \
	    'ExecStart=/etc/bin/leaserun run --wait 60s %i -- %E/leaserun/%i'
	ctl b start --no-block leaserun@report.service
	ctl a stop leaserun@report.service
	assert_equal "$(show a leaserun@report Result)" timeout
	assert_unit b leaserun@report ActiveState inactive
	assert_equal "$(show b leaserun@report Result)" success
	assert_order 2
	gone a
}

@test "a leaserun that is killed takes its job along" {
	hosts a
	probe a report tree ignore
	drop_in a leaserun@report.service 'SendSIGKILL=no'
	ctl a start --no-block leaserun@report.service
	wait_until 40 ticking 4
	ctl a kill --kill-whom=main --signal=KILL leaserun@report.service
	assert_unit a leaserun@report ActiveState failed
	wait_until 40 gone a
}

@test "what does not pass by itself is not tried again" {
	hosts a
	drop_in a leaserun@report.service Restart=on-failure RestartSec=10ms
	echo nonsense >"$BATS_TEST_TMPDIR/bad.conf"
	drop_in a leaserun@bad.service Restart=on-failure RestartSec=10ms \
	    Environment=LEASERUN_CONFIG=/var/lib/test/bad.conf
	job a bad true
	job a report 'echo x >>/var/lib/tries; [ $(wc -l </var/lib/tries) -gt 2 ]'
	run ctl a start leaserun@bad.service
	assert_unit a leaserun@bad ActiveState failed
	assert_equal "$(show a leaserun@bad ExecMainStatus)" 78
	assert_equal "$(show a leaserun@bad NRestarts)" 0
	run ctl a start leaserun@nothing-there.service
	assert_unit a leaserun@nothing-there ActiveState failed
	assert_equal "$(show a leaserun@nothing-there ExecMainStatus)" 127
	# What may pass is.
	run ctl a start leaserun@report.service
	wait_until 40 sh -c '[ "$(wc -l <a/var/tries)" -eq 3 ]'
	assert_unit a leaserun@report ActiveState inactive
	assert_equal "$(show a leaserun@report Result)" success
}

@test "a timer starts the job" {
	hosts a
	probe a report ticks=1
	drop_in a leaserun@report.timer '[Timer]' OnCalendar= \
	    'OnCalendar=*:*:*'
	ctl a start leaserun@report.timer
	wait_until 60 ran 2
	ctl a stop leaserun@report.timer leaserun@report.service
	assert_order "$(lines start)"
	run ctl a show --value -p TimersCalendar leaserun@other.timer
	assert_contains "$output" "OnCalendar=*-*-* 00:00:00"
}

@test "one host leads, and another one when its lease is lost" {
	hosts a b
	for host in a b; do
		drop_in $host leaserun-leader@web.service RestartSec=100ms
		probe $host web tree
	done
	ctl a start leaserun-leader@web.service
	wait_until 40 ticking 4
	# It does not wait until it leads.
	ctl b start leaserun-leader@web.service
	lead_by a b
	inside b /etc/bin/leaserun revoke --wait 60s web
	lead_by b a
	assert_equal "$(show a leaserun-leader@web NRestarts)" 1
	ctl b stop leaserun-leader@web.service
	assert_unit a leaserun-leader@web StatusText "running 'web' *"
	assert_order 3
}

@test "a host that vanishes is followed" {
	hosts a b
	for host in a b; do
		probe $host web tree
		ctl $host start leaserun-leader@web.service
		[ $host = b ] || wait_until 40 ticking 4
	done
	lead_by a b
	kill -KILL "${systemd[a]}"
	assert_unit b leaserun-leader@web StatusText "running 'web' *"
	assert_order 2
	ctl b stop leaserun-leader@web.service
	# An end is not the end of it.
	job b web 'echo x >>/var/lib/tries'
	drop_in b leaserun-leader@web.service RestartSec=100ms
	ctl b start leaserun-leader@web.service
	wait_until 40 sh -c '[ "$(wc -l <b/var/tries)" -ge 3 ]'
	rm b/etc/leaserun/web
	assert_unit b leaserun-leader@web ActiveState failed
	assert_equal "$(show b leaserun-leader@web ExecMainStatus)" 127
}

@test "with Type=notify a unit is active where it leads, and nowhere else" {
	hosts a b
	for host in a b; do
		drop_in $host leaserun-leader@web.service Type=notify \
		    TimeoutStartSec=infinity
		probe $host web
		ctl $host start --no-block leaserun-leader@web.service
		[ $host = b ] || wait_until 40 ran 1
	done
	lead_by a b
	assert_unit a leaserun-leader@web ActiveState active
	assert_equal "$(show b leaserun-leader@web ActiveState)" activating
	ctl a stop leaserun-leader@web.service
	assert_unit b leaserun-leader@web ActiveState active
	assert_order 2
}

@test "a command that says itself when it is ready" {
	hosts a
	drop_in a leaserun-leader@web.service Type=notify NotifyAccess=all \
	    ExecStart= 'ExecStart=/etc/bin/leaserun run --notify status %i -- %E/leaserun/%i'
	job a web 'echo >/var/lib/ran
	    while [ ! -e /var/lib/go ]; do sleep 0.02; done
	    systemd-notify --ready
	    exec sleep 1000'
	ctl a start --no-block leaserun-leader@web.service
	wait_until 40 test -e a/var/ran
	assert_unit a leaserun-leader@web StatusText "running 'web' *"
	assert_equal "$(show a leaserun-leader@web ActiveState)" activating
	: >a/var/go
	assert_unit a leaserun-leader@web ActiveState active
}

# The crontab lines of contrib/cron.

load helpers


# stub NAME COMMAND...: what the crontab calls /usr/local/sbin/NAME.
stub() {
	printf '#!/bin/sh\ncd %q || exit\n%s\n' "$PWD" "${*:2}" >"sbin/$1"
	chmod 755 "sbin/$1"
}

# The file, for this minute and the store of the test.
crontab_now() {
	sed -E 's/^([^ ]+ ){4}[^ \t]+\t/* * * * *\t/
	    s,^(LEASERUN_BACKEND=).*,\1file:'"$PWD/state"',' \
	    "$srcdir/contrib/cron/leaserun"
}

# The commands of the crontab, a line each.
commands() {
	sed -nE 's/^([^ #]+ ){4}[^ \t]+\troot\t//p' "$srcdir/contrib/cron/leaserun"
}

# Cron in namespaces of its own, with crontabs a and b as of two hosts, a mailer
# that writes files, and a system log.
cron_script='
	mount --make-rprivate /
	mount -t tmpfs none /run
	mkdir /run/upper /run/work /run/upper2 /run/work2
	mount -t overlay none -o \
	    lowerdir=/etc,upperdir=/run/upper,workdir=/run/work /etc
	mount -t overlay none -o \
	    lowerdir=/usr/sbin,upperdir=/run/upper2,workdir=/run/work2 /usr/sbin
	mount --bind sbin /usr/local/sbin
	mount --bind bin /usr/local/bin
	mount --bind log /var/log
	mount --bind lib /var/lib
	mount -t tmpfs none /var/spool
	mkdir -p /var/spool/cron/crontabs
	rm -rf /etc/cron.d/* /etc/crontab /etc/leaserun.conf
	cp lines /etc/cron.d/a
	cp lines /etc/cron.d/b
	chmod 600 /etc/cron.d/*
	cp sendmail /usr/sbin/sendmail
	mkdir /run/dev
	mount -t tmpfs none /run/dev
	mknod -m 666 /run/dev/null c 1 3
	mknod -m 666 /run/dev/urandom c 1 9
	mount --move /run/dev /dev
	"$LISTEN" /dev/log >syslog &
	until [ -S /dev/log ]; do sleep 0.02; done
	exec env -u LEASERUN_BACKEND -u LEASERUN_CONFIG -u TEST_MARK cron -f -L 0'

lines_of() {
	grep -c . "$1" || :
}

@test "cron runs every line, as two hosts would" {
	mkdir -p bin sbin log lib/prometheus/node-exporter mail
	chmod 700 state
	ln "$LEASERUN" bin/leaserun || cp "$LEASERUN" bin/leaserun
	stub report 'echo "$LEASERUN_FENCE_TOKEN" >>report.ran
	    while [ ! -e go ]; do sleep 0.1; done
	    echo the report'
	stub mirror 'echo "$LEASERUN_FENCE_TOKEN" >>mirror.ran'
	stub poll 'echo ran >>poll.ran'
	stub digest 'echo try >>digest.ran; [ "$(grep -c . digest.ran)" -eq 2 ]'
	stub import 'echo ran >>import.ran; while [ ! -e go ]; do sleep 0.1; done'
	stub backup 'echo saved; echo ran >>backup.ran'
	printf '#!/bin/sh\ncat >%q/mail/$$\n' "$PWD" >sendmail
	chmod 755 sendmail
	crontab_now >lines
	assert_equal "$(grep -c '^\* \* \* \* \*' lines)" \
	    "$(commands | wc -l)"
	export LISTEN=$builddir/tests/listen
	bg unshare --mount --pid --fork --kill-child --mount-proc \
	    sh -ec "$cron_script" >cron.log 2>&1
	for job in report mirror poll digest import backup; do
		wait_until 100 test -s $job.ran || { cat cron.log; return 1; }
	done
	# Each waits for the other, so both do it.
	wait_until 20 sh -c '[ $(grep -c . mirror.ran) -ge 2 ]'
	wait_until 20 sh -c '[ $(grep -c . digest.ran) -ge 2 ]'
	wait_until 20 file_has log/backup.log saved
	wait_until 20 grep -q '^leaserun_runs_total{.*"success".*} 1$' \
	    lib/prometheus/node-exporter/leaserun.prom
	# Those that skip have ended long ago; now the others end.
	: >go
	wait_until 20 sh -c 'grep -ql "the report" mail/*'
	cat mail/*
	assert_equal "$(lines_of digest.ran)" 2
	# Held for minutes after their end.
	assert_equal "$(lines_of poll.ran)" 1
	assert_equal "$(lines_of backup.ran)" 1
	file_has log/leaserun.events '"event":"released"'
	file_has syslog "'backup': acquired"
	[ "$(sort -n mirror.ran | uniq | wc -l)" -ge 2 ]
	# The next minute may have begun, but not one that is skipped mails.
	assert_equal "$(grep -L 'the report' mail/*)" ""
	run_tool 0 status --once daily-digest
	assert_contains "$stdout" daily-digest
}

@test "the lines run with no more than cron gives" {
	local line
	local -i n=0

	mkdir -p bin sbin log metrics home
	ln -s "$LEASERUN" bin/leaserun
	for job in report mirror poll digest import backup; do
		stub $job "env >$job.env"
	done
	while IFS= read -r line; do
		line=${line//\/usr\/local\/sbin/$PWD/sbin}
		line=${line//\/var\/log/$PWD/log}
		line=${line//\/var\/lib\/prometheus\/node-exporter/$PWD/metrics}
		run env -i -C / HOME="$PWD/home" LOGNAME=root SHELL=/bin/sh \
		    PATH="$PWD/bin:/usr/bin:/bin" \
		    LEASERUN_BACKEND="file:$PWD/state" sh -c "$line"
		# Those of --log syslog, where there is no system log.
		output=$(grep -v "^leaserun: 'backup': " <<<"$output" || :)
		assert_equal "$line: $status $output" "$line: 0 "
		n+=1
	done < <(commands)
	[ $n -ge 6 ]
	assert_equal "$(ls *.env | wc -l)" $n
	grep -qx 'LEASERUN_NAME=backup' backup.env
}

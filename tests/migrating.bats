# leaserun-migrating(7): its lines and its script, taken from the page, beside
# the tools that they replace.

load helpers
load postgres

page=$srcdir/man/leaserun-migrating.7

setup() {
	test_setup
	mkdir bin
	ln -s "$LEASERUN" bin/leaserun
	# Runs until it is told to end, and says that it did.
	cat >bin/send-digest <<-'END'
		#!/bin/sh
		echo begun >>digests
		while [ ! -e over ]; do sleep 0.02; done
		echo ended >>digests
	END
	chmod 755 bin/send-digest
	PATH=$PWD/bin:$PATH
}

# line KIND: that of the change-over, `old', `meanwhile' or `new', as a script.
line() {
	sed -n '/^\.Bd/,/^\.Ed/{/^\.[BE]d/!p;}' "$page" |
	    sed -e 's/\\e$/\\/' | sed -e :a -e '/\\$/{N;s/\\\n//;ba' -e '}' |
	    sed -n "s,/run/lock,$PWD,; s/ *# $1\$//p" >"$1"
	[ "$(wc -l <"$1")" -eq 1 ] || fail "no line '$1' in the page"
	grep -q send-digest "$1"
}

# skipped KIND STATUS: it does not run the job.
skipped() {
	local status=0

	timeout 20 sh "$1" 3>&- || status=$?
	assert_equal "$1: $status" "$1: $2"
	assert_equal "$(cat digests)" begun
}

# holds KIND: its job runs; $holder.
holds() {
	rm -f over digests
	bg sh "$1"
	holder=$!
	wait_until 20 test -s digests
}

ends() {
	touch over
	assert_ends 0 "$holder"
	assert_equal "$(xargs <digests)" "begun ended"
}

@test "hosts with the old, both and the new line of flock run one at a time" {
	line old
	line meanwhile
	line new
	holds old
	skipped old 1
	skipped meanwhile 75
	ends
	holds meanwhile
	skipped old 1
	skipped meanwhile 75
	skipped new 75
	ends
	holds new
	skipped meanwhile 75
	skipped new 75
	ends
}

# The table of ShedLock, as its documentation has it.
shedlock_table() {
	pg_setup
	export PGHOST=$PGDIR PGUSER=postgres PGDATABASE=postgres
	sql "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL,
	    lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL,
	    locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))"
	awk '/^\.Ed/ { here = 0 } /^#!\/bin\/sh/ { here = 1 } here' "$page" |
	    sed 's/\\e$/\\/' >bin/shedlocked
	chmod 755 bin/shedlocked
}

# row EXPRESSION: of the row in question.
row() {
	sql "SELECT $1 FROM shedlock WHERE name = 'digest'"
}

is_free="lock_until <= timezone('utc', now())"

@test "the script takes the row of ShedLock, and gives it back" {
	shedlock_table
	printf '%s\n' 'leaserun run --max-run 9m digest -- \' \
	    '    shedlocked digest 600 send-digest' >inside
	sed 's/\\e$/\\/' "$page" | grep -qF 'shedlocked digest 600 send-digest'
	holds inside
	assert_equal "$(row "$is_free")" f
	assert_equal "$(row "lock_until - locked_at")" 00:10:00
	skipped inside 75
	# As it looks to somebody who has the script alone.
	LEASERUN_RUN_ID=other run shedlocked digest 600 send-digest
	assert_equal "$status" 75
	ends
	assert_equal "$(row "$is_free")" t
	holds inside
	ends
	assert_equal "$(row 'count(*)')" 1
}

@test "the script leaves a row alone that a Java program has" {
	shedlock_table
	sql "INSERT INTO shedlock VALUES ('digest',
	    timezone('utc', now()) + interval '1 hour',
	    timezone('utc', now()), 'java')"
	run_tool 75 run digest -- shedlocked digest 600 send-digest
	[ ! -e digests ]
	assert_equal "$(row locked_by)" java
	sql "UPDATE shedlock SET lock_until = timezone('utc', now())"
	run_tool 3 run digest -- shedlocked digest 600 sh -c 'exit 3'
	assert_equal "$(row "$is_free")" t
	[ "$(row locked_by)" != java ]
}

@test "the script does not give back what somebody else has by now" {
	shedlock_table
	holds <(echo "leaserun run digest -- shedlocked digest 600 send-digest")
	sql "UPDATE shedlock SET locked_by = 'java'"
	ends
	assert_equal "$(row "$is_free")" f
}

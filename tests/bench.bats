# That `make bench' measures what it says.  How much is for people to judge.

load helpers

# figure ROW COLUMN: of the last output.
figure() {
	awk -v row="$1" -v column="$2" 'index($0, "  " row " ") == 1 {
		sub("^  " row " *", "")
		print $column
	}' <<<"$output"
}

# compare WHAT N ROUNDS COMMAND...
compare() {
	output=$("$builddir/tests/bench/compare" "$@" 3>&-)
	printf '%s\n' "$output"
}

@test "the table of the file store is whole" {
	local waiters=3

	ROUNDS=1 WAITERS=$waiters BEATS=1 BENCH_DIR=$PWD \
	    bash "$srcdir/tests/bench/run.bash" file >table 2>err 3>&- ||
	    fail "$(cat err)"
	cat table
	assert_equal "$(grep -cE '^  (wall|cpu) ms +[0-9.]+ [|] +[0-9.]+ ' \
	    table)" 13
	for title in "acquire, true, release" "skip when held" \
	    "hand-over to $waiters, each" "kill -9 of all" "while held, a second"; do
		grep -q "^$title " table
	done
	run ls
	assert_lacks "$output" leaserun-bench
}

@test "what is the same twice costs the same calls and bytes" {
	compare run 1 2 -- sh -c 'JOB; true' -- sh -c 'JOB; true'
	assert_equal "$(figure calls 4)" 1.00
	assert_equal "$(figure 'wire bytes' 1)" 0
}

@test "the calls of what is started are counted, too" {
	compare run 1 1 -- sh -c '/bin/true; /bin/true; exit' -- sh -c exit \
	    -- JOB
	[ $(($(figure calls 1) - $(figure calls 3))) -ge \
	    $((2 * $(figure calls 7))) ]
}

@test "the bytes of TCP are counted, both ways" {
	bg perl -MIO::Socket::INET -e '
		my $s = IO::Socket::INET->new(Listen => 1, LocalAddr =>
		    "127.0.0.1") or die;
		open(my $f, ">", "port.new") or die;
		print $f $s->sockport;
		close $f;
		rename "port.new", "port";
		while (my $c = $s->accept) {
			sysread($c, my $asked, 3);
			syswrite($c, "1234567");
		}'
	wait_until 30 test -s port
	cat >ask <<-'END'
		exec 7<>"/dev/tcp/127.0.0.1/$(cat port)"
		printf 123 >&7
		head -c 7 <&7 >answered
	END
	compare run 1 1 -- bash ask
	assert_equal "$(cat answered)" 1234567
	assert_equal "$(figure 'wire bytes' 1)" 10
}

@test "a holder that was killed is taken over from" {
	compare kill 2 1 -- flock lock JOB
	[ "$(figure calls 1)" -gt 0 ]
}

@test "a hand-over is one only when the next command has started" {
	compare pass 2 1 -- flock lock JOB
	[ "$(figure calls 1)" -gt 0 ]
	run "$builddir/tests/bench/compare" pass 2 1 -- \
	    sh -c 'case $1 in */hold.*) exec flock lock "$1"; esac
	    exec flock lock true' sh JOB
	assert_equal "$status" 1
	assert_contains "$output" "not all who wait"
}

# The checker of storms (tests/storm/check.c), with histories that are wrong in
# each way that it knows.

load helpers

# history [LINE]...: with times in ms, in any order; a good one around them, in
# which c1 has run j1 with the token 11 from 1000 to 2000, and c2 j2 with 12
# from 2100 to 3000.
history() {
	{
		cat <<-END
			0 storm ${STORE-file} 4000 400 5000 1000
			900 begin c1 j1 n1 -
			1000 start n1 11 101 j1 c1 plain
			1010 member n1 11 102 child
			1500 tick n1 11 102
			1990 gone n1 11 102
			2000 end n1 11 101 j1 0
			2010 exit c1 j1 code 0 50
			950 begin c2 j2 n1 -
			2100 start n1 12 103 j2 c2 plain
			2500 tick n1 12 104
			3000 end n1 12 103 j2 3
			3010 exit c2 j2 code 3 50
			90000 over
		END
		[ $# -eq 0 ] || printf '%s\n' "$@"
	} | sed -E 's/^([0-9]+) /\1000000 /' >history
}

# checked RC: of the history.
checked() {
	local status=0

	"$builddir/tests/storm/check" history >out 2>&1 || status=$?
	cat history out
	assert_equal "$status" "$1"
}

# wrong TEXT [LINE]...: that is found, once, and nothing else.
wrong() {
	history "${@:2}"
	checked 1
	assert_equal "$(grep -c ^violation: out)" 1
	file_has out "$1"
}

# right LINE...: nothing is found.
right() {
	history "$@"
	checked 0
}

# figure KEY VALUE
figure() {
	assert_equal "$1 $(sed -n "s/^$1 //p" out)" "$1 $2"
}

# A third run, j3 of c3, from 4000 to 5000 with the token 13: third FLAGS STATUS
# EXIT..., its command ends with STATUS, or does not tell if that is `-'.
third() {
	third=("3900 begin c3 j3 ${name-n1} $1"
	    "4000 start ${name-n1} 13 105 j3 c3 plain"
	    "5010 exit c3 j3 ${*:3} 50")
	[ "$2" = - ] || third+=("5000 end ${name-n1} 13 105 j3 $2")
}

# Like third, but the command is not started.
unstarted() {
	third=("3900 begin c3 j3 n1 $1" "5010 exit c3 j3 ${*:2} 50")
}

@test "a good history" {
	right
	figure runs 2
	figure started 2
	figure processes 1
	figure overlaps 0
	figure status.0 1
	figure status.3 1
	figure violations 0
}

# --- Two at a time ---

@test "a tick after the next start" {
	wrong "two jobs of 'n1': token 11" "2101 tick n1 11 102"
	figure overlaps 1
}

@test "any sign of life after the next start" {
	wrong "two jobs of 'n1': token 11" "2101 gone n1 11 102"
	wrong "two jobs of 'n1': token 11" "2101 member n1 11 109 late"
	wrong "two jobs of 'n1': token 11" "2101 did n1 11 102 open.n1 0 a" \
	    "9000 value open.n1 a"
}

@test "one that does not tick is seen by the next one" {
	wrong "two jobs of 'n1': token 11" "2101 alive n1 11 102 j1 c1"
}

@test "one that was never heard of is seen by the next one" {
	wrong "two jobs of 'n1': token 7" "1500 alive n1 7 99 j0 c9"
}

@test "a line that is late in the file is not late" {
	right "1999 tick n1 11 102"
}

@test "another name is no overlap" {
	right "2101 tick n2 11 109"
}

@test "an overlap with each of those that come after it" {
	third - 0 code 0
	history "${third[@]}" "4100 tick n1 11 102"
	checked 1
	figure overlaps 2
	file_has out "token 11 (c1) is alive 2000 ms after 12 (c2)"
	file_has out "token 11 (c1) is alive 100 ms after 13 (c3)"
}

@test "keeper and guard frozen: counted apart" {
	right "1600 fault c1 both" "2600 heal c1 both" "2650 tick n1 11 102"
	figure overlaps 0
	figure overlaps.frozen 1
	figure overlaps.frozen-longest-ms 550
	right "1600 fault c1 pause" "2600 heal c1 pause" "2650 tick n1 11 102"
	figure overlaps.frozen 1
}

@test "frozen, but alive for too long after the thaw" {
	wrong "two jobs" "1600 fault c1 both" "2600 heal c1 both" \
	    "3601 tick n1 11 102"
}

@test "frozen only after the next one had begun" {
	wrong "two jobs" "2101 fault c1 both" "2600 heal c1 both" \
	    "2650 tick n1 11 102"
}

@test "frozen, and no thaw is told" {
	wrong "two jobs" "1600 fault c1 both" "2650 tick n1 11 102"
}

@test "somebody else was frozen, or only one of the two" {
	wrong "two jobs" "1600 fault c2 both" "2600 heal c2 both" \
	    "2650 tick n1 11 102"
	wrong "two jobs" "1600 fault c1 stop-keeper" "2600 heal c1 stop-keeper" \
	    "2650 tick n1 11 102"
	wrong "two jobs" "1600 fault c1 stop-guard" "2600 heal c1 stop-guard" \
	    "2650 tick n1 11 102"
}

@test "a lease that the store has dropped: counted apart" {
	right "1600 fault store drop-x" "1700 heal store drop-x" \
	    "2650 tick n1 11 102"
	figure overlaps 0
	figure overlaps.dropped 1
	figure overlaps.dropped-longest-ms 550
}

@test "dropped, but the next heartbeat did not end it" {
	wrong "two jobs" "1600 fault store drop-x" "1700 heal store drop-x" \
	    "7101 tick n1 11 102"
}

@test "another fault of the store is no excuse" {
	wrong "two jobs" "1600 fault store crash" "1700 heal store crash" \
	    "2650 tick n1 11 102"
}

@test "nobody was run for as long: counted apart" {
	right "2250 gap 300" "2200 tick n1 11 102"
	figure overlaps.starved 1
	figure overlaps 0
	wrong "two jobs" "2250 gap 300" "2401 tick n1 11 102"
	wrong "two jobs" "900 gap 300" "2200 tick n1 11 102"
	wrong "two jobs" "2150 gap 80" "2150 tick n1 11 102"
}

@test "other locks have no excuses" {
	STORE=flock wrong "two jobs" "1600 fault c1 both" "2600 heal c1 both" \
	    "2650 tick n1 11 102"
}

# --- Tokens ---

@test "a token that goes back" {
	third - 0 code 0
	third=("${third[@]// 13 / 10 }")
	history "${third[@]}"
	checked 1
	file_has out "tokens of 'n1' went back: 10 (run j3)"
	file_has out "tokens of 'n1' went back: 10 (run j3) started at 4000000000, 12 (run j2) before that"
}

@test "a token that is granted twice" {
	third - 0 code 0
	third=("${third[@]// 13 / 12 }")
	wrong "token 12 of 'n1' was granted twice, runs j2 and j3" \
	    "${third[@]}"
}

@test "a token that is granted twice, of which one was not used" {
	wrong "token 12 of 'n1' was granted twice, the second time to c3" \
	    "0 grant n1 12 c2" "0 grant n1 12 c3"
}

@test "the same token of two names is nothing" {
	right "0 grant n1 12 c2" "0 grant n2 12 c2"
	figure granted 2
}

@test "a command that is started twice" {
	wrong "run j2 started its command twice" \
	    "4000 start n1 14 110 j2 c2 plain"
}

# --- Registers ---

@test "a fenced register that loses an update" {
	wrong "1 updates of a fenced register are lost" \
	    "1100 did n1 11 102 fenced.n1 0 a" \
	    "1200 did n1 11 102 fenced.n1 a b" \
	    "2200 did n1 12 104 fenced.n1 a c" \
	    "9000 value fenced.n1 c"
	figure lost.fenced 1
	figure writes.fenced 3
}

@test "the last value is not what was written last" {
	wrong "1 updates of a fenced register are lost" \
	    "1100 did n1 11 102 fenced.n1 0 a" "9000 value fenced.n1 0"
	wrong "1 updates of a fenced register are lost" \
	    "1100 did n1 11 102 fenced.n1 0 a" \
	    "2200 did n1 12 104 fenced.n1 a b" "9000 value fenced.n1 a"
}

@test "a writer that was killed before it told is no loss" {
	right "1100 did n1 11 102 fenced.n1 0 a" \
	    "2200 did n1 12 104 fenced.n1 b c" "9000 value fenced.n1 c"
}

@test "an open register may lose updates, they are counted" {
	right "1100 did n1 11 102 open.n1 0 a" \
	    "2200 did n1 12 104 open.n1 0 b" "9000 value open.n1 b"
	figure lost.open 1
	figure writes.open 2
	figure lost.fenced 0
}

# --- Keys ---

@test "a key that is done twice" {
	name=once
	third once=k 0 code 0
	wrong "key 'k' of 'once' was done by run j3, and run j4 started" \
	    "${third[@]}" "5500 begin c4 j4 once once=k" \
	    "5600 start once 14 120 j4 c4 plain" \
	    "5700 end once 14 120 j4 3" "5710 exit c4 j4 code 3 50"
}

@test "a key that two had done at once" {
	name=once
	third once=k 0 code 0
	history "${third[@]}" "4400 begin c4 j4 once once=k" \
	    "5005 start once 14 120 j4 c4 plain" \
	    "5700 end once 14 120 j4 0" "5710 exit c4 j4 code 0 50"
	checked 1
	file_has out "key 'k' of 'once' was done by runs j3 and j4"
}

@test "a key after one that failed, another key, and one that is done" {
	name=once
	third once=k 3 code 3
	right "${third[@]}" "5500 begin c4 j4 once once=k" \
	    "5600 start once 14 120 j4 c4 plain" \
	    "5700 end once 14 120 j4 0" "5710 exit c4 j4 code 0 50" \
	    "5800 begin c5 j5 once once=k" "5900 exit c5 j5 code 0 50" \
	    "6000 begin c5 j6 once once=l" \
	    "6100 start once 15 120 j6 c5 plain" \
	    "6200 end once 15 120 j6 0" "6300 exit c5 j6 code 0 50"
	figure keys 2
}

# --- Exit statuses ---

@test "statuses that nothing can have caused" {
	local code

	for code in 1 64 69 70 74 77 78 79 124 126 127 137 143; do
		third - - code "$code"
		wrong "run j3 of c3, 'n1', ended with status $code" \
		    "${third[@]}"
		unstarted - code "$code"
		wrong "run j3 of c3, 'n1', ended with status $code" \
		    "${third[@]}"
	done
	for code in 2 6 9 11 15; do
		third - - signal "$code"
		wrong "run j3 of c3, 'n1', ended with signal $code" \
		    "${third[@]}"
		unstarted - signal "$code"
		wrong "run j3 of c3, 'n1', ended with signal $code" \
		    "${third[@]}"
	done
}

@test "0 for a command that failed, did not tell, or was not started" {
	third - 3 code 0
	wrong "ended with status 0" "${third[@]}"
	third - - code 0
	wrong "ended with status 0" "${third[@]}"
	unstarted - code 0
	wrong "ended with status 0" "${third[@]}"
	unstarted once=k code 0
	right "${third[@]}"
}

@test "held elsewhere, and the command was started" {
	third - 0 code 75
	wrong "ended with status 75" "${third[@]}"
	unstarted - code 75
	right "${third[@]}"
}

@test "no store: only when something was wrong, and nothing is started" {
	local rough=("4000 fault store crash" "4100 heal store crash")

	unstarted - code 69
	right "${third[@]}" "${rough[@]}"
	right "${third[@]}" "4500 gap 150"
	wrong "ended with status 69" "${third[@]}" "4500 gap 80"
	third - - code 69
	wrong "ended with status 69" "${third[@]}" "${rough[@]}"
	unstarted - code 69
	wrong "ended with status 69" "${third[@]}" "9000 fault store crash"
	wrong "ended with status 69" "${third[@]}" "4000 fault c9 both"
}

@test "lost: only when something was wrong, and it was started" {
	third - 0 code 79
	right "${third[@]}" "4000 fault net silent" "4100 heal net silent"
	right "${third[@]}" "4000 fault n1 revoke" "4100 heal n1 revoke"
	wrong "ended with status 79" "${third[@]}" "4000 fault n2 revoke"
	unstarted - code 79
	wrong "ended with status 79" "${third[@]}" "4000 fault net silent"
}

@test "a command that was ended before it could tell that it began" {
	unstarted - code 79
	right "${third[@]}" "4000 fault net silent" "0 ran c3 50"
	wrong "ended with status 79" "${third[@]}" "4000 fault net silent" \
	    "0 ran c3 51" "0 ran c2 50"
	unstarted - code 75
	wrong "ended with status 75" "${third[@]}" "0 ran c3 50"
}

@test "what was done to the run decides" {
	third - - signal 9
	right "${third[@]}" "4500 fault c3 kill-keeper"
	right "${third[@]}" "4500 fault c3 kill-command"
	wrong "ended with signal 9" "${third[@]}" "4500 fault c3 kill-guard"
	wrong "ended with signal 9" "${third[@]}" "4500 fault c2 kill-keeper"
	wrong "ended with signal 9" "${third[@]}" "5500 fault c3 kill-keeper"
	third - - code 70
	right "${third[@]}" "4500 fault c3 kill-guard"
	third - - signal 15
	right "${third[@]}" "4500 fault c3 term"
	unstarted - code 143
	right "${third[@]}" "4500 fault c3 term"
	third max-run - code 124
	right "${third[@]}"
	third once=k 0 code 74
	right "${third[@]}" "4500 fault store crash"
	third once=k 3 code 74
	wrong "ended with status 74" "${third[@]}" "4500 fault store crash"
}

@test "a run that has no end" {
	wrong "run j3 of c3 has not ended" "3900 begin c3 j3 n1 -"
}

@test "statuses of other locks are theirs" {
	unstarted - code 1
	STORE=etcdctl right "${third[@]}"
}

# --- The rest ---

@test "a process that is left" {
	wrong "process 77, leaserun-guard, is left" \
	    "80000 left 77 leaserun-guard"
	figure left 1
}

@test "a name that nobody has in a calm" {
	# The bound is 5 s.
	wrong "no job of 'n1' for 6000 ms in a calm" "1 watch n1" \
	    "20000 calm" "26000 rough"
	wrong "no job of 'n1' for 5990 ms in a calm" "1 watch n1" \
	    "20000 calm" "20010 tick n1 12 104" "26000 tick n1 12 104" \
	    "27000 rough"
	wrong "no job of 'n1' for" "1 watch n1" "89000 calm" "80000 calm"
}

@test "a name that nobody has, since the machine ran nobody" {
	right "1 watch n1" "20000 calm" "22000 gap 300" "23000 gap 320" \
	    "26000 rough"
	figure calms 1
	figure idle.starved 1
	wrong "no job of 'n1' for 6000 ms in a calm" "1 watch n1" \
	    "20000 calm" "22000 gap 300" "26000 rough" "29000 gap 900"
}

@test "a name that somebody has in a calm, and any in rough times" {
	right "1 watch n1" "20000 calm" "24000 tick n1 12 104" "28000 rough"
	right "1 watch n1" "20000 calm" "24900 rough"
	third - 0 code 0
	right "1 watch n1" "3500 calm" "6000 rough" "${third[@]}"
	figure takeovers 2
	figure takeover-longest-ms 1000
	figure takeover-calm-longest-ms 500
}

@test "what is not a history" {
	history "100 nonsense n1"
	checked 2
	history "100 tick n1"
	checked 2
	history "277384516528377581589784 gap 84"
	checked 2
	history "100 exit c9 j9 code 0 50"
	checked 2
	history "100 heal c1 both"
	checked 2
	history
	sed -i '/over/d' history
	checked 2
	history
	sed -i '/storm/d' history
	checked 2
	history
	printf '100 tick n1 11' >>history
	checked 2
	rm history
	"$builddir/tests/storm/check" history >out 2>&1 || status=$?
	assert_equal "$status" 2
}

# shellcheck shell=bash disable=SC2154
# For the bats files with a short storm: `load storm'.

# storm STORE SEED: nothing in it is against the promises.  It has something to
# break, and does not take the processors from the tests beside it.
storm() {
	local status=0

	STORM_HOST=no STORM_KEEP=$PWD/kept bash "$srcdir/tests/storm/storm.bash" \
	    "$1" 50 "$2" figures >out 2>&1 3>&- || status=$?
	cat out
	if [ $status -ne 0 ]; then
		for log in kept/log kept/c?.log; do
			echo "--- $log"
			tail -n 30 "$log"
		done
		return $status
	fi
	[ "$(figure started)" -ge 5 ]
	[ "$(figure faults)" -ge 10 ]
	[ "$(figure writes.fenced)" -ge 5 ]
}

figure() {
	sed -n "s/^$1 //p" figures
}

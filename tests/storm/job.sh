#!/bin/sh
# A job of the storm: an ordinary script with children, which reads, works and
# writes for so long.
#	job.sh KIND MS
# Its registers, files in $STORM_DATA, are changed in two steps with time in
# between: `open.NAME' as it is, and `fenced.NAME' through `leaserun fence'
# ($STORM_FENCE, empty: not at all).
kind=$1
ms=$2
status=0
open=$STORM_DATA/open.$LEASERUN_NAME
fenced=$STORM_DATA/fenced.$LEASERUN_NAME
rounds=$((ms / 400 + 1))

r() {
	"$STORM_RECORD" "$@"
}

# What fails is told by its status; a refused write is as good as none.
fence() {
	word=$1
	shift
	"$STORM_FENCE" fence --wait 3s "$fenced" -- "$STORM_RECORD" "$word" \
	    "$fenced" "$@"
}

[ "$kind" != stubborn ] || trap '' TERM

r start "$kind" || exit 99
case $kind in
plain)
	r tick child "$ms" & ;;
family)
	# A child of a child, and a pipeline.
	sh -c '"$STORM_RECORD" tick grandchild "$1"; :' - "$ms" &
	r tick piped "$ms" | cat &
	r tick child "$ms" & ;;
stubborn)
	r tick child "$ms" &
	(r tick subshell "$ms") & ;;
daemon)
	# Forks twice and calls setsid; outlives the command for a moment.
	(setsid -f "$STORM_RECORD" tick daemon "$((ms + 700))") ;;
leaver)
	(r tick left "$((ms + 500))" &)
	r tick child "$ms" & ;;
stopper)
	sh -c 'kill -STOP $$; exec "$STORM_RECORD" tick thawed 100' &
	r tick child "$ms" & ;;
failing)
	r tick child "$ms" &
	status=3 ;;
esac

while [ $rounds -gt 0 ]; do
	old=$(r get "$open")
	[ -z "$STORM_FENCE" ] || fold=$(fence get) || fold=
	sleep 0.2
	r put "$open" "$old"
	[ -z "$STORM_FENCE" ] || [ -z "$fold" ] || fence put "$fold" || :
	sleep 0.1
	rounds=$((rounds - 1))
done
r end "$status"
exit "$status"

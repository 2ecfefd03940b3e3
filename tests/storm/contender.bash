# shellcheck shell=bash
# A host of a storm that starts jobs until it is told to stop.
#	contender.bash WHO URL SEED
# WHO is c1, c2, ...: the first three want one name each and nothing else, so
# that there is always somebody who wants it.
set -u

who=$1
url=$2
RANDOM=$3
n=${who#c}
kinds=(plain plain plain family stubborn stubborn daemon leaver failing)
# Only with --max-run is there an end to it.
[ -z "$STORM_FENCE" ] || kinds+=(stopper)

# one_of WORD...: sets `one'.
one_of() {
	shift $((RANDOM % $#))
	one=$1
}

choose() {
	options=(-w "$((RANDOM % 6000 + 1500))ms")
	flags=-
	name=n$((n % 3 + 1))
	((n <= 6)) || name=n$((RANDOM % 3 + 1))
	# What the store has not seen yet.
	((n <= 6 || RANDOM % 4 > 0)) || name=new$(($(date +%s) / 4))
	one_of "${kinds[@]}"
	kind=$one
	((n <= 3 || RANDOM % 6 > 0)) || options=()
	if ((n > 3 && RANDOM % 4 == 0)); then
		name=once
		# A new key now and then, the same for all.
		key=k$((SECONDS_ZERO > 0 ? ($(date +%s) - SECONDS_ZERO) / 6 : 0))
		flags=once=$key
		options+=(--once "$key")
	fi
	if [ $kind = stopper ] || ((RANDOM % 8 == 0)); then
		options+=(--max-run 2500ms)
		flags+=,max-run
	fi
	((RANDOM % 4 > 0)) || options+=(--leftovers kill)
	ms=$((RANDOM % 2600 + 300))
	((RANDOM % 3 > 0)) || ms=$((RANDOM % 8000 + 1000))
	# What takes longest to end is to meet the end of a lease.
	[ $kind != stubborn ] || ms=$((ms + 4000))
}

locked() {
	case $STORM_STORE in
	flock)
		command=(flock -w 5 "$STORM_DATA/$name.lock") ;;
	etcdctl)
		command=(env ETCDCTL_API=3 etcdctl --endpoints "$url"
		    lock --ttl "$((STORM_TTL / 1000))" "$name") ;;
	*)
		command=("$LEASERUN" run -b "$url" --owner "$who" -t
		    "${STORM_TTL}ms" -r "${STORM_RENEW}ms" -g
		    "${STORM_GRACE}ms" --connect-timeout 3s --events
		    "$STORM_DATA/events" "${options[@]}" "$name" --) ;;
	esac
	if [ -z "$STORM_FENCE" ]; then
		flags=-
		command+=("$STORM_RECORD" as "$name")
	fi
}

while [ ! -e "$STORM_DATA/stop" ]; do
	choose
	locked
	"$STORM_RECORD" run "$who" "$name" "$flags" "$STORM_DATA/$who.pid" \
	    "${command[@]}" sh "$STORM_JOB" "$kind" "$ms" \
	    2>>"$STORM_DATA/$who.log"
	sleep "0.$((RANDOM % 20 + 10))"
done

#!/bin/bash
# shellcheck disable=SC2154
# A storm: contenders for a few names, each on a host of its own, while their
# processes, their network and their store are harmed at random.
#	storm.bash STORE SECONDS SEED [FIGURES]
# STORE is file, postgres or etcd, or flock or etcdctl, which are put through
# the same.  Prints what tests/storm/check.c finds, and leaves the figures in a
# file.  Exits 1 when something was against the promises.
#	LEASERUN  the program	BACKENDS  its modules	srcdir, builddir
#	STORM_HOST=no	no pressure on processor and memory
#	STORM_KEEP=DIR	the history and all logs stay there
set -u

store=$1
seconds=$2
seed=$3
figures=$(realpath -m "${4:-/dev/null}")
here=$srcdir/tests/storm
bin=$builddir/tests/storm

# --- Outside: a place of its own, in which nothing outlives the storm ---

if [ -z "${STORM_INSIDE-}" ]; then
	work=$(mktemp -d "${TMPDIR:-/tmp}/leaserun-storm.XXXXXX") || exit
	user=()
	[ "$(id -u)" -eq 0 ] || user=(-r)
	# However this shell ends, the kernel ends all that is inside.
	STORM_INSIDE=$work setpriv --pdeathsig KILL \
	    unshare "${user[@]}" -m -n -p -f --kill-child --mount-proc -- \
	    bash "$0" "$@" </dev/null
	status=$?
	if [ -n "${STORM_KEEP-}" ]; then
		mkdir -p "$STORM_KEEP"
		cp -r "$work/." "$STORM_KEEP"
	fi
	rm -rf "$work"
	exit $status
fi

# --- Inside: PID 1 ---

work=$STORM_INSIDE
unset STORM_INSIDE LEASERUN_BACKEND http_proxy https_proxy all_proxy
unset HTTP_PROXY HTTPS_PROXY ALL_PROXY ETCDCTL_API
chmod 711 "$work"
cd "$work" || exit
bg_pids=()
export BATS_TEST_TMPDIR=$work BATS_RUN_TMPDIR=$work BATS_TEST_DIRNAME=$here
export HOME=$work LEASERUN_CONFIG=$work/leaserun.conf
export STORM_STORE=$store STORM_DATA=$work STORM_JOB=$here/job.sh
export STORM_HISTORY=$work/history STORM_RECORD=$bin/record
export STORM_FENCE=$LEASERUN LEASERUN
# For the contenders' keys.
export SECONDS_ZERO
# In ms.
export STORM_TTL=4000 STORM_RENEW=700 STORM_GRACE=400
bound=$((STORM_TTL + STORM_GRACE + 300 + 5000))
slack=1500
SECONDS_ZERO=$(date +%s)
echo "module-dir = \"$BACKENDS\"" >leaserun.conf

# shellcheck source=tests/helpers.bash
. "$srcdir/tests/helpers.bash"
# shellcheck source=tests/storm/net.bash
. "$here/net.bash"
# shellcheck source=tests/storm/procs.bash
. "$here/procs.bash"
case $store in
flock | etcdctl) STORM_FENCE= ;;
esac
case $store in
file | flock) kind="file" ;;
etcd | etcdctl) kind=etcd ;;
postgres) kind=postgres ;;
*)
	echo "no such store: '$store'" >&2
	exit 64 ;;
esac
# shellcheck source=/dev/null
. "$here/$kind.bash"

note() {
	"$STORM_RECORD" note "$@"
}

# await SECONDS COMMAND...: until it succeeds, by the clock: it may take a while
# itself.
await() {
	local until=$((SECONDS + $1))

	shift
	until "$@"; do
		((SECONDS < until)) || fail "not in time: $*" || return
		sleep 0.05
	done
}

# --- What can be harmed, each by a process of its own ---

# while_rough MIN MAX COMMAND...: again and again, with a pause of so many
# milliseconds; the calm begins when the last one is over.
while_rough() {
	local min=$1 max=$2 lock

	shift 2
	exec {lock}>>"$work/rough.lock"
	while :; do
		some "$min" "$max"
		sleep "$some"
		flock -s "$lock"
		[ ! -e "$work/rough" ] || "$@"
		flock -u "$lock"
	done
}

# start_harm NUMBER MIN MAX COMMAND...
start_harm() {
	(
		RANDOM=$((seed * 100 + $1))
		shift
		while_rough "$@"
	) >>"$work/log" 2>&1 &
}

# Sets host, of one whose job runs, or of anybody.
any_host() {
	local i

	for _ in 1 2 3 4; do
		i=$((RANDOM % ${#clients[@]}))
		host=${clients[i]}
		! run_of "c$((i + 1))" || [ -z "$command" ] || return 0
	done
}

network() {
	local host server kind

	any_host
	one_of "${servers[@]}"
	server=$one
	((RANDOM % 4 == 0)) || server=0
	((RANDOM % 8 > 0)) || [ "$server" = 0 ] || host=0
	some 200 $((STORM_TTL * 5 / 2))
	one_of silent silent fading fading lost-requests lost-replies lossy \
	    slow late reset
	kind=$one
	note fault net "$kind"
	case $kind in
	silent) net_both drop "$host" "$server" ;;
	fading)
		# The last answers that come are old.
		net delay "$server" "$host" $((RANDOM % 500 + 500))
		sleep "1.$((RANDOM % 10))"
		net_both drop "$host" "$server" ;;
	lost-requests) net drop "$host" "$server" ;;
	lost-replies) net drop "$server" "$host" ;;
	lossy) net_both lose "$host" "$server" $((RANDOM % 50 + 20)) ;;
	slow) net_both delay "$host" "$server" $((RANDOM % 700 + 50)) ;;
	late) net delay "$server" "$host" \
	    $((RANDOM % (STORM_TTL * 3 / 2) + 500)) ;;
	reset) net_both reset "$host" "$server" ;;
	esac
	sleep "$some"
	net_both heal "$host" "$server"
	note heal net "$kind"
}

revoke() {
	local name=n$((RANDOM % 3 + 1)) force=()

	if [ "$store" != file ] && ((RANDOM % 4 == 0)); then
		force=(--force)
		note fault store drop-force
	else
		note fault "$name" revoke
	fi
	at "$admin" timeout 10 "$LEASERUN" revoke -b "$(store_url)" \
	    "${force[@]}" "$name" >>"$work/log" 2>&1 || :
	if [ ${#force[@]} -gt 0 ]; then
		note heal store drop-force
	else
		note heal "$name" revoke
	fi
}

pressure() {
	local -a pids=()

	some 300 3000
	one_of processor memory
	note fault host "$one"
	case $one in
	processor)
		for _ in 1 2 3 4; do
			while :; do :; done &
			pids+=("$!")
		done ;;
	memory)
		head -c 400M /dev/zero | tail >"$work/null" &
		pids+=("$!") ;;
	esac
	sleep "$some"
	kill -KILL "${pids[@]}" 2>/dev/null
	wait "${pids[@]}" 2>/dev/null
	note heal host "$one"
}

# --- The storm ---

start_contenders() {
	local i who

	for i in "${!clients[@]}"; do
		who=c$((i + 1))
		at "h${clients[i]}" bash "$here/contender.bash" "$who" \
		    "$(store_url "$who")" $((seed * 100 + 50 + i)) \
		    >>"$work/log" 2>&1 &
		contenders+=("$!")
		start_harm "$((i + 1))" 500 6000 harm "$who"
	done
	[ ${#servers[@]} -eq 0 ] || {
		start_harm 20 300 2500 network
		start_harm 21 300 2500 network
	}
	[ "$store" = flock ] || start_harm 22 2000 5000 store_fault
	[ -z "$STORM_FENCE" ] || start_harm 23 3000 9000 revoke
	[ "${STORM_HOST-yes}" = no ] || start_harm 24 2000 9000 pressure
}

# rough SECONDS, calm SECONDS
rough() {
	: >rough
	sleep "$1"
	rm rough
	# Whoever harms ends that first.
	flock -x rough.lock true
	net heal 0 0
	await 60 store_healthy || note left 1 unhealthy
}

calm() {
	note calm
	sleep "$1"
	note rough
}

# Pids of what belongs to a run, whoever it descends from now.
remains() {
	grep -lz '^STORM_RUN=' /proc/[0-9]*/environ 2>/dev/null |
	    grep -o '[0-9]*'
}

none_remain() {
	[ -z "$(remains)" ]
}

contenders_gone() {
	local pid

	for pid in "${contenders[@]}"; do
		is_gone "$pid" || return
	done
}

end_all() {
	local who

	for who in "${!clients[@]}"; do
		who=c$((who + 1))
		note fault "$who" term
		send TERM "$(cat "$who.pid" 2>/dev/null)"
	done
}

finish() {
	local pid comm register

	: >stop
	# etcdctl waits for its lock for ever.
	await 20 contenders_gone 2>/dev/null || end_all
	await 40 contenders_gone || :
	await 30 none_remain || :
	for pid in $(remains); do
		comm=$(tr ' ' _ <"/proc/$pid/comm") || continue
		# For whoever has to find out why.
		grep -hE '^(State|PPid)' "/proc/$pid/status" || :
		note left "$pid" "$comm"
	done
	for register in open.* fenced.*; do
		case $register in
		*.*.*) ;;	# a draft, or what the fence keeps beside it
		*) note value "$register" "$(cat "$register")" ;;
		esac
	done 2>/dev/null
	# Nobody else writes now: these lines come in large pieces.
	kill -KILL "$pulse"
	wait "$pulse" 2>/dev/null
	# Of those that were not killed before they could tell.
	[ ! -e events ] || jq -r 'if .event == "acquired" then
	    "grant \(.name) \(.token) \(.label)"
	    elif .event == "end" and .ran_ms != null then
	    "ran \(.label) \(.pid)" else empty end' events |
	    sed "s/^/$(sed -n '1s/ .*//p' history) /" >>history
	note over
}

contenders=()
if [ ${#servers[@]} -gt 0 ]; then
	net_start $((${clients[-1]} + 1))
else
	net_start ${#clients[@]}
fi
store_start || {
	echo "the store does not start" >&2
	tail -n 20 "$work/log" >&2
	exit 2
}
note storm "$store" $STORM_TTL $STORM_GRACE $bound $slack
for name in n1 n2 n3; do
	note watch "$name"
done
"$STORM_RECORD" pulse &
pulse=$!
start_contenders
end=$((SECONDS + seconds))
while
	left=$((end - SECONDS))
	# Enough calm to see the bound kept.
	((left >= 20))
do
	quiet=$((bound / 1000 + 2))
	((left < 80)) && span=$((left - quiet)) || span=40
	rough "$span"
	calm "$quiet"
done
finish
"$bin/check" history >figures
status=$?
printf 'seed %s\n' "$seed" >>figures
cat figures
cp figures "$figures"
exit $status

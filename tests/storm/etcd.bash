# shellcheck shell=bash disable=SC2034,SC2154
# Three members of etcd, on the hosts 1 to 3.

servers=(1 2 3)
clients=(4 5 6 7 8 9 10 11)
admin=h12
endpoints=http://10.78.0.1:2379,http://10.78.0.2:2379,http://10.78.0.3:2379

store_start() {
	local n

	for n in 1 2 3; do
		member_start "$n"
	done
	await 60 store_healthy || return
	store_init
}

store_init() {
	[ "$STORM_STORE" = etcdctl ] ||
	    at "$admin" "$LEASERUN" init -b "$(store_url)" >>"$work/log" 2>&1
}

store_url() {
	if [ "$STORM_STORE" = etcdctl ]; then
		echo "$endpoints"
	else
		echo etcd://10.78.0.1,10.78.0.2,10.78.0.3/storm
	fi
}

# member_start N
member_start() {
	local url=http://10.78.0.$1 n all=

	for n in 1 2 3; do
		all+=${all:+,}m$n=http://10.78.0.$n:2380
	done
	mkdir -p "$work/m$1"
	nsenter "--net=/run/netns/h$1" -- env -u ETCDCTL_API \
	    etcd --name "m$1" --data-dir "$work/m$1/data" \
	    --listen-client-urls "$url:2379" --advertise-client-urls \
	    "$url:2379" --listen-peer-urls "$url:2380" \
	    --initial-advertise-peer-urls "$url:2380" --initial-cluster "$all" \
	    --initial-cluster-state new >>"$work/m$1/log" 2>&1 &
	echo "$!" >"$work/member.$1"
	# When it is killed, nobody is to be told.
	disown
}

ctl() {
	at "$admin" env ETCDCTL_API=3 etcdctl --command-timeout=2s "$@"
}

store_healthy() {
	[ "$(ctl --endpoints "$endpoints" endpoint health 2>&1 |
	    grep -c 'is healthy')" -eq 3 ]
}

# Sets leader; 1: there is none, or it does not answer.
find_leader() {
	for leader in 1 2 3; do
		! ctl --endpoints "http://10.78.0.$leader:2379" endpoint \
		    status -w simple 2>/dev/null | grep -q ', true, false' ||
		    return 0
	done
	return 1
}

# member_fault N KIND MIN MAX: it is killed, or stopped, and comes back.
member_fault() {
	local pid

	some "$3" "$4"
	pid=$(cat "$work/member.$1")
	note fault store "$2"
	case $2 in
	*freeze*)
		send STOP "$pid"
		sleep "$some"
		send CONT "$pid" ;;
	*)
		send KILL "$pid"
		sleep "$some"
		member_start "$1" ;;
	esac
	note heal store "$2"
}

store_fault() {
	local n

	find_leader || leader=1
	one_of kill-leader kill-follower freeze-follower drop-freeze-leader \
	    kill-all move-leader cut-leader cut-follower
	n=$((leader % 3 + 1))
	case $one in
	kill-leader) member_fault "$leader" "$one" 100 $STORM_TTL ;;
	kill-follower) member_fault "$n" "$one" 100 $STORM_TTL ;;
	freeze-follower)
		member_fault "$n" "$one" 100 $((STORM_TTL * 2)) ;;
	# It may revoke what was renewed while it slept.
	drop-freeze-leader)
		member_fault "$leader" "$one" 100 $((STORM_TTL * 2)) ;;
	kill-all)
		note fault store "$one"
		for n in 1 2 3; do
			send KILL "$(cat "$work/member.$n")"
		done
		some 100 1500
		sleep "$some"
		for n in 1 2 3; do
			member_start "$n"
		done
		note heal store "$one" ;;
	move-leader)
		note fault store "$one"
		n=$(ctl --endpoints "http://10.78.0.$n:2379" endpoint status |
		    cut -d, -f2)
		ctl --endpoints "http://10.78.0.$leader:2379" \
		    move-leader "${n# }" >>"$work/log" 2>&1 || :
		note heal store "$one" ;;
	cut-leader) cut_off "$leader" "$one" ;;
	cut-follower) cut_off "$n" "$one" ;;
	esac
}

# cut_off N KIND: from the other members.
cut_off() {
	local n

	some 100 $((STORM_TTL * 2))
	note fault store "$2"
	for n in 1 2 3; do
		[ "$n" = "$1" ] || net_both drop "$1" "$n"
	done
	sleep "$some"
	for n in 1 2 3; do
		[ "$n" = "$1" ] || net_both heal "$1" "$n"
	done
	note heal store "$2"
}

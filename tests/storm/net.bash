# shellcheck shell=bash disable=SC2154
# Hosts of a storm: each has a network namespace of its own, and they reach each
# other through tests/storm/hub.c.  For a shell that has mount, PID and network
# namespaces of its own.

# net_start COUNT: the hosts 1 to COUNT.  Host N is 10.78.0.N.
net_start() {
	local n mac

	mount -t tmpfs none /run
	ip netns add hub
	for ((n = 1; n <= $1; n++)); do
		printf -v mac '02:00:00:00:00:%02x' "$n"
		ip netns add "h$n"
		ip -n hub link add "p$n" type veth peer name e0 netns "h$n"
		ip -n hub link set "p$n" up
		ip -n "h$n" link set lo up
		ip -n "h$n" link set e0 address "$mac"
		ip -n "h$n" addr add "10.78.0.$n/24" dev e0
		ip -n "h$n" link set e0 up
	done
	mkfifo "$work/orders"
	at hub "$bin/hub" "$1" "$work/orders" 2>"$work/hub.log" &
	# Never waits for a hub that is not there.
	exec {orders}<>"$work/orders"
}

# at HOST COMMAND...: there.
at() {
	nsenter "--net=/run/netns/$1" -- "${@:2}"
}

# net WORD A B [N]: an order for the hub.
net() {
	echo "$*" >&"$orders"
}

# Both ways.
net_both() {
	net "$1" "$2" "$3" "${@:4}"
	net "$1" "$3" "$2" "${@:4}"
}

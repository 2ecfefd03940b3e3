# shellcheck shell=bash disable=SC2034,SC2154
# The stores of one host: the file backend, and flock(1) beside it.

servers=()
clients=(1 2 3 4 5 6 7 8)
admin=h1

store_start() {
	mkdir "$work/disk"
	# So small that it can be filled.
	mount -t tmpfs -o size=16m none "$work/disk"
	mkdir "$work/disk/state"
	chmod 700 "$work/disk/state"
	store_init
}

store_init() {
	[ "$STORM_STORE" = flock ] ||
	    "$LEASERUN" init -b "$(store_url)" >>"$work/log" 2>&1
}

store_url() {
	echo "file:$work/disk/state"
}

store_fault() {
	[ "$STORM_STORE" = file ] || return 0
	some 200 $((STORM_TTL * 2))
	note fault store full-disk
	cat /dev/zero >"$work/disk/filler" 2>/dev/null || :
	sleep "$some"
	rm "$work/disk/filler"
	note heal store full-disk
}

store_healthy() {
	:
}

# shellcheck shell=bash disable=SC2034,SC2154
# What a storm does to the processes of a run, and who they are.

# kids PID: its children, in the array of that name.
kids() {
	kids=()
	read -ra kids <"/proc/$1/task/$1/children" 2>/dev/null || :
}

# tree PID: adds all that descend from it to the array of that name.
tree() {
	local pid
	local -a kids

	kids "$1"
	for pid in "${kids[@]}"; do
		tree+=("$pid")
		tree "$pid"
	done
}

# run_of WHO: sets keeper, guard, helpers, command and tree; 1: no run, or none
# that has a guard.
run_of() {
	local pid comm

	guard='' helpers=() command='' tree=()
	keeper=$(cat "$work/$1.pid" 2>/dev/null) || return
	{ read -r comm <"/proc/$keeper/comm"; } 2>/dev/null || return
	[ "$comm" != record ] || return
	kids "$keeper"
	case $comm in
	leaserun*)
		for pid in "${kids[@]}"; do
			{ read -r comm <"/proc/$pid/comm"; } 2>/dev/null ||
			    continue
			if [ "$comm" = leaserun-guard ]; then
				guard=$pid
			else
				helpers+=("$pid")
			fi
		done
		[ -n "$guard" ] || return
		kids "$guard" ;;
	*)
		# Has no guard, so that its job is its own.
		guard=$keeper ;;
	esac
	command=${kids[0]-}
	tree "$guard"
}

send() {
	local signal=$1

	shift
	[ -z "$*" ] || kill -s "$signal" "$@" 2>/dev/null || :
}

# some MIN MAX: milliseconds, as sleep has them.
some() {
	local ms=$(($1 + RANDOM % ($2 - $1)))

	printf -v some '%d.%03d' $((ms / 1000)) $((ms % 1000))
}

# one_of WORD...
one_of() {
	shift $((RANDOM % $#))
	one=$1
}

# lasting WHO KIND MIN MAX PID...: these are stopped for so long.
lasting() {
	local who=$1 kind=$2

	some "$3" "$4"
	shift 4
	[ $# -gt 0 ] || return 0
	note fault "$who" "$kind"
	send STOP "$@"
	sleep "$some"
	send CONT "$@"
	note heal "$who" "$kind"
}

# once WHO KIND SIGNAL PID...
once() {
	local who=$1 kind=$2 signal=$3

	shift 3
	[ $# -gt 0 ] || return 0
	note fault "$who" "$kind"
	send "$signal" "$@"
}

# Everybody of the run is stopped, also those who are new.
stop_all() {
	local before=

	# Not by their number: one may have come as another went.
	while [ "${tree[*]}" != "$before" ]; do
		before=${tree[*]}
		send STOP "$keeper" "$guard" "${helpers[@]}" "${tree[@]}"
		tree=()
		tree "$guard"
	done
}

# As when its host loses power.
crash() {
	note fault "$1" crash
	stop_all
	send KILL "$keeper" "$guard" "${helpers[@]}" "${tree[@]}"
}

pause() {
	some $((STORM_TTL / 4)) $((STORM_TTL * 3 / 2))
	note fault "$1" pause
	stop_all
	sleep "$some"
	if ((RANDOM % 2)); then
		send CONT "${tree[@]}" "${helpers[@]}" "$guard" "$keeper"
	else
		send CONT "$keeper" "$guard" "${helpers[@]}" "${tree[@]}"
	fi
	note heal "$1" pause
}

# One fault for a run of WHO.
harm() {
	local who=$1 long=$((STORM_TTL * 3 / 2))
	local -a kinds=(kill-keeper kill-guard kill-helper kill-command
	    kill-member crash term stop-keeper stop-keeper stop-guard
	    stop-helper stop-job stop-member both both both pause)

	case $STORM_STORE in
	# The lock lasts as long as a process of the job has it.
	file) kinds+=(kill-both) ;;
	flock | etcdctl) kinds=(kill-keeper kill-command kill-member crash term
	    stop-keeper stop-keeper stop-job stop-member pause) ;;
	esac
	run_of "$who" || return 0
	one_of "${kinds[@]}"
	case $one in
	kill-keeper) once "$who" "$one" KILL "$keeper" ;;
	kill-guard) once "$who" "$one" KILL "$guard" ;;
	kill-both)
		[ -z "$command" ] || {
			once "$who" crash KILL "$keeper" "$guard"
			# Who stopped himself would have the lock for ever.
			for _ in 1 2 3 4 5; do
				send CONT "${tree[@]}"
				sleep 0.1
			done
		} ;;
	kill-helper)
		[ ${#helpers[@]} -eq 0 ] || one_of "${helpers[@]}"
		once "$who" kill-helper KILL ${helpers[0]+"$one"} ;;
	kill-command) once "$who" "$one" KILL ${command:+"$command"} ;;
	kill-member)
		[ ${#tree[@]} -lt 2 ] || {
			one_of "${tree[@]:1}"
			once "$who" kill-member KILL "$one"
		} ;;
	term) once "$who" "$one" TERM "$keeper" ;;
	crash) crash "$who" ;;
	pause) pause "$who" ;;
	both)
		# So that there is somebody who works on.
		[ -z "$command" ] || lasting "$who" "$one" $((STORM_TTL * 3 / 4)) \
		    $((STORM_TTL * 5 / 2)) "$keeper" "$guard" ;;
	stop-keeper) lasting "$who" "$one" 100 $long "$keeper" ;;
	stop-guard) lasting "$who" "$one" 100 $long "$guard" ;;
	stop-helper) lasting "$who" "$one" 100 $long "${helpers[@]}" ;;
	stop-job) lasting "$who" "$one" 100 $long "${tree[@]}" ;;
	stop-member)
		[ ${#tree[@]} -lt 2 ] || {
			one_of "${tree[@]:1}"
			lasting "$who" stop-member 100 $long "$one"
		} ;;
	esac
}

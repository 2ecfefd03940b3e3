# What a person at a terminal sees: keys, job control, hangups.  Each test has a
# terminal of its own; tests/ptydrive is the one who types, tests/ttyjob a
# command that writes down which signals reach it.

load helpers

setup() {
	test_setup
	prompts=0
	export L=$LEASERUN J=$builddir/tests/ttyjob N=lease-$BATS_TEST_NUMBER
	# Each prompt adds the status of the command before it.
	export PROMPT_COMMAND='echo $? >>prompts'
	export P='$(echo $? >>prompts)$ ' TERM=dumb
	unset PS1 ENV BASH_ENV
	mkfifo keys go
	exec 7<>keys
	put sleeper 'exec sleep 1000'
	put reader 'read -r line </dev/tty; echo "$line" >answer'
	put patient 'read -r _ <go; echo finished >answer; exit 9'
}

teardown() {
	cat -v screen log prompts 2>/dev/null || :
	exec 7>&-
	test_teardown
}

# put FILE COMMANDS: a script that first writes its pid and its parent's.
put() {
	printf 'echo ready $$ $PPID >log\n%s\n' "$2" >"$1"
}

# --- The terminal and its shell ---

# terminal COMMAND...: on a new terminal $tty, as the leader of its session.
terminal() {
	# script(1) starts its command with it.
	SHELL=/bin/sh bg "$builddir/tests/ptydrive" "$@" 7>&-
	driver=$!
	wait_until 20 test -s leader
	tty=$(cat tty)
	leader=$(cat leader)
	settings=$(stty -g -F "$tty")
}

# An interactive shell on a terminal, at its first prompt.
shell() {
	terminal bash --norc --noprofile --noediting -i
	prompt 0
}

dash_shell() {
	PS1=$P terminal dash -i
	prompt 0
}

type_line() {
	printf '%s\n' "$1" >&7
}

key() {
	case $1 in
	C-c) printf '\003' >&7 ;;
	C-z) printf '\032' >&7 ;;
	C-\\) printf '\034' >&7 ;;
	C-s) printf '\023' >&7 ;;
	C-q) printf '\021' >&7 ;;
	*) return 1 ;;
	esac
}

has_prompts() {
	[ "$(wc -l 2>/dev/null <prompts)" -ge "$1" ]
}

# prompt STATUS: the next prompt is there, and the command ended with STATUS.
prompt() {
	wait_until 20 has_prompts $((++prompts)) || return
	assert_equal "$(sed -n "${prompts}p" prompts)" "$1"
}

hang_up() {
	kill -HUP "$driver"
}

# process FIELD PID: 1 state, 2 parent, 3 group, 4 session, 6 the foreground
# group of the terminal.
process() {
	sed 's/.*) //' "/proc/$2/stat" | cut -d' ' -f"$1"
}

# The shell has its terminal back, with the settings that it had.
assert_usable() {
	assert_equal "$(stty -g -F "$tty")" "$settings" || return
	type_line '(read -r line; test "$line" = usable; exit)'
	type_line usable
	prompt 0 || return
	assert_equal "$(process 6 "$leader")" "$leader"
}

# --- The run ---

# The command has written that it runs: $job, $guard, $keeper.
ready() {
	wait_until 20 file_has log ready || return
	read -r _ job guard _ <log
	keeper=$(process 2 "$guard")
}

child_of() {
	tr -d ' ' <"/proc/$1/task/$1/children"
}

# ready_below PID: the same where the command's own numbers mean nothing here.
ready_below() {
	wait_until 20 file_has log ready || return
	keeper=$(child_of "$1")
	guard=$(child_of "$keeper")
	job=$(child_of "$guard")
}

got() {
	grep -q "^$1 " log
}

# signals NAME: who sent that one, a line for each time.
signals() {
	sed -n "s/^$1 //p" log
}

# reaches_once NAME COMMAND...: what it does makes the terminal send that signal
# to a ttyjob, and the keeper adds none.  The guard is held meanwhile: a second
# one would not be seen while the first is pending.
reaches_once() {
	local name=$1

	shift
	kill -STOP "$guard"
	wait_until 20 is_stopped "$guard"
	"$@"
	wait_until 20 got "$name" || return
	kill -CONT "$guard"
	settle || return
	assert_equal "$(signals "$name")" kernel
}

# What the keeper relayed before has reached the command, too: this comes after
# it on the same way.
settle() {
	kill -s RTMIN+5 "$keeper"
	wait_until 20 got 'RTMIN+5'
}

# Ends a ttyjob.
finish() {
	kill -s USR2 "$job"
}

# Lets `patient' go on.
release() {
	timeout 20 sh -c 'echo >go'
}

is_stopped() {
	[ "$(process 1 "$1")" = T ]
}

is_running() {
	[[ $(process 1 "$1") == [RSD] ]]
}

# has_terminal GROUP: the shell gave it the terminal.
has_terminal() {
	[ "$(process 6 "$leader")" = "$1" ]
}

assert_lease_free() {
	run_tool 0 run "$N" -- true
}

# A store whose leases expire.
fake_store() {
	mkdir store
	printf 'module-dir = "%s"\n' "$MODULES" >leaserun.conf
	export LEASERUN_BACKEND=fake:$BATS_TEST_TMPDIR/store
}

renewed() {
	[ "$(grep -c '^[0-9]* renew .* ok ' store/log)" -ge "$1" ]
}

# Someone else has the lease: $holder.
hold_elsewhere() {
	bg "$LEASERUN" run "$N" -- sh -c 'echo >held; exec sleep 1000'
	holder=$!
	wait_until 20 test -e held
}

# Types a run that waits for it: $keeper.
wait_for_lease() {
	type_line '"$L" run -v -w inf "$N" -- sh -c "echo mine >answer; exit 7"'
	wait_until 20 file_has screen 'held by' || return
	keeper=$(child_of "$leader")
}

end_holder() {
	kill -TERM "$holder"
	assert_ends 143 "$holder"
}

# --- Groups ---

@test "the command shares the keeper's group, the guard does not" {
	shell
	type_line '"$L" run "$N" -- "$J" log'
	ready
	assert_equal "$(process 3 "$keeper")" "$keeper"
	assert_equal "$(process 3 "$job")" "$keeper"
	assert_equal "$(process 6 "$job")" "$keeper"
	[ "$(process 3 "$guard")" != "$keeper" ]
	finish
	prompt 0
}

@test "setsid: without a terminal the command has a group of its own" {
	shell
	type_line 'setsid -w "$L" run "$N" -- "$J" log'
	ready
	assert_equal "$(process 3 "$job")" "$job"
	key C-c
	prompt 130
	settle
	assert_equal "$(signals INT)" ""
	finish
	wait_until 20 is_gone "$keeper"
}

# --- Ctrl-C ---

@test "Ctrl-C reaches the command once, which may go on" {
	shell
	type_line '"$L" run "$N" -- "$J" -x 3 log'
	ready
	reaches_once INT key C-c
	finish
	prompt 3
	assert_usable
}

@test "Ctrl-C stops a loop at the prompt" {
	shell
	type_line 'for i in 1 2 3; do echo $i >>rounds; "$L" run "$N" -- sh sleeper; done'
	ready
	key C-c
	prompt 130
	assert_equal "$(cat rounds)" 1
	assert_lease_free
}

@test "Ctrl-C stops a loop in a bash script" {
	echo 'for i in 1 2 3; do echo $i >>rounds; "$L" run "$N" -- sh sleeper; done' >loop
	shell
	type_line 'bash loop'
	ready
	key C-c
	prompt 130
	assert_equal "$(cat rounds)" 1
}

@test "Ctrl-C stops a loop in a dash script" {
	echo 'for i in 1 2 3; do echo $i >>rounds; "$L" run "$N" -- sh sleeper; done' >loop
	shell
	type_line 'dash loop'
	ready
	key C-c
	prompt 130
	assert_equal "$(cat rounds)" 1
}

@test "Ctrl-C stops a loop at the prompt of dash" {
	dash_shell
	type_line 'for i in 1 2 3; do echo $i >>rounds; "$L" run "$N" -- sh sleeper; done'
	ready
	key C-c
	prompt 130
	assert_equal "$(cat rounds)" 1
}

@test "Ctrl-C from a script's terminal reaches the command once" {
	echo '"$L" run "$N" -- "$J" -x 3 log; exit $?' >script
	shell
	type_line 'bash script'
	ready
	reaches_once INT key C-c
	finish
	# The shell saw that its command did not die of it.
	prompt 3
}

# --- Ctrl-\ ---

@test "Ctrl-\\ reaches the command once" {
	shell
	type_line '"$L" run "$N" -- "$J" -x 3 log'
	ready
	reaches_once QUIT key C-\\
	finish
	prompt 3
}

@test "Ctrl-\\: leaserun dies of it without a core" {
	put quitter 'ulimit -c 0; exec sleep 1000'
	shell
	type_line 'ulimit -S -c "$(ulimit -H -c)"'
	prompt 0
	type_line '"$L" run "$N" -- sh quitter'
	ready
	key C-\\
	prompt 131
	file_has screen Quit
	assert_lacks "$(cat screen)" dumped
	[ -z "$(find . -name 'core*')" ]
}

# --- Ctrl-Z ---

@test "Ctrl-Z stops command and keeper, fg continues both" {
	shell
	type_line '"$L" run "$N" -- "$J" -s -x 5 log'
	ready
	key C-z
	prompt 148
	is_stopped "$job"
	is_stopped "$keeper"
	file_has screen Stopped
	type_line fg
	wait_until 20 got CONT
	settle
	assert_equal "$(signals CONT)" "$leader"
	finish
	prompt 5
	assert_usable
}

@test "Ctrl-Z and fg work again and again" {
	shell
	type_line '"$L" run "$N" -- "$J" -s -x 5 log'
	ready
	for _ in 1 2 3 4 5; do
		key C-z
		prompt 148
		is_stopped "$job"
		type_line fg
		wait_until 20 is_running "$job"
		wait_until 20 is_running "$keeper"
	done
	finish
	prompt 5
}

@test "Ctrl-Z, then bg: goes on in the background" {
	shell
	type_line '"$L" run "$N" -- "$J" -s -x 5 log'
	ready
	key C-z
	prompt 148
	type_line bg
	prompt 0
	wait_until 20 got CONT
	settle
	is_running "$job"
	is_running "$keeper"
	type_line 'wait %1'
	finish
	prompt 5
}

@test "Ctrl-Z in dash: stops, and fg continues" {
	dash_shell
	type_line '"$L" run "$N" -- "$J" -s -x 5 log'
	ready
	key C-z
	prompt 148
	is_stopped "$job"
	is_stopped "$keeper"
	type_line fg
	wait_until 20 got CONT
	finish
	prompt 5
}

@test "Ctrl-Z stops a whole script, and fg continues it" {
	echo '"$L" run "$N" -- "$J" -s -x 5 log; exit $?' >script
	shell
	type_line 'bash script'
	ready
	key C-z
	prompt 148
	wait_until 20 is_stopped "$job"
	wait_until 20 is_stopped "$keeper"
	type_line fg
	wait_until 20 got CONT
	wait_until 20 is_running "$keeper"
	finish
	prompt 5
}

@test "Ctrl-Z stops a pipeline, and fg continues it" {
	shell
	type_line '"$L" run "$N" -- "$J" -s -x 5 log | cat'
	ready
	key C-z
	prompt 148
	type_line fg
	wait_until 20 got CONT
	finish
	prompt 0
}

# timeout(1) makes one.  No key may leave a terminal that only another one frees.
@test "a command in a group of its own: Ctrl-C ends it, after Ctrl-Z, too" {
	shell
	type_line '"$L" run "$N" -- timeout 1000 sh sleeper'
	ready
	key C-z
	key C-c
	prompt 130
	wait_until 20 is_gone "$job"
	assert_usable
}

@test "Ctrl-Z when the command has left processes behind: stops them all" {
	put parent 'sleep 1000 & echo $! >left; exit 4'
	shell
	type_line '"$L" run "$N" -- sh parent'
	ready
	wait_until 20 is_gone "$job"
	key C-z
	prompt 148
	is_stopped "$(cat left)"
	is_stopped "$keeper"
	type_line fg
	wait_until 20 is_running "$(cat left)"
	kill "$(cat left)"
	prompt 4
}

@test "Ctrl-Z for a short time: fg finds the lease and renews it" {
	local count

	fake_store
	shell
	type_line '"$L" run -t 60s -r 200ms "$N" -- "$J" -s -x 5 log'
	ready
	wait_until 20 renewed 1
	key C-z
	prompt 148
	count=$(grep -c '^[0-9]* renew .* ok ' store/log)
	type_line fg
	wait_until 20 renewed $((count + 2))
	finish
	prompt 5
}

@test "Ctrl-Z for longer than the ttl: the next holder finds it dead, fg 79" {
	fake_store
	shell
	type_line '"$L" run -t 3s "$N" -- "$J" -s -x 5 log'
	ready
	key C-z
	prompt 148
	bg "$LEASERUN" run -w 60s "$N" -- sh -c \
	    "kill -0 $job && echo alive >second || echo dead >second"
	assert_ends 0 $!
	assert_equal "$(cat second)" dead
	is_stopped "$keeper"
	type_line fg
	prompt 79
	assert_usable
}

@test "Ctrl-Z for long: a lease that does not expire is kept" {
	shell
	type_line '"$L" run "$N" -- "$J" -s -x 5 log'
	ready
	key C-z
	prompt 148
	run_tool 75 run -w 1s "$N" -- true
	is_stopped "$job"
	type_line fg
	wait_until 20 got CONT
	finish
	prompt 5
}

# --- Reading and settings ---

@test "the command reads a line from the terminal" {
	shell
	type_line '"$L" run "$N" -- sh reader'
	ready
	type_line 'a line'
	prompt 0
	assert_equal "$(cat answer)" 'a line'
}

setting_is() {
	stty -a -F "$tty" | tr -s ' ;' '\n' | grep -qxF -e "$1"
}

@test "a password prompt: no echo, and the settings come back" {
	put asker 'IFS= read -rs line </dev/tty; echo "$line" >answer'
	shell
	type_line '"$L" run "$N" -- bash asker'
	ready
	wait_until 20 setting_is -echo
	type_line secret
	prompt 0
	assert_equal "$(cat answer)" secret
	assert_lacks "$(cat screen)" secret
	assert_usable
}

@test "raw mode: Ctrl-C is a character, and the settings come back" {
	put raw 'saved=$(stty -g); stty raw -echo
	    dd bs=1 count=1 2>dd | od -An -tx1 >answer; stty "$saved"'
	shell
	type_line '"$L" run "$N" -- sh raw'
	ready
	wait_until 20 setting_is -isig
	key C-c
	prompt 0
	assert_equal "$(cat answer)" ' 03'
	assert_usable
}

@test "Ctrl-Z in raw mode: the shell has its settings, fg goes on" {
	put editor 'stty -echo; kill -STOP 0; stty echo; exit 8'
	shell
	type_line '"$L" run "$N" -- sh editor'
	prompt 147
	assert_usable
	type_line fg
	prompt 8
}

@test "Ctrl-S holds up the messages, not the heartbeat" {
	local count

	put held 'read -r line </dev/tty; : >held; read -r _ <go; exit 3'
	fake_store
	shell
	type_line '"$L" run -t 60s -r 100ms "$N" -- sh held'
	ready
	key C-s
	type_line 'read when that has happened'
	wait_until 20 test -e held
	echo unavailable >store/script.renew
	wait_until 20 grep -q ' renew .* unavailable ' store/log
	rm store/script.renew
	count=$(grep -c '^[0-9]* renew .* ok ' store/log) || :
	wait_until 20 renewed $((count + 3))
	key C-q
	release
	prompt 3
}

@test "a new window size arrives once" {
	shell
	type_line '"$L" run "$N" -- "$J" log'
	ready
	reaches_once WINCH stty -F "$tty" rows 30
	finish
	prompt 0
}

# --- Pipelines ---

@test "a reader that has enough ends the command by SIGPIPE" {
	shell
	type_line '{ "$L" run "$N" -- seq 1000000; echo $? >status; } | head -n 1 >first'
	prompt 0
	assert_equal "$(cat first)" 1
	assert_equal "$(cat status)" 141
	assert_lease_free
}

@test "a pager behind the command reads keys from the terminal" {
	echo 'head -n 1 >first; read -r key </dev/tty; echo "$key" >answer' >pager
	shell
	type_line '"$L" run "$N" -- seq 1000000 | sh pager'
	wait_until 20 test -s first
	type_line q
	prompt 0
	assert_equal "$(cat answer)" q
	assert_usable
}

@test "the command reads from the terminal in front of a pipe" {
	shell
	type_line '"$L" run "$N" -- sh reader | cat'
	ready
	type_line 'in front'
	prompt 0
	assert_equal "$(cat answer)" 'in front'
}

@test "the command reads from the terminal behind a pipe" {
	put behind 'cat >piped; read -r line </dev/tty; echo "$line" >answer'
	shell
	type_line 'echo data | "$L" run "$N" -- sh behind'
	ready
	type_line behind
	prompt 0
	assert_equal "$(cat piped answer)" $'data\nbehind'
}

# --- In the background ---

@test "in the background Ctrl-C does not reach it" {
	shell
	type_line '"$L" run "$N" -- "$J" -x 3 log &'
	prompt 0
	ready
	key C-c
	prompt 130
	settle
	assert_equal "$(signals INT)" ""
	type_line 'wait %1'
	finish
	prompt 3
}

@test "in the background of a bash script INT stays ignored" {
	echo '"$L" run "$N" -- sh patient & wait' >script
	shell
	type_line 'bash script'
	ready
	key C-c
	prompt 130
	release
	wait_until 20 is_gone "$keeper"
	assert_equal "$(cat answer)" finished
}

@test "in the background of a dash script INT stays ignored" {
	echo '"$L" run "$N" -- sh patient & wait' >script
	shell
	type_line 'dash script'
	ready
	key C-c
	prompt 130
	release
	wait_until 20 is_gone "$keeper"
	assert_equal "$(cat answer)" finished
}

@test "stty tostop: messages from the background do not stop the heartbeat" {
	fake_store
	shell
	type_line 'stty tostop'
	prompt 0
	type_line '"$L" run -vv -t 60s -r 100ms "$N" -- "$J" -s -x 3 log &'
	prompt 0
	ready
	wait_until 20 file_has screen 'started process'
	wait_until 20 renewed 5
	is_running "$keeper"
	is_running "$job"
	type_line 'wait %1'
	finish
	prompt 3
}

@test "stty tostop: a command that writes stops with the keeper, until fg" {
	put writer 'read -r _ <go; echo from the job; exit 6'
	shell
	type_line 'stty tostop'
	prompt 0
	type_line '"$L" run "$N" -- sh writer &'
	prompt 0
	ready
	release
	wait_until 20 is_stopped "$keeper"
	is_stopped "$job"
	assert_lacks "$(cat screen)" 'from the job'
	type_line fg
	prompt 6
	file_has screen 'from the job'
}

@test "a background command that reads stops with the keeper, until fg" {
	shell
	type_line '"$L" run "$N" -- sh reader &'
	prompt 0
	ready
	wait_until 20 is_stopped "$keeper"
	is_stopped "$job"
	type_line fg
	type_line 'after fg'
	prompt 0
	assert_equal "$(cat answer)" 'after fg'
}

@test "SIGTTIN from the terminal reaches the command once" {
	echo 'sh other & echo $! >reading; exec "$J" log' >asker
	echo 'read -r _ <go; read -r _ </dev/tty' >other
	shell
	type_line '"$L" run "$N" -- sh asker &'
	prompt 0
	ready
	reaches_once TTIN release
	wait_until 20 is_stopped "$(cat reading)"
	finish
}

# --- Commands that stop themselves ---

@test "a command that stops itself stops the keeper, until fg" {
	put stopper 'kill -STOP $$; exit 8'
	shell
	type_line '"$L" run "$N" -- sh stopper'
	prompt 147
	ready
	is_stopped "$keeper"
	type_line fg
	prompt 8
}

@test "a command that stops its group stops the keeper, until fg" {
	put stopper 'kill -TSTP 0; exit 8'
	shell
	type_line '"$L" run "$N" -- sh stopper'
	prompt 148
	ready
	is_stopped "$keeper"
	is_stopped "$job"
	type_line fg
	prompt 8
}

@test "whoever continues the command by its number continues the keeper" {
	shell
	type_line '"$L" run "$N" -- "$J" -x 8 log'
	ready
	kill -STOP "$job"
	prompt 147
	is_stopped "$keeper"
	kill -CONT "$job"
	wait_until 20 is_running "$job"
	wait_until 20 is_running "$keeper"
	finish
	type_line wait
	prompt 0
	run "$LEASERUN" status "$N"
	assert_contains "$output" "exit 8 "
}

# The command is stopped; the keeper is just about to follow, and takes its time.
stop_late() {
	bg strace -qq -o trace -e trace=kill -e inject=kill:delay_enter=500000 \
	    -p "$keeper"
	wait_until 20 eval '[ "$(awk "/^TracerPid/ { print \$2 }" \
	    "/proc/$keeper/status")" -ne 0 ]'
	kill -STOP "$job"
	wait_until 20 grep -q SIGSTOP trace
}

@test "a keeper that stops too late, for a command that goes on, goes on" {
	shell
	type_line '"$L" run "$N" -- "$J" -x 8 log'
	ready
	stop_late
	kill -CONT "$job"
	prompt 147
	wait_until 20 is_running "$keeper"
	finish
	type_line wait
	prompt 0
	run "$LEASERUN" status "$N"
	assert_contains "$output" "exit 8 "
}

@test "a stop after a continue holds, however soon it comes" {
	shell
	type_line '"$L" run "$N" -- "$J" -x 8 log &'
	prompt 0
	ready
	for _ in {1..40}; do
		kill -STOP "$job"
		kill -CONT "$job"
		kill -STOP "$job"
		wait_until 20 is_stopped "$keeper"
		wait_until 20 is_stopped "$job"
		kill -CONT "$job"
		wait_until 20 is_running "$keeper"
		is_running "$job"
	done
	finish
	wait_until 20 is_gone "$keeper"
}

@test "a command that left the group gets one CONT for one" {
	shell
	type_line '"$L" run "$N" -- setsid "$J" -x 8 log'
	ready
	kill -STOP "$job"
	prompt 147
	kill -CONT "$job"
	wait_until 20 is_running "$keeper"
	settle
	assert_equal "$(signals CONT | wc -l)" 1
	finish
	wait_until 20 is_gone "$keeper"
}

@test "who kills a command that is stopped ends the run" {
	shell
	type_line '"$L" run "$N" -- "$J" -x 8 log'
	ready
	kill -STOP "$job"
	prompt 147
	is_stopped "$keeper"
	kill -KILL "$job"
	wait_until 20 is_gone "$keeper"
	run "$LEASERUN" status "$N"
	assert_contains "$output" "free"
	assert_contains "$output" "exit 137 "
}

@test "a keeper that stops too late, for a command that is killed, goes on" {
	shell
	type_line '"$L" run "$N" -- "$J" -x 8 log'
	ready
	stop_late
	kill -KILL "$job"
	wait_until 20 is_gone "$keeper"
	run "$LEASERUN" status "$N"
	assert_contains "$output" "exit 137 "
}

@test "a stopped run that is too long by --max-run ends, and is over" {
	shell
	type_line '"$L" run --max-run 2s "$N" -- "$J" -x 8 log'
	ready
	kill -STOP "$job"
	prompt 147
	wait_until 30 is_gone "$keeper"
	run "$LEASERUN" status "$N"
	assert_contains "$output" "free"
}

@test "bash as the command has job control and gives the terminal back" {
	shell
	type_line '"$L" run "$N" -- bash --norc --noprofile --noediting -i'
	prompt 0
	type_line '"$J" -s -x 3 log'
	ready
	key C-z
	prompt 148
	is_stopped "$job"
	type_line fg
	wait_until 20 got CONT
	key C-c
	wait_until 20 got INT
	finish
	prompt 3
	type_line 'exit 4'
	prompt 4
	assert_usable
	assert_lease_free
}

@test "dash as the command has job control and gives the terminal back" {
	shell
	type_line 'PS1=$P "$L" run "$N" -- dash -i'
	prompt 0
	type_line '"$J" -s -x 3 log'
	ready
	key C-z
	prompt 148
	is_stopped "$job"
	type_line fg
	wait_until 20 got CONT
	key C-c
	wait_until 20 got INT
	finish
	prompt 3
	type_line 'exit 4'
	prompt 4
	assert_usable
	assert_lease_free
}

@test "bash as the command is suspended: the shell has its terminal" {
	shell
	type_line '"$L" run "$N" -- bash --norc --noprofile --noediting -i'
	prompt 0
	type_line 'echo ready $$ $PPID >log'
	prompt 0
	ready
	type_line suspend
	prompt 147
	is_stopped "$job"
	is_stopped "$keeper"
	assert_usable
}

# --- Hangup ---

@test "hangup: the command is told, the run ends, the lease is free" {
	shell
	type_line '"$L" run "$N" -- sh sleeper'
	ready
	hang_up
	wait_until 20 is_gone "$keeper"
	is_gone "$job"
	assert_lease_free
}

@test "hangup in the background: the same" {
	shell
	type_line '"$L" run "$N" -- sh sleeper &'
	ready
	hang_up
	wait_until 20 is_gone "$keeper"
	is_gone "$job"
	assert_lease_free
}

@test "hangup of a stopped run: it is over, too" {
	shell
	type_line '"$L" run "$N" -- sh sleeper'
	ready
	key C-z
	prompt 148
	hang_up
	wait_until 20 is_gone "$keeper"
	is_gone "$job"
	assert_lease_free
}

@test "hangup under nohup: the run goes on" {
	shell
	type_line 'nohup "$L" run "$N" -- sh patient'
	ready
	hang_up
	wait_until 20 test -s ended
	run_tool 75 run "$N" -- true
	release
	wait_until 20 is_gone "$keeper"
	assert_equal "$(cat answer)" finished
	assert_lease_free
}

@test "messages to a dead terminal do not change the status" {
	shell
	type_line '(trap "" HUP; "$L" run -vv "$N" -- sh patient; echo $? >status)'
	ready
	hang_up
	wait_until 20 test -s ended
	release
	wait_until 20 test -s status
	assert_equal "$(cat status)" 9
}

@test "a hangup that the terminal tells the whole group arrives once" {
	echo '"$L" run "$N" -- "$J" log; exit $?' >script
	terminal bash script
	ready
	reaches_once HUP hang_up
	wait_until 20 test -s ended
	finish
	wait_until 20 is_gone "$keeper"
}

# --- As the session leader: ssh -t, docker run -it ---

@test "session leader: a hangup reaches only the keeper, who passes it on" {
	terminal "$LEASERUN" run "$N" -- "$J" log
	ready
	hang_up
	wait_until 20 got HUP
	settle
	assert_equal "$(signals HUP)" "$guard"
	finish
	wait_until 20 test -s ended
	assert_equal "$(cat ended)" 'exit 0'
}

@test "session leader: the command dies of the hangup, so does leaserun" {
	terminal "$LEASERUN" run "$N" -- sh sleeper
	ready
	hang_up
	wait_until 20 test -s ended
	assert_equal "$(cat ended)" 'signal 1'
	assert_lease_free
}

@test "session leader: Ctrl-C reaches the command once" {
	terminal "$LEASERUN" run "$N" -- "$J" log
	ready
	reaches_once INT key C-c
	finish
}

@test "session leader: dies of the Ctrl-C that ended the command" {
	terminal "$LEASERUN" run "$N" -- sh sleeper
	ready
	key C-c
	wait_until 20 test -s ended
	assert_equal "$(cat ended)" 'signal 2'
}

# There the terminal's groups have no number.
@test "in a pid namespace Ctrl-C reaches the command once" {
	terminal unshare --fork --pid --mount-proc \
	    "$LEASERUN" run "$N" -- "$J" log
	ready_below "$leader"
	reaches_once INT key C-c
	finish
	wait_until 20 test -s ended
	assert_equal "$(cat ended)" 'exit 0'
}

# No shell could continue it.
@test "session leader: Ctrl-Z stops nothing" {
	terminal "$LEASERUN" run "$N" -- "$J" -s log
	ready
	key C-z
	key C-c
	wait_until 20 got INT
	settle
	is_running "$job"
	is_running "$keeper"
	finish
	wait_until 20 test -s ended
}

@test "script -c: the command reads from its terminal" {
	shell
	type_line 'script -qec "exec \"\$L\" run \"\$N\" -- sh reader" /dev/null'
	ready
	type_line 'for script'
	prompt 0
	assert_equal "$(cat answer)" 'for script'
}

@test "script -c: Ctrl-C reaches the command once" {
	shell
	type_line 'script -qec "exec \"\$L\" run \"\$N\" -- \"\$J\" -x 3 log" /dev/null'
	ready
	reaches_once INT key C-c
	finish
	prompt 3
}

# --- Signals from elsewhere ---

@test "TERM to the keeper: the command gets it once and may go on" {
	shell
	type_line '"$L" run "$N" -- "$J" -x 3 log'
	ready
	kill -TERM "$keeper"
	wait_until 20 got TERM
	settle
	assert_equal "$(signals TERM)" "$guard"
	finish
	prompt 3
}

@test "TERM to the keeper: the shell sees death by it" {
	shell
	type_line '"$L" run "$N" -- sh sleeper'
	ready
	kill -TERM "$keeper"
	prompt 143
	file_has screen Terminated
	assert_usable
}

@test "TERM to a stopped run ends it" {
	shell
	type_line '"$L" run "$N" -- sh sleeper'
	ready
	key C-z
	prompt 148
	kill -TERM "$keeper"
	kill -CONT "$keeper"
	wait_until 20 is_gone "$keeper"
	is_gone "$job"
	assert_usable
}

@test "TSTP to the keeper alone stops both, CONT continues both" {
	shell
	type_line '"$L" run "$N" -- "$J" -s -x 5 log'
	ready
	kill -TSTP "$keeper"
	prompt 148
	is_stopped "$job"
	is_stopped "$keeper"
	kill -CONT "$keeper"
	wait_until 20 got CONT
	settle
	is_running "$job"
	is_running "$keeper"
	type_line fg
	wait_until 20 has_terminal "$keeper"
	finish
	prompt 5
}

@test "STOP to the keeper alone: the command goes on, fg continues" {
	shell
	type_line '"$L" run "$N" -- "$J" -s -x 5 log'
	ready
	kill -STOP "$keeper"
	prompt 147
	is_running "$job"
	type_line fg
	wait_until 20 is_running "$keeper"
	finish
	prompt 5
}

# SIGALRM is what ends its time.
@test "timeout ends the run when its time is over" {
	shell
	type_line 'timeout 1000 "$L" run "$N" -- sh sleeper'
	ready
	kill -ALRM "$(process 2 "$keeper")"
	prompt 124
	is_gone "$job"
	assert_lease_free
	assert_usable
}

@test "timeout --foreground: the command reads from the terminal" {
	shell
	type_line 'timeout --foreground 1000 "$L" run "$N" -- sh reader'
	ready
	type_line 'in time'
	prompt 0
	assert_equal "$(cat answer)" 'in time'
}

@test "timeout --foreground ends the run when its time is over" {
	shell
	type_line 'timeout --foreground 1000 "$L" run "$N" -- sh sleeper'
	ready
	kill -ALRM "$(process 2 "$keeper")"
	prompt 124
	is_gone "$job"
	assert_usable
}

# --- Waiting for the lease ---

@test "waiting on a terminal: a line after ten seconds says for whom" {
	hold_elsewhere
	shell
	type_line '"$L" run -w inf "$N" -- true'
	wait_until 30 file_has screen waiting
	file_has screen "pid $holder"
	key C-c
	prompt 130
}

@test "waiting: Ctrl-C leaves with 130, and nothing is held" {
	hold_elsewhere
	shell
	wait_for_lease
	key C-c
	prompt 130
	end_holder
	assert_lease_free
	[ ! -e answer ]
	assert_usable
}

@test "waiting at a store: Ctrl-C leaves with 130, and nothing is held" {
	fake_store
	hold_elsewhere
	shell
	wait_for_lease
	key C-c
	prompt 130
	end_holder
	assert_lease_free
	[ ! -e answer ]
}

@test "waiting: after Ctrl-Z and fg it goes on and gets the lease" {
	hold_elsewhere
	shell
	wait_for_lease
	key C-z
	prompt 148
	is_stopped "$keeper"
	type_line fg
	wait_until 20 is_running "$keeper"
	[ ! -e answer ]
	end_holder
	prompt 7
	assert_equal "$(cat answer)" mine
}

@test "waiting at a store: after Ctrl-Z and fg it gets the lease" {
	fake_store
	hold_elsewhere
	shell
	wait_for_lease
	key C-z
	prompt 148
	is_stopped "$keeper"
	type_line fg
	wait_until 20 is_running "$keeper"
	[ ! -e answer ]
	end_holder
	prompt 7
	assert_equal "$(cat answer)" mine
}

@test "waiting: one that is stopped does not keep others from the lease" {
	hold_elsewhere
	shell
	wait_for_lease
	key C-z
	prompt 148
	end_holder
	assert_lease_free
	[ ! -e answer ]
	type_line fg
	prompt 7
}

@test "waiting: a new window size changes nothing" {
	hold_elsewhere
	shell
	wait_for_lease
	stty -F "$tty" rows 30
	end_holder
	prompt 7
	assert_equal "$(cat answer)" mine
}

@test "waiting: a hangup ends it" {
	hold_elsewhere
	shell
	wait_for_lease
	hang_up
	wait_until 20 is_gone "$keeper"
	end_holder
	assert_lease_free
	[ ! -e answer ]
}

@test "waiting under nohup: a hangup does not end it" {
	hold_elsewhere
	shell
	type_line 'nohup "$L" run -v -w inf "$N" -- sh patient'
	wait_until 20 file_has nohup.out 'held by'
	hang_up
	wait_until 20 test -s ended
	end_holder
	ready
	release
	wait_until 20 is_gone "$keeper"
	assert_equal "$(cat answer)" finished
}

# --- Faults ---

@test "the guard is killed: the command is gone, the shell has its prompt" {
	shell
	type_line '"$L" run "$N" -- sh sleeper'
	ready
	kill -KILL "$guard"
	prompt 70
	is_gone "$job"
	assert_usable
}

@test "the guard is killed under an interactive shell: the terminal is back" {
	shell
	type_line '"$L" run "$N" -- bash --norc --noprofile --noediting -i'
	prompt 0
	type_line 'echo ready $$ $PPID >log'
	prompt 0
	ready
	kill -KILL "$guard"
	prompt 70
	is_gone "$job"
	assert_usable
}

@test "the keeper is killed: the shell has its prompt, the command ends" {
	shell
	type_line '"$L" run "$N" -- sh sleeper'
	ready
	kill -KILL "$keeper"
	prompt 137
	wait_until 20 is_gone "$job"
	assert_usable
}

@test "the keeper's group is killed: nothing is left" {
	shell
	put parent 'sleep 1000 & wait'
	type_line '"$L" run "$N" -- sh parent'
	ready
	kill -KILL -- "-$(process 3 "$keeper")" 2>/dev/null || fail "no group"
	prompt 137
	wait_until 20 is_gone "$job"
	assert_lease_free
}

@test "the keeper is killed while both are stopped: the command ends" {
	shell
	type_line '"$L" run "$N" -- sh sleeper'
	ready
	key C-z
	prompt 148
	kill -KILL "$keeper"
	wait_until 20 is_gone "$job"
	assert_usable
}

@test "the lease is lost: 79, and the terminal is usable" {
	fake_store
	shell
	type_line '"$L" run -t 60s -r 200ms "$N" -- sh sleeper'
	ready
	echo lost >store/script.renew
	prompt 79
	is_gone "$job"
	assert_usable
}

@test "the lease is lost in an interactive shell: the terminal is back" {
	fake_store
	shell
	type_line '"$L" run -t 60s -r 200ms "$N" -- bash --norc --noprofile --noediting -i'
	prompt 0
	echo lost >store/script.renew
	prompt 79
	assert_usable
}

# --- fence ---

# fence COMMAND: typed; $fence and $job when it runs.
fence() {
	type_line "\"\$L\" fence --token 5 data $1"
	wait_until 20 file_has log ready || return
	read -r _ job fence _ <log
}

@test "fence: a key reaches the command once" {
	shell
	fence '"$J" log'
	key C-c
	wait_until 20 got INT
	# What fence passes on comes after what it has passed on before.
	kill -s RTMIN+5 "$fence"
	wait_until 20 got 'RTMIN+5'
	assert_equal "$(signals INT)" kernel
	assert_equal "$(signals 'RTMIN+5')" "$fence"
	finish
	prompt 0
	assert_usable
}

@test "fence: Ctrl-C ends it as it ends the command" {
	shell
	fence 'sh sleeper'
	key C-c
	prompt 130
	assert_usable
}

@test "fence: as the session leader it passes a hangup on" {
	terminal "$LEASERUN" fence --token 5 data "$J" log
	wait_until 20 file_has log ready
	read -r _ job fence _ <log
	assert_equal "$fence" "$leader"
	hang_up
	wait_until 20 got HUP
	kill -s RTMIN+5 "$fence"
	wait_until 20 got 'RTMIN+5'
	assert_equal "$(signals HUP)" "$fence"
	finish
	wait_until 20 test -s ended
	assert_equal "$(cat ended)" 'exit 0'
}

@test "fence: Ctrl-Z stops it with the command, fg continues both" {
	shell
	fence '"$J" -s -x 5 log'
	key C-z
	prompt 148
	is_stopped "$job"
	is_stopped "$fence"
	type_line fg
	wait_until 20 got CONT
	kill -s RTMIN+5 "$fence"
	wait_until 20 got 'RTMIN+5'
	assert_equal "$(signals CONT)" "$leader"
	finish
	prompt 5
	assert_usable
}

@test "fence: the command reads from the terminal" {
	shell
	fence 'sh reader'
	type_line hello
	prompt 0
	assert_equal "$(cat answer)" hello
}

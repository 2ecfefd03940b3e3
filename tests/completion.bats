# What the shells offer: contrib/completion, held against the program.

load helpers

setup() {
	test_setup
	mkdir bin
	ln -s "$LEASERUN" bin/leaserun
	PATH=$PWD/bin:$PATH
	cat >leaserun.conf <<-'END'
	ttl = 30
	job "configured" { ttl = 60 }
	  job plain { wait = 0 }
	# job "commented" { }
	job 'quoted:too' { }
	job "pattern-*" { }
	END
	: >file.txt
}

# offered_by_bash LINE: what may stand there, a line each.  The words are split
# as bash does it.
offered_by_bash() {
	perl -e '$_ = shift; push @w, $1 while /("[^"]*"?|[:=]+|[^\s:="]+)/g;
	    push @w, "" if /\s$/; print map("$_\n", @w)' "$1" >words
	bash --norc -c '
		. "$1/contrib/completion/bash/leaserun"
		mapfile -t COMP_WORDS <words
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$2
		COMP_POINT=${#COMP_LINE}
		_leaserun
		printf "%s\n" "${COMPREPLY[@]}"' bash "$srcdir" "$1" | sort -u
}

offered_by_zsh() {
	zsh -f "$BATS_TEST_DIRNAME/complete.zsh" \
	    "$srcdir/contrib/completion/zsh" "$1" | sort -u
}

offered_by_fish() {
	fish --no-config -c '
		source $argv[1]/contrib/completion/fish/leaserun.fish
		complete -C $argv[2]' "$srcdir" "$1" | cut -f 1 | sort -u
}

# assert_offered LINE WORD...: exactly these, by $shell.
assert_offered() {
	local offered

	offered=$("offered_by_$shell" "$1" 2>err | paste -sd '|')
	cat err
	[ ! -s err ]
	assert_equal "$1: $offered" \
	    "$1: $(printf '%s\n' "${@:2}" | sort -u | paste -sd '|')"
}

long_options() {
	"$LEASERUN" "$1" --help | grep -oE '^  (   |-.,) --[a-z-]+' |
	    grep -o -e '--.*'
}

commands() {
	"$LEASERUN" --help | sed -nE 's/^  leaserun ([a-z]+) .*/\1/p'
}

options_are_those_of_help() {
	local command

	mapfile -t all < <(commands)
	[ ${#all[@]} -ge 7 ]
	for command in "${all[@]}"; do
		mapfile -t options < <(long_options "$command")
		[ ${#options[@]} -ge 6 ]
		assert_offered "leaserun $command --" "${options[@]}"
	done
	assert_offered "leaserun run --no" --notify
	assert_offered "leaserun run -v --wait 3s --min" --min-hold
}

# values_are_offered PREFIX: which a value has after `--option='.
values_are_offered() {
	assert_offered "leaserun run --leftovers " wait kill leave
	assert_offered "leaserun run --notify " no ready status
	assert_offered "leaserun run --log " stderr syslog
	assert_offered "leaserun run --wait " inf
	assert_offered "leaserun run -w " inf
	assert_offered "leaserun run --ttl "
	assert_offered "leaserun run -b " file: postgres:// etcd:// etcds://
	assert_offered "leaserun run --notify=s" "$1status"
	assert_offered "leaserun run --config f" file.txt
	assert_offered "leaserun fence f" file.txt
}

names_are_offered() {
	run_tool 0 run stored true
	run_tool 0 run kickoff:ACH true
	run_tool 0 run -b "file:$PWD/state" "two words" true
	assert_offered "leaserun run c" configured
	assert_offered "leaserun run -v --wait 3s --ttl=9s s" stored
	assert_offered "leaserun check pl" plain
	assert_offered "leaserun revoke --wait 3 q" quoted:too
	assert_offered "leaserun status stored k" kickoff:ACH
	run "offered_by_$shell" "leaserun status "
	assert_equal "$(wc -l <<<"$output")" 6
	assert_lacks "$output" pattern
	assert_lacks "$output" commented
	assert_contains "$output" two
	# The store and the configuration that the line names.
	mkdir -m 700 other
	run_tool 0 run -b "file:$PWD/other" elsewhere true
	echo 'job from-there {}' >other.conf
	assert_offered "leaserun run -b file:$PWD/other e" elsewhere
	assert_offered "leaserun run --config $PWD/other.conf f" from-there
	assert_offered "leaserun run --config=$PWD/other.conf f" from-there
	# One that does not answer is no hindrance, nor is one that is wrong.
	LEASERUN_BACKEND=file:/nowhere assert_offered "leaserun run c" configured
	assert_offered "leaserun run -b nonsense: c" configured
}

commands_are_offered() {
	printf '#!/bin/sh\n' >bin/frobnicate
	chmod +x bin/frobnicate
	assert_offered "leaserun re" revoke
	assert_offered "leaserun run job frobn" frobnicate
	assert_offered "leaserun run job -- frobn" frobnicate
	assert_offered "leaserun run -v job -- cat file.t" file.txt
	assert_offered "leaserun fence file.txt frobn" frobnicate
	assert_offered "leaserun doctor x"
}

@test "bash offers the options of --help" {
	shell=bash
	options_are_those_of_help
	assert_offered "leaserun " "${all[@]}" --help --version
}

@test "bash offers values" {
	shell=bash
	values_are_offered ""
}

@test "bash offers names" {
	shell=bash
	names_are_offered
	assert_offered "leaserun run quoted:" too
	assert_offered "leaserun run tw" 'two\ words'
	assert_offered 'leaserun run "two w' 'two words'
	# A name of others is a word, and no command.
	run_tool 0 run -b "file:$PWD/state" "odd'\$(x)\"" true
	assert_offered 'leaserun run od' "odd\\'\\\$\\(x\\)\\\""
	assert_offered 'leaserun run "od' "odd'\\\$(x)\\\""
}

@test "bash offers commands" {
	shell=bash
	commands_are_offered
}

@test "zsh offers the options of --help" {
	shell=zsh
	options_are_those_of_help
	assert_offered "leaserun " "${all[@]}"
	assert_offered "leaserun --" --help --version
}

@test "zsh offers values" {
	shell=zsh
	values_are_offered ""
}

@test "zsh offers names" {
	shell=zsh
	names_are_offered
	assert_offered "leaserun run tw" 'two words'
}

@test "zsh offers commands" {
	shell=zsh
	commands_are_offered
}

@test "fish offers the options of --help" {
	shell=fish
	options_are_those_of_help
	assert_offered "leaserun " "${all[@]}" --help --version
}

@test "fish offers values" {
	shell=fish
	values_are_offered --notify=
}

@test "fish offers names" {
	shell=fish
	names_are_offered
	assert_offered "leaserun run tw" 'two words'
}

@test "fish offers commands" {
	shell=fish
	commands_are_offered
}

# Holds the manual pages and README against the program.

load helpers

page=$srcdir/man/leaserun.1
conf_page=$srcdir/man/leaserun.conf.5

commands() {
	"$LEASERUN" --help | sed -nE 's/^  leaserun ([a-z]+) .*/\1/p'
}

# help_options COMMAND: "-b --backend URL (file:)" for each of its options, with
# the default in brackets.
help_options() {
	"$LEASERUN" "$1" --help | awk '
	    /^  (-[A-Za-z],|   ) --/ {
		letter = $1 ~ /^-[A-Za-z],$/ ? substr($1, 1, 2) " " : ""
		match($0, /--[a-z-]+( [A-Z][A-Z=]*)?/)
		option = substr($0, RSTART, RLENGTH)
		value = match($0, /\([^()]*\)$/) ? " " substr($0, RSTART) : ""
		print letter option value
	    }'
}

# items FILE PATTERN HEADING...: the lines `.It ...' that match and stand below
# one of the headings, each with what its text gives as default.
items() {
	local file=$1 pattern=$2

	shift 2
	printf '%s\n' "$@" | awk -v pattern="$pattern" '
	    function flush() {
		if (item != "")
			print item value
		item = value = ""
	    }
	    FNR == NR { wanted[$0]; next }
	    /^\.S[hs] / { flush(); here = substr($0, 5) in wanted; next }
	    !here { next }
	    $0 ~ pattern { flush(); item = substr($0, 5) }
	    /^Default: / { value = " (" substr($0, 10, length($0) - 10) ")" }
	    END { flush() }' - "$file"
}

# The same for leaserun(1), with what is below `Options of ...'.
page_options() {
	local store="Options of those that use a store"

	[ "$1" != fence ] || store=
	items "$page" '^[.]It Fl ' "Options of every command" "$store" "$1" |
	    sed -E 's/Fl -/--/g; s/Fl ([A-Za-z]) ,/-\1/; s/ Ns = Ns Ar /=/
		s/Ar //g'
}

# "max-run D (inf)" for each key of leaserun.conf(5).
page_keys() {
	items "$conf_page" '^[.]It Cm .* Li = Ar ' KEYS |
	    sed -E 's/^Cm //; s/Li = Ar //'
}

# Whether a file may have the key; a wrong value is the key's own affair.
is_key() {
	local found

	printf '%s = 1\n' "$1" >key.conf
	found=$("$LEASERUN" status --config key.conf 2>&1 >key.out || :)
	[[ $found != *"unknown key '$1'"* ]]
}

exit_codes() {
	sed -n '/^enum exit_status {/,/^}/s/.*= \([0-9]*\).*/\1/p' \
	    "$srcdir/src/util.h" | sed 's/^128$/128+N/'
}

# The displays of a page, a command that goes on in the next line in one.
displays() {
	sed -n '/^\.Bd -literal/,/^\.Ed/{/^\.[BE]d/!p;}' "$1" |
	    sed 's/\\e$/\\/' | sed -e :a -e '/\\$/{N;s/\\\n//;ba' -e '}'
}

# The commands among lines of text, from `leaserun' to the end of the line.
examples() {
	sed -nE 's/^(.*[ \t/])?(leaserun [a-z-].*)/\2/p'
}

# parses TEXT: the command of an example is understood up to its last word.
parses() {
	local -a words=() run=()
	local word

	# Splits as a shell does, but runs nothing.
	mapfile -t words < <(xargs -n 1 printf '%s\n' <<<"$1")
	for word in "${words[@]:1}"; do
		case $word in
		'|' | '||' | '&&' | '&' | '#'* | '>'*) break ;;
		*';') run+=("${word%;}"); break ;;
		*) run+=("$word") ;;
		esac
	done
	case " ${run[*]} " in
	*' --help '* | *' --version '*)
		run_tool 0 "${run[@]}"
		return
		;;
	esac
	if [ "${run[0]}" = fence ]; then
		[ "${run[1]}" != --token ] ||
		    run=(fence "${run[@]:3}")
		run_tool 64 "${run[@]}" &&
		    assert_contains "$stderr" "no token: give --token"
		return
	fi
	# What the backend refuses has passed everything before it, and nothing
	# of it runs.
	run_tool 78 "${run[0]}" -o parse-only=yes "${run[@]:1}" &&
	    assert_contains "$stderr" "no option 'parse-only'"
}

all_parse() {
	local line
	local -i n=0

	echo "module-dir = \"$BACKENDS\"" >leaserun.conf
	while IFS= read -r line; do
		parses "$line" || return
		n+=1
	done
	echo "$n examples"
	[ $n -ge "$1" ]
}

# publishes RC TOKEN COMMAND...: the script `publish' ends with RC.
publishes() {
	local want=$1 status=0

	LEASERUN_FENCE_TOKEN=$2 PATH=$PWD/bin:$PATH sh publish report \
	    "${@:3}" || status=$?
	assert_equal "$status" "$want"
}

# section HEADING: that of README, down to the next one.
section() {
	awk -v heading="$1" '
	    /^-+$/ { here = last == heading }
	    here { print }
	    { last = $0 }' "$srcdir/README"
}

@test "leaserun(1) has the options that --help prints, and no others" {
	local command

	[ -n "$(commands)" ]
	for command in $(commands); do
		help_options "$command" | sort >should
		page_options "$command" | sort >is
		[ "$(wc -l <should)" -ge 6 ]
		diff -u --label --help --label "leaserun(1), $command" \
		    should is
	done
}

@test "leaserun(1) has a section for each command, and no others" {
	{
		echo "Options of every command"
		echo "Options of those that use a store"
		commands
	} >should
	sed -n '/^\.Sh COMMANDS AND OPTIONS/,/^\.Sh SIGNALS/s/^\.Ss //p' \
	    "$page" >is
	diff -u should is
}

@test "SYNOPSIS of leaserun(1) is the usage that --help prints" {
	local command usage

	"$LEASERUN" --help | sed -nE 's/^  (leaserun .*)/\1/p' |
	    sed 's/  .*//' >should
	mandoc -T ascii -O width=200 "$page" | sed 's/.\x08//g' |
	    sed -n '/^SYNOPSIS/,/^[A-Z]* [A-Z]*$/s/^ *\(leaserun \)/\1/p' >is
	diff -u should is
	for command in $(commands); do
		usage=$("$LEASERUN" "$command" --help | sed -n '1s/^usage: //p')
		grep -qxF -e "$usage" is || fail "not in SYNOPSIS: $usage"
	done
}

@test "leaserun.conf(5) has the keys that a file may have, and no others" {
	local key status bad=0

	is_key ttl
	if is_key no-such-key; then
		fail "every key is accepted"
	fi
	items "$conf_page" '^[.]It Cm option ' Blocks | grep -q .
	{ page_keys | cut -d ' ' -f 1; echo option; } | sort >documented
	for key in $(commands); do
		help_options "$key"
	done | grep -o -e '--[a-z-]*' | sed 's/^--//' | sort -u >options
	sort -u documented options >all
	[ "$(wc -l <all)" -gt 20 ]
	while read -r key; do
		status=
		! is_key "$key" || status+="accepted "
		! grep -qxF -e "$key" documented || status+=documented
		case $status in
		"" | "accepted documented") ;;
		*) echo "$key: only ${status:-neither}"; bad=1 ;;
		esac
	done <all
	[ $bad -eq 0 ]
}

@test "leaserun.conf(5) has the placeholders and defaults of --help" {
	# Flags have values in a file only.
	help_options run | sed -nE 's/^(-[A-Za-z] )?--([a-z-]+ [A-Z])/\2/p' |
	    grep -vE '^(option|config) ' | sort >should
	page_keys | grep -vE '^(verbose|quiet) ' | sort >is
	[ "$(wc -l <should)" -gt 15 ]
	diff -u should is
}

@test "the exit statuses in the documentation are those of the program" {
	exit_codes >should
	[ "$(wc -l <should)" -ge 13 ]
	items "$page" '^[.]It ' "EXIT STATUS" >is
	diff -u --label util.h --label "leaserun(1)" should is
	section "Exit status" | sed -nE 's/^    ([0-9]+(\+N)?)  .*/\1/p' >readme
	diff -u --label util.h --label README should readme
	# Without success and the signals.
	"$LEASERUN" run --help | sed -n '/^Exit status/,$p' |
	    grep -oE '\b[0-9]{2,}\b' >help
	diff -u --label util.h --label "run --help" \
	    <(grep -vxE '0|128\+N' should) help
}

@test "mandoc finds nothing in the manual pages" {
	mandoc -T lint -W warning "$srcdir"/man/*.[1357]
}

@test "the examples of the manual pages are understood" {
	local file

	# That of leaserun-backend(3) is in the current directory.
	ln -s "$MODULES/fake.so" example.so
	for file in "$srcdir"/man/*.[1357]; do
		displays "$file"
	done | examples | all_parse 20
}

@test "the examples of README are understood" {
	grep '^    ' "$srcdir/README" | examples | all_parse 8
}

@test "the files in leaserun.conf(5) are accepted" {
	local -i n
	local file

	awk '/^\.Bd -literal/ { n++; here = 1; next } /^\.Ed/ { here = 0 }
	    here { print > ("example" n ".conf") }' "$conf_page"
	for file in example*.conf; do
		n+=1
		run_tool 78 run --config "$file" -o parse-only=yes \
		    report-yearly true
		assert_contains "$stderr" "no option 'parse-only'"
	done
	[ $n -ge 3 ]
}

@test "a script in leaserun-fencing(7) publishes, and refuses a late token" {
	awk '/^\.Ed/ { here = 0 } /^#!\/bin\/sh/ { here = 1 } here' \
	    "$srcdir/man/leaserun-fencing.7" >publish
	mkdir bin
	ln -s "$LEASERUN" bin/leaserun
	publishes 0 9 echo first
	publishes 0 10 echo second
	publishes 0 10 echo third
	assert_equal "$(cat report)" third
	publishes 75 9 echo late
	publishes 1 11 sh -c 'echo half; exit 1'
	printf 4 >report.fence
	publishes 78 11 echo unknown
	assert_equal "$(cat report)" third
	assert_equal "$(echo report*)" "report report.fence"
}

@test "README is plain text of 80 columns and names files that exist" {
	local name

	run grep -nE '^.{81}|[^ -~]|[ ]$' "$srcdir/README"
	assert_equal "$output" ""
	cd "$srcdir"
	section "Files of the project" |
	    sed -nE 's/^    ([^ ].*)/\1/p' | sed 's/  .*//' |
	    tr -d , | tr ' ' '\n' >"$BATS_TEST_TMPDIR/names"
	sed -nE 's/^    sh ([^ ]+).*/\1/p' README >>"$BATS_TEST_TMPDIR/names"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/names")" -ge 9 ]
	while read -r name; do
		[ -e "$name" ] || fail "no such file: $name"
	done <"$BATS_TEST_TMPDIR/names"
}

#!/bin/bash
# The figures of storms as a page of Markdown.
#	report.bash COMMIT COMMAND FIGURES...
set -eu

commit=$1
command=$2
shift 2

# figure FILE KEY: 0 where there is none.
figure() {
	awk -v key="$2" '$1 == key { value = $2; seen = 1 }
	    END { print seen ? value : 0 }' "$1"
}

# row TITLE KEY FILE...
row() {
	local title=$1 key=$2 file

	shift 2
	printf '| %s |' "$title"
	for file; do
		printf ' %s |' "$(figure "$file" "$key")"
	done
	echo
}

# together TITLE KEYS FILE...: the sum of several.
together() {
	local title=$1 keys=$2 file key sum

	shift 2
	printf '| %s |' "$title"
	for file; do
		sum=0
		for key in $keys; do
			sum=$((sum + $(figure "$file" "$key")))
		done
		printf ' %d |' "$sum"
	done
	echo
}

# head FILE...: the first lines of a table.
head_of() {
	local file

	printf '| |'
	for file; do
		printf ' %s |' "$(figure "$file" store)"
	done
	printf '\n|---|'
	for file; do
		printf -- '---:|'
	done
	echo
}

# keys PREFIX FILE...
keys() {
	local prefix=$1

	shift
	awk -v prefix="$prefix" 'index($1, prefix) == 1 { print $1 }' "$@" |
	    sort -uV
}

cat <<END
# A storm, and what it found

Made by tests/storm/report.bash; to repeat it:

    $command

Commit $commit. The columns file, postgres and etcd are leaserun with that
backend; flock and etcdctl are \`flock FILE job\` and \`etcdctl lock NAME job\` with
the same jobs under the same faults, as far as they apply. All times are in
milliseconds unless it says otherwise; a lease lasts 4000.

## What was promised

END
head_of "$@"
row "seed" seed "$@"
row "seconds" seconds "$@"
row "runs" runs "$@"
row "jobs started" started "$@"
row "faults" faults "$@"
together "two jobs of a name at once, in all" \
    "overlaps overlaps.frozen overlaps.dropped overlaps.starved" "$@"
row "of these against the promise" overlaps "$@"
row "keeper and guard both frozen" overlaps.frozen "$@"
row "the longest" overlaps.frozen-longest-ms "$@"
row "the store dropped a live lease" overlaps.dropped "$@"
row "the longest" overlaps.dropped-longest-ms "$@"
row "nobody was run by the machine" overlaps.starved "$@"
row "the longest" overlaps.starved-longest-ms "$@"
row "writes to open registers" writes.open "$@"
row "lost" lost.open "$@"
row "writes to fenced registers" writes.fenced "$@"
row "lost" lost.fenced "$@"
row "keys done (--once)" keys "$@"
row "processes left at the end" left "$@"
row "takeovers and hand-overs" takeovers "$@"
row "the longest, storm included" takeover-longest-ms "$@"
row "the longest after the faults had ended" takeover-calm-longest-ms "$@"
row "calms" calms "$@"
row "names without a job in one, for want of processor time" idle.starved "$@"
row "violations" violations "$@"
cat <<'END'

A violation is anything that tests/storm/check.c holds against a history: an
overlap that the design does not leave open, a token that does not grow, a lost
update of a fenced register, a key that is done twice, an exit status that
nothing explains, a process that is left, a name without a job for longer than
the bound. For flock and etcdctl only the overlaps, the runs without an end,
what is left and the names without a job are.

## Exit statuses

END
head_of "$@"
for key in $(keys status. "$@"); do
	row "${key#status.}" "$key" "$@"
done
printf '\n## Faults\n\n'
head_of "$@"
for key in $(keys fault. "$@"); do
	row "${key#fault.}" "$key" "$@"
done

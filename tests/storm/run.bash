#!/bin/bash
# shellcheck disable=SC2154
# Storms, one after the other, and a report of them.
#	run.bash STORES MINUTES SEED REPORT
# STORES is `all' or words.  Every storm takes that long.  Exits 1 when one of
# leaserun's had a violation; the report is written all the same.
set -u

stores=$1
minutes=$2
seed=$3
report=$4
[ "$stores" != all ] || stores='file postgres etcd flock etcdctl'
figures=$(mktemp -d "${TMPDIR:-/tmp}/leaserun-figures.XXXXXX") || exit
status=0
files=()
for store in $stores; do
	echo "storm of $minutes min, $store, seed $seed"
	bash "$srcdir/tests/storm/storm.bash" "$store" $((minutes * 60)) \
	    "$seed" "$figures/$store" || case $store in
	flock | etcdctl) ;;
	*) status=1 ;;
	esac
	[ ! -s "$figures/$store" ] || files+=("$figures/$store")
done
commit=${COMMIT:-$(git -C "$srcdir" describe --always --dirty 2>/dev/null)}
[ ${#files[@]} -eq 0 ] || bash "$srcdir/tests/storm/report.bash" \
    "${commit:-unknown}" \
    "make storm BACKEND='$1' MINUTES=$minutes SEED=$seed" "${files[@]}" \
    >"$report" || status=1
rm -rf "$figures"
exit $status

# The model of the protocol, checked by spin(1): it keeps its claims, and each
# mistake that is made in it on purpose breaks the claim that it should.

load helpers

MODEL=$srcdir/tests/model/leaserun.pml

# verify FLAGS CFLAGS PANFLAGS: a search of all states of the model made with
# FLAGS, each in one word; the verifier's report is in the file `report'.
verify() {
	local -a flags cflags panflags cc

	read -ra flags <<<"$1"
	read -ra cflags <<<"$2"
	read -ra panflags <<<"$3"
	read -ra cc <<<"${CC:-gcc}"
	cp "$MODEL" model.pml
	spin "${flags[@]}" -a model.pml || return
	"${cc[@]}" -O1 -w -DNOFAIR "${cflags[@]}" -o pan pan.c || return
	timeout -s KILL 110 ./pan -m100000 "${panflags[@]}" >report 2>&1 ||
	    fail "pan: $?" || return
	# What was not searched proves nothing.
	assert_lacks "$(cat report)" "error: max search depth"
	assert_lacks "$(cat report)" "Search not completed"
	printf '# %s: %s states\n' "$1" \
	    "$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' report)" >&3
}

# holds FLAGS CFLAGS [PANFLAGS]: no claim is broken.
holds() {
	verify "$1" "$2" "${3:-}" || return
	grep -q 'errors: 0$' report || { cat report; fail "a claim is broken"; }
}

# breaks MUTATION CLAIM [FLAG]: it is the claim that breaks.
breaks() {
	verify "-D$1 -DGRANTS=2 ${3:-}" -DSAFETY "" || return
	cat report
	grep -q 'errors: 1$' report || fail "nothing is broken" || return
	assert_contains "$(grep 'assertion violated' report)" " $2 "
}

two_jobs='( !((command||descendant))|| !(other_job))'

@test "no two jobs are alive, and tokens increase" {
	holds "-DCOVERED -DFAULTS=2 -DGRANTS=3" -DSAFETY
	# Nothing stands in it that never happens, but the ends of loops.
	run grep -E '\.pml:[0-9]+, state [0-9]+, "[^-]' report
	assert_equal "$output" ""
}

@test "someone gets the lease again" {
	holds "-DLIVENESS -DCOVERED -DFAULTS=1 -DGRANTS=2" -DSAFETY
}

@test "time goes on, whatever they do" {
	holds "-DFAULTS=1 -DGRANTS=2" -DNP -l
}

@test "broken by a deadline that counts from the reply" {
	breaks FROM_REPLY "$two_jobs"
}

@test "broken by a stale deadline after a thaw" {
	breaks STALE_DEADLINE "!((deadline>(4+1)))"
	breaks STALE_START "$two_jobs"
}

@test "broken by a release on end of file, the guard not waited for" {
	breaks NO_GUARD_WAIT "$two_jobs"
}

@test "broken by a release before the tree is gone" {
	breaks EARLY_RELEASE "$two_jobs"
}

@test "broken by a renewal that inserts" {
	breaks RENEWAL_INSERTS "(token>highest)"
}

@test "broken without the margin" {
	breaks NO_MARGIN "$two_jobs"
}

@test "broken by a keeper that does not look after a frozen guard" {
	breaks NO_CHECK "$two_jobs"
	breaks LINGER "$two_jobs"
}

@test "broken by a lease that does not run out" {
	breaks NO_EXPIRY "(calm<=(7+1))" -DLIVENESS
}

# What the design does not promise: the model sees it, and so has looked.
@test "not promised: keeper and guard both frozen" {
	breaks BOTH "$two_jobs"
}

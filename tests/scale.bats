# That `make scale' works, with numbers too small to tell anything.

load helpers

# scale STORE: all parts; nothing may fail, and each prints what it found.
scale() {
	chmod 711 "$BATS_RUN_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "$BATS_TEST_TMPDIR"
	timeout 200 env STORES="$1" SECONDS_EACH=0.3 LEASES=40 HELD=40 \
	    WAITERS=4 POLLERS=4 PROCESSES=2 HANDOVERS=3 BENCH_DIR="$BATS_TEST_TMPDIR" \
	    sh "$srcdir/tests/scale.sh" >out 2>&1 3>&- || {
		cat out
		fail "scale.sh failed"
	}
	cat out
	[ "$(grep -c 'renewals a second.*, 0 failed; the store' out)" -ge 3 ]
	[ "$(grep -c 'runs a second.*, 0 failed; the store' out)" -eq 2 ]
	[ "$(grep -c 'waiters for .* hand-over .* for each waiter' out)" -ge 2 ]
	grep -Eq 'leaserun status: [0-9]+ ms.* [0-9]+ lines' out
	grep -Eq 'of one name: [0-9]+ ms.* 2 lines' out
	! grep -q ' [1-9][0-9]* failed' out
}

@test "make scale for PostgreSQL" {
	[ -e "$BACKENDS/postgres.so" ] || return 0
	scale postgres
	[ "$(grep -c 'bytes of WAL for each update' out)" -ge 3 ]
	grep -q 'through PgBouncer' out
}

@test "make scale for etcd" {
	[ -e "$BACKENDS/etcd.so" ] || return 0
	scale etcd
	grep -Eq 'revisions [0-9]+ more, database [0-9]+ kB' out
}

@test "the load fails when a lease is lost, the crowd without a store" {
	mkdir store
	run timeout 60 "$builddir/tests/load" "$MODULES/fake.so" \
	    "fake:$PWD/store" 4 2 1
	[ "$status" -eq 0 ]
	echo lost >store/script.renew
	run timeout 60 "$builddir/tests/load" "$MODULES/fake.so" \
	    "fake:$PWD/store" 4 2 1
	[ "$status" -eq 1 ]
	[[ $output == *' '[1-9]*' failed'* ]]
	run timeout 60 "$builddir/tests/crowd" "$MODULES/fake.so" \
	    "fake:$PWD/nowhere" 1 2 1 1
	[ "$status" -eq 1 ]
}

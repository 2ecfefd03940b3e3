# The Debian packages: built once, as contrib/debian/build does it, and looked
# into.  contrib/debian/check installs, runs and removes them.

load helpers

setup_file() {
	export BUILT=$BATS_FILE_TMPDIR/built
	# Not with the compiler and the jobs of `make check', nor its tests.
	if ! env -u CC -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u TESTS \
	    DEB_BUILD_OPTIONS=nocheck sh "$srcdir/contrib/debian/build" \
	    "$BUILT" >"$BATS_FILE_TMPDIR/log" 2>&1 3>&-; then
		tail -n 40 "$BATS_FILE_TMPDIR/log"
		return 1
	fi
}

package() {
	echo "$BUILT/$1"_*.deb
}

# contents PACKAGE: its files, without those that every package has.
contents() {
	dpkg-deb --fsys-tarfile "$(package "$1")" | tar -tf - |
	    grep -vE '/$|/share/doc/.*/(changelog.*|copyright)$' |
	    sed -E 's,^\./,,; s,usr/lib/[^/]*-linux-[^/]*/,usr/lib/ARCH/,' |
	    sort
}

depends() {
	dpkg-deb --field "$(package "$1")" Depends
}

@test "there are four packages and their source" {
	cd "$BUILT"
	assert_equal "$(printf '%s\n' *.deb | grep -v -e -dbgsym_ |
	    sed 's/_.*//' | sort | xargs)" \
	    "leaserun leaserun-dev leaserun-etcd leaserun-postgres"
	assert_equal "$(printf '%s\n' *.dsc *.tar.* | sed 's/.*[0-9]\.//' |
	    sort | xargs)" "debian.tar.xz dsc orig.tar.gz"
}

@test "the first package needs neither libcurl nor libpq" {
	assert_contains "$(depends leaserun)" libc6
	run grep -E 'curl|libpq' <<<"$(depends leaserun)"
	assert_equal "$output" ""
}

@test "a store's package needs its library and the first package" {
	local version

	version=$(dpkg-deb --field "$(package leaserun)" Version)
	assert_contains "$(depends leaserun-postgres)" libpq5
	assert_lacks "$(depends leaserun-postgres)" curl
	assert_contains "$(depends leaserun-postgres)" "leaserun (= $version)"
	assert_contains "$(depends leaserun-etcd)" libcurl
	assert_lacks "$(depends leaserun-etcd)" libpq
	assert_contains "$(depends leaserun-etcd)" "leaserun (= $version)"
	assert_equal "$(depends leaserun-dev)" ""
}

@test "each file is in the package that it belongs to" {
	contents leaserun-postgres >is
	diff -u - is <<-'END'
		usr/lib/ARCH/leaserun/postgres.so
		usr/lib/ARCH/leaserun/postgresql.so
		usr/share/man/man7/leaserun-postgres.7.gz
	END
	contents leaserun-etcd >is
	diff -u - is <<-'END'
		usr/lib/ARCH/leaserun/etcd.so
		usr/lib/ARCH/leaserun/etcds.so
		usr/share/man/man7/leaserun-etcd.7.gz
	END
	contents leaserun-dev >is
	diff -u - is <<-'END'
		usr/include/leaserun-backend.h
		usr/lib/ARCH/pkgconfig/leaserun-backend.pc
		usr/share/doc/leaserun-dev/examples/example-backend/Makefile
		usr/share/doc/leaserun-dev/examples/example-backend/example.c
		usr/share/man/man3/leaserun-backend.3.gz
	END
	contents leaserun >is
	cat is
	file_has is usr/bin/leaserun
	file_has is lib/systemd/system/leaserun@.service
	file_has is lib/systemd/system/leaserun@.timer
	file_has is usr/share/bash-completion/completions/leaserun
	file_has is usr/share/leaserun/fence.sql
	file_has is usr/share/man/man1/leaserun.1.gz
	run grep -E '/lib/|/include/|/man3/|etcd|postgres' is
	assert_equal "$output" ""
}

@test "every manual page is in a package" {
	local file

	for file in leaserun leaserun-postgres leaserun-etcd leaserun-dev; do
		contents "$file"
	done >is
	for file in "$srcdir"/man/*.[1357]; do
		file_has is "/man${file##*.}/${file##*/}.gz" ||
		    fail "${file##*/} is in none"
	done
}

@test "the packaged program loads the packaged modules" {
	local name scheme

	for name in leaserun leaserun-postgres leaserun-etcd; do
		dpkg-deb --extract "$(package "$name")" root
	done
	export LEASERUN=$PWD/root/usr/bin/leaserun
	echo "module-dir = \"$(echo "$PWD"/root/usr/lib/*/leaserun)\"" \
	    >leaserun.conf
	run_tool 5 run job -- sh -c 'exit 5'
	for scheme in postgres postgresql etcd etcds; do
		run_tool 69 run -b "$scheme://127.0.0.1:1/x" \
		    --connect-timeout 100ms job true
		assert_contains "$stderr" "cannot be reached"
	done
}

@test "lintian finds no error and nothing to warn of" {
	run lintian --fail-on error,warning --tag-display-limit 0 \
	    --allow-root "$BUILT"/leaserun_*.changes
	printf '%s\n' "$output"
	assert_equal "$status" 0
}

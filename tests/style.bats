# How the text looks: KNF, shell and manual pages.

load helpers

# The members of an enum or an initialiser stand on lines as they please.
without_lists() {
	sed -z -e 's/,\n\n*\t*/, /g' -e 's/,*\n\t*}\([,;]\)/ }\1/g' \
	    -e 's/\(= \|)\|enum \|enum [a-z_]* \){\n\t*/\1{ /g' "$1"
}

@test "the C is formatted as .clang-format says" {
	local file bad=0

	sed 's/^ColumnLimit: .*/ColumnLimit: 100000/' \
	    "$srcdir/.clang-format" >.clang-format
	for file in "$srcdir"/{src,backends,tests{,/bench,/old-backend,/storm},contrib/example-backend}/*.[ch]; do
		sed -zf "$srcdir/tests/knf.sed" "$file" >is.c
		clang-format --style=file --fallback-style=none is.c >should.c
		diff -u --label "$file" --label "formatted" \
		    <(without_lists is.c) <(without_lists should.c) || bad=1
	done
	[ $bad -eq 0 ]
}

@test "the C has at most 80 columns and no blank at the end of a line" {
	local file

	for file in "$srcdir"/{src,backends,tests{,/bench,/old-backend,/storm},contrib/example-backend}/*.[ch]; do
		expand "$file" | grep -nE '^.{81}|[ ]$' |
		    sed "s,^,$file:,"
	done >bad
	run cat bad
	assert_equal "$output" ""
}

@test "shellcheck finds nothing in the scripts" {
	local scripts

	cd "$srcdir"
	mapfile -t scripts < <(grep -rlE '^#!.*sh$|^# shellcheck shell=' \
	    .ci contrib tests)
	[ ${#scripts[@]} -ge 5 ]
	shellcheck -x -P . -S warning "${scripts[@]}"
}

# A command in single quotes is for another shell, and it cannot follow `load'.
@test "shellcheck finds nothing in the tests" {
	cd "$srcdir"
	shellcheck -s bats -S warning -e SC2016,SC2030,SC2031,SC2119,SC2120,SC2154 tests/*.bats
}

@test "mandoc finds nothing in the manual pages" {
	mandoc -T lint -W warning "$srcdir"/man/*.[1357]
}

# analysed_by COMPILER... -- FOLDER: that finds nothing in its C.
analysed_by() {
	local file
	local -a flags command=("${@:1:$#-2}")

	read -ra flags < <(pkg-config --cflags libpq libcurl)
	for file in "$srcdir/${!#}"/*.c; do
		"${command[@]}" -std=gnu11 -D_GNU_SOURCE "${flags[@]}" \
		    -DPACKAGE_VERSION='"0"' -DSYSCONFDIR='"/etc"' \
		    -DPKGLIBDIR='"/lib"' -o object "$file" ||
		    echo "$file cannot be compiled"
	done >found 2>&1
	assert_equal "$(cat found)" ""
}

@test "the analyzer of gcc finds nothing" {
	analysed_by gcc -fanalyzer -O1 -c -- src
	analysed_by gcc -fanalyzer -O1 -c -- backends
}

@test "the analyzer of clang finds nothing in the program" {
	analysed_by clang --analyze --analyzer-output text -- src
}

@test "the analyzer of clang finds nothing in the modules" {
	analysed_by clang --analyze --analyzer-output text -- backends
}

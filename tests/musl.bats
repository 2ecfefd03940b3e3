# Other C libraries than glibc: the headers of musl, which have nothing beyond
# what they must, and those of the libraries and of the kernel.

load helpers

# Not all of /usr/include, where everything would be found.
setup() {
	local name place

	test_setup
	mkdir include
	for name in linux asm asm-generic confuse.h curl jansson.h \
	    jansson_config.h; do
		for place in /usr/include/"$(gcc -print-multiarch)" \
		    /usr/include; do
			[ ! -e "$place/$name" ] ||
			    ln -sf "$place/$name" include
		done
	done
	read -ra flags < <(pkg-config --cflags libpq)
	# Its structures may have more members.
	flags+=(-std=gnu11 -D_GNU_SOURCE -DSYSCONFDIR='"/etc"'
	    -DPKGLIBDIR='"/lib"' -Wall -Wextra -Werror
	    -Wno-missing-field-initializers -fsyntax-only
	    -idirafter include)
}

@test "the C asks for nothing that musl lacks" {
	local file bad=0

	for file in "$srcdir"/{src,backends,tests}/*.c; do
		musl-gcc "${flags[@]}" "$file" || bad=1
	done
	[ $bad -eq 0 ]
}

@test "what musl lacks is found" {
	printf '%s\n' '#include <sys/queue.h>' >queue.c
	run musl-gcc "${flags[@]}" queue.c
	assert_contains "$output" "sys/queue.h"
	printf '%s\n' '#include <dirent.h>' 'int f(struct dirent ***d);' \
	    'int f(struct dirent ***d) { return scandirat(0, ".", d, 0, 0); }' \
	    >scan.c
	run musl-gcc "${flags[@]}" scan.c
	assert_contains "$output" "scandirat"
}

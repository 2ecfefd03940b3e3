# shellcheck shell=bash disable=SC2154
# For tests of what is published: leaserun installed below $dest, and the
# example of a module, built outside the tree from what is there.

# publish_install DIR: what `make install' does, below DIR.
publish_install() {
	publish_make -C "$builddir" install DESTDIR="$1" >install.log 2>&1 ||
	    { cat install.log; return 1; }
}

# The jobs of `make check' are none of ours.
publish_make() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make "$@"
}

# installed WORD...: asks pkg-config for what is said of an installed leaserun.
installed() {
	local pc

	pc=$(find "$dest" -name leaserun-backend.pc)
	PKG_CONFIG_LIBDIR=${pc%/*} pkg-config "$@" leaserun-backend
}

# publish_example DIR: a copy of the example, built there.
publish_example() {
	local pc

	pc=$(find "$dest" -name leaserun-backend.pc)
	mkdir -p "$1"
	cp "$srcdir"/contrib/example-backend/* "$1"
	PKG_CONFIG_LIBDIR=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$dest \
	    PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
	    publish_make -C "$1" CC="${CC-cc}" \
	    CFLAGS='-O2 -Wall -Wextra -Werror' >example.log 2>&1 ||
	    { cat example.log; return 1; }
}

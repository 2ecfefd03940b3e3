# shellcheck shell=bash disable=SC2034,SC2154
# For contract.bats: etcd over TLS, with certificates on both sides, users and
# passwords.

load etcd

contract_store() {
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR
	cd "$BATS_FILE_TMPDIR" || return
	bg_pids=()
	etcd_secure
	modules "$BATS_FILE_TMPDIR/modules"
	echo "$etcd_pid" >"$BATS_FILE_TMPDIR/pid"
	export CONTRACT_URL=$ETCD MODULES=$BATS_FILE_TMPDIR/modules
	export CONTRACT_OPTS=${secure_opts[*]}
}

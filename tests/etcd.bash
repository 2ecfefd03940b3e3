# shellcheck shell=bash disable=SC2034
# Real etcd for tests: `load helpers', `load etcd'.  Every server has ports and
# a folder of its own below the test's.

: "${builddir:=$BATS_TEST_DIRNAME/..}"

# modules FOLDER: all of them, where the program finds them.
modules() {
	mkdir -p "$1"
	ln -sf "$MODULES/fake.so" "$builddir/backends/.libs/etcd.so" \
	    "$builddir/backends/.libs/etcds.so" "$1"
}

# Below those that the kernel gives to clients.
any_port() {
	echo $((10000 + (RANDOM * 32768 + RANDOM) % 22000))
}

# etcd_answers PORT [CURL-OPTION]...
etcd_answers() {
	local port=$1

	shift
	curl -sf --noproxy '*' -m 2 "$@" "$scheme://127.0.0.1:$port/health" |
	    grep -q '"true"'
}

etcd_is_up_or_gone() {
	is_gone "$etcd_pid" || etcd_answers "$etcd_port" "${curl_opts[@]}"
}

# etcd_run FOLDER [OPTION]...: starts it again with the same ports, $etcd_pid.
# 0 when it answers.  Passwords cost it little, since a test asks often.
etcd_run() {
	local dir=$1 peer=$((etcd_port + 1))
	local url=$scheme://127.0.0.1:$etcd_port

	shift
	env -u ETCDCTL_API etcd --name one --data-dir "$dir/data" \
	    --listen-client-urls "$url" --advertise-client-urls "$url" \
	    --listen-peer-urls "http://127.0.0.1:$peer" \
	    --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
	    --initial-cluster "one=http://127.0.0.1:$peer" --bcrypt-cost 4 \
	    "$@" >>"$dir/log" 2>&1 3>&- &
	etcd_pid=$!
	bg_pids+=("$etcd_pid")
	wait_until 20 etcd_is_up_or_gone
	is_alive "$etcd_pid"
}

# etcd_start [OPTION]...: one member.  Sets etcd_pid, etcd_port and ETCD, its
# URL with a prefix of the test's own.
etcd_start() {
	: "${scheme:=http}"
	etcd_dir=$BATS_TEST_TMPDIR/etcd
	etcd_opts=("$@")
	mkdir -p "$etcd_dir"
	for _ in 1 2 3 4 5 6 7 8 9; do
		etcd_port=$(any_port)
		if etcd_run "$etcd_dir" "$@"; then
			ETCD=etcd${scheme#http}://127.0.0.1:$etcd_port/test
			return 0
		fi
		rm -rf "$etcd_dir/data"
	done
	tail -3 "$etcd_dir/log"
	fail "etcd does not start"
}

etcd_stop() {
	kill -KILL "$etcd_pid"
	wait "$etcd_pid" 2>/dev/null || :
}

etcd_again() {
	etcd_run "$etcd_dir" "${etcd_opts[@]}"
}

# ctl WORD...: etcdctl, at the one member or as $ctl_opts say.
ctl() {
	env -u http_proxy ETCDCTL_API=3 etcdctl --command-timeout=5s \
	    --endpoints "$scheme://127.0.0.1:$etcd_port" "${ctl_opts[@]}" "$@"
}

# use URL: the program finds the modules and this store.
use() {
	modules "$BATS_TEST_TMPDIR/modules"
	echo "module-dir = \"$BATS_TEST_TMPDIR/modules\"" >leaserun.conf
	export LEASERUN_BACKEND=$1
}

# relay_start PORT: in front of it, with orders in the file `relay', $relay_port.
relay_start() {
	bg "$builddir/tests/relay" relay.port relay relay.log "$1"
	relay_pid=$!
	wait_until 10 test -s relay.port
	relay_port=$(cat relay.port)
}

# order WORD...: for the relay.
order() {
	printf '%s\n' "$*" >relay.new
	mv relay.new relay
}

# The store's revision, and the number of requests that it has answered.
revision() {
	ctl endpoint status -w json |
	    sed -E 's/.*"revision":([0-9]+).*/\1/'
}

requests() {
	curl -s --noproxy '*' "$scheme://127.0.0.1:$etcd_port/metrics" |
	    awk '/^grpc_server_started_total/ && !/Watch|Health/ { n += $2 }
		END { printf "%d\n", n }'
}

# --- Certificates ---

# make_ca NAME
make_ca() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
	    -nodes -days 30 -subj "/CN=$1" -keyout "$1.key" -out "$1.pem" \
	    2>/dev/null
}

# make_cert NAME CA SUBJECT [SAN [DAYS]]
make_cert() {
	local name=$1 ca=$2 subject=$3 san=${4-IP:127.0.0.1} days=${5-30}

	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
	    -subj "$subject" -keyout "$name.key" -out "$name.csr" 2>/dev/null
	openssl x509 -req -in "$name.csr" -CA "$ca.pem" -CAkey "$ca.key" \
	    -CAcreateserial -days "$days" -out "$name.pem" -extfile <(
		echo "subjectAltName=$san"
		echo "extendedKeyUsage=serverAuth,clientAuth") 2>/dev/null
}

# --- Users ---

# etcd_users: root, and the user runner who may use the prefix /test.
etcd_users() {
	ctl user add root:rootpw >ctl.out
	ctl role add locker >ctl.out
	ctl role grant-permission locker --prefix=true readwrite /test/ \
	    >ctl.out
	ctl user add runner:rpw >ctl.out
	ctl user grant-role root root >ctl.out
	ctl user grant-role runner locker >ctl.out
	echo rpw >password
	chmod 600 password
}

# etcd_secure [OPTION]...: one member that wants a certificate, a user and a
# password.  Sets secure_opts, what to give to leaserun.
etcd_secure() {
	local dir=$PWD

	scheme=https
	make_ca ca
	# With a common name nobody gets through the gateway.
	make_cert server ca /O=server
	make_cert client ca /O=client
	curl_opts=(--cacert ca.pem --cert client.pem --key client.key)
	ctl_opts=("${curl_opts[@]}")
	etcd_start --cert-file "$dir/server.pem" --key-file \
	    "$dir/server.key" --trusted-ca-file "$dir/ca.pem" \
	    --client-cert-auth "$@"
	etcd_users
	ctl auth enable >ctl.out
	ctl_opts+=(--user root:rootpw)
	secure_opts=(-o "cacert=$dir/ca.pem" -o "cert=$dir/client.pem"
	    -o "key=$dir/client.key" -o user=runner
	    -o "password-file=$dir/password")
}

# --- For contract.bats ---

contract_store() {
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR
	cd "$BATS_FILE_TMPDIR" || return
	bg_pids=()
	etcd_start
	modules "$BATS_FILE_TMPDIR/modules"
	echo "$etcd_pid" >"$BATS_FILE_TMPDIR/pid"
	export CONTRACT_URL=$ETCD MODULES=$BATS_FILE_TMPDIR/modules
}

contract_store_stop() {
	kill -KILL "$(cat "$BATS_FILE_TMPDIR/pid")"
}

# Sourced: two hosts as two network namespaces with one link between them, each with a name of its
# own, for Open MPI not to take them for one. Everything made here goes when the script ends.
#   on_host a|b COMMAND...   runs a command there
#   name_hosts               lets the hosts call each other a and b
#   cut_link                 takes host b off the net
#   mpirun_flags             for mpirun on host a, to start one rank on each
# Exit 77 where namespaces may not be made.
folder=$(mktemp -d)
host_a=sextant-a-$$
host_b=sextant-b-$$
address_a=10.213.7.1
address_b=10.213.7.2

clean_up() {
  for host in "$host_a" "$host_b"; do
    for process in $(ip netns pids "$host" 2>/dev/null); do kill -9 "$process" 2>/dev/null; done
    ip netns del "$host" 2>/dev/null
    rm -rf "/etc/netns/$host"
  done
  rmdir /etc/netns 2>/dev/null
  rm -rf "$folder"
}
trap clean_up EXIT

skip() {
  echo "skipped: $*"
  exit 77
}

on_host() {
  local name=sextant-$1-$$
  shift
  ip netns exec "$name" unshare --uts bash -c 'hostname "$0" && exec "$@"' "$name" "$@"
}

make_hosts() {
  command -v ip >/dev/null || skip "there is no ip command (apt-get install iproute2)"
  command -v mpirun >/dev/null || skip "there is no mpirun (apt-get install openmpi-bin)"
  local why
  why=$(ip netns add "$host_a" 2>&1 && ip netns add "$host_b" 2>&1) ||
    skip "network namespaces may not be made here: $why"
  why=$(ip link add veth-a netns "$host_a" type veth peer name veth-b netns "$host_b" 2>&1) ||
    skip "a pair of linked devices may not be made here: $why"
  why=$(on_host a true 2>&1) || skip "a host name may not be set here: $why"
  ip -n "$host_a" addr add $address_a/24 dev veth-a
  ip -n "$host_b" addr add $address_b/24 dev veth-b
  for device in lo veth-a; do ip -n "$host_a" link set $device up; done
  for device in lo veth-b; do ip -n "$host_b" link set $device up; done
  # What mpirun uses in the place of ssh: the only other host is b.
  cat >"$folder/agent" <<AGENT
#!/usr/bin/env bash
shift
exec ip netns exec $host_b unshare --uts bash -c 'hostname $host_b && exec bash -c "\$0"' "\$*"
AGENT
  chmod +x "$folder/agent"
}

# `ip netns exec` shows these files to what it runs, in the place of those in /etc.
name_hosts() {
  local host
  for host in "$host_a" "$host_b"; do
    mkdir -p "/etc/netns/$host" || skip "/etc/netns may not be written"
    printf '127.0.0.1 localhost\n%s a %s\n%s b %s\n' \
      $address_a "$host_a" $address_b "$host_b" >"/etc/netns/$host/hosts"
  done
}

cut_link() {
  ip -n "$host_b" link set veth-b down
}

mpirun_flags() {
  echo "--host $address_a:1,$address_b:1 --mca plm_rsh_agent $folder/agent" \
    "--mca btl_tcp_if_include 10.213.7.0/24 --mca oob_tcp_if_include 10.213.7.0/24"
}

# wait_until SECONDS COMMAND...: until the command succeeds; false when it did not in time.
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    read -rt 0.1 <> <(:) || true
  done
}
